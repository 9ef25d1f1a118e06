"""The command line speaks of methods and options, never of classes, parameters or calls."""

import ast
import itertools
import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from test_cli import assert_refused, invoke
from test_cli_edges import comparison, result

import jointsparse
from jointsparse.cli.commands import compare
from jointsparse.cli.errors import told, warnings_in_options
from jointsparse.cli.words import in_options
from jointsparse.io import Table, write_table
from jointsparse.methods import registry
from jointsparse.selection.choosing import Choice, Wanted, about_choice
from jointsparse.text import counted

SOURCE = Path(jointsparse.__file__).parent
CLASSES = {method.class_name for method in registry.methods().values()}
CLASSES |= {"SelectFeatures", "MomentsEstimator", "ConvexSelector", "Pipeline", "DataFrame"}
INTERNAL = re.compile(
    rf"\b(?:{'|'.join(sorted(CLASSES))})\b"  # classes
    r"|\w\(\w*\)|\bfit\b\("  # calls
    r"|(?<!--param )\b[a-z]+(?:_[a-z]+)+\b(?!\.)"  # parameters, functions
    r"|\b[a-z]+_(?!\w)"  # what was learned
    r"|(?<!--param )(?<!such as )\b(?!r2)[a-z]\w*=[\w'\"]"  # name=value
)


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    tall = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 6)) + rng.normal(size=(40, 6))
    for name, values in {"tall": tall, "wide": tall.T.copy(), "constant": np.ones((9, 3))}.items():
        names = [f"c{j}" for j in range(values.shape[1])]
        write_table(tmp_path / f"{name}.csv", Table(values, names))
    np.save(tmp_path / "big.npy", rng.standard_normal((4000, 6)))
    return tmp_path


# What each command line leads the library to say; {} is the folder of the tables.
SAID = [
    "select {}/tall.csv --method cspca --param solver=foo",
    "select {}/tall.csv --method jspca --param alpha=2",
    "select {}/tall.csv --method fssl --param graph=lda",
    "select {}/tall.csv --method fssl --param graph=foo",
    "select {}/tall.csv --method fssl --param mu=0.1",
    "select {}/tall.csv --method spca --param n_nonzero=99",
    "select {}/tall.csv --method spca --param alpha=text",
    "select {}/tall.csv --method spca --components 3 --param n_nonzero=2 --choose auto",
    "select {}/tall.csv --method udfs --param n_clusters=99",
    "select {}/tall.csv --method udfs --param n_neighbors=0",
    "select {}/tall.csv --method sogfs --param n_clusters=400",
    "select {}/tall.csv --method rne --param ridge=-1",
    "select {}/tall.csv --method rne --param solver=published --features auto",
    "select {}/tall.csv --method mcfs --param alpha=2",
    "select {}/tall.csv --method laplacian-score --param width=0",
    "select {}/tall.csv --method greedy --param target=clusters",
    "select {}/tall.csv --method robust-pca --param alpha=-1",
    "select {}/tall.csv --method spcafs --param p=3",
    "select {}/tall.csv --method spca-psd --param eta=0.999 --param alpha=0.9",
    "select {}/tall.csv --method spca-psd --param alpha=count",
    "select {}/tall.csv --method spca-psd --param penalty_scale=foo",
    "select {}/tall.csv --method spca-psd --param max_iter=0",
    "select {}/tall.csv --method aw-spca --param max_iter=1",
    "select {}/tall.csv --method cspca --param max_iter=1 --param tol=1e-9",
    "select {}/tall.csv --method dictionary-spca --components 9",
    "select {}/tall.csv --method dictionary-spca --param alpha=0.99 --components 3",
    "select {}/tall.csv --method spca --features 6 --param alpha=0.9",
    "select {}/tall.csv --features foo",
    "select {}/tall.csv --rule norm --features 1",
    "select {}/tall.csv --choose silhouette",
    "select {}/tall.csv --choose silhouette --clusters 60",
    "select {}/tall.csv --method greedy --choose rank --clusters 3",
    "select {}/tall.csv --method udfs --choose rank --clusters 3",
    "select {}/tall.csv --param penalty_scale=absolute --choose auto",
    "select {}/big.npy --method rne --memory 20kB",
    "select {}/big.npy --method robust-pca --memory 20kB",
    "select {}/big.npy --memory 1kB",
    "select {}/big.npy --memory 20kB --choose rank --clusters 3",
    "select {}/constant.csv",
    "select {}/tall.csv --label c",
    "path {}/tall.csv --method greedy",
    "path {}/tall.csv --method spca --param n_nonzero=3",
    "path {}/tall.csv --param solver=published",
    "compare {}/constant.csv --methods greedy",
    "compare {}/wide.csv --methods sogfs,udfs,fssl --features 2 --subsamples 2",
]


@pytest.mark.parametrize("line", SAID)
def test_no_message_speaks_of_python(line, tables):
    arguments = [part.replace("{}", str(tables)) for part in line.split()]
    text = invoke(*arguments, "--quiet").stderr.replace(str(tables), "")
    assert INTERNAL.search(text) is None, text


def test_a_wrong_value_of_an_option_is_told_without_the_name_of_an_exception(tables):
    told = invoke("select", str(tables / "tall.csv"), "--scale", "foo").stderr
    assert "'--scale': 'foo' is not one of 'standard', 'none', 'robust'" in " ".join(told.split())


def test_most_of_these_lead_to_a_message(tables):
    """Or the test above would say nothing."""
    said = 0
    for line in SAID[:7]:
        arguments = [part.replace("{}", str(tables)) for part in line.split()]
        said += bool(invoke(*arguments, "--quiet").stderr)
    assert said == 7


def test_the_pattern_finds_what_it_is_for():
    for text in (
        "MomentsEstimator.fit() got an unexpected keyword argument",
        "use fit(X)",
        "raise max_iter",
        "alpha=2 is too much",
        "it has no loadings_ at all",
    ):
        assert INTERNAL.search(text), text
    assert not INTERNAL.search("--param max_iter=0 is not one; see spca-psd, or --features 3.")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("AWSPCA needs them", "aw-spca-psd needs them"),
        ("SelectFeatures: only 3", "only 3"),
        ('fill it with impute="mean"', "fill it with --missing mean"),
        ("leave them out with drop_text=True, or", "leave them out with --drop-text, or"),
        ("keep it aside with label='who'.", "keep it aside with --label who."),
        ('allow more with memory="2GB", or', "allow more with --memory 2GB, or"),
        ("random_state=3.", "--seed 3."),
        ("a model with loadings_ (SPCAPSD)", "a model with loadings (spca-psd)"),
        # what belongs to the user stays
        ("data/SPCA.csv has a column 'alpha=2'", "data/SPCA.csv has a column 'alpha=2'"),
        ("/home/SPCA/t.csv: n=3", "/home/SPCA/t.csv: n=3"),
        ("--param alpha=2 is --param alpha=2", "--param alpha=2 is --param alpha=2"),
    ],
)
def test_words_of_python_and_of_the_command_line(said, told):
    assert in_options(said) == told


def test_a_class_of_two_methods_is_the_one_at_work():
    assert in_options("CSPCA did not", "cspca") == "cspca did not"
    assert in_options("CSPCA did not", "greedy") == "cspca-psd did not"


def test_an_option_is_not_said_twice():
    assert str(told(ValueError("rule='x' is none"), about="--rule: ")) == "--rule x is none"
    assert str(told(ValueError("odd"), about="--rule: ")) == "--rule: odd"


def test_a_warning_that_nobody_collects_is_one_line_in_options(capsys):
    with warnings_in_options():
        for _ in range(2):
            warnings.warn("CSPCA did not converge:\nraise max_iter", UserWarning, stacklevel=2)
        warnings.warn("fit() will change", DeprecationWarning, stacklevel=2)
    said = capsys.readouterr().err
    assert said == "jointsparse: warning: cspca-psd did not converge: raise --param max_iter\n"


@pytest.mark.slow  # a process of its own: here, warnings are collected by who runs the tests
def test_points_that_are_tried_do_not_warn(tables):
    import subprocess
    import sys

    options = ["--method", "udfs", "--choose", "rank", "--clusters", "3", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "jointsparse", "select", str(tables / "tall.csv"), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert INTERNAL.search(done.stderr) is None, done.stderr


def test_an_error_that_knows_its_options_is_believed():
    error = ValueError("has one missing value; fill it with SimpleImputer")
    error.cure_option = "has one missing value; fill it with --impute mean"
    assert str(told(error)) == error.cure_option


def test_messages_of_the_library_go_one_way_only():
    """Nothing in ``cli`` makes an error of its own out of the bare text of another."""
    for file in sorted((SOURCE / "cli").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "CommandError":
                assert "str(error)" not in ast.unparse(node) or file.name in (
                    "errors.py",
                    "select.py",  # says what was written before, behind what was told already
                    "report.py",  # of a document, which the library does not speak of
                ), (file.name, ast.unparse(node))


# numbers and nouns

PLURAL = re.compile(
    r"^ (?:\w+ )?(?:feature|sample|column|component|loading|row|iteration|pixel)s\b"
)


def test_no_noun_is_in_the_plural_whatever_the_number():
    wrong = []
    for file in [*(SOURCE / "cli").rglob("*.py"), SOURCE / "selection/choosing.py"]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            wrong += [
                f"{file.name}: {ast.unparse(number)}{noun.value[:20]}"
                for number, noun in itertools.pairwise(parts)
                if isinstance(number, ast.FormattedValue)
                and isinstance(noun, ast.Constant)
                and PLURAL.match(noun.value)
            ]
    assert not wrong


def test_one_of_everything(tmp_path):
    path = tmp_path / "one.csv"
    write_table(path, Table(np.arange(6.0)[:, None] ** 2, ["only"]))
    for command in (("select",), ("select", "--method", "spca"), ("path", "--points", "2")):
        printed = invoke(command[0], path, *command[1:])
        assert printed.exit_code == 0, printed.stderr
        assert not re.search(
            r"\b1 (?:feature|sample|loading|component|iteration)s\b", printed.output
        )
        assert "1 feature" in printed.output
    assert counted(1, "row") == "1 row"


@pytest.mark.parametrize(
    ("available", "n_kept", "said"),
    [
        (4, 4, "the 4 features with a nonzero score account for 50.0% of the variance, not "
               "the 90% asked for; all of them are kept"),
        (1, 1, "the one feature with a nonzero score accounts for 50.0% of the variance, not "
               "the 90% asked for; it is kept"),
        (4, 2, "asked for; 2 of them are kept, to which the other 2 add nothing"),
        (4, 3, "asked for; 3 of them are kept, to which the other one adds nothing"),
    ],
)  # fmt: skip
def test_what_is_said_to_be_kept_is_what_is_kept(available, n_kept, said):
    choice = Choice(np.arange(8), n_kept, np.full(n_kept, 0.5), None, available)
    assert about_choice(choice, Wanted(r2=0.9)).endswith(said)


def test_dependent_loadings_are_not_all_kept(tmp_path):
    """Eight copies of two columns: two say everything that any of them does."""
    rng = np.random.default_rng(0)
    two = rng.standard_normal((50, 2))
    noise = 3 * rng.standard_normal((50, 4))
    X = np.hstack([two, two * 2, two * 3, two * -1, noise])
    path = tmp_path / "copies.csv"
    write_table(path, Table(X, [f"c{j}" for j in range(12)]))
    asked = ("select", path, "--method", "spca", "--components", "2", "--r2", "0.99")
    printed = invoke(*asked)
    kept = len(json.loads(invoke(*asked, "--json").stdout)["kept"])
    if "all of them are kept" in printed.stderr:
        assert int(re.search(r"the (\d+) features with", printed.stderr)[1]) == kept
    else:
        assert f"{kept} of them" in printed.stderr


def test_a_question_ends_with_its_mark(tmp_path):
    path = tmp_path / "t.csv"
    write_table(path, Table(np.eye(4), ["a", "b", "c", "subtype"]))
    result = invoke("select", path, "--label", "subtpe")
    assert_refused(result, "did you mean subtype?")
    assert result.stderr.rstrip().endswith("?")


# tables on terminals of any width


@pytest.mark.parametrize("width", [50, 76, 80, 100, 109, 110, 111, 120, 160])
@pytest.mark.parametrize("labelled", [False, True])
def test_no_number_of_a_comparison_is_cut(width, labelled, tmp_path):
    import dataclasses
    import io

    scores = dict.fromkeys(compare.SCORES, (0.876, 0.123)) if labelled else None
    methods = [dataclasses.replace(result(name), scores=scores) for name in registry.methods()]
    found = dataclasses.replace(comparison(*methods), scores_of_all=scores)
    console = Console(file=io.StringIO(), width=width)
    compare._print(console, found, Table(np.eye(3), list("abc")), "t.csv", "standardised")
    text = console.file.getvalue()
    assert "…" not in text
    assert text.count("50.0") == len(methods)
    assert text.count("87.6") == (3 * (len(methods) + 1) if labelled else 0)
    # Every pair of methods has its overlap, in one table or in several.
    assert text.count("1.00") >= len(methods) ** 2


@pytest.mark.slow  # it makes its list of fonts anew
def test_matplotlib_is_quiet_without_a_home(tmp_path):
    import os
    import subprocess
    import sys

    figure = tmp_path / "f.png"
    done = subprocess.run(
        [sys.executable, "-m", "jointsparse", "path", "--points", "2", "--quiet",
         "--figure", figure],
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": os.devnull, "XDG_CONFIG_HOME": os.devnull,
             "XDG_CACHE_HOME": os.devnull, "MPLCONFIGDIR": os.devnull},
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert figure.exists()


def test_how_well_the_worst_stand_in_does_is_said(tmp_path):
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 200, 1))
    X = np.hstack([first, first, second, second]) + [0.1, 0.1, 1, 1] * rng.standard_normal((200, 4))
    np.savetxt(tmp_path / "t.csv", X, delimiter=",", header="a,b,c,d", comments="")
    printed = invoke("select", str(tmp_path / "t.csv"), "--features", "2").stdout
    line = next(line for line in printed.split("\n") if line.startswith("stands in for "))
    r2 = [100 * np.corrcoef(X[:, j], X[:, j + 1])[0, 1] ** 2 for j in (0, 2)]
    assert f"from {r2[0]:.0f} % of '" in line
    assert f"to only {r2[1]:.0f} % of '" in line
