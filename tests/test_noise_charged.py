"""Weights, batches and shrunk rows of pure noise are no structure; structure in them is found."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from typer.testing import CliRunner

from jointsparse import (
    SPCAPSD,
    GreedySelector,
    Moments,
    SelectFeatures,
    feature_significance,
    open_source,
)
from jointsparse.cli.main import app
from jointsparse.partition import apart, some_rows
from jointsparse.significance import noise_edge
from jointsparse.sources.origin import Origin
from jointsparse.trials import cut_into_parts, rows_that_take_part

SHAPES = [(100, 40), (60, 300), (200, 40)]
MANY, ALARMS = 200, 16  # what is allowed in so many tables
FEW, FEW_ALARMS = 20, 2
KINDS = {
    "pairs": lambda rng, n: {"batch": np.arange(n) // 2},
    "triples": lambda rng, n: {"batch": np.arange(n) // 3},
    "pairs beside one large batch": lambda rng, n: {"batch": np.minimum(np.arange(n) // 2, n // 4)},
    "exp(z/4)": lambda rng, n: {"sample_weight": np.exp(0.25 * rng.standard_normal(n))},
    "exp(z/2)": lambda rng, n: {"sample_weight": np.exp(0.5 * rng.standard_normal(n))},
    "exp(z)": lambda rng, n: {"sample_weight": np.exp(rng.standard_normal(n))},
    "exp(z), triples": lambda rng, n: {
        "sample_weight": np.exp(rng.standard_normal(n)),
        "batch": np.arange(n) // 3,
    },
    "all twice": lambda rng, n: {"sample_weight": np.full(n, 2)},
    "one to three times": lambda rng, n: {"sample_weight": rng.integers(1, 4, n)},
    "bootstrap": lambda rng, n: {"sample_weight": rng.multinomial(n, np.full(n, 1 / n))},
}
SPARSE = {
    "Bernoulli": lambda rng, shape: (rng.random(shape) < 0.05).astype(float),
    "Poisson": lambda rng, shape: rng.poisson(0.1, shape).astype(float),
    "gamma": lambda rng, shape: rng.gamma(0.05, size=shape),  # hardly above 0, without ties
}


def noise(kind, shape, seed):
    """Return a table of noise, and the weights or batches of its rows."""
    rng = np.random.default_rng([seed, *shape])
    X = rng.standard_normal(shape)
    return X, KINDS[kind](rng, shape[0])


def claims(moments):
    """Whether anything is said to be there."""
    found = feature_significance(moments)
    return bool(found.n_significant or found.significant.any() or noise_edge(moments).n_patterns)


def alarms(tables):
    return sum(claims(Moments.from_data(X, **given)) for X, given in tables)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", list(KINDS))
def test_noise_with_weights_or_batches_claims_nothing(kind, shape):
    assert alarms(noise(kind, shape, seed) for seed in range(FEW)) <= FEW_ALARMS


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", list(KINDS))
def test_noise_with_weights_or_batches_claims_nothing_in_many_tables(kind, shape):
    assert alarms(noise(kind, shape, seed) for seed in range(MANY)) <= ALARMS


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["pairs", "exp(z)", "exp(z), triples", "one to three times"])
def test_noise_of_which_only_sums_are_known_claims_nothing(kind, shape):
    drawn = [noise(kind, shape, seed) for seed in range(FEW)]
    # Sparse samples with weights or batches would become dense: of these there are sums only.
    tables = [(sp.csr_array(X), given) for X, given in drawn]
    assert alarms(tables) <= FEW_ALARMS


@pytest.mark.parametrize("shape", SHAPES[:1] + SHAPES[2:])
@pytest.mark.parametrize("name", list(SPARSE))
def test_shrunk_rows_of_sparse_noise_claim_nothing(name, shape):
    tables = (SPARSE[name](np.random.default_rng([seed, *shape]), shape) for seed in range(FEW))
    assert alarms((X, {"robust": "samples"}) for X in tables) == 0


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", list(SPARSE))
def test_shrunk_rows_of_sparse_noise_claim_nothing_in_many_tables(name, shape):
    tables = (SPARSE[name](np.random.default_rng([seed, *shape]), shape) for seed in range(MANY))
    assert alarms((X, {"robust": "samples"}) for X in tables) <= ALARMS


def kept(X, given):
    """Whether "auto" keeps a feature, or a fit says that one is significant."""
    given, robust = dict(given), None
    if "robust" in given:
        robust = given.pop("robust")
    for method in (
        GreedySelector(robust=robust),
        SPCAPSD(n_features_to_select="auto", robust=robust),
    ):
        method.fit(X, **given)
        if method.get_support().any() or method.n_significant_ or method.significant_.any():
            return True
    return False


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["pairs", "exp(z)", "one to three times"])
def test_auto_keeps_no_noise(kind):
    assert sum(kept(*noise(kind, SHAPES[0], seed)) for seed in range(10)) <= 1


@pytest.mark.filterwarnings("ignore")
def test_auto_keeps_no_shrunk_noise():
    tables = [SPARSE["Bernoulli"](np.random.default_rng(seed), (100, 40)) for seed in range(10)]
    assert not any(kept(X, {"robust": "samples"}) for X in tables)
    assert feature_significance(Moments.from_data(tables[0])).significant.sum() == 0
    # A report on the same samples, and a selector around the method, know that rows were shrunk.
    for X in tables[:4]:
        method = SelectFeatures(SPCAPSD(robust="samples")).fit(X)
        assert not method.significant_.any()
        assert method.selection_report(X).n_significant == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["pairs", "triples", "exp(z/4)", "exp(z/2)", "exp(z)"])
def test_auto_keeps_no_noise_in_many_tables(kind, shape):
    assert sum(kept(*noise(kind, shape, seed)) for seed in range(MANY)) <= ALARMS


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", list(SPARSE))
def test_auto_keeps_no_shrunk_noise_in_many_tables(name, shape):
    tables = (SPARSE[name](np.random.default_rng([seed, *shape]), shape) for seed in range(MANY))
    assert sum(kept(X, {"robust": "samples"}) for X in tables) <= ALARMS


def planted(kind, seed):
    """Return three factors of twenty features among 300, in 120 samples."""
    X, given = noise(kind, (120, 300), seed)
    rng = np.random.default_rng(10**6 + seed)
    X[:, :60] += np.repeat(rng.standard_normal((120, 3)), 20, axis=1)
    return X, given


@pytest.mark.parametrize("kind", list(KINDS))
def test_structure_is_found_all_the_same(kind):
    found = [
        feature_significance(Moments.from_data(X, **given))
        for X, given in (planted(kind, seed) for seed in range(5))
    ]
    inside = sum(int(one.significant[:60].sum()) for one in found)
    outside = sum(int(one.significant[60:].sum()) for one in found)
    assert inside >= 0.95 * 5 * 60
    assert outside <= 0.1 * inside
    assert sum(one.n_significant == 3 for one in found) >= 4
    X, given = planted(kind, 9)
    assert not claims(Moments.from_data(X[:, 60:], **given))
    assert GreedySelector().fit(X, **given).get_support()[:60].any()


def test_pairs_are_as_many_samples_as_there_are_differences():
    X = planted("pairs", 0)[0]
    halves = (X[::2] - X[1::2]) / np.sqrt(2)  # independent, of the same variance
    pairs = Moments.from_data(X, batch=np.arange(120) // 2)
    np.testing.assert_allclose(pairs.scatter, halves.T @ halves, atol=1e-9)
    found, other = feature_significance(pairs), feature_significance(np.r_[halves, -halves])
    np.testing.assert_allclose(found.patterns * 120, other.patterns * 120, rtol=1e-9)
    # The other table has 60 directions, too: its rank says so, as it has more columns than rows.
    assert found.n_significant == other.n_significant == 3
    np.testing.assert_allclose(found.pvalues[:60], other.pvalues[:60], rtol=1e-6)


@pytest.mark.parametrize("levelled", [False, True])
def test_what_is_known_of_rows_is_that_of_the_projection(levelled):
    rng = np.random.default_rng(0)
    batch, weights = np.repeat([0, 1, 2, 3], [1, 2, 4, 9]), np.exp(rng.standard_normal(16))
    origin = Origin.of_rows(16, batch=batch, weights=weights * 16 / weights.sum())
    w = origin.weights.astype(np.longdouble)
    taken = np.zeros((16, 16), dtype=np.longdouble)
    for one in range(4):
        root = np.sqrt(w) * (batch == one)
        taken += np.outer(root, root) / (root @ root)
    P = np.eye(16) - taken
    noise = np.diag(np.ones(16)) if levelled else np.diag(w)  # of the weighted rows
    covariance = P @ noise @ P
    if levelled:
        origin = origin.reweighted(origin.weights)
        expected = np.diag(covariance)
    else:
        expected = np.diag(covariance) / w
        product = P @ np.diag(w)
        n = float(np.trace(product) ** 2 / np.trace(product @ product))
        assert origin.n_effective == pytest.approx(n, rel=1e-12)
    np.testing.assert_allclose(origin.left, expected.astype(float), atol=1e-12)
    assert origin.n_directions == np.linalg.matrix_rank(P.astype(float)) == 12
    assert origin.live.tolist() == [False] + 15 * [True]


def test_equal_rows_have_as_many_samples_as_kish_says():
    weights = np.exp(np.random.default_rng(3).standard_normal(5000))
    origin = Origin.of_rows(5000, weights=weights * 5000 / weights.sum())
    kish = weights.sum() ** 2 / (weights**2).sum()
    assert origin.n_effective == pytest.approx(kish, rel=2e-3)
    assert Origin.of_rows(50).n_effective == pytest.approx(49)


def test_trials_do_not_see_the_rest_of_a_batch_or_a_sample():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 5))
    batch = np.r_[np.arange(40) // 2, np.full(50, 99)]
    for given in ({"batch": batch}, {"batch": batch, "sample_weight": rng.random(90) + 0.1}):
        moments = Moments.from_data(X, **given)
        origin = moments.origin
        rows = rows_that_take_part(90, origin)
        parts = cut_into_parts(rows, origin)
        assert sorted(np.concatenate(parts).tolist()) == list(range(90))
        assert {20 < part.size < 40 for part in parts} == {True}
        assert sum(np.unique(batch[:40][part[part < 40]]).size for part in parts) == 20
        before = apart(moments, parts).data - moments.mean
        # Other samples in one part: the rows of the others stay what they are.
        other = X.copy()
        other[parts[0]] = rng.standard_normal((parts[0].size, 5))
        changed = Moments.from_data(other, **given)
        after = apart(changed, parts).data - changed.mean
        np.testing.assert_allclose(after[parts[1]], before[parts[1]], atol=1e-9)
        assert np.abs(after[parts[0]] - before[parts[0]]).max() > 0.1
        training = some_rows(moments, parts[1])
        own = {name: values[parts[1]] for name, values in given.items()}
        expected = Moments.from_data(X[parts[1]], **own)
        np.testing.assert_allclose(training.scatter, expected.scatter, atol=1e-9)
    copies = Moments.from_data(X, sample_weight=np.full(90, 3)).origin
    parts = cut_into_parts(rows_that_take_part(270, copies), copies)
    assert sum(np.unique(copies.sample[part]).size for part in parts) == 90


@pytest.mark.filterwarnings("ignore")
def test_copies_predict_no_more_than_their_samples():
    X = planted("all twice", 2)[0]
    once = GreedySelector(n_features_to_select=6).fit(X).selection_report_
    twice = GreedySelector(n_features_to_select=6).fit(X, sample_weight=np.full(120, 2))
    assert twice.selection_report_.worth.ceiling == pytest.approx(once.worth.ceiling, abs=0.05)
    assert twice.selection_report_.n_patterns == once.n_patterns == 3


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["file", "sparse", "torch", "other method"])
def test_every_way_in_knows_of_batches(kind, tmp_path):
    X, given = noise("pairs", (100, 40), 1)
    if kind == "file":
        np.save(tmp_path / "x.npy", X)
        method, data = GreedySelector(), open_source(tmp_path / "x.npy")
    elif kind == "torch":
        method, data = GreedySelector(), pytest.importorskip("torch").asarray(X)
    elif kind == "sparse":
        method, data = GreedySelector(), sp.csr_array(X)
    else:
        method, data = SelectFeatures(PCA(n_components=2)), X
    method.fit(data, **given)
    assert method.n_significant_ == 0
    assert not method.significant_.any()
    assert not method.get_support().any()
    assert method.selection_report_.verdict == "No structure beyond noise: nothing is kept."


@pytest.mark.parametrize(
    "options", [("--batch", "pair"), ("--weights", "share"), ("--weights", "copies")]
)
@pytest.mark.parametrize("memory", [(), ("--memory", "400KB")])
def test_the_command_knows_of_weights_and_batches(options, memory, tmp_path):
    rng = np.random.default_rng(5)
    table = pd.DataFrame(rng.standard_normal((100, 40))).add_prefix("g")
    beside = {
        "pair": np.arange(100) // 2,
        "share": np.exp(rng.standard_normal(100)),
        "copies": rng.integers(1, 4, 100),
    }
    table.assign(**beside).to_csv(tmp_path / "noise.csv", index=False)
    others = [f"--drop={name}" for name in beside if name not in options]
    result = CliRunner().invoke(
        app, ["select", str(tmp_path / "noise.csv"), *options, *others, *memory, "--json"]
    )
    assert result.exit_code == 0, result.output
    assert "No structure beyond noise: nothing is kept." in result.stdout


def test_weighted_portions_claim_nothing_and_say_why():
    X, given = planted("exp(z)", 0)
    method = GreedySelector().partial_fit(X[:60])
    assert method.n_significant_ == 3
    with pytest.warns(UserWarning, match="patterns are not told from noise .partial_fit keeps"):
        method.partial_fit(X[60:], sample_weight=given["sample_weight"][60:])
    assert method.n_significant_ == 0
    assert not method.significant_.any()
    assert not method.get_support().any()
    assert "Patterns are not told from noise" in method.selection_report_.verdict
    assert "Patterns are not told from noise" in str(method.selection_report_)
    with pytest.warns(UserWarning, match="begins anew"):
        method.fit(X).partial_fit(X)  # nothing of it stays
    assert method.n_significant_ == 3
