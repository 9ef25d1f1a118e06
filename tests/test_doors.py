"""Whatever holds samples: the same answer as its dense twin, or one sentence that says why not."""

import ast
import pickle
import re
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import jointsparse
from jointsparse import (
    CSPCA,
    FSSL,
    SPCA,
    SPCAPSD,
    GreedySelector,
    KernelFSSL,
    Moments,
    SelectFeatures,
    compare_methods,
    feature_significance,
    open_source,
    registry,
    regularization_path,
    stability_selection,
)
from jointsparse.cli.main import app
from jointsparse.io import TableError, read_table
from jointsparse.metrics import clustering_scores, explained_variance
from jointsparse.numerics.sparse import canonical
from jointsparse.plotting import FeatureMapDisplay
from jointsparse.sources import as_source
from jointsparse.sources.door import as_samples

N, P = 40, 8
RNG = np.random.default_rng(5)
DENSE = np.where(RNG.random((N, P)) < 0.5, 0.0, RNG.integers(1, 9, (N, P)) * 1.0)
DENSE[:, 1] = DENSE[:, 0] + RNG.integers(0, 2, N)
METHODS = registry.methods()
FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
CLASSES = np.arange(N) % 2


def in_pieces(kind, form):
    """Return the samples with every entry stored in two pieces, out of order, beside zeros."""
    rows, columns = np.nonzero(DENSE)
    values = DENSE[rows, columns]
    zeros = np.argwhere(DENSE == 0)[:5].T
    rows = np.concatenate([rows, rows, zeros[0]])
    columns = np.concatenate([columns, columns, zeros[1]])
    values = np.concatenate([0.75 * values, 0.25 * values, np.zeros(5)])
    mixed = np.random.default_rng(1).permutation(rows.size)
    rows, columns, values = rows[mixed], columns[mixed], values[mixed]
    if form == "coo":
        return getattr(sp, f"coo_{kind}")((values, (rows, columns)), shape=DENSE.shape)
    major, minor = (rows, columns) if form == "csr" else (columns, rows)
    order = np.argsort(major, kind="stable")
    length = DENSE.shape[0 if form == "csr" else 1]
    starts = np.searchsorted(major[order], np.arange(length + 1))
    parts = (values[order], minor[order], starts)
    return getattr(sp, f"{form}_{kind}")(parts, shape=DENSE.shape)


def fitted(name, X, **params):
    model = METHODS[name].make().set_params(**params)
    if "n_features_to_select" in model.get_params():
        model.set_params(n_features_to_select=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so small a table is not for every method
        return model.fit(X, CLASSES)


def state(matrix):
    """Return copies of everything that makes up a CSR or CSC matrix."""
    return [part.copy() for part in (matrix.data, matrix.indices, matrix.indptr)]


# --- sparse matrices ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_becomes_the_same_matrix(form, kind):
    matrix = getattr(sp, f"{form}_{kind}")(DENSE)
    found = canonical(matrix)
    assert found.format == ("csc" if form == "csc" else "csr")
    assert isinstance(found, sp.sparray) == (kind == "array")
    np.testing.assert_array_equal(found.toarray(), DENSE)
    assert found.nnz == np.count_nonzero(DENSE)


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_repeated_entries_zeros_and_disorder_are_mended_on_a_copy(form, kind):
    matrix = in_pieces(kind, form)
    before = matrix.copy()
    found = canonical(matrix)
    assert found.has_canonical_format
    assert found.nnz == np.count_nonzero(DENSE)
    np.testing.assert_array_equal(found.toarray(), DENSE)
    assert matrix.nnz == before.nnz
    np.testing.assert_array_equal(matrix.data, before.data)


def test_a_matrix_in_order_is_not_copied_and_large_indices_are_made_small():
    matrix = sp.csr_array(DENSE)
    assert np.shares_memory(canonical(matrix).data, matrix.data)
    matrix.indices, matrix.indptr = (
        part.astype(np.int64) for part in (matrix.indices, matrix.indptr)
    )
    found = canonical(matrix)
    assert found.indices.dtype == found.indptr.dtype == np.int32
    assert matrix.indices.dtype == np.int64
    np.testing.assert_array_equal(found.toarray(), DENSE)


def test_a_flag_that_lies_is_not_believed():
    matrix = in_pieces("array", "csr")
    matrix.has_canonical_format = matrix.has_sorted_indices = True
    np.testing.assert_array_equal(canonical(matrix).data, canonical(sp.csr_array(DENSE)).data)


def damaged():
    """Yield matrices whose indices point outside, each with a name."""
    for form in ("csr", "csc", "bsr"):
        for value in (99, -1):
            matrix = getattr(sp, f"{form}_array")(DENSE)
            matrix.indices[0] = value
            yield f"{form}, index {value}", matrix
        matrix = getattr(sp, f"{form}_array")(DENSE)
        matrix.indptr[1] = 1000
        yield f"{form}, pointer beyond the end", matrix
        matrix = getattr(sp, f"{form}_array")(np.zeros_like(DENSE))
        matrix.indptr[1] = 1000
        yield f"{form}, pointer of an empty matrix", matrix
        matrix = getattr(sp, f"{form}_array")(DENSE)
        matrix.data = matrix.data[:-1]
        yield f"{form}, too few values", matrix
    for axis in (0, 1):
        matrix = sp.coo_array(DENSE)
        matrix.coords[axis][0] = 99
        yield f"coo, axis {axis}", matrix
        matrix = sp.dok_array(DENSE)
        dict.__setitem__(matrix._dict, (99, 0) if axis == 0 else (0, 99), 1.0)
        yield f"dok, axis {axis}", matrix
    matrix = sp.lil_array(DENSE)
    matrix.rows[0] = [99] * len(matrix.rows[0])
    yield "lil, index", matrix
    matrix = sp.lil_array(DENSE)
    matrix.rows[0] = matrix.rows[0][:-1]
    yield "lil, too few columns", matrix


@pytest.mark.parametrize("what", [name for name, _ in damaged()])
def test_indices_out_of_range_are_refused_in_one_sentence(what):
    matrix = dict(damaged())[what]
    for use in (Moments.from_data, SPCAPSD().fit, SPCA(n_components=2).fit, as_source):
        with pytest.raises(ValueError, match=r"^X is a damaged sparse matrix of shape \(40, 8\)"):
            use(matrix)
    with pytest.raises(ValueError, match="damaged sparse matrix"):
        SPCAPSD().fit(DENSE).transform(matrix)


def test_a_sparse_vector_is_refused():
    with pytest.raises(ValueError, match=r"rows of a matrix; got a sparse array of shape \(3,\)"):
        Moments.from_data(sp.coo_array(np.ones(3)))


@pytest.mark.parametrize("name", METHODS)
def test_repeated_entries_give_every_method_the_dense_answer(name):
    matrix = in_pieces("array", "csr")
    before = state(matrix)
    found, twin = fitted(name, matrix), fitted(name, canonical(sp.csr_array(DENSE)))
    np.testing.assert_allclose(found.feature_scores_, twin.feature_scores_, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found.ranking_, twin.ranking_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out, expected = found.transform(matrix), twin.transform(DENSE)
    out = out.toarray() if sp.issparse(out) else out
    np.testing.assert_allclose(out, expected, atol=1e-9)
    for part, copy in zip(state(matrix), before, strict=True):
        np.testing.assert_array_equal(part, copy)


def test_the_term_document_matrix_of_the_issue():
    """Words as they come, one stored entry for each: SciPy's own example."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(20, 60, 200)
    words = np.concatenate([rng.zipf(1.4, length) % 30 for length in lengths])
    pointer = np.concatenate([[0], np.cumsum(lengths)])
    counts = sp.csr_array((np.ones(words.size), words, pointer), shape=(200, 30))
    found, twin = SPCAPSD().fit(counts), SPCAPSD().fit(counts.toarray())
    assert found.objective_ == pytest.approx(twin.objective_, rel=1e-6)
    np.testing.assert_array_equal(found.support_, twin.support_)


USES = {
    "Moments": lambda X: Moments.from_data(X).scatter,
    "partial_fit": lambda X: Moments.from_data(DENSE).partial_fit(X).scatter,
    "variances": lambda X: Moments.from_data(X).variances,
    "source": lambda X: next(as_source(X).blocks()).sum(axis=0),
    "explained_variance": lambda X: explained_variance(X, np.eye(P)[:2]),
    "report": lambda X: SPCAPSD(n_features_to_select=2).fit(DENSE).selection_report(X).r2,
    "score": lambda X: SPCA(n_components=2).fit(DENSE).score(X),
    "path": lambda X: regularization_path(SPCAPSD(), X, n_points=3).alphas,
    "stability": lambda X: (
        stability_selection(
            SPCAPSD(n_features_to_select=2), X, n_subsamples=4, random_state=0
        ).frequencies
    ),
    "SelectFeatures": lambda X: (
        SelectFeatures(SPCA(n_components=2), n_features_to_select=2).fit(X).feature_scores_
    ),
    "inverse_transform": lambda X: (
        SPCAPSD(n_features_to_select=P).fit(DENSE).inverse_transform(X).sum(axis=0).ravel()
    ),
    "feature map": lambda X: (
        FeatureMapDisplay.from_estimator(SPCAPSD().fit(DENSE), X, image_shape=(2, 4)).background
    ),
}


@pytest.mark.parametrize("use", USES)
def test_everything_that_takes_samples_goes_through_the_door(use):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, twin = (np.asarray(USES[use](X)).ravel() for X in (in_pieces("array", "csr"), DENSE))
    np.testing.assert_allclose(found, twin, rtol=1e-6, atol=1e-9)
    masked = np.ma.masked_array(DENSE, np.eye(N, P))
    with pytest.raises(ValueError, match="contains NaN"):
        USES[use](masked)


def test_repeated_entries_in_blocks_of_a_dask_array():
    da = pytest.importorskip("dask.array")
    matrix = in_pieces("array", "csr")
    array = da.map_blocks(
        lambda rows: matrix[int(rows[0, 0]) : int(rows[-1, 0]) + 1],
        da.from_array(np.arange(N)[:, None], chunks=(10, 1)),
        chunks=((10,) * 4, (P,)),
        meta=sp.csr_array((0, 0)),
        dtype=float,
    )
    np.testing.assert_allclose(
        Moments.from_data(array).scatter, Moments.from_data(DENSE).scatter, atol=1e-9
    )


def test_masked_blocks_of_a_dask_array_are_missing_values():
    da = pytest.importorskip("dask.array")
    array = da.ma.masked_greater(da.from_array(DENSE, chunks=(10, P)), 7.5)
    row, column = np.argwhere(DENSE > 7.5)[0]
    with pytest.raises(ValueError, match=f"missing value in column number {column + 1}.*{row + 1}"):
        Moments.from_data(array)
    array = da.ma.masked_greater(da.from_array(DENSE, chunks=(10, P)), 1e9)
    np.testing.assert_allclose(
        Moments.from_data(array).scatter, Moments.from_data(DENSE).scatter, atol=1e-9
    )


def test_no_other_door_is_opened():
    """What checks samples in its own way would miss what the door knows."""
    package = Path(jointsparse.__file__).parent
    found = set()
    for file in package.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if re.search(
            r"from sklearn\.utils.* import .*\b(check_array|check_X_y|validate_data)", text
        ):
            found.add(file.relative_to(package).as_posix())
    # Two that take components and masks of features, and one that has the columns compared.
    known = {"metrics/loadings.py", "metrics/stability.py", "methods/reading/samples.py"}
    assert found == {"sources/door.py", *known}


# --- masked arrays and other arrays ------------------------------------------------------------


def test_masked_rows_in_a_list_are_missing_values():
    masked = np.ma.masked_array(DENSE, np.eye(N, P))
    with pytest.raises(ValueError, match="contains NaN, a missing value, in row 0, column 0"):
        SPCAPSD().fit(list(masked))


@pytest.mark.parametrize(
    "y", [np.ma.masked_equal(np.arange(N) % 3, 2), np.array(["a", "b", np.nan] * N, object)[:N]]
)
def test_classes_that_are_missing_are_no_classes(y):
    with pytest.raises(ValueError, match="needs classes, but y has missing values"):
        FSSL(graph="lda").fit(DENSE, y)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.uint8])
def test_masked_entries_are_missing_values(dtype):
    mask = np.zeros(DENSE.shape, dtype=bool)
    masked = np.ma.masked_array(DENSE.astype(dtype), mask)
    np.testing.assert_allclose(
        SPCAPSD().fit(masked).feature_scores_,
        SPCAPSD().fit(DENSE.astype(dtype)).feature_scores_,
        rtol=1e-6,
    )
    mask[4, 2] = True
    masked = np.ma.masked_array(DENSE.astype(dtype), mask)
    sentence = r"^X contains NaN, a missing value, in row 4, column 2 \(counted from 0\); "
    uses = (
        (SPCAPSD().fit, "missing='em' estimates"),
        (SPCA(n_components=1).fit, "missing='em' estimates"),
        (Moments.from_data, r"Moments\.from_data\(X, missing='em'\) estimates"),
        (feature_significance, r"Moments\.from_data\(X, missing='em'\) estimates"),
        (partial(Moments.from_data, sample_weight=np.ones(len(DENSE))), "missing='em' estimates"),
        (CSPCA().fit, "missing='mean' puts"),  # it looks at the samples
        (KernelFSSL().fit, "fill missing values"),
    )
    for use, advice in uses:
        with pytest.raises(ValueError, match=sentence + advice):
            use(masked)
    holes = DENSE.copy()
    holes[4, 2] = np.nan
    with pytest.raises(ValueError, match=sentence):
        SPCAPSD().fit(holes)
    assert masked.data[4, 2] == DENSE[4, 2]


def test_values_that_are_not_finite_are_named_by_row_and_column():
    holes = DENSE.copy()
    holes[7, 3] = -np.inf
    with pytest.raises(ValueError, match=r"infinity \(-inf\) in row 7, column 3"):
        Moments.from_data(holes)
    frame = pd.DataFrame(holes, columns=list("abcdefgh"))
    with pytest.raises(ValueError, match="in row 7, column 'd'"):
        SPCAPSD().fit(frame)
    stored = sp.csc_array(DENSE)
    stored.data[[3, -1]] = np.nan  # by columns, and yet the first row is named
    rows, columns = stored.tocoo().coords
    row, column = min((rows[k], columns[k]) for k in (3, stored.nnz - 1))
    with pytest.raises(ValueError, match=f"NaN, a missing value, in row {row}, column {column} "):
        SPCAPSD().fit(stored)


def test_sums_that_overflow_are_no_infinite_values():
    huge = np.full((3, 2), 1e308)
    assert as_samples(huge).values is huge


def test_arrays_of_other_types():
    with pytest.raises(ValueError, match=r"values of type datetime64\[D\], not numbers"):
        SPCAPSD().fit(DENSE.astype("datetime64[D]"))
    wide = SPCAPSD().fit(DENSE.astype(np.longdouble))
    np.testing.assert_array_equal(wide.feature_scores_, SPCAPSD().fit(DENSE).feature_scores_)
    assert as_samples(DENSE.astype(np.longdouble)).values.dtype == np.float64


# --- frames ------------------------------------------------------------------------------------

FRAME = pd.DataFrame(DENSE, columns=[f"f{j}" for j in range(P)])
POLARS = pl.DataFrame({name: DENSE[:, j] for j, name in enumerate(FRAME.columns)})
DATES = pd.date_range("2020-01-01", periods=N)
REFUSED = {
    "dates": (FRAME.assign(t=DATES), "column 't' of X holds values of type datetime.*unit of time"),
    "dates only": (FRAME[[]].assign(t=DATES, u=DATES), "column 't'.*nor does u.*columns=.'t', 'u'"),
    "time zones": (FRAME.assign(t=DATES.tz_localize("UTC")), "column 't'.*datetime"),
    "durations": (FRAME.assign(t=DATES - DATES[0]), "column 't'.*timedelta.*unit of time"),
    "periods": (FRAME.assign(t=DATES.to_period()), "column 't'.*period"),
    "intervals": (FRAME.assign(t=pd.interval_range(0, N)), "column 't'.*interval"),
    "categories": (
        FRAME.assign(c=pd.Categorical(["x", "y"] * (N // 2))),
        "column 'c'.*category.*0 and 1.*or leave it out: X.drop",
    ),
    "categories of numbers": (FRAME.assign(c=pd.Categorical([1, 2] * (N // 2))), "'c'.*category"),
    "text": (FRAME.assign(s=["1.5"] * (N - 1) + ["n/a"]), "column 's' of X holds text .'1.5' in r"),
    "one word": (
        FRAME.assign(s=pd.Series([1.0] * (N - 1) + ["n/a"], dtype=object)),
        "column 's' of X holds text .'n/a' in row 39, counted from 0.*X.drop.columns=.'s'",
    ),
    "complex": (FRAME.assign(s=1j), "column 's'.*complex"),
    "complex objects": (FRAME.assign(s=pd.Series([1j] * N, dtype=object)), "'s'.*complex"),
    "lists": (FRAME.assign(s=[[1]] * N), "column 's' of X holds a value of type list"),
    "many": (FRAME.astype(str), "'f0'.*nor does f1, f2, f3, f4, f5 and 2 more.*columns=...."),
    "a hole": (FRAME.mask(FRAME.index.to_series() == 3), "a missing value, in row 3, column 'f0'"),
    "a nullable hole": (
        FRAME.assign(b=pd.array([None, True] * (N // 2), dtype="boolean")),
        "missing value, in row 0, column 'b' .rows counted from 0.",
    ),
    "an Arrow hole": (
        FRAME.assign(b=pd.array([1, None] * (N // 2), dtype="int64[pyarrow]")),
        "missing value, in row 1, column 'b'",
    ),
    "nothing": (FRAME.assign(b=None), "missing value, in row 0, column 'b'"),
    "sparse around NaN": (
        FRAME.assign(f0=np.nan).astype(pd.SparseDtype(float)),
        "missing value, in row 0, column 'f0'",
    ),
    "polars text": (POLARS.with_columns(s=pl.lit("x")), "'s' of X holds text.*X.drop..'s'.."),
    "polars dates": (POLARS.with_columns(s=pl.lit(DATES[0])), "'s'.*Datetime.*unit of time"),
    "polars categories": (
        POLARS.with_columns(s=pl.Series(["x", "y"] * (N // 2), dtype=pl.Categorical)),
        "column 's'.*Categorical.*0 and 1",
    ),
    "polars lists": (POLARS.with_columns(s=pl.Series([[1]] * N)), "'s'.*List"),
    "polars hole": (
        POLARS.with_columns(f2=pl.Series([None] + [1.0] * (N - 1))),
        "missing value, in row 0, column 'f2'",
    ),
    "lazy text": (POLARS.lazy().with_columns(s=pl.lit("x")), "'s' of X holds values of type Str"),
    "Arrow text": (pa.table({"a": [1.0, 2.0], "s": ["x", "y"]}), "'s'.*string.*X.drop_columns"),
    "Arrow hole": (pa.table({"a": [1, None], "b": [1, 2]}), "missing value, in row 1, column 'a'"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_frames_are_refused_in_one_sentence_that_names_the_column(what):
    frame, sentence = REFUSED[what]
    before = frame.copy() if isinstance(frame, pd.DataFrame) else None
    meta = SelectFeatures(SPCA())
    for use in (SPCAPSD().fit, SPCA(n_components=1).fit, Moments.from_data, meta.fit):
        with pytest.raises(ValueError, match=sentence) as caught:
            use(frame)
        assert "\n" not in str(caught.value)
        assert "--" not in str(caught.value)
    if before is not None:
        pd.testing.assert_frame_equal(frame, before)


class Annotated:
    """What an AnnData object has."""

    def __init__(self, X, names=tuple(FRAME.columns)):
        self.X, self.var_names = X, pd.Index(names)
        self.obs_names = pd.Index([f"cell {i}" for i in range(N)])

    @property
    def shape(self):
        return (N, len(self.var_names))


TAKEN = {
    "polars": POLARS,
    "polars decimals": POLARS.with_columns(pl.col("f0").cast(pl.Decimal(12, 3))),
    "polars floats": POLARS.with_columns(pl.col("f3").cast(pl.Int16)),
    "objects": FRAME.astype({"f2": object}),
    "nullable": FRAME.convert_dtypes(),
    "Arrow": FRAME.convert_dtypes(dtype_backend="pyarrow"),
    "Arrow decimals": FRAME.astype({"f1": pd.ArrowDtype(pa.decimal128(12, 3))}),
    "sparse": FRAME.astype(pd.SparseDtype(float, 0.0)),
    "partly sparse": FRAME.astype({"f4": pd.SparseDtype(float, 0.0)}),
    "sparse around 1": FRAME.astype(pd.SparseDtype(float, 1.0)),
    "Arrow table": pa.table(FRAME),
    "Arrow batch": pa.RecordBatch.from_pandas(FRAME),
    "AnnData": Annotated(DENSE),
    "AnnData, sparse": Annotated(in_pieces("matrix", "csr")),
}


@pytest.mark.parametrize("what", TAKEN)
def test_frames_give_the_answer_of_the_array(what):
    X = TAKEN[what]
    model, twin = SPCAPSD(n_features_to_select=3).fit(X), SPCAPSD(n_features_to_select=3).fit(FRAME)
    np.testing.assert_allclose(model.feature_scores_, twin.feature_scores_, rtol=1e-9, atol=1e-12)
    assert list(model.feature_names_in_) == list(FRAME.columns)
    assert list(Moments.from_data(X).feature_names) == list(FRAME.columns)
    assert model.get_feature_names_out().tolist() == twin.get_feature_names_out().tolist()
    out = model.transform(X)
    out = out.toarray() if sp.issparse(out) else np.asarray(out, dtype=float)
    np.testing.assert_array_equal(out, DENSE[:, model.support_])
    scores = SPCA(n_components=2).fit(X).transform(X)
    np.testing.assert_allclose(scores, SPCA(n_components=2).fit(DENSE).transform(DENSE), atol=1e-9)


def test_booleans_are_zeros_and_ones():
    frame = FRAME > 2
    twin = SPCAPSD().fit(np.asarray(frame).astype(float)).feature_scores_
    for X in (frame, frame.convert_dtypes(), pl.DataFrame(dict(frame)), pa.table(frame)):
        np.testing.assert_allclose(SPCAPSD().fit(X).feature_scores_, twin, rtol=1e-12)


def test_other_columns_than_those_of_fit_are_refused():
    model = SPCAPSD(n_features_to_select=3).fit(Annotated(DENSE))
    turned = FRAME.columns[::-1]
    with pytest.raises(ValueError, match="column 'f7' where SPCAPSD was fitted to 'f0'"):
        model.transform(Annotated(DENSE, turned))
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(FRAME[turned])
    with pytest.raises(ValueError, match="column 'a' where SPCAPSD was fitted to 'f0'"):
        model.transform(Annotated(DENSE, ["a"] * P))


def test_annotated_data_that_are_not_there():
    with pytest.raises(ValueError, match="has no X; pass the layer"):
        SPCAPSD().fit(Annotated(None))
    with pytest.raises(ValueError, match="list that is not in memory; pass the object's to_memory"):
        SPCAPSD().fit(Annotated(DENSE.tolist()))


def test_tables_of_pandas_keep_the_types_of_the_kept_columns():
    frame = FRAME.astype({"f0": np.int64, "f1": np.int64})
    model = SPCAPSD(n_features_to_select=3).fit(frame).set_output(transform="pandas")
    kept = model.transform(frame)
    pd.testing.assert_frame_equal(kept, frame.loc[:, model.support_])


def test_methods_of_others_get_what_they_know():
    """scikit-learn knows neither AnnData objects nor where their names are."""
    pipeline = make_pipeline(StandardScaler(), PCA(n_components=2))
    for method in (PCA(n_components=2), pipeline):
        twin = SelectFeatures(method, n_features_to_select=2).fit(FRAME)
        for X in (Annotated(DENSE), pa.table(FRAME), np.ma.masked_array(DENSE)):
            found = SelectFeatures(method, n_features_to_select=2).fit(X)
            np.testing.assert_array_equal(found.support_, twin.support_)
            assert found.selection_report(X).r2 == pytest.approx(twin.selection_report(FRAME).r2)


def test_sparse_arrays_of_other_packages():
    class Sparse:
        """What an array of the package sparse has."""

        shape, ndim, dtype = DENSE.shape, 2, DENSE.dtype

        def to_scipy_sparse(self):
            return in_pieces("array", "coo")

    np.testing.assert_allclose(
        SPCAPSD().fit(Sparse()).feature_scores_, SPCAPSD().fit(DENSE).feature_scores_, rtol=1e-9
    )


def test_sparse_tensors_are_refused():
    torch = pytest.importorskip("torch")
    for tensor in (torch.as_tensor(DENSE).to_sparse(), torch.as_tensor(DENSE).to_sparse_csr()):
        for use in (SPCAPSD().fit, Moments.from_data, SPCAPSD().fit(DENSE).transform):
            with pytest.raises(ValueError, match=r"X is a sparse tensor.*pass X.to_dense\(\)"):
                use(tensor)


def test_tools_take_the_same_containers():
    scores = clustering_scores(TAKEN["AnnData"], CLASSES, n_repeats=2)
    twin = clustering_scores(DENSE, CLASSES, n_repeats=2)
    assert scores.accuracy.tolist() == twin.accuracy.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = regularization_path(SPCAPSD(), TAKEN["AnnData"], n_points=2)
        methods = {"greedy": GreedySelector()}
        compared = compare_methods(methods, TAKEN["AnnData"], n_features_to_select=2)
    assert list(path.feature_names) == list(FRAME.columns)
    assert len(compared.results[0].kept) == 2


# --- the words of the interface ----------------------------------------------------------------


def test_errors_of_the_library_speak_of_parameters_and_the_command_line_of_options(tmp_path):
    runner = CliRunner()
    path = tmp_path / "table.csv"
    path.write_text("kind,a,b\n1,1,2\n2,2,1\n1,4,3\ny,3,5\n")
    holes = tmp_path / "holes.csv"
    holes.write_text("a,b\n1,2\n,3\n4,5\n")
    many = np.arange(4000.0).reshape(2000, 2)
    many[1, 0] = np.nan
    np.save(tmp_path / "holes.npy", many)
    parquet = tmp_path / "table.parquet"
    pq.write_table(pa.csv.read_csv(path), parquet)
    cases = [
        (
            lambda: read_table(path),
            "drop='kind' .drop_text=True leaves",
            [path],
            "--drop kind .--drop-text leaves",
        ),
        (
            lambda: read_table(path, label="x"),
            "x for label; ",
            [path, "--label", "x"],
            "for --label; ",
        ),
        (lambda: read_table(holes), "impute='median'", [holes], "--missing median"),
        (
            lambda: open_source(parquet),
            "in data row 4 of column kind.*with drop='kind'",
            [parquet, "--memory", "1kB"],
            "in data row 4 of column kind.*with --drop kind",
        ),
        (
            lambda: Moments.from_data(tmp_path / "holes.npy"),
            r"column number 1, data row 2; fill it \(missing='mean' does, .*\), or drop the row",
            [tmp_path / "holes.npy", "--memory", "40kB"],
            "data row 2; fill it, for example by --missing mean",
        ),
    ]
    for python, words, arguments, options in cases:
        with pytest.raises(TableError, match=words) as caught:
            python()
        assert "--" not in str(caught.value)
        assert re.search(options, caught.value.cure_option)
        copy = pickle.loads(pickle.dumps(caught.value))  # as one that a worker raised
        assert (str(copy), copy.cure_option) == (str(caught.value), caught.value.cure_option)
        result = runner.invoke(app, ["select", *map(str, arguments)])
        assert result.exit_code == 2
        assert re.search(options, " ".join(result.stderr.split()))
        assert "drop_text" not in result.stderr


def test_no_other_sentence_of_the_library_names_an_option():
    """Options stand in what ``cure_option`` is made of, in these files, and nowhere else."""
    package = Path(jointsparse.__file__).parent
    found = set()
    for file in package.rglob("*.py"):
        part = file.relative_to(package)
        if part.parts[0] in ("cli", "experiments", "report"):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        if any(re.search(r"(?<!\w)--[a-z]", text) for text in texts if isinstance(text, str)):
            found.add(part.as_posix())
    assert found == {
        *(
            "io/matrices/annotated.py",
            "io/limits.py",
            "io/matrices/bare.py",
            "io/reading.py",
            "io/columns/reshaping.py",
        ),
        *("io/columns/classes.py", "io/columns/rising.py", "io/columns/roles.py"),
        *("io/table.py", "io/plain_text/pieces.py", "robust/learning.py"),
        *("sources/views/logarithms.py", "sources/refusals.py"),
    }


# --- single precision --------------------------------------------------------------------------

PROJECTING = ["spca", "jspca", "dictionary-spca", "robust-pca", "fssl"]
SINGLE = DENSE.astype(np.float32)


def as_single(kind, folder):
    if kind == "sparse":
        return sp.csr_array(SINGLE)
    if kind == "file":
        np.save(folder / "single.npy", SINGLE)
        return open_source(folder / "single.npy")
    if kind == "tensor":
        return pytest.importorskip("torch").as_tensor(SINGLE)
    return SINGLE.astype(">f4") if kind == "big-endian" else SINGLE


@pytest.mark.parametrize("kind", ["dense", "sparse", "file", "tensor", "big-endian"])
@pytest.mark.parametrize("name", PROJECTING)
def test_what_is_learned_of_single_precision_is_kept_in_it(name, kind, tmp_path):
    """As by scikit-learn's PCA; computed in double precision all the same."""
    X = as_single(kind, tmp_path)
    found, twin = fitted(name, X), fitted(name, DENSE)
    kept = [
        key
        for key, value in vars(twin).items()
        if isinstance(value, np.ndarray) and value.dtype == np.float64 and value.ndim == 2
    ]
    assert {"components_", "reconstruction_"} <= set(kept)
    for key in (*kept, "mean_", "explained_variance_ratio_"):
        assert getattr(found, key).dtype == np.float32, key
        np.testing.assert_allclose(getattr(found, key), getattr(twin, key), rtol=1e-5, atol=1e-5)
        assert getattr(twin, key).dtype == np.float64, key
    assert found.feature_scores_.dtype == found.history_.dtype == np.float64
    np.testing.assert_array_equal(found.feature_scores_ > 0, np.any(found.components_, axis=0))
    # Whatever is projected decides the type of the scores; the products are in double precision.
    scores = np.asarray(found.transform(DENSE))
    assert scores.dtype == np.float64
    exact = (DENSE - found.mean_.astype(float)) @ found.components_.T.astype(float)
    np.testing.assert_allclose(scores, exact, rtol=1e-12, atol=1e-12)
    assert found.transform(SINGLE).dtype == np.float32
    assert found.transform(sp.csr_array(SINGLE)).dtype == np.float32
    assert found.inverse_transform(scores).dtype == np.float64
    assert found.inverse_transform(scores.astype(np.float32)).dtype == np.float32
    assert found.score(DENSE) == pytest.approx(twin.score(DENSE), abs=1e-5)


def test_moments_know_the_type_of_their_samples():
    single, double = Moments.from_data(SINGLE), Moments.from_data(DENSE)
    assert (single.dtype, double.dtype) == (np.float32, np.float64)
    assert (single + single).dtype == np.float32
    assert (single + double).dtype == np.float64
    assert single.partial_fit(DENSE).dtype == np.float64
    assert Moments.from_data(DENSE.astype(int)).dtype == np.float64
    assert Moments.from_scatter(np.eye(2, dtype=np.float32), 5).dtype == np.float64


@pytest.mark.parametrize(
    ("samples", "place"),
    [
        ([["a", "b"], ["c", "d"]], "'a' in row 0, column 0"),
        ([[1.0, 2.0], [3.0, "n/a"]], "'1.0' in row 0|'n/a' in row 1, column 1"),
        (np.array([[1, 2], [3, "x"]], dtype=object), "'x' in row 1, column 1"),
        (np.array([[b"1", b"2"]] * 3), "b'1' in row 0, column 0"),
    ],
)
def test_text_in_arrays_and_lists_is_refused_with_its_place(samples, place):
    with pytest.raises(ValueError, match=f"X contains text, ({place})"):
        SPCAPSD().fit(samples)


def test_what_is_no_table_is_left_to_scikit_learn():
    for samples in ([["a"], ["b", "c"]], ["a", "b"]):
        with pytest.raises(ValueError, match=r"inhomogeneous|2D array|bytes/strings"):
            SPCAPSD().fit(samples)
