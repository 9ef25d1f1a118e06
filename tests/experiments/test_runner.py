import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from jointsparse.cli.main import app
from jointsparse.experiments import Claim, Experiment, Outcome, Store, Task, catalogue, run
from jointsparse.experiments.claims import judged
from jointsparse.experiments.pages import write_pages, write_summary


def invoke(*arguments):
    return CliRunner().invoke(
        app, list(map(str, arguments)), env={"TERM": "dumb", "COLUMNS": "100"}
    )


def experiment(compute=lambda case: [{"square": case["n"] ** 2}], count=4):
    return Experiment(
        "demo",
        "Squares",
        lambda quick: [{"n": n} for n in range(2 if quick else count)],
        compute,
        lambda results: Outcome(
            [], [("Squares", ("n", "n²"), [(c["n"], r["square"]) for c, r in results])]
        ),
    )


@pytest.fixture
def known(monkeypatch):
    def make(found):
        monkeypatch.setattr(catalogue, "experiments", lambda: {found.name: found})
        return found

    return make


def test_keys_do_not_depend_on_the_order_of_a_case():
    assert Task("a", {"x": 1, "y": 2.5}).key == Task("a", {"y": 2.5, "x": 1}).key
    assert Task("a", {"x": 1}).key != Task("b", {"x": 1}).key
    with pytest.raises(ValueError, match="JSON"):
        Task("a", {"x": float("nan")}).key


def test_what_is_done_is_not_done_again(tmp_path, known):
    calls = []

    def compute(case):
        calls.append(case["n"])
        return [{"square": case["n"] ** 2}, {"square": -1}]

    demo = known(experiment(compute))
    store = Store(tmp_path / "r.sqlite")
    seen = []
    assert run(demo.tasks(quick=True), store, on_progress=lambda *a: seen.append(a)) == 0
    assert run(demo.tasks(), store) == 0
    assert calls == [0, 1, 2, 3]
    assert [done for done, _, _ in seen] == [0, 1, 2]
    assert seen[0][2] is None
    assert seen[-1][2] == 0
    assert store.results("demo")[:2] == [({"n": 0}, {"square": 0}), ({"n": 0}, {"square": -1})]
    assert len(store.results("demo", [demo.tasks()[3].key])) == 2
    assert all(seconds >= 0 for seconds in store.seconds("demo").values())


def test_a_task_that_fails_stops_no_other_and_is_tried_again(tmp_path, known):
    broken = {1}

    def compute(case):
        if case["n"] in broken:
            raise RuntimeError("no luck")
        return [{"square": 0}]

    demo = known(experiment(compute))
    store = Store(tmp_path / "r.sqlite")
    assert run(demo.tasks(), store) == 1
    assert store.failures("demo") == [({"n": 1}, "RuntimeError: no luck")]
    assert len(store.finished("demo")) == 3
    broken.clear()
    assert run(demo.tasks(), store) == 0
    assert store.failures("demo") == []


def test_adding_twice_keeps_the_first(tmp_path):
    store = Store(tmp_path / "r.sqlite")
    store.add(Task("a", {}), [{"x": 1}], seconds=1)
    store.add(Task("a", {}), [{"x": 2}], seconds=1)
    assert store.results("a") == [({}, {"x": 1})]
    with sqlite3.connect(store.path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        versions = json.loads(connection.execute("SELECT versions FROM task").fetchone()[0])
    assert set(versions) == {"jointsparse", "numpy", "scipy", "scikit-learn"}


def test_several_processes_find_the_same(tmp_path):
    tasks = catalogue.experiments()["000-outliers"].tasks(quick=True)
    one, two = Store(tmp_path / "1.sqlite"), Store(tmp_path / "2.sqlite")
    run(tasks, one)
    run(tasks, two, jobs=2)
    assert one.results("000-outliers") == two.results("000-outliers")


SCRIPT = """
import sys, time
from jointsparse.experiments import Experiment, Outcome, Store, catalogue, run

def compute(case):
    print("task", flush=True)
    time.sleep(0.03)
    return [{"value": case["n"] * k} for k in range(50)]

demo = Experiment("demo", "", lambda quick: [{"n": n} for n in range(150)], compute, Outcome)
catalogue.experiments = lambda: {"demo": demo}
print("ready", flush=True)
run(demo.tasks(), Store(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="kill -9 is for POSIX systems")
def test_killed_at_ten_moments_and_resumed_it_ends_the_same(tmp_path):
    chance = random.Random(0)
    killed = 0
    path = tmp_path / "killed.sqlite"
    for _ in range(10):
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(path)], stdout=subprocess.PIPE
        )
        for _ in range(chance.randint(1, 5)):  # by its own count: on a busy machine all is late
            process.stdout.readline()
        time.sleep(chance.uniform(0.0, 0.03))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    assert killed == 10
    partial = len(Store(path).finished())
    assert 0 < partial < 150
    whole = tmp_path / "whole.sqlite"
    for file in (path, whole):
        subprocess.run([sys.executable, "-c", SCRIPT, str(file)], check=True, capture_output=True)
    assert Store(path).results("demo") == Store(whole).results("demo")
    assert Store(path).finished() == Store(whole).finished()
    assert len(Store(path).results("demo")) == 150 * 50


def test_verdicts():
    assert judged(10, 10.4, exact=0.5, close=2) == "reproduced"
    assert judged(10, 11, exact=0.5, close=2) == "close"
    assert judged(10, 20, exact=0.5, close=2) == "not reproduced"


def test_pages_escape_what_they_show(tmp_path):
    claim = Claim("a <b> | c", "<script>", "1", "not reproduced", "x & y")
    outcome = Outcome(
        [claim],
        [("t", ("h",), [("<i>",), (0.123456,)])],
        {"plot": lambda figure: figure.subplots().plot([1, 2])},
        ["note <u>"],
    )
    files = write_pages(tmp_path / "out", "demo", "A & B", outcome, ["{'n': 1}: broke"])
    assert [file.name for file in files] == ["demo.md", "demo.html", "demo-plot.png"]
    page = files[1].read_text()
    assert "<script>" not in page
    assert "<i>" not in page
    assert "A &amp; B" in page
    assert "0.1235" in page
    assert "a <b> \\| c" in files[0].read_text()
    assert "Failed: {'n': 1}: broke" in files[0].read_text()
    assert files[2].read_bytes()[:4] == b"\x89PNG"
    write_summary(tmp_path / "out", {"demo": ("A & B", outcome)})
    summary = (tmp_path / "out" / "summary.md").read_text()
    assert "| all |  | 0 | 0 | 1 | 0 |" in summary
    assert 'href="demo.html"' in (tmp_path / "out" / "summary.html").read_text()


def test_a_summary_keeps_the_experiments_of_earlier_runs(tmp_path):
    good, bad = (Claim("c", "1", "1", verdict) for verdict in ("reproduced", "not reproduced"))
    write_summary(tmp_path, {"beyond-l0": ("Later", Outcome([bad]))})
    write_summary(tmp_path, {"000-table1": ("First", Outcome([good, bad]))})
    rows = [line for line in (tmp_path / "summary.md").read_text().splitlines() if "|" in line]
    assert [row.split(" | ")[0] for row in rows[2:]] == [
        "| [000-table1](000-table1.md)",
        "| [beyond-l0](beyond-l0.md)",
        "| all",
    ]
    assert "| all |  | 1 | 0 | 2 | 0 |" in rows[-1]
    write_summary(tmp_path, {"beyond-l0": ("Later", Outcome([good]))})
    assert "| all |  | 2 | 0 | 1 | 0 |" in (tmp_path / "summary.md").read_text()
    (tmp_path / "summary.json").write_text("[1]")  # of another program: begun anew
    write_summary(tmp_path, {"beyond-l0": ("Later", Outcome([good]))})
    assert "| all |  | 1 | 0 | 0 | 0 |" in (tmp_path / "summary.md").read_text()


def test_every_experiment_is_listed_and_judges_nothing_as_nothing():
    listing = invoke("reproduce", "--list").stdout
    for name, found in catalogue.experiments().items():
        assert catalogue.named_by_paper(name) in listing
        assert isinstance(found.judge([]), Outcome)
        assert all(task.key for task in found.tasks(quick=True))


def test_reproduce_prints_claims_and_writes_pages(tmp_path):
    arguments = ("reproduce", "001-pitprops", "--results", tmp_path / "r.sqlite")
    result = invoke(*arguments, "--output", tmp_path / "pages")
    assert result.exit_code == 0
    assert "5 claims: 4 reproduced, 1 not reproduced" in result.stdout
    names = {file.name for file in (tmp_path / "pages").iterdir()}
    assert names >= {"summary.html", "001-pitprops.md", "001-pitprops-loadings.png"}
    record = json.loads(invoke(*arguments, "--json").stdout)
    assert record[0]["claims"][0]["verdict"] == "reproduced"


def test_bad_words_are_one_sentence(tmp_path):
    result = invoke("reproduce", "999", "--results", tmp_path / "r.sqlite")
    assert result.exit_code == 2
    assert "there is no experiment '999'" in result.stderr
    (tmp_path / "bad.sqlite").write_text("not a database, but long enough to look at" * 50)
    result = invoke("reproduce", "001", "--results", tmp_path / "bad.sqlite")
    assert result.exit_code == 2
    assert "cannot be used as a file of results" in result.stderr


def test_large_samples_on_a_device_give_the_same_scores(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")
    from jointsparse.experiments import data
    from jointsparse.experiments.papers.s004 import clustering, shared

    case = {"dataset": "digits", "method": "spca-psd", "penalty": 1.0, "repeats": 2, "step": 4}
    task = Task(clustering.EXPERIMENTS[0].name, case)
    # Whole numbers have ties between centres, which rounding decides.
    X, y = data.dataset("digits")
    X = X + np.random.default_rng(0).normal(0, 1e-2, X.shape)
    for module in (data, clustering):
        monkeypatch.setattr(module, "dataset", lambda name: (X, y))
    used = []
    place = data.placed
    monkeypatch.setattr(shared, "LEAST_ENTRIES", 1000)
    monkeypatch.setattr(shared, "placed", lambda X, least: used.append(place(X, least)) or used[-1])
    monkeypatch.setattr(data.placed, "__defaults__", (10,))
    found = {}
    for device in (None, "cpu"):
        data.large_moments.cache_clear()
        store = Store(tmp_path / f"{device}.sqlite")
        assert run([task], store, device=device) == 0
        found[device] = [row for _, row in store.results(task.experiment)]
    data.compute_on(None)
    data.large_moments.cache_clear()
    assert {type(X).__name__ for X in used} == {"ndarray", "Tensor"}
    assert len(found["cpu"]) == len(found[None]) > 3
    for here, there in zip(found[None], found["cpu"], strict=True):
        assert there == pytest.approx(here, abs=1e-6)


def test_a_device_that_is_not_there_is_one_sentence(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")
    arguments = ["reproduce", "000-table1", "--device", "wafer", "--results", str(tmp_path / "r")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "--device: 'wafer' is not a device" in result.stderr
    assert not (tmp_path / "r").exists()
