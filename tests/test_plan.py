"""How samples are read is decided in one place: Python and the command line agree on every method.

Every method × every way in × {Python, command line}: the same answer, or the same refusal.
"""

import json
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from test_cli import invoke

from jointsparse import CSPCA, SPCA, SPCAPSD, Moments, SelectFeatures, open_source
from jointsparse.cli.words import in_options
from jointsparse.io.budget import allowed_memory, enough, limited_to, parse_size
from jointsparse.methods.reading.needs import TO_JUDGE, Needs
from jointsparse.methods.reading.plan import DoesNotFitError, Reading, plan, too_many_samples
from jointsparse.methods.registry import methods
from jointsparse.selection_report import selection_report
from jointsparse.solvers.convex.splitting import MATRICES
from jointsparse.sources.sums import NotFiniteError
from jointsparse.sources.views.columnwise import ColumnwiseSource, standardised

METHODS = methods()
# In order: the scatter matrix fits; only products do; nothing does; the samples do.
SHAPES = {
    "tall": ((1500, 6), "48kB"),
    "wide": ((24, 120), "45kB"),
    "little": ((1500, 6), "3kB"),
    "enough": ((120, 6), "100kB"),
}


def samples(n, p):
    rng = np.random.default_rng(5)
    loadings = np.zeros((2, p))
    loadings[:, :6] = rng.standard_normal((2, 6))
    signal = 3 * rng.standard_normal((n, 2)) @ loadings
    return (signal + 0.5 * rng.standard_normal((n, p))) * rng.uniform(0.5, 2, p) + 3


def npy(X, folder):
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


def parquet(X, folder):
    pq.write_table(pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])}), folder / "x.parquet")
    return folder / "x.parquet"


def csv(X, folder):
    place = folder / "x.csv"
    pyarrow.csv.write_csv(pa.table({f"c{j}": X[:, j] for j in range(X.shape[1])}), place)
    return place


def hdf5(X, folder):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("x", data=X)
    return folder / "x.h5"


def made(name):
    method = METHODS[name]
    return method.make() if method.kind == "selector" else SelectFeatures(method.make())


def in_python(name, path, memory):
    """Return scores and kept columns, or the sentence of the refusal."""
    estimator = made(name).set_params(n_features_to_select=3)
    source = open_source(path, memory=memory)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            estimator.fit(source)
        except ValueError as error:
            return in_options(str(error), name).rstrip(".")
    return estimator.feature_scores_, np.flatnonzero(estimator.get_support())


def on_command_line(name, path, memory):
    result = invoke(
        *("select", path, "--method", name, "--memory", memory, "--features", 3),
        *("--scale", "none", "--json", "--quiet"),
    )
    if result.exit_code:
        assert result.exit_code == 2
        return result.stderr.removeprefix("jointsparse: ").strip().rstrip(".")
    rows = json.loads(result.stdout)["ranking"]
    # Columns are numbered from 1 in a file without names, and from 0 here.
    first = 0 if rows[0]["feature"].startswith("c") else 1
    column = {row["feature"]: int(row["feature"][1:]) - first for row in rows}
    scores = np.empty(len(rows))
    for row in rows:
        scores[column[row["feature"]]] = row["score"]
    return scores, np.sort([column[row["feature"]] for row in rows if row["kept"]])


def assert_same(one, other):
    assert isinstance(one, str) == isinstance(other, str), (one, other)
    if isinstance(one, str):
        assert one == other
        return
    np.testing.assert_allclose(one[0], other[0], rtol=1e-6, atol=1e-8 * other[0].max())
    np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.parametrize(
    "write",
    [npy, csv, *(pytest.param(write, marks=pytest.mark.slow) for write in (parquet, hdf5))],
    ids=lambda write: write.__name__,
)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", METHODS)
def test_python_and_the_command_line_agree(name, shape, write, tmp_path):
    size, memory = SHAPES[shape]
    path = write(samples(*size), tmp_path)
    if (shape, write) == ("wide", parquet) and Needs.of(made(name)).products:
        # Every block of columns costs a look at what the file says of all columns.
        assert plan(open_source(path, memory=memory), Needs.of(made(name))) is Reading.PRODUCTS
        return
    found = in_python(name, path, memory)
    assert_same(on_command_line(name, path, memory), found)


def test_the_shapes_above_reach_every_way_of_reading(tmp_path):
    found = {}
    for shape, (size, memory) in SHAPES.items():
        source = open_source(npy(samples(*size), tmp_path), memory=memory)
        for name in METHODS:
            try:
                found.setdefault(plan(source, Needs.of(made(name))), set()).add(shape)
            except DoesNotFitError:
                found.setdefault(None, set()).add(shape)
    assert set(found) == {*Reading, None}


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        pytest.param("cspca-psd", "tall", marks=pytest.mark.slow),  # many passes, each in 25 blocks
        ("spca-psd", "tall"),
        ("spca-psd", "wide"),
        ("greedy", "wide"),
    ],
)
def test_scaled_in_blocks_as_in_memory(name, shape, tmp_path):
    size, memory = SHAPES[shape]
    X = samples(*size)
    path = npy(X, tmp_path)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    # Another solver may be used in memory.
    exactly = {"tol": 1e-7} if name == "spca-psd" else {}
    whole = made(name).set_params(n_features_to_select=3, **exactly).fit(X)
    saved, page = tmp_path / "m.skops", tmp_path / "p.html"
    result = invoke(
        *("select", path, "--method", name, "--memory", memory, "--features", 3, "--json"),
        *("--quiet", "--save", saved, "--report", page, "--path-points", 0),
        *(part for key, value in exactly.items() for part in ("--param", f"{key}={value}")),
    )
    assert result.exit_code == 0, result.stderr
    record = json.loads(result.stdout)
    kept = sorted(int(name[1:]) - 1 for name in record["kept"])
    assert kept == np.flatnonzero(whole.get_support()).tolist()
    assert record["worth"]["r2"] == pytest.approx(whole.selection_report_.r2, abs=1e-6)
    assert any("in blocks" in note for note in record["notes"])
    out = tmp_path / "out.csv"
    done = invoke("transform", saved, path, "--output", out, "--scaled")
    assert done.exit_code == 0, done.stderr
    written = np.loadtxt(out, delimiter=",", skiprows=1)
    np.testing.assert_allclose(written, X[:, kept], atol=1e-8)
    code = page.read_text(encoding="utf-8")
    assert "open_source" in code


def test_the_two_files_of_the_report(tmp_path):
    """A tall file for CSPCA, and a wide one for SPCAPSD, whose scatter matrix is far larger."""
    tall, wide = tmp_path / "tall.npy", tmp_path / "wide.npy"
    np.save(tall, samples(4000, 20))
    np.save(wide, samples(30, 4000))
    for path, method, memory in ((tall, "cspca-psd", "600kB"), (wide, "spca-psd", "60MB")):
        result = invoke(
            *("select", path, "--method", method, "--memory", memory, "--features", 2, "--quiet")
        )
        assert result.exit_code == 0, result.stderr


def test_a_set_from_a_wide_file_is_judged_as_in_memory(tmp_path):
    X = samples(80, 300)
    source = open_source(npy(X, tmp_path), memory="300kB")
    found = SPCAPSD(n_features_to_select=3).fit(source)
    here = selection_report(Moments.from_data(X), np.flatnonzero(found.support_))
    for report in (found.selection_report_, found.selection_report(source)):
        assert report.r2 == pytest.approx(here.r2, abs=1e-9, nan_ok=True)
        assert report.r2_held_out == pytest.approx(here.r2_held_out, abs=1e-9, nan_ok=True)
        assert report.pca_r2_held_out == pytest.approx(here.pca_r2_held_out, abs=1e-9, nan_ok=True)
        np.testing.assert_allclose(report.random_r2_held_out, here.random_r2_held_out, atol=1e-9)


def test_counting_rows_of_text_where_the_scatter_matrix_does_not_fit(tmp_path):
    X = samples(24, 300)
    source = open_source(csv(X, tmp_path), memory="12MB")  # a block of text takes most of it
    assert plan(source, Needs()) is Reading.WHOLE  # 24 × 300 × 16 bytes
    assert plan(open_source(csv(X, tmp_path), memory="1GB"), Needs()) is Reading.MOMENTS
    assert "from a file that is not text: spca-psd" in str(too_many_samples(source, 24, "mcfs"))
    many = open_source(csv(samples(3000, 300), tmp_path), memory="12MB")
    with pytest.raises(DoesNotFitError, match="has 300 columns, whose scatter matrices need"):
        plan(many, TO_JUDGE)


def test_what_the_message_says_is_enough_is_enough(tmp_path):
    source = open_source(npy(samples(1500, 6), tmp_path), memory="3kB")
    for needs in (Needs(), Needs(samples=True)):
        with pytest.raises(DoesNotFitError) as refused:
            plan(source, needs)
        size = str(refused.value).partition('memory="')[2].partition('"')[0]
        allowed = open_source(tmp_path / "x.npy", memory=size)
        assert isinstance(plan(allowed, needs), Reading)


@pytest.mark.parametrize("size", [1, 999, 1000, 1001, 1_210_000, 99_999_999, 10**9, 10**13 + 1])
def test_an_amount_in_words_is_never_too_small(size):
    assert size <= parse_size(enough(size)) <= max(1000, 1.1 * size)


# columns that are changed while they are read


def test_columns_are_filled_and_scaled_however_they_are_read(tmp_path):
    X = samples(50, 7)
    X[3, 2] = np.nan
    source = open_source(parquet(X, tmp_path))
    fill, centre, factors = np.arange(7.0), np.linspace(1, 2, 7), np.linspace(2, 3, 7)
    changed = ColumnwiseSource(source, fill=fill, centre=centre, factors=factors)
    expected = (np.where(np.isnan(X), fill, X) - centre) * factors
    few = np.array([0, 2, 5])
    np.testing.assert_allclose(changed.read(), expected)
    np.testing.assert_allclose(changed.columns(few).read(), expected[:, few])
    np.testing.assert_allclose(changed.read_columns(few), expected[:, few])
    assert changed.columns(few).feature_names.tolist() == ["c0", "c2", "c5"]
    single = ColumnwiseSource(open_source(npy(X.astype(np.float32), tmp_path)), factors=factors)
    assert single.dtype == single.read().dtype == np.float32
    whole = ColumnwiseSource(open_source(npy(np.ones((4, 7), dtype=int), tmp_path)), fill=fill)
    assert whole.read().dtype == whole.dtype == np.float64


def test_standardised_columns(tmp_path):
    X = samples(50, 6)
    X[:, 1] = 1e5
    found = standardised(open_source(npy(X, tmp_path)))
    Z = found.source.read()
    np.testing.assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(Z.std(axis=0), [1, 0, 1, 1, 1, 1], atol=1e-12)
    assert found.deviations[1] == 0
    X[7, 3] = np.inf
    with pytest.raises(NotFiniteError) as refused:
        standardised(open_source(npy(X, tmp_path)))
    assert (refused.value.row, refused.value.column) == (7, 3)


def test_choosing_penalties_needs_samples_that_fit(tmp_path):
    path = npy(samples(*SHAPES["wide"][0]), tmp_path)
    result = invoke("select", path, "--memory", "45kB", "--choose", "auto", "--quiet")
    assert result.exit_code == 2
    assert "allow more with --memory" in result.stderr


def test_labels_of_samples_that_were_read_as_a_whole_reach_the_report(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    X = samples(120, 6)
    columns = {f"c{j}": X[:, j] for j in range(6)} | {"who": ["a", "b"] * 60}
    pq.write_table(pa.table(columns), folder / "x.parquet")
    page = tmp_path / "p.html"
    options = ("--label", "who", "--method", "rne", "--features", 2, "--report", page)
    assert invoke("select", folder, *options).exit_code == 0
    assert "K-means with 2 clusters" in page.read_text(encoding="utf-8")


def test_needs_follow_the_parameters():
    judged = {"judged": True}  # they keep a set of features
    many = {"scatter_copies": 76}
    assert Needs.of(CSPCA()) == Needs(samples=True, passes=True, products=True, **judged, **many)
    assert Needs.of(CSPCA(psd=False)) == Needs(samples=True, **judged, **many)
    assert Needs.of(SPCAPSD(solver="published")) == Needs(**judged)
    split = {"scatter_copies": MATRICES}  # as it may be, if it has to be
    assert Needs.of(SPCAPSD(solver="splitting")) == Needs(**judged, **split)
    assert Needs.of(SPCAPSD()) == Needs(products=True, **judged, **split)
    assert Needs.of(SPCA()) == Needs()


def test_a_small_table_in_a_file_gives_the_answer_of_its_array(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 12)) * np.exp(rng.standard_normal((200, 1)))
    X[:, :5] += rng.standard_normal((200, 1))
    np.save(tmp_path / "table.npy", X)
    expected = SPCAPSD().fit(X)
    found = SPCAPSD().fit(tmp_path / "table.npy")
    np.testing.assert_array_equal(found.support_, expected.support_)
    np.testing.assert_allclose(found.feature_shares_, expected.feature_shares_, atol=1e-10)
    source = open_source(tmp_path / "table.npy")
    assert plan(source, Needs.of(SPCAPSD())) is Reading.WHOLE
    assert plan(source, Needs.of(SPCA())) is Reading.MOMENTS
    monkeypatch.setattr("jointsparse.methods.reading.plan.SMALL", 1000)
    assert plan(source, Needs.of(SPCAPSD())) is Reading.MOMENTS


def test_kernels_take_no_more_than_a_source_allows(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((30, 5)))
    seen, fit = [], SPCAPSD._fit
    note = lambda self, moments: (seen.append(allowed_memory()), fit(self, moments))[1]  # noqa: E731
    monkeypatch.setattr(SPCAPSD, "_fit", note)
    selector = SPCAPSD(n_features_to_select=2)
    selector.fit(open_source(tmp_path / "x.npy", memory="30MB"))
    with limited_to("40MB"):  # what was allowed around it holds for what says nothing itself
        selector.fit(open_source(tmp_path / "x.npy"))
        selector.fit(np.load(tmp_path / "x.npy"))
    assert seen == [30_000_000, 40_000_000, 40_000_000]
    assert allowed_memory() > 40_000_000
