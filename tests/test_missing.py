"""Missing values: estimates against direct ones, what is told, and what is refused."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal

from jointsparse import (
    CSPCA,
    SPCA,
    SPCAFS,
    SPCAPSD,
    DictionarySPCA,
    GreedySelector,
    LaplacianScore,
    Moments,
    SelectFeatures,
    SubsetSelector,
    load_model,
    open_source,
    save_model,
)
from jointsparse.incomplete import MissingValues, estimate, estimated
from jointsparse.incomplete.factor_em import _change, factor_em
from jointsparse.incomplete.gaussian_em import RIDGE, Fitted, gaussian_em
from jointsparse.incomplete.pairwise import Pairs, pairwise

HOW = ("mean", "pairwise", "em")


def planted(seed=0, n=200, p=12, share=0.2, kept=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, :kept] += 2 * rng.standard_normal((n, 1))
    return X, np.where(rng.random(X.shape) < share, np.nan, X)


COMPLETE, HOLED = planted()


def direct_step(X, mean, covariance):
    """One step of EM, sample by sample, by the formulas of the textbook."""
    n, p = X.shape
    first, second = np.zeros(p), np.zeros((p, p))
    for x in X:
        lost = np.isnan(x)
        filled, left = x.copy(), np.zeros((p, p))
        inner = covariance[np.ix_(~lost, ~lost)] + RIDGE * np.eye((~lost).sum())
        weights = covariance[np.ix_(lost, ~lost)] @ np.linalg.inv(inner)
        filled[lost] = mean[lost] + weights @ (x[~lost] - mean[~lost])
        left[np.ix_(lost, lost)] = (
            covariance[np.ix_(lost, lost)] - weights @ covariance[np.ix_(~lost, lost)]
        )
        first += filled / n
        second += (np.outer(filled, filled) + left) / n
    return first, second - np.outer(first, first)


def likelihood(X, mean, covariance):
    total = 0.0
    for x in X:
        there = ~np.isnan(x)
        inner = covariance[np.ix_(there, there)]
        total += multivariate_normal.logpdf(x[there], mean[there], inner)
    return total


def standardised(X):
    return (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)


def test_em_takes_the_steps_of_a_direct_implementation():
    X = standardised(planted(1, n=80, p=6, kept=3)[1])
    start = pairwise(X).correlation
    mean, covariance = np.zeros(6), start
    for _ in range(7):
        mean, covariance = direct_step(X, mean, covariance)
    found = gaussian_em(X, start, tol=1e-30, max_iter=7)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-12)
    np.testing.assert_allclose(found.mean, mean, atol=1e-12)
    assert len(found.history) == 7
    assert not found.converged
    # The first number is the likelihood of the start, without the 2π of every value.
    values = np.count_nonzero(~np.isnan(X))
    known = likelihood(X, np.zeros(6), start) + 0.5 * values * np.log(2 * np.pi)
    assert found.history[0] == pytest.approx(known, rel=1e-6)


def test_em_ends_at_a_maximum_of_the_likelihood():
    X = standardised(planted(2, n=100, p=5, kept=3)[1])
    found = gaussian_em(X, pairwise(X).correlation, tol=1e-10, max_iter=2000)
    assert found.converged
    assert found.change <= 1e-10
    assert np.all(np.diff(found.history) > -1e-6)  # but for the ridge, no step lowers it
    best = likelihood(X, found.mean, found.covariance)
    rng = np.random.default_rng(0)
    for _ in range(30):
        change = rng.standard_normal((5, 5)) * 0.02
        other = found.covariance + change @ change.T * rng.choice([-1, 1])
        assert likelihood(X, found.mean + 0.02 * rng.standard_normal(5), other) < best


def test_few_factors_end_at_a_maximum_of_their_likelihood():
    X = standardised(planted(3, n=60, p=8, kept=4)[1])
    found = factor_em(X, np.full((8, 1), 0.5), tol=1e-9, max_iter=5000)
    assert found.converged
    assert np.all(np.diff(found.history) > -1e-9)
    # The likelihood of the model at its end, up to the constant, is that of a direct formula.
    more = factor_em(X, np.full((8, 1), 0.4), tol=1e-9, max_iter=5000)
    assert more.history[-1] == pytest.approx(found.history[-1], abs=1e-5)
    np.testing.assert_allclose(more.covariance, found.covariance, atol=1e-4)


def test_the_change_of_a_covariance_is_that_of_the_matrices():
    rng = np.random.default_rng(5)
    loadings, noise = rng.standard_normal((2, 6, 2)), rng.uniform(0.1, 1, (2, 6))
    first, second = (a @ a.T + np.diag(d) for a, d in zip(loadings, noise, strict=True))
    direct = np.linalg.norm(second - first) / np.linalg.norm(second)
    assert _change(loadings[0], noise[0], loadings[1], noise[1]) == pytest.approx(direct)


def test_what_factors_expect_is_that_of_the_textbook_step():
    """The scatter matrix is one full step from the covariance matrix of the model."""
    X = standardised(planted(4, n=50, p=7, kept=4)[1])
    loadings = np.linspace(0.2, 0.8, 7)[:, None]
    found = factor_em(X, loadings, tol=1.0, max_iter=0)
    model = loadings @ loadings.T + np.diag(1 - (loadings**2).ravel())
    mean, covariance = direct_step(X, np.zeros(7), model)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-5)  # it has no ridge
    np.testing.assert_allclose(found.mean, mean, atol=1e-5)


def test_the_likelihood_of_factors_is_the_gaussian_one():
    X = standardised(planted(4, n=50, p=7, kept=4)[1])
    loadings = np.linspace(0.2, 0.8, 7)[:, None]
    found = factor_em(X, loadings, tol=1e-30, max_iter=1)
    model = loadings @ loadings.T + np.diag(1 - (loadings**2).ravel())
    constant = 0.5 * np.count_nonzero(~np.isnan(X)) * np.log(2 * np.pi)
    assert found.history[0] - constant == pytest.approx(likelihood(X, np.zeros(7), model))


def test_pairs_are_those_of_pandas():
    X = planted(5, share=0.3)[1]
    found = pairwise(standardised(X))
    np.testing.assert_allclose(found.correlation, pd.DataFrame(X).corr(), atol=1e-12)
    assert found.change == 0


@pytest.mark.parametrize(("n", "p", "share"), [(400, 100, 0.25), (300, 60, 0.2), (2000, 3, 0.5)])
def test_as_many_complete_samples_have_as_large_an_eigenvalue_of_noise(n, p, share):
    rng = np.random.default_rng(n)
    largest, counts = [], []
    for _ in range(4):
        X = rng.standard_normal((n, p))
        X[rng.random((n, p)) < share] = np.nan
        found = pairwise(X)
        largest.append(np.linalg.eigvalsh(found.correlation)[-1])
        counts.append(found.n_samples)
    complete = np.mean(counts)
    if p > 10:
        assert (1 + np.sqrt(p / complete)) ** 2 == pytest.approx(np.mean(largest), rel=0.06)
    else:  # with few features, the number of pairs
        assert complete == pytest.approx(n * (1 - share) ** 2, rel=0.1)
    assert pairwise(rng.standard_normal((n, p))).n_samples == n


@pytest.mark.parametrize(("n", "p", "count"), [(50, 20, 30.0), (40, 100, 7.0), (10, 1, 4.0)])
def test_complete_samples_are_counted_by_the_edge_of_noise(n, p, count):
    counts = np.full((p, p), count)
    counts[0, -1] = counts[-1, 0] = 2 * count
    np.fill_diagonal(counts, count if p == 1 else n)
    pairs = counts[~np.eye(p, dtype=bool)] if p > 1 else np.array([count])
    found = Pairs(np.eye(p), counts, 0.0, n).n_samples
    edge = 1 + ((1 + (p / n) ** 0.5) ** 2 - 1) * np.sqrt(n * np.mean(1 / pairs))
    assert (1 + np.sqrt(p / found)) ** 2 >= edge > (1 + np.sqrt(p / (found + 1))) ** 2
    assert Pairs(np.eye(p), np.full((p, p), float(n)), 0.0, n).n_samples == n
    assert Pairs(np.eye(p), np.zeros((p, p)), 0.0, n).n_samples >= 1


def asked_of_em(monkeypatch, p, n_samples, n_patterns=1, correlation=None):
    """Return which of the two models is fitted, with what, without doing so."""
    asked = []

    def note(kind):
        def fit(values, start, **options):
            asked.append((kind, start, options))
            return Fitted(np.zeros(p), np.eye(p), [0.0], 0.0, True)

        return fit

    for kind in ("gaussian_em", "factor_em"):
        monkeypatch.setattr(estimate, kind, note(kind))
    monkeypatch.setattr(estimate, "patterns_of", lambda lost: (np.zeros((n_patterns, 1)), None))
    monkeypatch.setattr(Pairs, "n_samples", n_samples)
    pairs = Pairs(np.eye(p) if correlation is None else correlation, np.ones((p, p)), 0.0, 10)
    _, n_factors = estimate._most_likely(np.zeros((10, p)), pairs)
    (kind, start, options) = asked[0]
    assert options == {"tol": 1e-5, "max_iter": 1000}
    assert (n_factors is None) == (kind == "gaussian_em")
    return n_factors, start


@pytest.mark.parametrize(
    ("p", "n_samples", "n_patterns", "full"),
    [
        (50, 250, 8000, True),  # 8000 · 50³ = 1e9
        (51, 10_000, 1, False),
        (50, 249, 1, False),
        (50, 250, 8001, False),
        (10, 50, 10**6, True),
    ],
)
def test_a_full_matrix_is_fitted_where_samples_and_time_are_enough(
    p, n_samples, n_patterns, full, monkeypatch
):
    n_factors, start = asked_of_em(monkeypatch, p, n_samples, n_patterns)
    assert (n_factors is None) == full
    if full:
        np.testing.assert_array_equal(start, np.eye(p))


@pytest.mark.parametrize(
    ("values", "n_samples", "count"),
    [
        ((3.0, 2.0), 100, 2),
        ((3.0, 2.0, 1.6), 100, 2),  # 1 + 2√(12/100) = 1.69
        ((), 100, 1),  # one in any case
        ((1.05,), 100, 1),
        ((3.0, 2.5, 2.4), 8, 1),  # 1 + 2√(12/8) = 3.4
        ((4.0, 3.8, 3.6), 8, 2),  # … and a quarter of what there is at most
        ((2.8, 2.7, 2.6, 2.5), 100, 3),
    ],
)
def test_factors_begin_with_what_is_above_noise(values, n_samples, count, monkeypatch):
    p = 12
    vectors = np.linalg.qr(np.random.default_rng(3).standard_normal((p, p)))[0]
    spectrum = np.ones(p)
    spectrum[: len(values)] = values
    monkeypatch.setattr(estimate, "FULL_FEATURES", 0)
    correlation = (vectors * spectrum) @ vectors.T
    found, start = asked_of_em(monkeypatch, p, n_samples, correlation=correlation)
    assert found == start.shape[1] == count
    if values:
        largest = np.array(values[:count])
        lengths = np.sqrt(np.maximum(largest - 1, 0.1 * largest))
        plain = np.abs(vectors[:, :count] * lengths)
        longest = np.linalg.norm(plain, axis=1, keepdims=True)
        expected = plain * np.minimum(1.0, 0.95 / longest)
        np.testing.assert_allclose(np.abs(start[:, ::-1]), expected, atol=1e-12)
    else:  # no factor begins at zero
        assert np.linalg.norm(start) == pytest.approx(np.sqrt(0.1))


def test_there_are_at_most_forty_factors(monkeypatch):
    found, _ = asked_of_em(monkeypatch, 400, 10**6, correlation=np.diag(np.arange(1.0, 401)))
    assert found == 40


def test_a_column_varies_beyond_the_rounding_of_its_mean():
    eps = np.finfo(np.float64).eps
    X = np.tile([1.0, -1.0, np.nan], 20)[:, None] * [1.0, 6 * eps, 20 * eps] + [0.0, 1.0, 1.0]
    rows = np.arange(0, 60, 2), np.arange(1, 60, 2)
    found = estimated(X, "pairwise", rows)
    assert (np.diagonal(found.scatter) > 0).tolist() == [True, False, True]


def test_a_repair_is_reported_and_leaves_a_correlation_matrix():
    X = planted(6, n=25, p=30, share=0.4)[1]
    raw = pd.DataFrame(X).corr(min_periods=2).to_numpy()
    assert np.linalg.eigvalsh(raw)[0] < -0.01
    found = pairwise(standardised(X))
    assert np.linalg.eigvalsh(found.correlation)[0] > -1e-10
    np.testing.assert_array_equal(np.diagonal(found.correlation), 1.0)
    moved = np.linalg.norm(found.correlation - raw) / np.linalg.norm(raw)
    assert found.change == pytest.approx(moved)
    moments = Moments.from_data(X, missing="pairwise")
    assert moments.repair_change == moments.missing.repair_change == pytest.approx(moved)
    assert "repaired by" in str(moments.missing)


@pytest.mark.parametrize("how", HOW)
def test_without_holes_nothing_is_estimated(how):
    found, plain = Moments.from_data(COMPLETE, missing=how), Moments.from_data(COMPLETE)
    np.testing.assert_array_equal(found.scatter, plain.scatter)
    assert found.missing is None
    assert found.has_samples
    one = GreedySelector(missing=how).fit(COMPLETE)
    other = GreedySelector().fit(COMPLETE)
    np.testing.assert_array_equal(one.ranking_, other.ranking_)
    assert not hasattr(one, "missing_values_")


@pytest.mark.parametrize("shape", [(400, 12), (200, 60)])
def test_em_is_nearer_to_the_complete_scatter_matrix_than_the_others(shape):
    errors = dict.fromkeys(HOW, 0.0)
    for seed in range(4):
        X, holed = planted(seed, *shape, share=0.4, kept=8)
        whole = np.corrcoef(X.T)
        for how in HOW:
            scatter = Moments.from_data(holed, missing=how).scatter
            lengths = np.sqrt(np.diagonal(scatter))
            errors[how] += np.linalg.norm(scatter / lengths / lengths[:, None] - whole)
    assert errors["em"] < 0.95 * min(errors["pairwise"], errors["mean"])


@pytest.mark.parametrize("how", ["pairwise", "em"])
@pytest.mark.parametrize("shape", [(150, 20), (60, 40)])
def test_noise_with_holes_is_still_noise(how, shape):
    found = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal(shape)
        X[rng.random(shape) < 0.3] = np.nan
        selector = GreedySelector(missing=how, n_features_to_select=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found += selector.fit(X).n_significant_ > 0
    assert found <= 3  # of 12 tables one at most is expected; four have a chance of 1 in 500


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    "method",
    [
        SPCAPSD(n_features_to_select=3),
        GreedySelector(n_features_to_select=3),
        SubsetSelector(n_features_to_select=3),
        SPCAFS(n_features_to_select=3),
        SPCA(n_components=1, n_nonzero=3),
        DictionarySPCA(n_components=1),
        SelectFeatures(SPCA(n_components=1), n_features_to_select=3),
    ],
    ids=lambda method: type(method).__name__,
)
def test_methods_find_the_planted_features_behind_holes(method, how):
    inner = getattr(method, "estimator", method)
    inner.set_params(missing=how)
    method.fit(HOLED)
    inside = method.ranking_.argsort()[:1]
    assert inside.max() < 5
    assert method.missing_values_.how == how
    assert method.missing_values_.share == pytest.approx(np.isnan(HOLED).mean())
    inner.set_params(missing="error")
    with pytest.raises(ValueError, match=r"missing value|NaN"):
        method.fit(HOLED)
    assert method.missing_values_.how == how  # a fit that fails leaves everything


@pytest.mark.parametrize("how", HOW)
def test_transform_leaves_missing_values_missing(how, tmp_path):
    frame = pd.DataFrame(HOLED).add_prefix("x")
    selector = GreedySelector(missing=how, n_features_to_select=3).set_output(transform="pandas")
    kept = selector.fit_transform(frame)
    pd.testing.assert_frame_equal(kept, frame.loc[:, selector.get_support()])
    plain = GreedySelector(missing=how, n_features_to_select=3).fit(HOLED)
    np.testing.assert_array_equal(plain.transform(HOLED), HOLED[:, plain.get_support()])
    np.save(tmp_path / "x.npy", HOLED)
    written = plain.transform(open_source(tmp_path / "x.npy")).read()
    np.testing.assert_array_equal(written, HOLED[:, plain.get_support()])
    with pytest.raises(ValueError, match="infinity"):
        plain.transform(np.where(np.isnan(HOLED), np.inf, HOLED))
    with pytest.raises(ValueError, match=r"infinite|infinity"):
        plain.fit(np.where(np.isnan(HOLED), np.inf, HOLED))


@pytest.mark.parametrize("how", HOW)
def test_scores_of_components_take_the_mean_for_what_is_missing(how, tmp_path):
    method = SPCA(n_components=2, missing=how).fit(HOLED)
    filled = np.where(np.isnan(HOLED), method.mean_, HOLED)
    expected = SPCA.transform(method, filled)
    np.testing.assert_allclose(method.transform(HOLED), expected, atol=1e-12)
    np.save(tmp_path / "x.npy", HOLED)
    np.testing.assert_allclose(
        method.transform(open_source(tmp_path / "x.npy")).read(), expected, atol=1e-12
    )


@pytest.mark.parametrize("how", ["pairwise", "em"])
def test_a_set_is_judged_between_halves_with_estimates_of_their_own(how):
    selector = GreedySelector(missing=how).fit(HOLED)
    report = selector.selection_report_
    whole = GreedySelector().fit(COMPLETE).selection_report_
    assert report.worth.n_folds == 2
    assert report.worth.n_rows == selector.missing_values_.n_samples < 200
    assert report.worth.r2 == pytest.approx(whole.worth.r2, abs=0.1)
    again = selector.selection_report(HOLED)
    assert again.verdict == report.verdict


def test_holes_make_no_set_look_better_than_it_is():
    """With values filled by a model of the same samples it would: here noise stays noise."""
    rng = np.random.default_rng(9)
    X = rng.standard_normal((120, 30))
    X[rng.random(X.shape) < 0.4] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = GreedySelector(missing="em", n_features_to_select=5).fit(X).selection_report_
    assert report.worth.r2 < 0.02


def test_what_is_proved_is_for_the_estimated_matrix():
    selector = SubsetSelector(missing="em", n_features_to_select=2, search="exact").fit(HOLED)
    assert "holds for the estimated scatter matrix" in str(selector.missing_values_)
    assert "estimated" in str(selector.set_certificate_)
    plain = SubsetSelector(n_features_to_select=2, search="exact").fit(COMPLETE)
    assert "estimated" not in str(plain.set_certificate_)


@pytest.mark.parametrize("method", [CSPCA(), CSPCA(psd=False)])
def test_methods_that_look_at_samples_take_means_only(method):
    with pytest.raises(ValueError, match="use missing='mean'"):
        method.set_params(missing="em").fit(HOLED)
    method.set_params(missing="mean").fit(HOLED)
    filled = np.where(np.isnan(HOLED), np.nanmean(HOLED, axis=0), HOLED)
    other = CSPCA(psd=method.psd).fit(filled)
    np.testing.assert_allclose(method.feature_scores_, other.feature_scores_, atol=1e-6)
    with pytest.raises(ValueError, match="missing value"):
        LaplacianScore().fit(HOLED)


def test_containers_with_holes(tmp_path):
    expected = Moments.from_data(HOLED, missing="em").scatter
    frame = pd.DataFrame(HOLED).add_prefix("x")
    stored = sp.csr_array(np.where(np.isnan(HOLED), 7.0, HOLED))
    stored.data[np.isnan(HOLED).ravel()[np.flatnonzero(np.ones(HOLED.size))]] = np.nan
    frame.to_csv(tmp_path / "x.csv", index=False)
    given = [frame, np.ma.masked_invalid(HOLED), stored, open_source(tmp_path / "x.csv")]
    torch = pytest.importorskip("torch")
    given.append(torch.asarray(HOLED))
    for one in given:
        found = Moments.from_data(one, missing="em")
        np.testing.assert_allclose(found.scatter, expected, atol=1e-8 * expected.max())
    means = Moments.from_data(HOLED, missing="mean").scatter
    for one in given:
        found = Moments.from_data(one, missing="mean")
        np.testing.assert_allclose(found.scatter, means, atol=1e-8 * means.max())


def test_a_column_without_a_value_is_named_as_the_other_errors_name_columns():
    frame = pd.DataFrame(HOLED).add_prefix("x").assign(void=np.nan)
    with pytest.raises(ValueError, match="column 'void' of the data has no value at all"):
        SPCAPSD(missing="em").fit(frame)
    where = HOLED.shape[1]
    with pytest.raises(ValueError, match=rf"column number {where} \(counted from 0\) of the data"):
        SPCAPSD(missing="em").fit(frame.to_numpy())


def test_names_stay_with_estimates():
    frame = pd.DataFrame(HOLED).add_prefix("x")
    assert list(Moments.from_data(frame, missing="em").feature_names) == list(frame.columns)
    fitted = SPCAPSD(missing="em").fit(frame)
    assert fitted.feature_names_in_.tolist() == list(frame.columns)


def test_weights_and_batches_with_holes():
    weights = np.random.default_rng(1).integers(0, 3, 200)
    batch = np.arange(200) % 2
    shifted = HOLED + 3.0 * batch[:, None]
    rows = np.repeat(np.arange(200), weights)
    found = Moments.from_data(shifted, sample_weight=weights, batch=batch, missing="em")
    centred = shifted[rows].copy()
    whole = np.zeros(12)
    for one in (0, 1):
        mine = batch[rows] == one
        mean = np.nanmean(centred[mine], axis=0)
        centred[mine] -= mean
        whole += mean * np.count_nonzero(mine) / rows.size
    other = Moments.from_data(centred, missing="em")
    np.testing.assert_allclose(found.scatter, other.scatter, rtol=1e-3, atol=1e-3)
    shares = np.random.default_rng(1).random(200)
    with pytest.raises(ValueError, match="whole-number weights only"):
        Moments.from_data(HOLED, sample_weight=shares, missing="em")
    mixed = Moments.from_data(HOLED, sample_weight=shares, missing="mean")
    means = np.array([np.average(c[~np.isnan(c)], weights=shares[~np.isnan(c)]) for c in HOLED.T])
    filled = np.where(np.isnan(HOLED), means, HOLED)
    expected = Moments.from_data(filled, sample_weight=shares).scatter
    np.testing.assert_allclose(mixed.scatter, expected, atol=1e-9 * expected.max())


def test_what_was_done_about_holes_is_said_in_words():
    lost = np.array([3, 0, 1])
    said = {how: str(MissingValues(how, lost, 10, 10)) for how in ("mean", "pairwise", "em")}
    for words in said.values():
        assert words.startswith("13.3 % of the values, in 2 columns, are missing")
    assert said["mean"].endswith("replaced by the mean of their column")
    assert "samples that have both values" in said["pairwise"]
    assert "repaired" not in said["pairwise"]
    repaired = str(MissingValues("pairwise", lost, 10, 10, repair_change=0.025))
    assert "(repaired by 2.5 %)" in repaired
    assert len(set(said.values())) == 3


def test_what_cannot_be_estimated_is_said():
    empty = HOLED.copy()
    empty[:, 3] = np.nan
    for how in HOW:
        with pytest.raises(ValueError, match="has no value at all"):
            Moments.from_data(empty, missing=how)
    rows = (np.arange(2), np.arange(2))
    with pytest.raises(ValueError, match="column 'b' has no value at all"):
        estimated(np.array([[1.0, np.nan], [2.0, np.nan]]), "em", rows, ["a", "b"])
    with pytest.raises(ValueError, match="missing='drop' is not one of"):
        SPCAPSD(missing="drop").fit(HOLED)


def test_a_matrix_beyond_the_memory_is_refused(monkeypatch, tmp_path):
    np.save(tmp_path / "x.npy", HOLED)
    with pytest.raises(ValueError, match="missing='mean' reads them in blocks"):
        Moments.from_data(open_source(tmp_path / "x.npy", memory=10_000), missing="em")
    monkeypatch.setattr(estimate, "default_budget", lambda: 1000)
    with pytest.raises(ValueError, match="missing='mean' needs none"):
        Moments.from_data(HOLED, missing="em")
    estimate._check_fits(3)  # ten matrices of 72 bytes
    monkeypatch.setattr(estimate, "default_budget", lambda: 720)
    estimate._check_fits(3)
    monkeypatch.setattr(estimate, "default_budget", lambda: 719)
    with pytest.raises(ValueError, match="needs 720 bytes"):
        estimate._check_fits(3)


def test_too_few_steps_are_warned_of(monkeypatch):
    monkeypatch.setattr(estimate, "MAX_ITER", 2)
    with pytest.warns(UserWarning, match="missing='em' did not converge: after 2 steps"):
        found = Moments.from_data(HOLED, missing="em")
    assert not found.missing.converged
    assert found.missing.n_iter == 2


def test_odd_columns():
    X = HOLED.copy()
    X[:, 0] = 5.0
    X[::2, 0] = np.nan  # constant
    X[:, 1] = np.where(np.arange(200) == 3, 1.0, np.nan)  # one value
    X[:, 2] = 0.0
    X[::3, 2] = np.nan  # zero wherever it is known
    X[7] = np.nan  # a sample without any
    for how in ("pairwise", "em"):
        found = Moments.from_data(X, missing=how)
        assert not found.variances[:3].any()
        assert np.all(found.variances[3:] > 0)
        assert found.halves is None  # one half knows nothing of the second column
        assert np.isfinite(found.scatter).all()


def test_a_model_of_holes_is_saved(tmp_path):
    fitted = SPCAPSD(missing="em", n_features_to_select=2).fit(HOLED)
    save_model(fitted, tmp_path / "model.skops")
    loaded = load_model(tmp_path / "model.skops")
    assert str(loaded.missing_values_) == str(fitted.missing_values_)
    np.testing.assert_array_equal(loaded.transform(HOLED), fitted.transform(HOLED))
