"""How long a comparison takes: told beforehand, and shown while it works."""

import io
import time

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from jointsparse import SPCAPSD, GreedySelector, LaplacianScore, compare_methods
from jointsparse.cli.display import compare_progress
from jointsparse.cli.errors import CommandError
from jointsparse.cli.main import app
from jointsparse.model_selection import timing

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 2)) @ RNG.standard_normal((2, 5)) + RNG.standard_normal((400, 5))


@pytest.fixture
def small(monkeypatch):
    """Tell the time from a few of the 400 samples."""
    monkeypatch.setattr(timing, "FEW", 50)
    monkeypatch.setattr(timing, "MORE", 150)
    monkeypatch.setattr(timing, "MORE_OF_PAIRS", 100)


def timed(monkeypatch, seconds):
    """Let fits take the time that a function of the number of samples says."""
    monkeypatch.setattr(timing, "_time_of_fit", lambda _, samples: seconds(len(samples)))


def test_sums_grow_linearly_and_graphs_quadratically(small, monkeypatch):
    timed(monkeypatch, lambda n: 1 + 0.01 * n)
    found = timing.estimated_seconds({"greedy": GreedySelector()}, X, n_subsamples=4)
    assert found["greedy"] == pytest.approx(5 + 0.01 * (400 + 4 * 200))
    # What does not grow is not taken for the search of neighbours.
    timed(monkeypatch, lambda n: 1 + 0.001 * n**2)
    found = timing.estimated_seconds({"laplacian-score": LaplacianScore()}, X, n_subsamples=4)
    assert found["laplacian-score"] == pytest.approx(5 + 0.001 * (400**2 + 4 * 200**2))


def test_few_samples_and_refusals(small, monkeypatch):
    assert timing.estimated_seconds({"greedy": GreedySelector()}, X[:200]) == {}
    seen = []
    found = timing.estimated_seconds(
        {"one": GreedySelector(n_features_to_select=9), "two": SPCAPSD()},
        X,
        on_progress=lambda *step: seen.append(step),
    )
    assert np.isnan(found["one"])
    assert found["two"] > 0
    assert seen == [("one", 0, 2), ("two", 1, 2)]


def test_every_fit_is_told():
    seen = []
    compare_methods(
        {"greedy": GreedySelector()},
        X,
        n_features_to_select=2,
        n_subsamples=4,
        on_fit=lambda *step: seen.append(step),
    )
    assert seen == [("greedy", number, 5) for number in range(1, 6)]


def run(tmp_path, *options):
    np.save(tmp_path / "x.npy", X)
    methods = ("--methods", "greedy,laplacian-score", "--features", "2", "--subsamples", "4")
    return CliRunner().invoke(app, ["compare", str(tmp_path / "x.npy"), *methods, *options])


def test_the_command_says_how_long_and_leaves_out_what_is_slow(small, monkeypatch, tmp_path):
    timed(monkeypatch, lambda n: 0.005 * n)
    result = run(tmp_path)
    said = " ".join(result.output.split())
    assert result.exit_code == 0, result.output
    assert "about 18 s in all: greedy 6 s, laplacian-score 12 s" in said
    assert "--skip-slow" not in said  # none of them takes more than a minute
    monkeypatch.setattr(compare_progress, "SLOW", 10.0)
    said = " ".join(run(tmp_path).output.split())
    assert "--skip-slow leaves out laplacian-score" in said
    result = run(tmp_path, "--skip-slow")
    said = " ".join(result.output.split())
    assert "left out 1 slow method: laplacian-score (about" in said
    assert "1 of 1: greedy" in said
    monkeypatch.setattr(compare_progress, "SLOW", 1.0)
    result = run(tmp_path, "--skip-slow")
    assert result.exit_code == 2
    assert "--skip-slow leaves nothing" in result.stderr


def test_nothing_slow_is_nothing_to_say(capsys):
    compare_progress.announce({"greedy": 0.5, "spca": float("nan")})
    assert capsys.readouterr().err == ""
    methods = {"greedy": 1, "spca": 2}
    assert compare_progress.without_slow(methods, {"greedy": 0.5}) == (methods, [])
    with pytest.raises(CommandError):
        compare_progress.without_slow({"greedy": 1}, {"greedy": 1e6})


def test_signs_of_life_in_a_log(monkeypatch):
    monkeypatch.setattr(compare_progress, "BETWEEN_LINES", 0.01)
    stream = io.StringIO()
    with compare_progress.CompareProgress(Console(file=stream), quiet=False) as progress:
        progress.method("greedy", 0, 2)
        progress.fit("greedy", 3, 11)
        time.sleep(0.1)
    assert "1 of 2: greedy\n" in stream.getvalue()
    assert "greedy, fit 3 of 11, 1 s\n" in stream.getvalue()


def test_a_bar_on_a_terminal_and_silence():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100)
    with compare_progress.CompareProgress(console, quiet=False) as progress:
        progress.method("greedy", 0, 2)
        progress.fit("greedy", 3, 11)
    assert "greedy, fit 3 of 11" in stream.getvalue()
    stream = io.StringIO()
    with compare_progress.CompareProgress(Console(file=stream), quiet=True) as progress:
        progress.method("greedy", 0, 2)
        progress.fit("greedy", 3, 11)
    assert stream.getvalue() == ""


def test_how_far_the_neighbours_of_a_fit_are(monkeypatch):
    monkeypatch.setattr("jointsparse.graphs.neighbours.BLOCK_ENTRIES", 400)  # a sample at a time
    console = Console(file=io.StringIO(), width=100)
    monkeypatch.setattr(compare_progress, "BETWEEN_LINES", 0.001)
    with compare_progress.CompareProgress(console, quiet=False) as progress:
        progress.fit("laplacian-score", 1, 11)
        LaplacianScore().fit(X)
        seen = progress._within
    assert seen == ""  # they are over
    assert "laplacian-score, fit 1 of 11, 1 s, looking for neighbours: " in console.file.getvalue()
