"""The command line away from the main road: quiet, JSON, one method, failed methods, odd tables."""

import io
import json
import signal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import typer
from rich.console import Console
from rich.text import Text
from test_cli import assert_refused, invoke

from jointsparse import SPCA, SPCAPSD, GreedySelector, Moments, load_model, open_source, save_model
from jointsparse.cli import errors, start
from jointsparse.cli.commands import compare, path, reproduce
from jointsparse.cli.commands.transform import applied
from jointsparse.cli.display.compare_progress import CompareProgress
from jointsparse.cli.display.console import _console, _plain, shorten_middle
from jointsparse.cli.errors import CommandError
from jointsparse.cli.intake import streaming
from jointsparse.cli.intake.fitting import Impute, Scale
from jointsparse.cli.main import app
from jointsparse.cli.options import reporting
from jointsparse.experiments import Claim, Outcome
from jointsparse.io import Table, TableError, read_table, write_table
from jointsparse.io.columns.layout import Layout
from jointsparse.methods.reading.plan import Reading
from jointsparse.model_selection import Comparison, MethodResult


def samples(n=40, p=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 2)) @ rng.standard_normal((2, p)) + rng.standard_normal((n, p))


@pytest.fixture
def table(tmp_path):
    target = tmp_path / "table.csv"
    write_table(target, Table(samples(), [f"c{j}" for j in range(6)]))
    return target


def terminal(width=100):
    return Console(file=io.StringIO(), force_terminal=True, width=width)


# transform


@pytest.fixture
def model(tmp_path):
    import pandas as pd

    frame = pd.DataFrame(samples(), columns=[f"c{j}" for j in range(6)])
    save_model(GreedySelector(n_features_to_select=2).fit(frame), tmp_path / "model.skops")
    return tmp_path / "model.skops"


def test_transform_says_what_it_did_as_json(model, table, tmp_path):
    out = tmp_path / "out.csv"
    found = invoke("transform", model, table, "--output", out, "--json")
    record = json.loads(found.stdout)
    kept = [f"c{j}" for j in load_model(model).get_support(indices=True)]
    assert record["columns"] == kept
    assert record["n_samples"] == 40
    assert record["notes"] == []
    assert record["output"] == str(out)


def test_a_quiet_transform_still_says_what_it_ignored(model, tmp_path):
    wide = tmp_path / "wide.csv"
    write_table(wide, Table(samples(p=7), [*(f"c{j}" for j in range(6)), "more"]))
    found = invoke("transform", model, wide, "--output", tmp_path / "out.csv", "--quiet")
    assert found.stdout == ""
    assert "ignored 1 column that the model does not know: more" in found.stderr


def test_models_of_arrays_of_components_and_broken_ones(tmp_path):
    X = samples()
    names = [f"c{j}" for j in range(6)]
    plain = GreedySelector(n_features_to_select=2).fit(X)  # knows no names
    result, notes = applied(plain, Table(X, names), "t.csv", scaled=False, partial=False)
    assert notes == []
    np.testing.assert_array_equal(result.values, X[:, plain.get_support()])
    with pytest.raises(CommandError, match=r"fitted to 6 columns; t\.csv has 5"):
        applied(plain, Table(X[:, :5], names[:5]), "t.csv", scaled=False, partial=False)
    components = SPCA(n_components=2, alpha=0.05).fit(X)
    result, _ = applied(components, Table(X, names), "t.csv", scaled=True, partial=False)
    assert result.names == ["spca0", "spca1"]
    np.testing.assert_allclose(result.values, components.transform(X))
    sparse, _ = applied(plain, Table(sp.csr_array(X), names), "t.mtx", scaled=False, partial=False)
    np.testing.assert_array_equal(sparse.values.toarray(), X[:, plain.get_support()])
    components.components_ = components.components_ * np.nan
    with pytest.raises(CommandError, match="it gives values that are not finite"):
        applied(components, Table(X, names), "t.csv", scaled=True, partial=False)


# compare


def result(name="greedy", error="", warnings=()):
    nothing = (float("nan"),) * 2
    return MethodResult(
        name=name,
        kept=() if error else (0, 2),
        r2=nothing if error else (0.5, 0.1),
        stability=(float("nan"),) * 3 if error else (0.9, 0.8, 1.0),
        seconds=0.1,
        scores=None,
        error=error,
        warnings=warnings,
    )


def comparison(*results):
    return Comparison(
        results=results,
        feature_names=("a", "b", "c"),
        n_samples=9,
        n_features=3,
        n_kept=2,
        n_subsamples=4,
        pca_r2=(0.8, 0.1),
        random_r2=(0.2, 0.1),
        scores_of_all=None,
    )


def test_a_comparison_of_one_method_that_failed_with_notes():
    console = Console(file=io.StringIO(), width=120)
    noted = SimpleNamespace(notes=["dropped a column"])
    compare._print(console, comparison(result(error="no spread")), noted, "t.csv", "standardised")
    text = console.file.getvalue()
    assert "note: dropped a column" in text
    assert "failed" in text
    assert "Jaccard" not in text
    console = Console(file=io.StringIO(), width=120)
    compare._print(console, comparison(result(), result("spca")), noted, "t.csv", "not scaled")
    assert "overlap of the selections (Jaccard index)" in console.file.getvalue()
    header, rows = compare._rows(comparison(result(), result("spca", "no spread")))
    assert "accuracy" not in header
    assert [row[0] for row in rows] == ["greedy", "spca", "PCA", "random features"]
    assert rows[1][2] == ""  # not a number, not written as one
    assert all(len(row) == len(header) for row in rows)
    assert set(compare._cells(None)) == {""}


def test_compare_quietly_and_all_methods(table, tmp_path):
    out = tmp_path / "found.csv"
    found = invoke(
        *("compare", table, "--methods", "greedy", "--features", 2, "--subsamples", 2),
        *("--quiet", "--output", out),
    )
    assert found.stdout == ""
    assert out.read_text().splitlines()[1].startswith("greedy,2,")
    assert compare._names(" all ") == list(compare.registry.methods())
    assert compare._names("a, b,a") == ["a", "b"]


def test_warnings_of_methods_are_printed(table, monkeypatch):
    found = comparison(result(error="no spread", warnings=("slow",)))
    monkeypatch.setattr("jointsparse.model_selection.compare_methods", lambda *a, **k: found)
    printed = invoke("compare", table, "--methods", "greedy", "--features", 2)
    assert "greedy: slow" in printed.stderr
    assert "greedy: no spread" in printed.stderr


def test_progress_of_a_comparison_on_a_terminal():
    console = terminal()
    with CompareProgress(console, quiet=False) as progress:
        progress.method("greedy", 0, 2)
        progress.method("spca", 1, 2)
    assert "spca" in console.file.getvalue()
    silent = terminal()
    with CompareProgress(silent, quiet=True) as progress:
        progress.method("greedy", 0, 2)
    assert silent.file.getvalue() == ""


# path


def test_a_quiet_path_prints_warnings_alone(table, tmp_path, monkeypatch):
    solve = path._solve
    monkeypatch.setattr(path, "_solve", lambda *args: (solve(*args)[0], ["something is odd"]))
    out = tmp_path / "points.csv"
    found = invoke("path", table, "--points", 3, "--output", out, "--quiet")
    assert found.stdout == ""
    assert "something is odd" in found.stderr
    assert len(out.read_text().splitlines()) == 4


def test_points_without_a_certificate_say_nothing_of_one():
    rows = [(0, 0.5, 1.0, 2, 3.0, float("nan"), ["a"], [])]
    console = Console(file=io.StringIO(), width=100)
    path._print(console, rows, (9, 3), "t.csv", "spca", "not scaled")
    assert "proved" not in console.file.getvalue()
    console = Console(file=io.StringIO(), width=100)
    path._print(console, [(0, 0.5, 1.0, 2, 3.0, 1e-5, ["a"], [])], (9, 3), "t", "x", "y")
    assert "every point is solved to within 1.0e-05 (proved)" in console.file.getvalue()


# reading in blocks


@pytest.fixture
def array(tmp_path):
    np.save(tmp_path / "big.npy", samples(900, 6))
    return tmp_path / "big.npy"


def test_an_array_without_names_in_blocks(array, tmp_path):
    out, saved = tmp_path / "kept.npy", tmp_path / "model.skops"
    found = invoke(
        *("select", array, "--memory", "40kB", "--features", 2, "--json"),
        *("--output", out, "--save", saved, "--scale", "none"),
    )
    record = json.loads(found.stdout)
    assert "in blocks" in record["notes"][0]
    assert all(name in {f"x{j}" for j in range(1, 7)} for name in record["kept"])
    columns = [int(name[1:]) - 1 for name in record["kept"]]
    np.testing.assert_array_equal(np.load(out), np.load(array)[:, sorted(columns)])
    steps = load_model(saved)
    assert [name for name, _ in steps.steps] == ["select"]
    assert steps[0].feature_names_in_.tolist() == [f"x{j}" for j in range(1, 7)]


def test_what_fits_is_not_read_in_blocks(array, tmp_path):
    def opened(path, memory):
        return streaming.open_if_large(str(path), GreedySelector(), layout=Layout(), memory=memory)

    assert opened(array, "10MB") is None
    assert opened(array, "40kB") is not None
    assert opened(tmp_path / "nowhere", None) is None
    with pytest.raises(CommandError, match="--memory"):
        opened(array, "much")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ones((400, 3)), "every column is constant"),
        (np.array([[1.0, 2.0, 3.0]]), "has one row of data"),
    ],
)
def test_blocks_without_anything_to_select(values, words, tmp_path):
    np.save(tmp_path / "flat.npy", values)
    source = open_source(tmp_path / "flat.npy")
    for reading in Reading:
        with pytest.raises(CommandError, match=words):
            streaming.take_in(
                source, reading, streaming.Preparation(scale=Scale.NONE), show_progress=False
            )


def test_filling_in_blocks_where_nothing_or_everything_is_missing(tmp_path):
    X = samples(50, 3)
    target = tmp_path / "t.parquet"
    pq.write_table(pa.table({f"c{j}": X[:, j] for j in range(3)}), target)

    def taken_in():
        how = streaming.Preparation(scale=Scale.NONE, impute=Impute.MEAN)
        return streaming._taken_in(open_source(target), Reading.MOMENTS, how, {})

    table, found = taken_in()
    assert table.filling is None
    assert len(table.notes) == 1
    assert table.notes[0].startswith("read twice")
    np.testing.assert_allclose(found.scatter, Moments.from_data(X).scatter)
    X[:, 1] = np.nan
    pq.write_table(pa.table({f"c{j}": X[:, j] for j in range(3)}), target)
    with pytest.raises(ValueError, match=r"1 column without a single value \(c1\)"):
        taken_in()


def test_a_table_too_large_for_its_memory_is_refused(table, tmp_path):
    whole = tmp_path / "table.npz"  # a format that is not read in blocks
    write_table(whole, read_table(table))
    assert_refused(
        invoke("select", whole, "--memory", "8kB", "--features", 2),
        "a fit to 40 samples × 6 features needs",
        "8 kB may be used",
    )


# reports


def test_reports_beside_what_would_be_replaced(table, tmp_path):
    page = tmp_path / "page.html"
    page.touch()
    assert_refused(invoke("select", page, "--report", page), "--report", "would replace the data")
    assert_refused(invoke("select", table, "--image-shape", "2x3"), "give --report too")
    assert_refused(
        invoke("select", table, "--features", 2, "--output", tmp_path / "m.csv", "--save", table),
    )


def test_a_path_for_the_report_within_its_time(monkeypatch):
    X = samples()
    model = SPCAPSD(n_features_to_select=2).fit(X)
    assert reporting.followed(model, X, 5).alphas.size == 5
    monkeypatch.setattr(reporting, "PATH_SECONDS", 0.0)
    assert reporting.followed(model, X, None).alphas.size == reporting._FIRST_POINTS
    published = SimpleNamespace(model=SPCAPSD(solver="published"), seconds=0.0)
    assert reporting._path(published, X, 5) == (
        None,
        "no regularisation path: the published solver has no exact zeros",
    )
    assert reporting._path(published, X, 0) == (None, "")


def test_a_report_of_a_table_in_blocks(array, tmp_path):
    page = tmp_path / "page.html"
    found = invoke(
        *("select", array, "--memory", "40kB", "--features", 2, "--method", "spca-psd"),
        *("--report", page, "--path-points", 2),
    )
    assert found.exit_code == 0, found.stderr
    assert "open_source" in page.read_text(encoding="utf-8")


# reproduce


def test_experiments_as_json_and_by_the_first_part_of_their_names():
    listed = json.loads(invoke("reproduce", "--list", "--json").stdout)
    known = {entry["name"]: None for entry in listed}
    assert len(known) > 10
    assert reproduce._chosen([], known) == list(known)
    part = next(iter(known)).split("-")[0]
    assert all(name.startswith(part) for name in reproduce._chosen([part], known))
    assert reproduce._chosen(["jspca-table1", "000-table1"], known) == ["000-table1"]
    assert reproduce._chosen(["spca"], known) == ["001-pitprops"]  # not those of spca-psd
    assert set(reproduce._chosen(["spca-psd"], known)) == {n for n in known if n[:4] == "004-"}
    with pytest.raises(CommandError, match="there is no experiment 'x'"):
        reproduce._chosen(["x"], known)


def test_outcomes_without_claims_or_pages():
    console = Console(file=io.StringIO(), width=100)
    known = {"a": SimpleNamespace(title="first"), "b": SimpleNamespace(title="second")}
    outcomes = {
        "a": Outcome([], [("caption", ("x",), [(1,)])], notes=["a note"]),
        "b": Outcome([Claim("it holds", "yes", "yes", "reproduced", "as said")]),
    }
    reproduce._print_all(console, known, outcomes, None)
    text = console.file.getvalue()
    assert "a note" in text
    assert "as said" in text
    assert "1 claims: 1 reproduced" in text
    assert "wrote" not in text


def test_durations_and_progress_of_experiments():
    assert [reproduce._duration(s) for s in (89, 90, 5399, 5400)] == [
        "89 s",
        "2 min",
        "90 min",
        "1.5 h",
    ]
    console = terminal()
    with reproduce._progress(console, "a") as draw:
        draw(0, 4, None)
        draw(2, 4, 100.0)
    assert "2/4" in console.file.getvalue()
    console = Console(file=io.StringIO())
    with reproduce._progress(console, "a") as line:
        line(1, 4, 10.0)  # too soon for a line
        line(4, 4, None)
    assert console.file.getvalue() == "a: 4 of 4 tasks\n"


# the program around the commands


def test_called_from_a_program_errors_are_exceptions(monkeypatch):
    command = typer.main.get_command(app)
    with pytest.raises(Exception, match="No such command"):
        command.main(["nothing"], standalone_mode=False)
    assert command.main(["--version"], standalone_mode=False) in (None, 0)

    def closed(self, *args, **kwargs):
        raise BrokenPipeError

    monkeypatch.setattr(errors.typer.core.TyperGroup, "main", closed)
    with pytest.raises(BrokenPipeError):
        command.main([], standalone_mode=False)


def test_signals_that_ask_for_an_end_become_exceptions():
    before = {name: signal.getsignal(getattr(signal, name)) for name in ("SIGTERM", "SIGHUP")}
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
        start._listen()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        with pytest.raises(start.Terminated) as ended:
            signal.raise_signal(signal.SIGTERM)
        assert start.status_of(ended.value) == 128 + signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN  # once is enough
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def test_small_helpers():
    assert _plain({1: (np.float64(2.0), None, complex(1))}) == {"1": [2.0, None, "(1+0j)"]}
    assert _plain(float("inf")) is None
    assert shorten_middle("abcdefgh", 5) == "ab…gh"
    assert shorten_middle("abc", 5) == "abc"
    stream = io.StringIO()  # cannot be reconfigured
    _console(stream).print(Text("x"))
    assert stream.getvalue() == "x\n"


def test_one_feature_that_is_left_is_spoken_of_as_one(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 1)) + 0.3 * rng.standard_normal((40, 2))
    table, names = np.column_stack([X, rng.standard_normal((40, 3))]), "a,b,c,d,e"
    np.savetxt(tmp_path / "five.csv", table, delimiter=",", header=names, comments="")
    result = invoke("select", tmp_path / "five.csv", "--features", 1, "--method", "greedy")
    assert "of the other one that shares something with others" in result.stdout
    np.savetxt(tmp_path / "two.csv", X, delimiter=",", header="a,b", comments="")
    result = invoke("select", tmp_path / "two.csv", "--features", 1)
    assert "of the other one in new samples" in result.stdout
    assert "and 1 more feature, not kept (--top 2 shows all)" in result.stdout


def test_rows_that_are_the_same_are_told_where_a_feature_is_measured(tmp_path):
    values = np.random.default_rng(0).standard_normal((60, 8))
    values[:, :4] += 2 * values[:, :1]
    measured = pd.DataFrame(values).add_prefix("g")
    told = "rows are the same as an earlier one in every feature"
    for name, frame, expected in (
        ("once", measured, False),
        ("twice", pd.concat([measured] * 2), True),
        ("few", pd.concat([measured, measured[:2]]), False),
        ("answers", pd.concat([(measured > 0).astype(int)] * 2), False),
        ("rounded", pd.concat([measured[["g0", "g1"]]] * 2), False),
    ):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        said = invoke("select", str(tmp_path / f"{name}.csv"), "--features", "1")
        assert said.exit_code == 0
        assert (told in " ".join(said.output.split())) is expected, name


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--drop", "has no column a,b for --drop; repeat the option: --drop a --drop b."),
        ("--label", "has no column a,b for --label; repeat the option: --label a --label b."),
        ("--include", "--include takes one name; repeat it: --include 'a' --include 'b'."),
        ("--exclude", "--exclude takes one name; repeat it: --exclude 'a' --exclude 'b'."),
    ],
)
def test_names_with_commas_between_them_are_several(tmp_path, option, words):
    path = tmp_path / "t.csv"
    values = np.random.default_rng(0).standard_normal((30, 4))
    pd.DataFrame(values, columns=list("abcd")).to_csv(path, index=False)
    assert_refused(invoke("select", str(path), option, "a,b"), words)
    with pytest.raises(TableError, match=r"give a list: drop=\['a', 'b'\]"):
        read_table(path, drop="a,b")


@pytest.mark.parametrize(
    ("code", "rows", "told"),
    [
        (-999.0, [3, 50], "g1 holds -999 in 2 of 60 rows, far from all other values"),
        (99.0, [3, 50, 51], "g1 holds 99 in 3 of 60 rows, far from all other values"),
        (-999.0, [3], None),  # one may be a mistake; it is an extreme value
        (-998.0, [3, 50], None),
        (-9.0, [3, 50], None),  # not farther off than the others from each other
    ],
)
def test_numbers_that_stand_for_missing_values_are_told(tmp_path, code, rows, told):
    values = 4 * np.random.default_rng(0).standard_normal((60, 6))
    values[rows, 1] = code
    frame = pd.DataFrame(values).add_prefix("g")
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.mask(np.eye(60, 6) > 0).to_csv(tmp_path / "holes.csv", index=False)
    for name, more in (("t", []), ("holes", ["--missing", "em"])):
        said = invoke("select", str(tmp_path / f"{name}.csv"), "--features", "2", *more)
        text = " ".join(said.output.split())
        assert ("far from all other values" in text) is bool(told)
        assert (told or "") in text
