"""The command line: what it prints, writes, refuses and returns."""

import csv
import json
import logging
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from rich.cells import cell_len
from rich.console import Console
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from typer.testing import CliRunner

from jointsparse import SPCAPSD, __version__
from jointsparse.cli.display import progress
from jointsparse.cli.display.console import shorten_middle
from jointsparse.cli.main import app
from jointsparse.cli.options.arguments import parse_value
from jointsparse.methods import registry
from jointsparse.methods.reading.needs import Needs
from jointsparse.steps import Step, follow_steps, steps
from jointsparse.text import visible


def invoke(*arguments, **environment):
    env = {"COLUMNS": "100", "NO_COLOR": "1", **environment}
    return CliRunner().invoke(app, [str(a) for a in arguments], env=env, catch_exceptions=False)


def run(*arguments, **environment):
    """Run the real program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "jointsparse.cli.main", *map(str, arguments)],
        capture_output=True,
        env={**os.environ, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8", **environment},
        timeout=120,
        check=False,
    )


def assert_refused(result, *fragments):
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("jointsparse: ")
    assert result.stderr.count("\n") == 1
    for fragment in fragments:
        assert fragment in result.stderr


class VarianceSelector:
    """Ranks by variance: a method whose results are known, for the printing around it."""

    def __init__(self, *, alpha=0.1, n_features_to_select=2, behaviour="", random_state=None):
        self.alpha = alpha
        self.n_features_to_select = n_features_to_select
        self.behaviour = behaviour
        self.random_state = random_state

    def get_params(self, deep=True):
        names = ("alpha", "n_features_to_select", "behaviour", "random_state")
        return {name: getattr(self, name) for name in names}

    def _needs(self):
        return Needs()

    def fit(self, X, y=None):
        if self.behaviour == "interrupt":
            raise KeyboardInterrupt
        if self.behaviour == "bug":
            raise RuntimeError("a bug")
        if self.behaviour is None:
            raise TypeError("this parameter takes text")
        if self.behaviour == "type bug":
            raise TypeError("a bug")
        if self.behaviour == "refuse":
            raise ValueError("alpha must be\nbetween 0 and 1")
        if self.behaviour == "warn":
            for _ in range(2):
                warnings.warn("max_iter reached,\nincrease it", ConvergenceWarning, stacklevel=2)
            warnings.warn("not for users", DeprecationWarning, stacklevel=2)
        self.feature_scores_ = np.asarray(X).var(axis=0)
        self.ranking_ = np.empty(X.shape[1], dtype=int)
        self.ranking_[np.argsort(-self.feature_scores_, kind="stable")] = 1 + np.arange(X.shape[1])
        self.n_iter_ = 1
        self.stopping_reason_ = "nothing left to do"
        self.objective_ = np.float64("inf")
        return self

    def get_support(self):
        count = 0 if self.behaviour == "empty" else self.n_features_to_select
        return self.ranking_ <= count


@dataclass
class FakeMethod:
    name: str
    class_name: str = "VarianceSelector"
    kind: str = "selector"
    summary: str = "Ranks by variance."
    source: str = "Folklore [1]."
    when: str = "In tests."
    made: list = field(default_factory=list)

    def make(self, **params):
        self.made.append(VarianceSelector(**params))
        return self.made[-1]


@pytest.fixture
def variance(monkeypatch):
    """Register a method named "variance" beside the real ones."""
    method = FakeMethod("variance")
    known = {**registry.methods(), "variance": method}
    monkeypatch.setattr(registry, "methods", lambda: known)
    return method


@pytest.fixture
def table(tmp_path):
    """A CSV in which the variances order the columns c, a, b, const."""
    path = tmp_path / "data.csv"
    path.write_text(
        "a,b,c,const,kind\n1,0.1,10,7,x\n2,0.2,50,7,y\n4,0.1,-20,7,x\n3,0.3,90,7,y\n",
        encoding="utf-8",
    )
    return path


def select(table, *arguments, **environment):
    return invoke(
        "select", table, "--method", "variance", "--scale", "none", "--label", "kind", *arguments,
        **environment,
    )  # fmt: skip


def files_beside(table):
    return sorted(path.name for path in table.parent.iterdir())


class TestBundledTable:
    def test_people_get_a_verdict_the_set_and_how_sure_it_is(self):
        result = invoke("select")
        assert result.exit_code == 0
        lines = result.stdout.strip().splitlines()
        heading, _, verdict, *_ = lines
        new, again, table, shared, stand_ins, noise, model, why, command = lines[-9:]
        for part in ("breast cancer", "569 samples × 30 features", "spca-psd", "standardised"):
            assert part in heading
        record = json.loads(invoke("select", "--json").stdout)
        assert verdict == record["verdict"]
        assert verdict.startswith("Good stand-ins for the rest: 10 features predict 85 % of the ")
        worth = {
            name: f"{100 * v:.0f} %" for name, v in record["worth"].items() if v.__class__ is float
        }
        assert new.startswith(
            f"in new samples   the kept predict {worth['r2_held_out']} of the oth"
        )
        assert f"random ones {worth['random_r2_mean'][:-2]} ± {worth['random_r2_std']}" in new
        assert f"all others together {worth['ceiling']}; 10 principal components" in new
        assert new.endswith(f"give {worth['pca_r2_held_out']}")
        assert again.startswith("again            how often a feature, or one that is nearly the s")
        assert f"account for {worth['r2']} of the variance" in table
        assert f"make up {worth['own_share']} of it" in table
        assert shared.startswith("shared           the part of a feature that the other features")
        assert stand_ins.endswith("from 99 % of 'worst perimeter' to only 17 % of 'symmetry error'")
        assert "independent patterns; 30 of 30 features share something" in noise
        assert "solved to within" in model
        assert "(proved)" in model
        assert why == "next             See the samples, the groups and every feature on one page:"
        assert command == "  jointsparse select --report report.html"
        assert "certified" not in result.stdout
        assert "20 more features, none of them kept" in result.stdout
        assert "\x1b" not in result.stdout

    def test_programs_get_json_and_nothing_else(self):
        result = invoke("select", "--features", 4, "--json")
        record = json.loads(result.stdout)
        assert record["n_samples"] == 569
        assert record["n_features"] == 30
        assert record["method"] == "spca-psd"
        assert record["scale"] == "standard"
        assert record["label"] == "diagnosis"
        assert record["parameters"]["n_features_to_select"] == 4
        assert len(record["kept"]) == 4
        assert [row["rank"] for row in record["ranking"]] == list(range(1, 31))
        assert record["kept"] == [row["feature"] for row in record["ranking"] if row["kept"]]
        assert 0 <= record["duality_gap"] < 1e-2
        assert record["iterations"] >= 1
        assert record["seconds"] > 0
        assert record["notes"] == []

    def test_the_table_shows_shares_and_whom_each_stands_in_for(self):
        asked = ("select", "--features", 3)
        titles = ["rank", "feature", "shared", "again", "stands", "in", "for"]
        lines = invoke(*asked).stdout.splitlines()
        assert titles in [line.split() for line in lines]  # no scores unless asked for
        lines = invoke(*asked, "--scores").stdout.splitlines()
        record = json.loads(invoke("select", "--features", 3, "--json").stdout)
        start = next(i for i, line in enumerate(lines) if line.split()[:1] == ["rank"])
        assert lines[start].split() == [*titles[:3], "score", *titles[3:]]
        for line, row in zip(lines[start + 2 :], record["ranking"][:3], strict=False):
            assert row["feature"] in line
            assert f" {100 * row['shared']:.0f} %   {row['score']:#.4g} " in line
            assert f" {round(3 * row['found_again'])} of 3 " in line
            mine = [r for r in record["ranking"] if r["stand_in"] == row["feature"]]
            best = max(mine, key=lambda r: r["stand_in_r2"])["feature"]
            assert line.rstrip().endswith(f"({len(mine)})")
            assert best[:4] in line.replace("…", "")
        r2 = [row["r2"] for row in record["ranking"]]
        assert all(np.diff(r2[:3]) > 0)
        assert r2[3:] == [None] * 27
        worth = record["worth"]
        assert worth["held_out"] is True
        assert worth["r2"] == pytest.approx(r2[2])
        assert worth["random_r2_mean"] < worth["r2_held_out"] < worth["pca_r2_held_out"] < 1
        dropped = [row for row in record["ranking"] if not row["kept"]]
        assert {row["stand_in"] for row in dropped} <= set(record["kept"])
        assert all(0 <= row["stand_in_r2"] <= 1 for row in dropped)

    def test_a_share_of_the_variance(self):
        for arguments in (["--r2", "0.7"], ["--features", "r2>=0.7"]):
            record = json.loads(invoke("select", *arguments, "--json").stdout)
            shares = [row["r2"] for row in record["ranking"] if row["kept"]]
            assert shares[-2] < 0.7 <= shares[-1]

    def test_the_rule_as_published_is_worth_less_than_chance_and_says_so(self):
        result = invoke("select", "--rule", "norm", "--features", 5)
        verdict = result.stdout.splitlines()[2]
        assert verdict.startswith("No better than random features: 5 features predict 24 % of ")
        greedy = invoke("select", "--features", 5)
        assert "random features:" not in greedy.stdout.splitlines()[2]
        assert greedy.stderr == ""

    def test_component_methods_select_too(self):
        record = json.loads(
            invoke("select", "--method", "spca", "--param", "n_components=3", "--json").stdout
        )
        assert record["parameters"]["n_components"] == 3
        assert record["parameters"]["n_features_to_select"] == "auto"
        assert record["iterations"] >= 1
        assert 0 < len(record["kept"]) < 30
        worth = record["worth"]
        assert worth["random_r2_mean"] < worth["r2_held_out"] < worth["ceiling"]
        assert_refused(
            invoke("select", "--method", "spca", "--param", "n_components=zero"),
            "--components zero",
        )

    def test_support(self):
        result = invoke("select", "--features", "support")
        assert "All 30 features are kept: there is nothing to predict." in result.stdout
        assert "in new samples" not in result.stdout
        assert "account for 100 % of the variance and make up 100 %" in result.stdout

    def test_share_of_features(self):
        record = json.loads(invoke("select", "--features", 0.2, "--json").stdout)
        assert len(record["kept"]) == 6

    @pytest.mark.parametrize("scale", ["none", "robust"])
    def test_other_scales_are_named(self, scale):
        result = invoke("select", "--scale", scale, "--features", 3)
        assert result.exit_code == 0
        expected = {"none": "not scaled", "robust": "median and quartiles"}
        assert expected[scale] in result.stdout.splitlines()[0]

    def test_its_label_cannot_be_changed(self):
        assert invoke("select", "--label", "diagnosis", "--quiet").exit_code == 0
        assert_refused(invoke("select", "--label", "nonsense"), "diagnosis")

    def test_verbose_shows_parameters(self):
        result = invoke("select", "--verbose", "--param", "alpha=0.25")
        assert "parameter alpha" in result.stdout
        assert "0.25" in result.stdout
        assert "stopped because" in result.stdout

    def test_quiet_prints_nothing(self):
        result = invoke("select", "--quiet")
        assert result.exit_code == 0
        assert result.output == ""


class TestTables:
    def test_ranking_is_printed_in_order(self, variance, table):
        result = select(table, "--top", 4)
        lines = result.stdout.splitlines()
        ranked = [line.split() for line in lines if line.strip()[:1].isdigit()]
        assert [row[:2] for row in ranked] == [
            ["1", "c"], ["2", "a"], ["3", "b"], ["4", "const"],
        ]  # fmt: skip
        assert ["✔" in row for row in ranked] == [True, True, False, False]
        assert lines[0] == ("data.csv · 4 samples × 4 features · variance · not scaled")
        assert lines[2] == "kept 2 of 4 features"
        assert lines[-1].startswith(
            "the model        stopped after 1 iteration, 0.0 s: nothing left"
        )
        assert lines[-1].endswith("(no proof)")

    def test_output_keeps_original_values_order_and_label(self, variance, table, tmp_path):
        result = invoke(
            "select", table, "--method", "variance", "--scale", "standard", "--label", "kind",
            "--features", 3, "--output", tmp_path / "kept.csv",
        )  # fmt: skip
        assert result.exit_code == 0
        assert "kept.csv" in result.stdout
        with (tmp_path / "kept.csv").open(newline="", encoding="utf-8") as stream:
            header, *rows = csv.reader(stream)
        assert header == ["a", "b", "c", "kind"]
        assert [float(value) for value in rows[1][:3]] == [2, 0.2, 50]
        assert [row[3] for row in rows] == ["x", "y", "x", "y"]

    def test_ranking_file(self, variance, table, tmp_path):
        select(table, "--ranking", tmp_path / "ranking.csv", "--quiet")
        with (tmp_path / "ranking.csv").open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        assert [row["feature"] for row in rows] == ["c", "a", "b", "const"]
        assert [row["rank"] for row in rows] == ["1", "2", "3", "4"]
        assert [row["kept"] for row in rows] == ["True", "True", "False", "False"]
        assert float(rows[0]["score"]) == pytest.approx(np.var([10, 50, -20, 90]))
        assert float(rows[3]["score"]) == 0

    def test_json_has_no_infinities(self, variance, table):
        record = json.loads(select(table, "--json").stdout)
        assert record["objective"] is None
        assert record["duality_gap"] is None
        assert record["kept"] == ["c", "a"]
        assert record["data"] == "data.csv"

    def test_notes_of_the_reader_are_shown(self, variance, table):
        result = invoke("select", table, "--method", "variance", "--drop-text")
        assert "note: " in result.stdout
        record = json.loads(
            invoke("select", table, "--method", "variance", "--drop-text", "--json").stdout
        )
        assert record["notes"]

    def test_constant_column_scores_nothing(self, table):
        result = invoke("select", table, "--label", "kind", "--features", 2, "--json")
        scores = {row["feature"]: row["score"] for row in json.loads(result.stdout)["ranking"]}
        assert scores["const"] == pytest.approx(0, abs=1e-12)

    def test_sparse_is_scaled_without_centring(self, tmp_path):
        values = scipy.sparse.random(40, 6, density=0.4, random_state=0, format="csr")
        scipy.io.mmwrite(tmp_path / "m.mtx", values)
        result = invoke("select", tmp_path / "m.mtx", "--features", 2)
        assert result.exit_code == 0
        assert "divided by standard deviations" in result.stdout
        assert_refused(invoke("select", tmp_path / "m.mtx", "--scale", "robust"), "dense")

    def test_the_table_fits_a_narrow_terminal(self):
        result = invoke("select", COLUMNS="45")
        table = [line for line in result.stdout.splitlines() if line.strip()[:1].isdigit()]
        assert len(table) == 10
        assert max(map(cell_len, table)) <= 45

    @pytest.mark.parametrize("top", [1, 3])
    def test_top_shows_as_many_rows_as_it_says(self, top):
        lines = invoke("select", "--top", top).stdout.splitlines()
        assert sum(line.strip()[:1].isdigit() for line in lines) == top
        assert any(f"{30 - top} more features" in line for line in lines)
        assert_refused(invoke("select", "--top", 0), "--top")

    def test_empty_support_is_said_plainly(self, variance, table, tmp_path):
        result = select(table, "--param", "behaviour=empty")
        assert result.exit_code == 0
        assert "nothing was kept: lower alpha (now 0.1) with --param" in result.stdout
        target = tmp_path / "kept.csv"
        refused = select(table, "--param", "behaviour=empty", "--output", target)
        assert_refused(refused, "nothing was kept", "not written")
        assert not target.exists()

    def test_seed(self, variance, table):
        assert select(table, "--seed", 3).exit_code == 0
        assert 3 in [estimator.random_state for estimator in variance.made]

    def test_seed_of_a_method_without_randomness(self, variance, table, monkeypatch):
        monkeypatch.setattr(VarianceSelector, "get_params", lambda self: {"alpha": 0.1})
        assert "--seed changes nothing" in select(table, "--seed", 3).stdout


class TestNames:
    NAMES = ("[bold]x[/bold]", "=cmd()", "🧬 gene", "long" * 1250, "[/]", ":smile:", "a\x1b[31mred")

    @pytest.fixture
    def odd_table(self, tmp_path):
        path = tmp_path / "odd.csv"
        values = np.random.default_rng(0).normal(size=(20, len(self.NAMES)))
        with path.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([self.NAMES, *values.tolist()])
        return path

    def test_are_data_not_markup(self, odd_table):
        result = invoke("select", odd_table, "--features", 3, "--top", 7)
        assert result.exit_code == 0
        for text in ("[bold]x[/bold]", "=cmd()", "🧬 gene", "[/]", ":smile:", r"a\x1b[31mred"):
            assert text in result.stdout
        assert "longlonglong" in result.stdout
        assert "…" in result.stdout
        table = [line for line in result.stdout.splitlines() if line.strip()[:1].isdigit()]
        assert len(table) == 7
        assert max(map(cell_len, table)) <= 100

    def test_survive_json_and_ranking(self, odd_table, tmp_path):
        ranking = tmp_path / "ranking.csv"
        result = invoke("select", odd_table, "--json", "--ranking", ranking)
        features = {row["feature"] for row in json.loads(result.stdout)["ranking"]}
        assert features == set(self.NAMES)
        # A spreadsheet must not run a name.
        assert "\n1,=cmd()" not in ranking.read_text(encoding="utf-8")
        assert ",'=cmd()," in ranking.read_text(encoding="utf-8")

    def test_ascii_output(self, odd_table):
        asked = ("select", odd_table, "--features", 3, "--top", 7)
        result = run(*asked, PYTHONIOENCODING="ascii", NO_COLOR="1")
        assert result.returncode == 0
        text = result.stdout.decode("ascii")
        assert "20 samples x 7 features" in text
        assert "..." in text
        assert r"\U0001f9ec gene" in text
        result = run("select", odd_table, "--json", PYTHONIOENCODING="ascii")
        assert "🧬 gene" in {row["feature"] for row in json.loads(result.stdout)["ranking"]}


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "fragments"),
        [
            (["--method", "spca-pds"], ["spca-pds", "did you mean", "spca-psd"]),
            (["--method", "qqq"], ["known: ", "spca-psd"]),
            (["--param", "alpha"], ["NAME=VALUE"]),
            (["--param", "=3"], ["NAME=VALUE"]),
            (["--param", "alhpa=1"], ["alhpa", "alpha", "eta", "max_iter"]),
            (["--param", "alpha=1", "--param", "alpha=2"], ["twice"]),
            (["--param", "n_features_to_select=1", "--features", "2"], ["twice"]),
            (["--param", "alpha=-5"], ["alpha"]),
            (["--param", "max_iter=many"], ["max_iter"]),
            (["--param", "tol=none"], ["tol"]),
            (["--param", "solver=3"], ["solver"]),
            (["--features", "0"], ["at least 1"]),
            (["--features", "-2"], ["at least 1"]),
            (["--features", "1.5"], ["between 0 and 1"]),
            (["--features", "none"], ["--features"]),
            (["--features", "plenty"], ["--features plenty is neither"]),
            (["--features", "31"], ["31", "30"]),
            (["--r2", "0"], ["--r2"]),
            (["--r2", "90"], ["--r2", "between 0 and 1"]),
            (["--r2", "0.9", "--features", "3"], ["--features and --r2"]),
            (["--rule", "best"], ["--rule", "greedy"]),
            (["--scale", "weird"], ["--scale", "robust"]),
            (["--impute", "guess"], ["--impute"]),
            (["--nonsense"], ["--nonsense"]),
            (["--seed", "x"], ["--seed"]),
            (["missing.csv"], ["missing.csv"]),
            (["data.xyz"], ["data.xyz"]),
        ],
    )
    def test_bad_options(self, arguments, fragments):
        assert_refused(invoke("select", *arguments), *fragments)

    def test_unknown_command(self):
        assert_refused(invoke("slect"), "slect")

    @pytest.mark.parametrize(
        ("text", "fragment"),
        [
            ("a,b\n1,2\n", "one row"),
            ("a,b\n1,2\n1,2\n1,2\n", "constant"),
            ("a,b\n1,x\n2,3\n4,5\n", "--drop b"),
            ("a,b\n1,\n2,3\n", "missing"),
            ("", "empty"),
        ],
    )
    def test_bad_tables(self, tmp_path, text, fragment):
        path = tmp_path / "bad.csv"
        path.write_text(text, encoding="utf-8")
        assert_refused(invoke("select", path, "--ranking", tmp_path / "r.csv"), fragment)
        assert files_beside(path) == ["bad.csv"]

    def test_constant_sparse_table(self, tmp_path):
        scipy.io.mmwrite(tmp_path / "m.mtx", scipy.sparse.csr_array((4, 3)))
        assert_refused(invoke("select", tmp_path / "m.mtx"), "constant")

    def test_missing_label(self, table):
        assert_refused(invoke("select", table, "--label", "sort"), "sort")

    @pytest.mark.parametrize("option", ["--output", "--ranking"])
    def test_unwritable_outputs_are_found_before_the_fit(self, variance, table, option):
        folder = table.parent
        for target in (folder / "no" / "x.csv", folder / "x.weird", folder, table):
            assert_refused(select(table, "--param", "behaviour=bug", option, target))
        assert files_beside(table) == ["data.csv"]

    @pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere"
    )
    def test_read_only_folder(self, table):
        table.parent.chmod(0o500)
        try:
            refused = invoke("select", table, "--output", table.parent / "x.csv")
        finally:
            table.parent.chmod(0o700)
        assert_refused(refused, "read-only")

    def test_two_results_in_one_file(self, table):
        target = table.parent / "x.csv"
        assert_refused(invoke("select", table, "--output", target, "--ranking", target), "replace")

    def test_error_of_the_fit(self, variance, table):
        target = table.parent / "x.csv"
        result = select(table, "--param", "behaviour=refuse", "--ranking", target)
        assert_refused(result, "alpha must be between 0 and 1.")
        assert files_beside(table) == ["data.csv"]

    def test_where_the_second_file_fails_the_first_does_not_appear(
        self, variance, table, monkeypatch
    ):
        def fail(*_):
            raise OSError("disk full")

        monkeypatch.setattr("jointsparse.io.write_table", fail)
        result = select(table, "--ranking", table.parent / "r.csv", "--output", "o.csv")
        assert_refused(result, "disk full")
        assert not (table.parent / "r.csv").exists()

    def test_parameter_of_the_wrong_type(self, variance, table):
        assert_refused(
            select(table, "--param", "behaviour=none"), "--param behaviour=None", "default is ''"
        )

    def test_bugs_keep_their_traceback(self, variance, table):
        with pytest.raises(TypeError, match="a bug"):
            select(table, "--param", "behaviour=type bug")
        with pytest.raises(RuntimeError, match="a bug"):
            select(table, "--param", "behaviour=bug")


class TestInterruptions:
    def test_interrupt_during_the_fit(self, variance, table):
        result = select(
            table, "--param", "behaviour=interrupt", "--ranking", table.parent / "r.csv"
        )
        assert result.exit_code == 130
        assert result.stderr == "jointsparse: interrupted; nothing was written.\n"
        assert files_beside(table) == ["data.csv"]

    def test_interrupt_between_files(self, variance, table, monkeypatch):
        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr("jointsparse.io.write_table", interrupt)
        result = select(table, "--ranking", table.parent / "r.csv", "--output", "o.csv")
        assert result.exit_code == 130
        assert "nothing was written" in result.stderr
        assert not (table.parent / "r.csv").exists()
        result = select(table, "--output", "o.csv")
        assert "nothing was written" in result.stderr


class TestWarnings:
    def test_each_is_one_line_on_stderr(self, variance, table):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = select(table, "--param", "behaviour=warn", "--json")
        assert result.exit_code == 0
        assert result.stderr == "jointsparse: warning: --param max_iter reached, increase it\n"
        assert len(json.loads(result.stdout)["warnings"]) == 1

    def test_the_solver_that_stops_early_says_so(self):
        result = invoke("select", "--param", "max_iter=1", "--param", "tol=1e-12")
        assert result.exit_code == 0
        assert result.stderr.startswith("jointsparse: warning: ")
        assert result.stderr.count("\n") == 1


class TestProgress:
    @staticmethod
    def log(iteration, gap):
        values = {"iteration": iteration, "max_iter": 100, "objective": 1.0, "gap": gap}
        logging.getLogger(progress.SOLVER_LOGGER).info("check", extra=values)

    def test_lines_are_rare(self, capsys, monkeypatch):
        clock = iter([0.0, 1.0, 2.5, 3.0, 5.0])
        monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
        console = Console(stderr=True, width=80)
        with progress.solver_progress(console, tol=1e-6):
            for iteration in (1, 2, 3, 4):
                self.log(iteration, gap=None if iteration == 4 else 0.5)
            logging.getLogger(progress.SOLVER_LOGGER).info("a record without numbers")
        assert capsys.readouterr().err.splitlines() == [
            "fitting: iteration 2, gap 5.0e-01, 2 s",
            "fitting: iteration 4, 5 s",
        ]

    @pytest.mark.parametrize("tol", [None, 1e-6, 2.0])
    def test_bar_on_a_terminal(self, tol):
        console = Console(force_terminal=True, width=100, record=True)
        with console.capture() as drawn, progress.solver_progress(console, tol):
            for iteration, gap in enumerate((float("inf"), None, 1.0, 1e-3, 1e-9, 5.0, 0.0)):
                self.log(iteration, gap)
        assert "iteration 6" in drawn.get()

    def test_bar_fills_as_the_gap_falls(self):
        drawn = progress._BarProgress(Console(force_terminal=True), tol=1e-6)
        shares = [drawn._share_done(gap, 1e-6) for gap in (1.0, 1e-3, 1e-6, 1e-9)]
        assert shares == pytest.approx([0, 0.5, 1, 1])

    def test_lines_tell_which_part_is_left_out_and_how_long_the_others_take(
        self, capsys, monkeypatch
    ):
        now = [0.0]
        monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
        with progress.solver_progress(Console(stderr=True, width=80), tol=1e-6):
            for number in steps("parts left out", [1, 2, 3]):
                now[0] += 5
                if number == 2:
                    self.log(1, gap=0.5)
                now[0] += 5
            now[0] += 5
            self.log(7, gap=None)
        assert capsys.readouterr().err.splitlines() == [
            "selecting again: 2 of 3, about 20 s left, 10 s",
            "selecting again: 2 of 3, about 20 s left: iteration 1, gap 5.0e-01, 15 s",
            "selecting again: 3 of 3, about 10 s left, 20 s",
            "fitting: iteration 7, 35 s",
        ]

    def test_the_bar_counts_the_parts_and_not_the_iterations_within_them(self):
        bar = progress._BarProgress(Console(force_terminal=True), tol=1e-6)
        shown = bar._progress.tasks[0]
        for done in range(3):
            bar.draw_step(Step("parts left out", done, 3, 4.0 * done))
            bar.draw(11, 0.5)
            assert (shown.description, shown.completed, shown.total) == ("selecting again", done, 3)
        assert shown.fields["detail"] == "3 of 3, about 4 s left"
        bar.draw_step(Step("parts left out", 3, 3, 12.0))
        bar.draw(77, 1e-3)
        assert (shown.description, shown.total) == ("fitting", 1.0)
        assert shown.fields["detail"].startswith("iteration 77, gap 1.0e-03")

    def test_every_kind_of_step_has_its_words(self):
        seen = set()
        with follow_steps(lambda step: seen.add(step.what)):
            SPCAPSD().fit(scale(load_breast_cancer().data)).selection_report_.worth.r2
        assert seen == {"parts left out", "sizes", "random sets"} < set(progress._DOING)

    def test_logger_is_left_as_it_was(self):
        logger = logging.getLogger(progress.SOLVER_LOGGER)
        before = (logger.level, list(logger.handlers))
        with progress.solver_progress(Console(stderr=True), tol=None):
            assert logger.isEnabledFor(logging.INFO)
        assert (logger.level, list(logger.handlers)) == before


class TestMethods:
    @pytest.mark.parametrize("width", ["80", "150"])
    def test_table_for_people(self, variance, width):
        result = invoke("methods", COLUMNS=width)
        assert result.exit_code == 0
        for name in registry.methods():
            assert name in result.stdout
        assert "Folklore [1]." in result.stdout

    def test_json_for_programs(self):
        records = json.loads(invoke("methods", "--json").stdout)
        assert [record["name"] for record in records] == list(registry.methods())
        assert set(records[0]) == {"name", "kind", "summary", "when", "source"}

    def test_every_method_can_be_made(self):
        for method in registry.methods().values():
            assert method.make().get_params()


class TestProgram:
    def test_version(self):
        assert invoke("--version").stdout == f"jointsparse {__version__}\n"

    def test_help_without_arguments(self):
        result = invoke()
        assert result.exit_code == 0
        assert "select" in result.stdout
        assert invoke("select", "--help").exit_code == 0

    def test_in_a_process_of_its_own(self, tmp_path):
        target = tmp_path / "kept.parquet"
        result = run("select", "--features", 5, "--output", target, NO_COLOR="1")
        assert result.returncode == 0, result.stderr
        assert "5 features predict" in result.stdout.decode("utf-8")
        assert target.exists()

    def test_error_in_a_process_of_its_own(self):
        result = run("select", "nowhere.csv")
        assert result.returncode == 2
        assert result.stdout == b""
        assert result.stderr.count(b"\n") == 1
        assert b"Traceback" not in result.stderr

    def test_commands_import_what_they_need_and_not_before(self):
        code = (
            "import sys; import jointsparse.cli.main\n"
            "assert 'matplotlib' not in sys.modules and 'pyarrow' not in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class TestText:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("3", 3), ("-2", -2), ("1e-3", 1e-3), ("0.5", 0.5), ("True", True), ("false", False),
            ("None", None), ("auto", "auto"), ("", ""),
        ],
    )  # fmt: skip
    def test_values(self, text, value):
        parsed = parse_value(text)
        assert parsed == value
        assert type(parsed) is type(value)

    def test_shortening_keeps_both_ends(self):
        assert shorten_middle("abcdefghij", 10) == "abcdefghij"
        assert shorten_middle("abcdefghij", 7) == "abc…hij"
        assert shorten_middle("abcdefghij", 7, "...") == "ab...ij"
        assert cell_len(shorten_middle("🧬" * 50, 11)) <= 11

    def test_invisible_characters_are_shown(self):
        assert visible("a\nb\u202ec\ud800") == r"a\nb\u202ec\ud800"
        assert visible("👩‍🔬") == "👩‍🔬"


def test_written_paths_are_not_markup(variance, table):
    target = Path(table.parent / "[red]x.csv")
    result = select(table, "--ranking", target)
    assert "[red]x.csv" in result.stdout


def test_components_are_chosen_and_described():
    result = invoke("select", "--method", "jspca", "--components", "3", "--features", "5")
    assert result.exit_code == 0
    assert "5 features predict" in result.stdout
    assert result.stdout.count("of the variance ·") == 3
    record = json.loads(invoke("select", "--method", "spca", "--components", "2", "--json").stdout)
    assert record["parameters"]["n_components"] == 2
    first = record["components"][0]
    assert first["n_nonzero"] == len(first["loadings"])
    sizes = [abs(value) for value in first["loadings"].values()]
    assert sizes == sorted(sizes, reverse=True)
    assert 0 < first["explained_variance"] < 1
    assert json.loads(invoke("select", "--json").stdout)["components"] is None


def test_components_of_a_method_without_any_are_refused():
    result = invoke("select", "--components", "3")
    assert result.exit_code == 2
    assert "--components: spca-psd has no parameter 'n_components'" in result.stderr
