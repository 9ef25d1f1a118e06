"""Noise gives nothing, structure the features that carry it, whatever the units and the home."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

import jointsparse.significance as module
from jointsparse import SPCAPSD, Moments, feature_significance
from jointsparse.device import to_host
from jointsparse.methods.reading import wide_samples
from jointsparse.selection.noise import noise_of, pattern_loadings
from jointsparse.significance import leverages, noise_edge
from jointsparse.solvers.picking import pairs as pairs_module
from jointsparse.solvers.picking import patterns as patterns_module
from jointsparse.solvers.picking.row_targets import row_products
from jointsparse.solvers.products.columns import feature_columns

SHAPES = [(200, 40), (100, 100), (50, 500)]


def gaussian(rng, shape):
    return rng.standard_normal(shape)


def student(degrees):
    return lambda rng, shape: rng.standard_t(degrees, shape)


def lognormal(rng, shape):
    return np.exp(rng.standard_normal(shape))


def counts(rng, shape):
    return rng.poisson(np.exp(rng.normal(0, 1.5, shape[1])), shape).astype(float)


def raw_scales(rng, shape):
    return rng.standard_normal(shape) * rng.lognormal(0, 1.5, shape[1]) + rng.normal(0, 9, shape[1])


def different_levels(rng, shape):
    return rng.standard_normal(shape) * np.exp(rng.normal(0, 0.5, shape[0]))[:, None]


def outlying_sample(rng, shape):
    X = rng.standard_normal(shape)
    X[0] *= 4
    return X


def rare_ones(rng, shape):
    return (rng.random(shape) < 0.05).astype(float)


EQUAL_LEVELS = {
    "gaussian": gaussian,
    "t5": student(5),
    "t3": student(3),
    "log-normal": lognormal,
    "Poisson, mixed rates": counts,
    "raw columns, log-normal scales": raw_scales,
}
NOISE = EQUAL_LEVELS | {
    "samples of different level": different_levels,
    "one outlying sample": outlying_sample,
    "5 % ones": rare_ones,
}


def false_alarms(kind, shape, draws, home=Moments.from_data):
    """Return in how many tables of noise a pattern or pair is found, and a pattern as they are."""
    alarms = edges = 0
    for seed in range(draws):
        moments = home(NOISE[kind](np.random.default_rng([seed, *shape]), shape))
        found = feature_significance(moments)
        alarms += found.n_significant > 0 or bool(found.shares.any())
        edges += noise_edge(moments).n_patterns > 0
        if not found.shares.any():
            assert (found.pvalues == 1).all()
            assert not found.significant.any()
    return alarms, edges


def sparse_home(X):
    return Moments.from_data(sp.csr_array(X))


def sums_alone(X):
    known = Moments.from_data(X)
    return Moments(known.n_samples, known.mean, known.scatter)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", NOISE)
def test_noise_has_no_pattern(kind, shape):
    # One in twenty tables may have one; of ten, three or more have with probability 0.01.
    assert max(false_alarms(kind, shape, 10)) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("home", [Moments.from_data, sparse_home], ids=["dense", "sparse"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", NOISE)
def test_noise_has_no_pattern_in_95_of_100_tables(kind, shape, home):
    assert max(false_alarms(kind, shape, 200, home)) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", EQUAL_LEVELS)
def test_nor_do_the_sums_of_noise_alone(kind, shape):
    assert max(false_alarms(kind, shape, 200, sums_alone)) <= 10


def grouped(rng, n, p, sizes, loading, noise=gaussian):
    """Features in groups that share a factor each, with either sign; then features of noise."""
    X, signal, start = noise(rng, (n, p)), np.zeros(p, dtype=bool), 0
    for size in sizes:
        part = slice(start, start + size)
        X[:, part] += loading * rng.standard_normal((n, 1)) * rng.choice([-1, 1], size)
        signal[part] = True
        start += size
    return X, signal


def chained(rng):
    X, signal = gaussian(rng, (100, 400)), np.arange(400) < 100
    for j in range(100):
        if j % 25:
            X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    return X, signal


def dense_factors(rng):
    X, signal = gaussian(rng, (300, 100)), np.arange(100) < 60
    X[:, :60] += rng.standard_normal((300, 3)) @ rng.standard_normal((3, 60))
    return X, signal


def common_rates(rng):
    rates = np.tile(rng.normal(0.5, 0.5, 500), (150, 1))
    rates[:, :50] += 0.5 * rng.standard_normal((150, 1))
    return rng.poisson(np.exp(rates)).astype(float), np.arange(500) < 50


def overlapping(rng):
    """Two factors that share ten features, in units from 0.01 to 100."""
    X, signal = gaussian(rng, (150, 400)), np.arange(400) < 50
    X[:, :30] += rng.standard_normal((150, 1))
    X[:, 20:50] += rng.standard_normal((150, 1))
    return X * rng.lognormal(0, 2, 400) + rng.normal(0, 10, 400), signal


def answers(rng):
    """Questions with yes or no, of which thirty ask for one opinion."""
    logits = np.tile(rng.normal(-0.5, 1, 300), (200, 1))
    logits[:, :30] += 1.7 * rng.standard_normal((200, 1))
    return (rng.random((200, 300)) < 1 / (1 + np.exp(-logits))).astype(float), np.arange(300) < 30


def unequal_samples(rng):
    X, signal = grouped(rng, 100, 600, [30, 30], 1.0)
    return X * np.exp(rng.normal(0, 0.5, 100))[:, None], signal


def unequal_noise(rng):
    levels = np.exp(rng.normal(0, 0.5, 100))[:, None]
    return grouped(rng, 100, 600, [30, 30], 1.0, lambda g, shape: levels * gaussian(g, shape))


# The planted families of the design, and five of our own: from "overlapping" on.
PLANTED = {
    "one factor, 20 of 200": lambda rng: grouped(rng, 500, 200, [20], 0.87),
    "5 × 30 of 1200": lambda rng: grouped(rng, 80, 1200, [30] * 5, 1.0),
    "sizes 10 to 160 of 1200": lambda rng: grouped(rng, 80, 1200, [10, 20, 40, 80, 160], 1.3),
    "chains of 25 in 400": chained,
    "3 dense factors, 60 of 100": dense_factors,
    "t3, 3 × 30 of 1000": lambda rng: grouped(rng, 100, 1000, [30] * 3, 1.75, student(3)),
    "sizes 4 to 32 of 300": lambda rng: grouped(rng, 400, 300, [4, 8, 16, 32], 0.87),
    "6 of 40": lambda rng: grouped(rng, 200, 40, [6], 0.7),
    "counts, 50 of 500": common_rates,
    "overlapping": overlapping,
    "answers": answers,
    "log-normal noise": lambda rng: grouped(rng, 120, 500, [20, 40], 2.2, lognormal),
    "unequal samples": unequal_samples,
    "unequal noise": unequal_noise,
}


def outcome(family, draws, first=0):
    """Return mean AUC of the shares, false discovery proportion, power, share of noise."""
    found = []
    for seed in range(first, first + draws):
        X, signal = PLANTED[family](np.random.default_rng([seed, 7]))
        result = feature_significance(X)
        chosen = result.significant
        false = (chosen & ~signal).sum() / max(1, chosen.sum())
        area = roc_auc_score(signal, result.shares)
        found.append((area, false, chosen[signal].mean(), result.shares[~signal].mean()))
    return np.mean(found, axis=0)


@pytest.mark.parametrize("family", PLANTED)
def test_planted_features_are_found(family):
    area, _, power, _ = outcome(family, 2)
    assert area > 0.97
    assert power > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("family", PLANTED)
def test_planted_features_are_found_and_few_others(family):
    area, false, power, noise = outcome(family, 40, first=100)
    assert area >= 0.99
    assert false <= 0.06
    assert power >= 0.95
    assert noise < 0.02


def test_few_discoveries_are_false():
    # Three quick families, 40 draws: the mean proportion has a standard error below 0.01.
    false = [
        outcome(family, 40)[1]
        for family in ("6 of 40", "3 dense factors, 60 of 100", "unequal noise")
    ]
    assert max(false) <= 0.07


def structured(seed=0, n=80, p=30):
    return grouped(np.random.default_rng(seed), n, p, [8, 5], 1.5)[0]


def tensor_home(X):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    return torch.tensor(X)


@pytest.mark.parametrize("shape", [(80, 30), (40, 100)], ids=str)
@pytest.mark.parametrize("home", [sparse_home, tensor_home, sums_alone, np.asfortranarray])
def test_every_home_has_the_same_answer(home, shape):
    X = structured(0, *shape)
    expected, found = feature_significance(X), feature_significance(home(X))
    assert found.n_significant == expected.n_significant == 2
    np.testing.assert_allclose(found.shares, expected.shares, atol=1e-9)
    np.testing.assert_allclose(found.pvalues, expected.pvalues, atol=1e-9)
    np.testing.assert_array_equal(found.significant, expected.significant)
    assert found.assumes_equal_samples == (home is sums_alone)
    assert not expected.assumes_equal_samples


def test_single_precision_and_integers_have_the_same_answer():
    X = np.round(20 * structured())
    expected = feature_significance(X)
    for same in (X.astype(np.float32), X.astype(np.int32)):
        np.testing.assert_allclose(feature_significance(same).shares, expected.shares, atol=1e-6)


@pytest.mark.parametrize(
    "table", [structured, lambda: unequal_samples(np.random.default_rng(0))[0]]
)
def test_units_and_order_do_not_matter(table):
    X = table()
    n, p = X.shape
    rng = np.random.default_rng(1)
    rows, columns = rng.permutation(n), rng.permutation(p)
    expected = feature_significance(X)
    assert expected.n_significant == 2
    for other, order in (
        (X * rng.lognormal(0, 3, p) + rng.normal(0, 5, p), np.arange(p)),
        (X * 1e-140, np.arange(p)),
        (X * -1e140, np.arange(p)),
        (X[rows][:, columns], columns),
    ):
        found = feature_significance(other)
        assert found.n_significant == expected.n_significant
        assert found.noise_edge == pytest.approx(expected.noise_edge)
        np.testing.assert_allclose(found.shares, expected.shares[order], atol=1e-7)
        np.testing.assert_allclose(found.pvalues, expected.pvalues[order], atol=1e-7)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e120, 1e-120])
def test_the_edge_has_the_units_of_the_scatter_matrix(scale):
    X = structured()
    raw, standard = Moments.from_data(X), Moments.from_data(X).standardised()
    for moments in (raw, standard):
        expected = noise_edge(moments)
        found = noise_edge(moments.scaled(np.full(30, scale)))
        assert found.n_patterns == expected.n_patterns == 2
        assert found.edge == pytest.approx(expected.edge * scale**2)
        np.testing.assert_allclose(found.noise, expected.noise * scale**2)
        values = scale**2 * np.linalg.eigvalsh(moments.scatter)[::-1]
        assert values[1] > found.edge > values[2]
    # On standardised columns it is the same edge as that of the test, which is per sample.
    assert noise_edge(standard).edge == pytest.approx(80 * feature_significance(X).noise_edge)


def test_a_loud_column_hides_patterns_from_the_edge_but_not_from_the_test():
    X = structured()
    X[:, -1] *= 1000
    moments = Moments.from_data(X)
    assert noise_edge(moments).n_patterns == 0
    assert feature_significance(moments).n_significant == 2


def test_what_was_found_is_kept_until_samples_are_added():
    moments = Moments.from_data(structured())
    first = feature_significance(moments)
    assert noise_edge(moments) is noise_edge(moments)
    again = feature_significance(moments, fdr=0.5)
    np.testing.assert_array_equal(first.pvalues, again.pvalues)
    assert again.significant.sum() > first.significant.sum()
    first.shares[:] = 7.0  # the caller's own
    assert feature_significance(moments).shares.max() < 1
    moments.partial_fit(np.random.default_rng(5).standard_normal((500, 30)))
    assert feature_significance(moments).shares.max() < again.shares.max()


def test_one_spectrum_is_enough_for_standardised_columns(monkeypatch):
    moments = Moments.from_data(structured()).standardised()
    asked = []
    whole = patterns_module._eigenpairs
    monkeypatch.setattr(
        patterns_module, "_eigenpairs", lambda *given: asked.append(1) or whole(*given)
    )
    feature_significance(moments)
    noise_edge(moments)
    assert len(asked) == 1


def test_unequal_samples_are_weighted_and_no_others():
    rng = np.random.default_rng(0)
    weighted = feature_significance(unequal_samples(rng)[0])
    assert weighted.weighted
    assert weighted.sample_weights.shape == (100,)
    assert weighted.sample_weights.mean() == pytest.approx(1.0)
    assert weighted.sample_heterogeneity > 0.5
    assert "weighted by its own noise level" in str(weighted)
    for X in (structured(), lognormal(rng, (100, 100)), gaussian(rng, (50, 500))):
        plain = feature_significance(X)
        assert not plain.weighted
        assert (plain.sample_weights == 1).all()
        assert plain.sample_heterogeneity < 0.2


@pytest.mark.parametrize("family", ["unequal samples", "unequal noise"])
def test_the_weights_of_the_test_mend_the_scores_of_a_model(family):
    X, signal = PLANTED[family](np.random.default_rng([0, 7]))
    model = SPCAPSD(scale="standard", n_features_to_select=5)
    as_they_are = model.fit(X).feature_scores_
    weights = feature_significance(X).sample_weights
    assert roc_auc_score(signal, as_they_are) < 0.95
    assert roc_auc_score(signal, model.fit(X, sample_weight=weights).feature_scores_) > 0.99


def test_features_of_a_large_wide_table_are_tested_without_a_copy_of_it(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3000), dtype=np.float32)
    X[:, :200] += 2 * rng.standard_normal((60, 1))

    def copied(moments):
        raise AssertionError("a copy")

    monkeypatch.setattr(wide_samples, "LARGEST_COPY", 0)
    monkeypatch.setattr(Moments, "centred_data", property(copied))
    found = feature_significance(Moments.from_data(X))
    assert found.significant[:200].all()
    assert (
        SPCAPSD(alpha=0.1, eta=0.03, n_features_to_select="support")
        .fit(X)
        .get_support()[:200]
        .all()
    )


@pytest.mark.parametrize("seed", range(3))
def test_each_round_of_weights_goes_on_from_the_one_before(seed):
    # Levels so different that one round does not make the samples alike.
    rng = np.random.default_rng(seed)
    levels = np.exp(rng.normal(0, 1.5, 200))
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 60)) * (rng.random(60) < 0.5)
    weights = feature_significance(
        X + levels[:, None] * rng.standard_normal(X.shape)
    ).sample_weights
    assert np.corrcoef(np.log(weights), -np.log(levels))[0, 1] > 0.93
    assert np.polyfit(-np.log(levels), np.log(weights), 1)[0] > 1.3


def test_samples_that_no_weights_make_alike_are_told():
    # Features that only two samples have, as rare pixels of images: weights leave them as loud.
    X = np.random.default_rng(0).standard_normal((100, 100))
    pair = np.arange(100)[:, None] // 2 == np.arange(60) // 5
    X[:, :60] *= pair
    found = feature_significance(X)
    assert not found.weighted
    assert found.sample_heterogeneity > 0.2
    assert "makes p values approximate" in str(found)


@pytest.mark.parametrize(
    "X",
    [
        np.ones((1, 3)),
        np.ones((5, 4)),
        np.arange(2.0)[:, None],
        np.random.default_rng(0).standard_normal((2, 9)),
        np.random.default_rng(0).standard_normal((3, 1)),
        np.random.default_rng(0).standard_normal((40, 1)),
        np.eye(12),
    ],
    ids=lambda X: str(X.shape),
)
def test_tables_too_small_for_a_pattern_have_none(X):
    for home in (X, sp.csr_array(X), sums_alone(X)):
        found = feature_significance(home)
        assert found.n_significant == 0
        assert not found.significant.any()
        assert (found.pvalues == 1).all()
        assert np.isfinite(noise_edge(Moments.from_data(X)).edge)
    assert str(found).startswith("No structure beyond noise")


@pytest.mark.parametrize("n", [3, 4, 5, 8, 30])
@pytest.mark.parametrize("p", [2, 3, 5, 40])
@pytest.mark.parametrize("kind", ["plain", "twice", "copies", "constant", "far", "rounded"])
def test_any_small_table_gives_numbers(n, p, kind):
    X = np.random.default_rng([n, p]).standard_normal((n, p))
    if kind == "twice":
        X = np.repeat(X, 2, axis=0)
    elif kind == "copies":
        X = np.repeat(X, 2, axis=1)
    elif kind == "constant":
        X[:, 0] = 1.0
    elif kind == "far":
        X[0] *= 1e6
    elif kind == "rounded":
        X = np.round(X)
    for home in (X, sp.csc_array(X), sums_alone(X)):
        found = feature_significance(home)
        assert np.all((found.shares >= 0) & (found.shares <= 1))
        assert np.all((found.pvalues >= 0) & (found.pvalues <= 1))
        assert found.patterns.size == found.n_significant
        assert np.all(found.patterns > found.noise_edge * (1 - 1e-9))
    if kind == "constant":
        assert found.shares[0] == 0
        assert found.pvalues[0] == 1
        assert not found.significant[0]


def test_a_very_large_table_is_judged_by_its_leading_pairs(monkeypatch):
    X = grouped(np.random.default_rng(3), 90, 60, [8] * 5, 2.0)[0]
    expected = feature_significance(X)
    assert expected.n_significant == 5
    monkeypatch.setattr(patterns_module, "LARGEST_GRAM", 10)
    monkeypatch.setattr(module, "FIRST_PAIRS", 4)  # too few: the next round has enough
    found = feature_significance(X)
    assert found.n_significant == 5
    assert not found.limited
    np.testing.assert_allclose(found.shares, expected.shares, atol=0.01)
    monkeypatch.setattr(module, "MOST_PAIRS", 4)
    fewer = feature_significance(X)
    assert fewer.n_significant == 4
    assert fewer.limited
    assert str(fewer).startswith("At least 4 independent patterns are")


def test_it_is_said_in_words():
    words = str(feature_significance(sums_alone(structured())))
    assert words.startswith("2 independent patterns are stronger than noise. ")
    assert "of 30 features share something with others (false-discovery rate 5%)" in words
    assert words.endswith("only their sums are known.")
    one = feature_significance(structured()[:, 5:], fdr=0.01)
    assert "(false-discovery rate 1%)" in str(one)
    assert "on average" in str(one)
    nobody = replace(one, n_significant=1, significant=np.zeros(25, dtype=bool))
    assert str(nobody).startswith("1 independent pattern is stronger than noise. 0 of 25 features")
    assert "on average" not in str(nobody)


@pytest.mark.parametrize("fdr", [0, 1, -0.1, "5 %", True, None, np.nan])
def test_a_rate_that_is_none_is_refused(fdr):
    with pytest.raises(ValueError, match=r"fdr=.* is not a number between 0 and 1"):
        feature_significance(structured(), fdr=fdr)


def test_one_pattern_more_or_less_does_not_move_the_noise_edge():
    """Columns of nearly equal length have the edge of columns of equal length."""
    rng, n, p, k = np.random.default_rng(30), 90, 150, 60
    X = rng.standard_normal((n, k)) * np.arange(1, k + 1) ** -1.5 @ rng.standard_normal((k, p))
    noise = 0.15 * rng.standard_normal((n, p))
    levels = np.exp(0.5 * rng.standard_normal((n, 1)))
    X += noise * levels * (rng.random((n, p)) < 0.3)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    nearly = X * (1 + 0.03 * np.random.default_rng(1).standard_normal(p))
    equal, found = (noise_edge(Moments.from_data(table)) for table in (X, nearly))
    assert found.n_patterns < feature_significance(nearly).n_significant  # by one
    assert found.edge == pytest.approx(equal.edge, rel=0.15)


@pytest.mark.parametrize("shape", [(60, 20), (20, 60)])
def test_leverages_are_the_same_wherever_samples_are(shape):
    rng = np.random.default_rng(2)
    X = rng.poisson(0.4, shape) * rng.lognormal(0, 1, shape[1])
    X[:, 3] = 5.0  # constant
    X[4, 6] += 1000.0
    centred = X - X.mean(axis=0)
    squares = np.sum(centred**2, axis=0)
    expected = np.divide(
        np.sum(centred**4, axis=0), squares**2, out=np.zeros(shape[1]), where=squares > 1e-9
    )
    assert expected[6] > 0.9
    for table in (X, sp.csr_array(X), X * 1e120):
        found = leverages(Moments.from_data(table))
        np.testing.assert_allclose(found, expected, rtol=1e-8)
    alone = Moments(X.shape[0], X.mean(axis=0), centred.T @ centred)
    np.testing.assert_array_equal(leverages(alone), 0.0)


@pytest.mark.parametrize("shape", [(60, 24), (24, 60), (40, 100)])
def test_what_lies_above_the_noise_is_what_is_left_of_the_patterns(shape):
    moments = Moments.from_data(structured(2, *shape))
    X = moments.centred_data
    edge = noise_edge(moments)
    count = edge.n_patterns
    assert count == (1 if shape == (24, 60) else 2)
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    kept = 1 - edge.edge / s[:count] ** 2  # of every pattern, between 0 and 1
    assert np.all((kept > 0) & (kept < 1))
    loadings = pattern_loadings(moments)
    np.testing.assert_allclose(np.abs(loadings), np.abs(Vt[:count][::-1].T * kept[::-1]), atol=1e-9)
    above = noise_of(moments)
    assert above.count == count
    assert above.share == pytest.approx(1 - kept[0])
    columns = feature_columns(moments)
    target = above.target
    rows = to_host(row_products(columns, target) if callable(target) else target)
    gram = (U[:, :count] * (s[:count] * kept) ** 2) @ U[:, :count].T
    if len(rows) != len(X):  # rows of another root of the same scatter matrix
        gram = np.diag((s[:count] * kept) ** 2)
        rows = rows.T
    found = np.linalg.eigvalsh(rows @ rows.T)[-count:]
    np.testing.assert_allclose(found, np.linalg.eigvalsh(gram)[-count:] / np.sum(X**2), rtol=1e-8)


def test_nothing_lies_above_pure_noise():
    moments = Moments.from_data(np.random.default_rng(0).standard_normal((50, 20)))
    assert noise_of(moments).count == 0
    assert noise_of(moments).target is None
    with pytest.raises(ValueError, match="nothing to explain"):
        pattern_loadings(moments)


def test_weights_that_were_given_out_are_the_caller_s_own():
    moments = Moments.from_data(unequal_samples(np.random.default_rng(0))[0])
    first = feature_significance(moments)
    assert first.weighted
    before = first.sample_weights.copy()
    first.sample_weights[:] = 0.0
    np.testing.assert_array_equal(feature_significance(moments).sample_weights, before)


def pair(seed=1, n=150, p=40, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, 7] = -X[:, 3] + noise * rng.standard_normal(n)
    return X


@pytest.mark.parametrize("home", [np.asarray, sp.csr_array])
def test_two_columns_that_are_nearly_the_same_share_something(home):
    X = pair()
    found = feature_significance(Moments.from_data(home(X)))
    assert found.n_significant == 0  # of 40 columns an eigenvalue of 2 is noise
    assert np.flatnonzero(found.significant).tolist() == [3, 7]
    r2 = np.corrcoef(X[:, 3], X[:, 7])[0, 1] ** 2
    np.testing.assert_allclose(found.shares[[3, 7]], 1 - (1 - r2) * 149 / 148)
    assert found.pvalues[[3, 7]].max() < 1e-6
    assert "2 of them go together in pairs" in str(found)


@pytest.mark.parametrize("seed", range(5))
def test_copies_count_whatever_their_tails_and_one_gross_sample_makes_none(seed):
    rng = np.random.default_rng(seed)
    X = np.exp(2 * rng.standard_normal((44, 4)))
    assert not feature_significance(X).significant.any()
    X[:, 3] = X[:, 1] / X[:, 1].sum()  # counts, and their shares
    found = feature_significance(X)
    assert found.significant.tolist() == [False, True, False, True]
    assert found.shares[[1, 3]].min() > 0.85
    X = rng.standard_normal((44, 4))
    X[5, 1:3] = 100.0  # a correlation of nearly 1
    assert not feature_significance(X).significant.any()


def test_ranks_that_go_the_other_way_speak_against_a_pair():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    X[:, 1] = -X[:, 0] + 0.1 * rng.standard_normal(60)
    X[7, :2] = 200.0  # one sample turns the correlation round
    assert np.corrcoef(X[:, 0], X[:, 1])[0, 1] > 0.9
    assert not feature_significance(X).significant.any()


def test_a_pair_counts_beside_patterns_too():
    X = pair(p=120)
    X[:, 20:40] += np.random.default_rng(0).standard_normal((150, 1))
    found = feature_significance(X)
    assert found.n_significant == 1  # to which the pair adds nothing
    assert set(range(20, 40)) | {3, 7} <= set(np.flatnonzero(found.significant))
    r2 = np.corrcoef(X[:, 3], X[:, 7])[0, 1] ** 2
    np.testing.assert_allclose(found.shares[[3, 7]], 1 - (1 - r2) * 149 / 148)
    assert "share something with others" in str(found)
    without = np.delete(X, [3, 7], axis=1)
    shares = feature_significance(without).shares[18:38]
    np.testing.assert_allclose(found.shares[20:40], shares, atol=0.02)


def test_beside_patterns_pairs_of_large_tables_are_not_looked_for(monkeypatch):
    X = pair(p=120)
    monkeypatch.setattr(pairs_module, "MOST_BESIDE_PATTERNS", 150 * 120 * 100.0)
    assert feature_significance(X).significant[[3, 7]].all()  # no pattern: there is time for them
    X[:, 20:40] += np.random.default_rng(0).standard_normal((150, 1))
    assert feature_significance(X).significant[[3, 7]].all()  # 100 or fewer are in no pattern
    monkeypatch.setattr(pairs_module, "MOST_BESIDE_PATTERNS", 150 * 120 * 50.0)
    found = feature_significance(X)
    assert found.significant[20:40].all()
    assert not found.significant[[3, 7]].any()


def test_the_values_of_categories_share_something_with_each_other():
    rng = np.random.default_rng(1)
    codes = [(rng.choice(k, 200)[:, None] == np.arange(k)).astype(float) for k in (2, 3, 4)]
    X = np.hstack([*codes, (rng.random((200, 20)) < 0.1).astype(float)])
    X[:, 9:15] += rng.standard_normal((200, 1))
    found = feature_significance(X)
    assert found.n_significant >= 1
    assert np.flatnonzero(found.significant).tolist() == list(range(15))


@pytest.mark.parametrize("at_once", [4, 512])
def test_pairs_are_looked_at_in_any_number_of_blocks(monkeypatch, at_once):
    X = pair()
    X[:, 20:] += np.random.default_rng(0).standard_normal((150, 1))
    X[:, 30] = X[:, 5] + 0.1 * X[:, 30]  # a feature of the pattern with one that is none of it
    whole = feature_significance(X)
    monkeypatch.setattr(pairs_module, "AT_ONCE", at_once)
    parts = feature_significance(X)
    assert parts.significant[[3, 5, 7, 30]].all()
    np.testing.assert_allclose(parts.pvalues, whole.pvalues)
    np.testing.assert_allclose(parts.shares, whole.shares)


def test_copies_are_found_in_few_samples_and_single_events_are_none():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((34, 12))
    X[:, 7] = X[:, 3]
    assert {3, 7} <= set(np.flatnonzero(feature_significance(X).significant))
    for events in (1, 2, 3):
        X = np.zeros((50, 40))
        for j in range(40):
            X[rng.choice(50, events, replace=False), j] = 1
        X[:, 7] = X[:, 3]
        assert not feature_significance(X).significant.any()


def test_auto_keeps_one_of_two_copies_where_parts_of_the_table_show_no_pattern():
    X = np.random.default_rng(5).standard_normal((78, 12))
    X = np.column_stack([X, X[:, 2]])
    assert feature_significance(X).n_significant >= 1
    selector = SPCAPSD().fit(X)
    assert selector.get_support().sum() == 1
    assert selector.get_support()[[2, 12]].any()
    assert selector.selection_report_.worth.r2_significant > 0.5


def test_of_sums_alone_no_pair_counts():
    """They do not tell whether a correlation rests on a few gross values."""
    moments = Moments.from_data(pair())
    alone = feature_significance(Moments.from_scatter(moments.scatter, 150))
    assert not alone.significant.any()
    assert (alone.pvalues == 1).all()


def test_what_is_alike_in_single_samples_only_is_no_pair():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 40))
    X[11, [3, 7]] = 100  # correlation 0.99
    assert not feature_significance(X).significant.any()
    X = np.zeros((150, 40))
    X[np.arange(40) % 20, np.arange(40)] = 1  # words that single documents have
    assert not feature_significance(X).significant.any()


def test_with_very_many_samples_products_of_columns_are_bounded(monkeypatch):
    exact = feature_significance(pair())
    monkeypatch.setattr(pairs_module, "MANY_ROWS", 100)
    bounded = feature_significance(pair())
    assert np.array_equal(bounded.significant, exact.significant)
    assert (bounded.pvalues >= exact.pvalues).all()


def test_of_a_table_that_is_too_large_pairs_are_not_looked_at(monkeypatch):
    monkeypatch.setattr(pairs_module, "MOST_WORK", 1e3)
    assert not feature_significance(pair()).significant.any()


def test_auto_keeps_one_of_a_pair_and_says_what_it_stands_for():
    selector = SPCAPSD(n_features_to_select="auto").fit(pair())
    kept = np.flatnonzero(selector.get_support())
    assert kept.size == 1
    assert kept[0] in (3, 7)
    said = selector.selection_report_.verdict
    assert said.startswith("Most features are unrelated to the others; 2 of 40 are not. Of the")
    assert "the 1 kept predicts 9" in said
