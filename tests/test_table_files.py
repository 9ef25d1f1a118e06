"""Files that other programs write: spreadsheets, AnnData, 10x Genomics, archives of arrays."""

import gzip
import zipfile

import numpy as np
import pandas as pd
import pytest
import scipy.io
from scipy import sparse
from typer.testing import CliRunner

from jointsparse import SPCAPSD, GreedySelector
from jointsparse.cli.main import app
from jointsparse.io import TableError, read_table
from jointsparse.sources import as_source, open_source

N, P = 40, 9
RNG = np.random.default_rng(0)
LATENT = RNG.gamma(2.0, size=(N, 2))
COUNTS = RNG.poisson(LATENT @ RNG.gamma(1.0, 0.6, size=(2, P))).astype(np.float64)
GENES = [f"g{j}" for j in range(P)]
CELLS = [f"c{i}" for i in range(N)]
BATCH = ["a", "b", "b", "c"] * (N // 4)


def done(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def refused(*arguments):
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == 2, result.output
    return " ".join(result.stderr.split())


# --- spreadsheets -------------------------------------------------------------------------------


def sheet(path, **sheets):
    pytest.importorskip("python_calamine", reason="pip install 'jointsparse[excel]'")
    pytest.importorskip("openpyxl")
    with pd.ExcelWriter(path) as writer:
        for name, frame in sheets.items():
            frame.to_excel(writer, sheet_name=name, index=False)
    return path


def measurements():
    return pd.DataFrame(
        {
            "who": CELLS,
            "day": pd.date_range("2024-01-01", periods=N).normalize(),
            "flag": [True, False] * (N // 2),
            "site": BATCH,
            **{name: COUNTS[:, j] + 0.5 for j, name in enumerate(GENES)},
        }
    )


def test_spreadsheets(tmp_path):
    path = sheet(tmp_path / "a.xlsx", data=measurements(), notes=pd.DataFrame({"a": ["x"]}))
    table = read_table(path, label="site")
    assert table.names == ["flag", *GENES]
    np.testing.assert_array_equal(table.values[:, 1:], COUNTS + 0.5)
    np.testing.assert_array_equal(table.values[:3, 0], [1, 0, 1])
    assert table.ids["who"].tolist() == CELLS
    assert table.labels.tolist() == BATCH
    assert "read the sheet data; the file also has notes" in table.notes
    assert "left out 1 column that is not numbers: day (dates)" in table.notes
    assert f"{N} samples × {P + 1} features" in done("select", path, "--features", 2)
    with pytest.raises(TableError, match="no numeric columns"):
        read_table(path, dataset="notes")
    with pytest.raises(TableError, match="no sheet other; it has data, notes"):
        read_table(path, dataset="other")


def test_every_digit_of_a_spreadsheet(tmp_path):
    values = np.random.default_rng(1).standard_normal((5, 3)) * 10.0 ** np.arange(-6, 9)[::5]
    path = sheet(tmp_path / "a.xlsx", one=pd.DataFrame(values, columns=list("abc")))
    import openpyxl

    rows = list(openpyxl.load_workbook(path)["one"].values)[1:]
    np.testing.assert_array_equal(read_table(path).values, np.array(rows, dtype=float))
    np.testing.assert_allclose(read_table(path).values, values, rtol=1e-15)


def test_spreadsheets_that_are_none(tmp_path):
    pytest.importorskip("python_calamine")
    (tmp_path / "a.xlsx").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(TableError, match="damaged, truncated or not what its suffix says"):
        read_table(tmp_path / "a.xlsx")
    path = sheet(tmp_path / "b.xlsx", one=pd.DataFrame())
    with pytest.raises(TableError, match="no sheet with anything in it"):
        read_table(path)
    with zipfile.ZipFile(tmp_path / "c.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b"0" * (1 << 20))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jointsparse.io.plain_text.workbooks.MOST_BYTES", 1 << 19)
        with pytest.raises(TableError, match="unpacks to more than 1 GB"):
            read_table(tmp_path / "c.xlsx")


def test_what_to_install_for_spreadsheets(tmp_path, monkeypatch):
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    monkeypatch.setitem(__import__("sys").modules, "python_calamine", None)
    with pytest.raises(TableError, match=r"pip install 'jointsparse\[excel\]'"):
        read_table(tmp_path / "a.xlsx")


# --- AnnData ------------------------------------------------------------------------------------


def texts(group, name, values):
    import h5py

    group.create_dataset(name, data=values, dtype=h5py.string_dtype())


def stored_matrix(group, name, form):
    if form == "dense":
        group.create_dataset(name, data=COUNTS)
        return
    matrix = sparse.csr_array(COUNTS) if form == "csr" else sparse.csc_array(COUNTS)
    inside = group.create_group(name)
    inside.attrs["encoding-type"] = f"{form}_matrix"
    inside.attrs["shape"] = COUNTS.shape
    for part in ("data", "indices", "indptr"):
        inside.create_dataset(part, data=getattr(matrix, part))


def annotated(folder, form="csr", *, nullable=False, layers=("log",), name="a.h5ad"):
    """Write what anndata writes; checked against its own files where it is installed."""
    h5py = pytest.importorskip("h5py")
    path = folder / name
    with h5py.File(path, "w") as file:
        stored_matrix(file, "X", form)
        inside = file.create_group("layers")
        for layer in layers:
            inside.create_dataset(layer, data=np.log1p(COUNTS))
        for frame, names in (("obs", CELLS), ("var", GENES)):
            group = file.create_group(frame)
            group.attrs["_index"] = "_index"
            if nullable:
                index = group.create_group("_index")
                texts(index, "values", names)
                index.create_dataset("mask", data=np.zeros(len(names), bool))
            else:
                texts(group, "_index", names)
        batch = file["obs"].create_group("batch")
        texts(batch, "categories", ["a", "b", "c"])
        batch.create_dataset("codes", data=["abc".index(name) for name in BATCH[:-1]] + [-1])
        file["obs"].create_dataset("depth", data=COUNTS.sum(axis=1))
        hole = file["obs"].create_group("age")
        hole.create_dataset("values", data=np.arange(N))
        hole.create_dataset("mask", data=np.arange(N) == 3)
    return path


@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
@pytest.mark.parametrize("nullable", [True, False])
def test_anndata_files(tmp_path, form, nullable):
    path = annotated(tmp_path, form, nullable=nullable)
    table = read_table(path, label=["batch", "depth", "age"])
    values = table.values if form == "dense" else table.values.toarray()
    np.testing.assert_array_equal(values, COUNTS)
    assert table.names == GENES
    assert table.ids["cell"].tolist() == CELLS
    assert table.labels.tolist() == [*BATCH[:-1], ""]
    np.testing.assert_array_equal(table.all_labels["depth"], COUNTS.sum(axis=1))
    np.testing.assert_array_equal(np.isnan(table.all_labels["age"]), np.arange(N) == 3)
    assert "read X; the file also has log" in table.notes
    np.testing.assert_allclose(read_table(path, dataset="log").values, np.log1p(COUNTS))


@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
def test_anndata_files_in_blocks(tmp_path, form):
    path = annotated(tmp_path, form)
    source = open_source(path, label="batch", drop="g8", only="g*")
    assert (source.n_samples, source.n_features) == (N, P - 1)
    assert source.feature_names.tolist() == GENES[:-1]
    for entries in (1, 30, None):
        blocks = [b if form == "dense" else b.toarray() for b in source.blocks(entries)]
        np.testing.assert_array_equal(np.vstack(blocks), COUNTS[:, :-1])
    assert len(list(source.blocks(30))) > 3
    part = source.columns(np.array([5, 2]))
    found = part.read() if form == "dense" else part.read().toarray()
    np.testing.assert_array_equal(found, COUNTS[:, [5, 2]])
    assert source.aside("batch").tolist() == [*BATCH[:-1], ""]
    model = GreedySelector(n_features_to_select=3).fit(source)
    twin = GreedySelector(n_features_to_select=3).fit(COUNTS[:, :-1])
    np.testing.assert_array_equal(model.support_, twin.support_)
    assert list(model.feature_names_in_) == GENES[:-1]
    assert source.columns(np.array([], int)).n_features == 0


def test_anndata_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.setattr("jointsparse.methods.reading.plan.SMALL", 0)  # few samples, but in blocks
    path = annotated(tmp_path)
    whole = tmp_path / "whole.csv"
    done("select", path, "--features", 3, "--label", "batch", "--output", whole)
    blocks = tmp_path / "blocks.csv"
    said = done(
        *("select", path, "--features", 3, "--label", "batch", "--memory", "18kB"),
        *("--output", blocks),
    )
    assert "in blocks" in said
    assert pd.read_csv(whole).equals(pd.read_csv(blocks))
    kept = pd.read_csv(whole)
    assert list(kept.columns[[0, -1]]) == ["cell", "batch"]
    assert kept["cell"].tolist() == CELLS
    done("compare", path, "--methods", "greedy,spca-psd", "--features", 2, "--dataset", "log")
    assert "no layer counts; it has X, log: name one with --dataset" in refused(
        "select", path, "--dataset", "counts"
    )
    assert "has no column bach for --label; did you mean batch?" in refused(
        "select", path, "--label", "bach"
    )


def test_a_gene_as_label(tmp_path):
    path = annotated(tmp_path)
    table = read_table(path, label="g3")
    np.testing.assert_array_equal(table.labels, COUNTS[:, 3])
    source = open_source(path, label="g3")
    assert "g3" not in source.feature_names
    np.testing.assert_array_equal(source.aside("g3"), COUNTS[:, 3])


def test_some_columns_and_anndata_on_its_side(tmp_path):
    path = annotated(tmp_path)
    some = open_source(path, columns=["g4", "g1"])
    np.testing.assert_array_equal(some.read().toarray(), COUNTS[:, [4, 1]])
    with pytest.raises(TableError, match="no column h4 for columns"):
        open_source(path, columns=["h4"])
    with pytest.raises(TableError, match="no numeric columns"):
        open_source(path, only="g1", drop="g1")
    turned = open_source(path, transpose=True)
    assert turned.feature_names.tolist() == CELLS
    blocks = [block.toarray() for block in turned.blocks(2 * N)]
    np.testing.assert_array_equal(np.vstack(blocks), COUNTS.T)
    found = turned.read_columns(np.array([3, 7]))
    np.testing.assert_array_equal(found.toarray(), COUNTS.T[:, [3, 7]])


def test_anndata_files_of_old_versions(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = annotated(tmp_path)
    with h5py.File(path, "a") as file:
        for frame, names in (("obs", CELLS), ("var", GENES)):
            del file[frame]
            rows = np.array(
                [(name.encode(), 1.0) for name in names], [("index", "S9"), ("n", "f8")]
            )
            file.create_dataset(frame, data=rows)
        kind, shape = file["X"].attrs.pop("encoding-type"), file["X"].attrs.pop("shape")
        file["X"].attrs["h5sparse_format"] = kind[:3].encode()
        file["X"].attrs["h5sparse_shape"] = shape
    table = read_table(path)
    assert (table.names, table.ids["cell"].tolist()) == (GENES, CELLS)
    np.testing.assert_array_equal(table.values.toarray(), COUNTS)


def test_missing_values_of_sparse_files_are_filled_in_blocks(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    monkeypatch.setattr("jointsparse.methods.reading.plan.SMALL", 0)
    path = annotated(tmp_path)
    with h5py.File(path, "a") as file:
        file["X/data"][5] = np.nan
    options = ("--features", 3, "--memory", "18kB", "--scale", "none")
    assert "missing value" in refused("select", path, *options)
    said = done("select", path, *options, "--impute", "mean", "--output", tmp_path / "out.csv")
    assert "filled 1 missing value in 1 column" in said
    matrix = sparse.csr_array(COUNTS)
    row, column = np.searchsorted(matrix.indptr, 5, side="right") - 1, matrix.indices[5]
    kept = pd.read_csv(tmp_path / "out.csv").drop(columns="cell")
    expected = COUNTS.copy()
    others = np.delete(COUNTS[:, column], row)
    expected[row, column] = others.mean()
    np.testing.assert_allclose(kept.to_numpy(), expected[:, [GENES.index(g) for g in kept.columns]])


def test_damaged_anndata_files(tmp_path):
    h5py = pytest.importorskip("h5py")
    cases = {
        "indptr": (lambda f: f["X/indptr"].__setitem__(3, 10**6), "do not fit together"),
        "indices": (lambda f: f["X/indices"].__setitem__(0, 99), "damaged"),
        "shape": (
            lambda f: f["X"].attrs.__setitem__("shape", (N, 3)),
            "names for 3 columns|damaged",
        ),
        "names": (lambda f: f["var"].__delitem__("_index"), "'_index' is not in it|_index is not"),
        "form": (lambda f: f["X"].attrs.__setitem__("encoding-type", "coo"), "in the form coo"),
        "link": (lambda f: outside(f), "elsewhere"),
        "cells": (lambda f: fewer_cells(f), "39 cells for 40 rows"),
    }

    def outside(file):
        del file["X"]
        file["X"] = h5py.ExternalLink("/etc/other.h5", "X")

    def fewer_cells(file):
        del file["obs/_index"]
        texts(file["obs"], "_index", CELLS[1:])

    for name, (damage, words) in cases.items():
        path = annotated(tmp_path, name=f"{name}.h5ad")
        with h5py.File(path, "a") as file:
            damage(file)
        with pytest.raises(TableError, match=words):
            read_table(path)
        with pytest.raises(TableError, match=words):
            list(open_source(path).blocks())


def test_a_file_that_changes_while_it_is_read(tmp_path):
    path = annotated(tmp_path)
    source = open_source(path)
    path.touch()
    with pytest.raises(TableError, match="changed while it was read"):
        list(source.blocks())


def test_files_that_anndata_writes(tmp_path):
    anndata = pytest.importorskip("anndata")
    data = anndata.AnnData(sparse.csr_matrix(COUNTS))
    data.var_names, data.obs_names = GENES, CELLS
    data.obs["batch"] = pd.Categorical(BATCH)
    data.layers["dense"], data.layers["csc"] = COUNTS + 1, sparse.csc_matrix(COUNTS * 2)
    with anndata.settings.override(allow_write_nullable_strings=True):
        data.write_h5ad(tmp_path / "a.h5ad")
    table = read_table(tmp_path / "a.h5ad", label="batch")
    np.testing.assert_array_equal(table.values.toarray(), COUNTS)
    assert (table.names, table.ids["cell"].tolist()) == (GENES, CELLS)
    assert table.labels.tolist() == BATCH
    for layer, expected in (("dense", COUNTS + 1), ("csc", COUNTS * 2)):
        values = read_table(tmp_path / "a.h5ad", dataset=layer).values
        values = values if layer == "dense" else values.toarray()
        np.testing.assert_array_equal(values, expected)
    model = SPCAPSD(n_features_to_select=3).fit(data)
    model.mark_selected(data)
    assert data.var["selected"].tolist() == model.get_support().tolist()
    assert data.var["selected_rank"].tolist() == model.ranking_.tolist()
    with pytest.raises(ValueError, match="other features than those of the fit: 5, beginning"):
        model.mark_selected(data[:, :5])
    backed = anndata.read_h5ad(tmp_path / "a.h5ad", backed="r")
    try:
        assert as_source(backed).n_features == P
        again = SPCAPSD(n_features_to_select=3).fit(backed)
        np.testing.assert_array_equal(again.get_support(), model.get_support())
    finally:
        backed.file.close()


# --- 10x Genomics -------------------------------------------------------------------------------


def test_tenx_files(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "filtered.h5"
    matrix = sparse.csc_array(COUNTS.T.astype(np.int32))
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix")
        for part in ("data", "indices", "indptr"):
            group.create_dataset(part, data=getattr(matrix, part))
        group.create_dataset("shape", data=matrix.shape)
        group.create_dataset("barcodes", data=np.array(CELLS, dtype="S18"))
        features = group.create_group("features")
        features.create_dataset("name", data=np.array([*GENES[:-1], "g0"], dtype="S18"))
        features.create_dataset("id", data=np.array(GENES, dtype="S18"))
    table = read_table(path)
    np.testing.assert_array_equal(table.values.toarray(), COUNTS)
    assert table.names == [*GENES[:-1], "g0.2"]
    assert table.ids["barcode"].tolist() == CELLS
    np.testing.assert_array_equal(
        np.vstack([b.toarray() for b in open_source(path).blocks(50)]), COUNTS
    )
    assert f"{N} samples × {P} features" in done("select", path, "--features", 2)


@pytest.mark.parametrize("packed", [True, False])
def test_tenx_folders(tmp_path, packed):
    folder = tmp_path / "filtered"
    folder.mkdir()
    scipy.io.mmwrite(folder / "matrix.mtx", sparse.coo_matrix(COUNTS.T))
    features = "\n".join(f"ENSG{j}\t{name}\tGene" for j, name in enumerate(GENES))
    (folder / "features.tsv").write_text(features + "\n")
    (folder / "barcodes.tsv").write_text("\n".join(CELLS) + "\n")
    if packed:
        for file in list(folder.iterdir()):
            (folder / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
            file.unlink()
    table = read_table(folder)
    np.testing.assert_array_equal(table.values.toarray(), COUNTS)
    assert (table.names, table.ids["barcode"].tolist()) == (GENES, CELLS)
    out = tmp_path / "out.csv"
    done("select", folder, "--features", 2, "--output", out)
    assert pd.read_csv(out)["barcode"].tolist() == CELLS
    barcodes = folder / f"barcodes.tsv{'.gz' * packed}"
    barcodes.unlink()
    (folder / "barcodes.tsv").write_text("one\n")
    with pytest.raises(TableError, match="does not fit together"):
        read_table(folder)


# --- arrays -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_matrices_of_scipy(tmp_path, form):
    sparse.save_npz(tmp_path / "a.npz", sparse.coo_matrix(COUNTS).asformat(form))
    table = read_table(tmp_path / "a.npz")
    assert isinstance(table.values, sparse.csr_array)
    np.testing.assert_array_equal(table.values.toarray(), COUNTS)


def test_odd_sparse_matrices_of_scipy(tmp_path):
    sparse.save_npz(tmp_path / "a.npz", sparse.dia_matrix(np.eye(3)))
    with pytest.raises(TableError, match="in the form dia; save it as CSR"):
        read_table(tmp_path / "a.npz")
    parts = {"data": [1.0], "indices": [9], "indptr": [0, 1, 1], "shape": [2, 2]}
    np.savez(tmp_path / "b.npz", format=b"csr", **parts)
    with pytest.raises(TableError, match="damaged"):
        read_table(tmp_path / "b.npz")


def test_archives_with_several_matrices_ask_which(tmp_path):
    np.savez(tmp_path / "a.npz", train=COUNTS, test=COUNTS[:9], y=np.arange(N))
    with pytest.raises(TableError, match=r"it has train, test, y\. Say which one with dataset='tr"):
        read_table(tmp_path / "a.npz")
    assert "Say which one with --dataset train" in refused("select", tmp_path / "a.npz")
    assert read_table(tmp_path / "a.npz", dataset="train").shape == (N, P)
    with pytest.raises(TableError, match="no array other; it has train"):
        read_table(tmp_path / "a.npz", dataset="other")


def test_plain_hdf5_is_read_whole_too(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["one"], file["two"] = COUNTS, COUNTS[:, :4]
    with pytest.raises(TableError, match="holds the matrices one, two; name one as dataset"):
        read_table(tmp_path / "a.h5")
    np.testing.assert_array_equal(
        read_table(tmp_path / "a.h5", dataset="two").values, COUNTS[:, :4]
    )
    assert "× 4 features" in done(
        "compare", tmp_path / "a.h5", "--dataset", "two", "--methods", "greedy", "--features", 2
    )
    np.testing.assert_array_equal(
        read_table(tmp_path / "a.h5", dataset="one", transpose=True).values, COUNTS.T
    )
    source = open_source(tmp_path / "a.h5", dataset="one", transpose=True)
    np.testing.assert_array_equal(np.vstack(list(source.blocks(80))), COUNTS.T)
