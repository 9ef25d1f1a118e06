"""Gross values: found where they do harm, silent elsewhere, told in plain words."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import beta, norm, rankdata

from jointsparse import SPCAPSD, GreedySelector, Moments, load_model, open_source, save_model
from jointsparse.extremes import FAR, RISKY, RISKY_SAMPLE, extreme_values
from jointsparse.io import TableError
from jointsparse.ranks import normal_scores
from jointsparse.sources.views.logarithms import Log1pSource, log1p

RNG = np.random.default_rng


def by_hand(X):
    """Return the extreme columns of a dense table, one value after the other."""
    n, found = len(X), {}
    live = [j for j in range(X.shape[1]) if np.ptp(X[:, j]) > 0]
    for j in live:
        squares = (X[:, j] - X[:, j].mean()) ** 2
        share = squares.max() / squares.sum()
        chance = beta.sf(share * n / (n - 1), 0.5, (n - 2) / 2)
        away = np.abs(X[:, j] - np.median(X[:, j]))
        far = away[squares.argmax()] >= FAR * np.median(away[away > 0])
        if share > RISKY and chance * n * len(live) <= 0.005 and far:
            found[j] = (share, squares.argmax())
    return sorted(found, key=lambda j: -found[j][0]), found


TABLES = {
    "Gaussian": lambda rng: rng.standard_normal((80, 30)),
    "two degrees of freedom": lambda rng: rng.standard_t(2, (80, 30)),
    "intensities": lambda rng: np.exp(1.5 * rng.standard_normal((80, 30))),
    "counts": lambda rng: rng.poisson(rng.gamma(0.3, 2, 30), (80, 30)).astype(float),
    "bursts": lambda rng: (
        rng.poisson(0.3, (80, 30)) * rng.poisson(np.where(rng.random((80, 30)) < 0.03, 40.0, 1.0))
    ),
    "far from zero": lambda rng: 1e6 + rng.standard_t(2, (80, 30)),
}


@pytest.mark.parametrize("name", TABLES)
def test_columns_are_those_of_the_definition_dense_and_sparse(name):
    X = TABLES[name](RNG(0)).astype(float)
    X[:, 4] = 3.0  # constant
    expected, found = by_hand(X)
    for given in (X, sp.csr_array(X), np.asfortranarray(X)):
        result = extreme_values(given)
        assert result.columns.tolist() == expected
        assert result.column_shares.tolist() == pytest.approx([found[j][0] for j in expected])
        assert result.column_samples.tolist() == [found[j][1] for j in expected]
    assert bool(expected) == (name not in ("Gaussian", "counts"))


def test_in_parts_as_at_once(monkeypatch):
    X = RNG(0).standard_t(2, (80, 30))
    whole = extreme_values(X)
    monkeypatch.setattr("jointsparse.extremes.AT_ONCE", 7 * 30)
    parts = extreme_values(X)
    assert parts.columns.tolist() == whole.columns.tolist()
    assert parts.column_samples.tolist() == whole.column_samples.tolist()
    assert parts.sample_shares.tolist() == whole.sample_shares.tolist()


def test_a_tensor_as_an_array():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    X = RNG(0).standard_t(2, (80, 30))
    X[5] *= 20
    here, there = extreme_values(X), extreme_values(torch.as_tensor(X))
    assert there.columns.tolist() == here.columns.tolist()
    assert there.samples.tolist() == here.samples.tolist() == [5]


@pytest.mark.parametrize("factor", [0.0, 3.0])
def test_false_alarms_are_rarer_than_one_in_a_hundred_gaussian_tables(factor):
    """Independent columns, and columns that share a factor: 7 of 300 has a probability of 3 %."""
    rng, alarms = RNG(5), 0
    for _ in range(300):
        X = rng.standard_normal((40, 25)) + factor * rng.standard_normal((40, 1))
        alarms += bool(extreme_values(X))
    assert alarms < 7


@pytest.mark.parametrize("scale", [1e-140, 1.0, 1e140])
def test_units_and_order_do_not_matter(scale):
    X = RNG(3).standard_t(2, (60, 12))
    X[7] *= 30
    columns, rows = RNG(4).permutation(12), RNG(5).permutation(60)
    plain = extreme_values(X)
    other = extreme_values((X * scale * np.logspace(0, 3, 12))[rows][:, columns])
    assert columns[other.columns].tolist() == plain.columns.tolist()
    assert rows[other.samples].tolist() == plain.samples.tolist() == [7]


def test_one_loud_sample_is_found():
    X = RNG(0).standard_normal((100, 200))
    assert extreme_values(X).samples.size == 0
    X[17] *= 5
    found = extreme_values(X)
    assert found.samples.tolist() == [17]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    share = (Z[17] ** 2).sum() / (Z**2).sum()
    assert share > RISKY_SAMPLE
    assert found.sample_shares[0] == pytest.approx(share)
    sparse = extreme_values(sp.csr_array(X))
    assert sparse.samples.tolist() == [17]
    assert sparse.sample_shares[0] == pytest.approx(share)


def test_rare_words_and_edge_pixels_are_no_extreme_values():
    """They hold all of their column's squares, but no logarithm and no rank would change that."""
    X = (RNG(0).random((300, 200)) < 0.01).astype(float) * RNG(1).integers(1, 4, (300, 200))
    assert not extreme_values(X).columns.size
    X[0, 3] = 60.0
    assert extreme_values(X).columns.tolist() == [3]


def test_ranks_take_them_away():
    X = RNG(0).standard_t(1, (60, 20))
    assert extreme_values(X).columns.size > 10
    assert not extreme_values(normal_scores(X))


def test_unknown_from_sums_and_files(tmp_path):
    X = RNG(0).standard_t(2, (60, 6))
    np.save(tmp_path / "x.npy", X)
    for moments in (
        Moments.from_scatter(np.eye(3), 10),
        Moments.from_source(open_source(tmp_path / "x.npy")),
    ):
        assert extreme_values(moments) is None
    report = SPCAPSD(n_features_to_select=2).fit_moments(moments).selection_report_
    assert report.extremes is None
    assert report.remarks == ()


@pytest.mark.parametrize("X", [np.array([[0.0, 1.0], [1.0, 5.0]]), np.ones((9, 2))])
def test_nothing_to_compare_with(X):
    assert not extreme_values(X)
    assert str(extreme_values(X)) == "No extreme values."


def test_words():
    X = RNG(0).standard_normal((100, 8))
    X[7, 3] = 60.0
    one = extreme_values(X)
    assert one.sentences(["a"] * 3 + ["dose\x1b[2J"] + ["b"] * 4, "do so") == [
        r"1 of 8 columns holds a few values far from the rest (dose\x1b[2J); do so"
    ]
    X[9, 5] = 90.0
    X[30] = 20.0
    text = str(extreme_values(X))
    assert "8 of 8 columns hold a few values far from the rest (first: column 5)" in text
    assert " of 100 samples are far from the rest in many columns (first: row 30, with " in text
    assert "numpy.log1p" in text
    X[31] = -20.0
    row = extreme_values(X).sentences(first_row=1)[-1]
    assert " samples are far" in row
    assert "first: row 3" in row


# the report


def planted(rng, n=120):
    """Intensities: two factors, seen through an exponential."""
    factors = rng.standard_normal((n, 2)) @ rng.standard_normal((2, 20))
    return np.exp(1.5 * (factors + rng.standard_normal((n, 20))))


def test_the_report_tells_and_the_transform_helps(tmp_path):
    X = planted(RNG(1))
    model = GreedySelector(n_features_to_select=3).fit(X)
    report = model.selection_report_
    assert report.remarks
    assert str(report).startswith(report.verdict)
    assert "few values far from the rest" in str(report)
    assert "far from the rest" in report._repr_html_()
    assert report.rows["extreme values"].startswith(f"in {report.extremes.columns.size} columns")
    better = GreedySelector(n_features_to_select=3).fit(normal_scores(X)).selection_report_
    assert better.remarks == ()
    assert str(better) == better.verdict
    assert "extreme values" not in better.rows
    assert better.r2_held_out > report.r2_held_out + 0.1
    save_model(model, tmp_path / "m.skops")
    kept = load_model(tmp_path / "m.skops").selection_report_
    assert kept.extremes.columns.tolist() == report.extremes.columns.tolist()


def test_few_extreme_columns_matter_only_if_kept():
    X = RNG(0).standard_normal((100, 40)) + RNG(1).standard_normal((100, 1))
    X[5, 39] = 40.0
    found = extreme_values(X)
    assert found.columns.tolist() == [39]
    assert not found.matter(np.array([0, 1]))
    assert found.matter(np.array([0, 39]))


def test_all_samples_of_a_large_table_are_looked_at(monkeypatch):
    """Only some are remembered for the report, and a gross value can be in any."""
    monkeypatch.setattr("jointsparse.methods.bases.worth.REMEMBERED_ENTRIES", 1200 * 4)
    X = RNG(0).standard_normal((4000, 4)) + RNG(1).standard_normal((4000, 1))
    for row in (17, 3999):
        Y = X.copy()
        Y[row, 2] = 1e3
        found = GreedySelector(n_features_to_select=3).fit(Y).selection_report_.extremes
        assert found.n_samples == 4000
        assert found.columns.tolist() == [2]
        assert found.column_samples.tolist() == [row]


# ranks and logarithms


def test_ranks_with_ties_and_missing_values():
    X = np.array([[3.0, 1.0], [np.nan, 1.0], [100.0, 5.0], [3.0, 1.0]])
    scores = normal_scores(X)
    assert np.isnan(scores[1, 0])
    assert np.isnan(scores).sum() == 1
    assert scores[0, 0] == scores[3, 0] < 0 < scores[2, 0]
    assert scores[0, 1] == scores[1, 1] == scores[3, 1] < 0 < scores[2, 1]
    assert normal_scores(np.full((5, 1), 2.0)).ravel().tolist() == [0.0] * 5
    assert np.isnan(normal_scores(np.full((3, 1), np.nan))).all()


def test_ranks_of_many_columns_and_sparse_ranks():
    rng = RNG(0)
    X = rng.integers(-2, 3, (50, 300)) * rng.integers(0, 2, (50, 300)).astype(float)
    X[:, 5] = rng.standard_normal(50)  # without a zero
    X[:, 6] = 0.0
    dense = normal_scores(X)
    j = 299
    assert dense[:, j] == pytest.approx(norm.ppf((rankdata(X[:, j]) - 0.5) / 50))
    sparse = normal_scores(sp.csr_array(X))
    assert sparse.nnz <= np.count_nonzero(X)
    difference = dense - sparse.toarray()
    assert np.ptp(difference, axis=0) == pytest.approx(np.zeros(300), abs=1e-12)


def test_log1p_of_blocks_and_columns(tmp_path):
    X = RNG(0).integers(0, 50, (90, 5)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    source = Log1pSource(open_source(tmp_path / "x.npy"))
    assert source.dtype == np.float32
    assert np.array_equal(source.read(), np.log1p(X))
    assert np.array_equal(np.concatenate(list(source.blocks(35))), np.log1p(X))
    assert np.array_equal(source.columns([3, 1]).read(), np.log1p(X[:, [3, 1]]))
    assert np.array_equal(source.read_columns(np.array([1, 4])), np.log1p(X[:, [1, 4]]))
    sparse = log1p(sp.csr_array(X), "x")
    assert np.array_equal(sparse.toarray(), np.log1p(X))
    assert log1p(X.astype(int), "x").dtype == np.float64


def test_log1p_names_what_has_no_logarithm(tmp_path):
    X = np.ones((90, 5))
    X[62, 3] = -1.5
    np.save(tmp_path / "x.npy", X)
    source = Log1pSource(open_source(tmp_path / "x.npy"))
    with pytest.raises(TableError, match=r"has -1\.5 in column number 4, row 63"):
        list(source.blocks(35))
    with pytest.raises(TableError, match=r"has -1\.5 in column d, row 63"):
        log1p(sp.csc_array(X), "x", list("abcde"))
    with pytest.raises(TableError, match="use ranks instead"):
        source.read_columns(np.array([2, 3]))
