"""The command that repeats a run, the one that would help next, and flags in the help."""

import shlex
from types import SimpleNamespace

import numpy as np
import pytest
from test_cli import invoke

from jointsparse.cli.commands.select import SelectOptions
from jointsparse.cli.display.next_step import next_step
from jointsparse.cli.display.repeating import command_of
from jointsparse.cli.intake.fitting import Scale, Transform
from jointsparse.cli.main import app


def test_the_command_has_what_is_not_as_by_default():
    assert command_of("select", SelectOptions()) == "jointsparse select"
    options = SelectOptions(
        data="my table.csv",
        param=["alpha=0.1", "tol=1e-6"],
        scale=Scale.NONE,
        transform=Transform.RANK,
        quiet=True,
        r2=0.75,
    )
    assert shlex.split(command_of("select", options, top=5, r2=0.9)) == [
        *("jointsparse", "select", "my table.csv", "--r2", "0.9", "--scale", "none"),
        *("--transform", "rank", "--param", "alpha=0.1", "--param", "tol=1e-6"),
        *("--top", "5", "--quiet"),
    ]


def test_the_command_on_the_page_runs_and_makes_the_same_page(tmp_path):
    pages = []
    asked = ("select", "--features", 4, "--param", "alpha=0.03", "--path-points", 0, "--quiet")
    command = [*asked, "--report", tmp_path / "a page.html"]
    for _ in range(2):
        assert invoke(*command).exit_code == 0
        pages.append((tmp_path / "a page.html").read_text(encoding="utf-8"))
        shown = pages[-1].split('aria-label="Command">')[1].split("</pre>")[0]
        command = shlex.split(shown.replace("&#39;", "'"))[1:]
    kept = [page.split('id="chips">')[1].split("</ol>")[0] for page in pages]
    assert kept[0] == kept[1]


def selection(**report):
    known = {
        "extremes": None,
        "extremes_matter": False,
        "beaten_by": 0,
        "is_noise": False,
        "n_features": 30,
    }
    return SimpleNamespace(
        report=SimpleNamespace(**{**known, **report}),
        kept=np.array([True, False]),
        transform=None,
        certificate=None,
        step=None,
    )


@pytest.mark.parametrize(
    ("report", "options", "end"),
    [
        ({"extremes_matter": True}, {}, "--robust cells"),
        ({"extremes_matter": True}, {"batch": "run"}, "--transform rank --batch run"),
        ({"extremes_matter": True}, {"impute": "em"}, "--transform rank --missing mean"),
        ({"extremes_matter": True, "is_noise": True}, {}, "--robust cells"),
        (
            {"extremes_matter": True, "extremes": SimpleNamespace(columns=np.array([]))},
            {"data": "t.csv", "label": ["who"]},
            "select t.csv --label who --robust samples",
        ),
        ({"beaten_by": 7}, {"features": "5", "seed": 3}, "select --seed 3"),
        ({"beaten_by": 7}, {}, "--report report.html"),
        ({}, {"features": "5"}, "--features 5 --report report.html"),
        ({}, {"report": "a.html"}, "--prove 60 --report a.html"),
        ({"n_features": 5000}, {"report": "a.html"}, None),
        ({"is_noise": True}, {}, None),
    ],
)
def test_the_next_step_is_the_first_that_helps(report, options, end):
    found = next_step(selection(**report), SelectOptions(**options))
    assert (found is None) == (end is None)
    if found is not None and end is not None:
        assert found[1].endswith(end)


@pytest.mark.parametrize(("shift", "option"), [(0, "--transform log1p"), (0.5, "--robust cells")])
def test_of_counts_the_logarithms_are_proposed(tmp_path, shift, option):
    rng = np.random.default_rng(0)
    level = np.exp(1 + rng.standard_normal((80, 1)) + 0.3 * rng.standard_normal(12))
    counts = rng.poisson(level).astype(float)
    counts[[3, 40], [0, 5]] = 4000
    header = ",".join(f"g{j}" for j in range(12))
    path = tmp_path / "t.csv"
    np.savetxt(path, counts + shift, delimiter=",", header=header, comments="")
    said = invoke("select", path, "--features", 3).stdout
    command = said[said.index("\nnext ") :].split("\n")[2]
    assert command.endswith(f"--features 3 {option}"), said
    assert invoke(*shlex.split(command)[1:]).exit_code == 0


@pytest.mark.parametrize(
    ("proved", "prove", "end"),
    [(False, None, "--prove 60"), (False, 5.0, "report.html"), (True, None, "report.html")],
)
def test_where_a_better_set_may_exist_a_search_is_proposed(proved, prove, end):
    asked = selection()
    asked.certificate = SimpleNamespace(proved=proved)
    found = next_step(asked, SelectOptions(prove=prove))
    assert found is not None
    assert found[1].endswith(end)


def test_nothing_helps_where_nothing_is_kept():
    nothing = selection()
    nothing.kept = np.array([False, False])
    assert next_step(nothing, SelectOptions()) is None


@pytest.mark.parametrize("command", [[], *([c.name] for c in app.registered_commands)])
def test_flags_are_not_shown_with_a_type(command):
    shown = invoke(*command, "--help").stdout
    assert "--help" in shown
    assert "<bool>" not in shown
