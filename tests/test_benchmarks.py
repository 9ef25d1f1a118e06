"""The benchmark itself: competitors that crash, hang, abort or are absent; store, table, guard."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import oracles
import pytest

from benchmarks import operations, reference, report
from benchmarks.__main__ import main, run
from benchmarks.competitors import Solver, all_solvers
from benchmarks.earlier import Results
from benchmarks.environments import HERE, Environments
from benchmarks.measure import Outcome, measure
from benchmarks.store import Store
from benchmarks.suites import SCRIPTS, SUITES, components, convex, plan, scaling, tasks
from benchmarks.tasks import OURS, Bar, Metric, Problem, Task

ROOT = Path(__file__).parents[1]
FAKES = """
    import os, time
    import numpy as np

    class Base:
        runs = 0
        def set_objective(self, data, params):
            self.data, self.params = data, params
        def run(self):
            self.runs += 1
            sum(range(20000))
        def get_result(self):
            seen = "_y" in self.data
            return {"value": self.data["X"].sum() + self.params.get("led", 0), "seen": seen}

    class Slow(Base):
        def run(self):
            sum(range(400000))

    class Raises(Base):
        def run(self):
            raise ValueError("no such\\n thing")

    class Aborts(Base):
        def run(self):
            os.abort()

    class Toils(Base):
        def run(self):
            sum(range(10**11))

    class FromFolder(Base):
        def get_result(self):
            import sparsepca
            return {"value": 1.0, "folder": float(sparsepca.where == "folder")}

    class First(Base):
        def get_result(self):
            h = self.params["h"]
            return {k.replace("X", "order"): np.arange(h) for k in self.data if k[0] == "X"}
"""


def fakes(folder, *classes, tasks=("sum",), environment=HERE):
    file = folder / "fake.py"
    file.write_text(textwrap.dedent(FAKES))
    return [
        Solver(OURS if cls == "Base" else cls, tasks, environment, "numpy", str(file), cls)
        for cls in classes
    ]


def summing(leader=None):
    return Task(
        suite="fake",
        name="sum",
        title="Sums",
        problems=lambda quick: [Problem("fake", "sum", "three", 3)],
        load=lambda problem: {"X": np.ones(problem.dataset), "_y": np.zeros(3)},
        evaluate=lambda data, params, result: {k: float(v) for k, v in result.items()},
        metric=Metric("value", higher_is_better=True),
        leader=leader,
        lead=lambda data, params, result: {"led": 10},
    )


@pytest.fixture
def environments(tmp_path):
    return Environments(tmp_path / "environments", make=False)


@pytest.fixture
def about():
    return {"versions": {"numpy": "0"}, "python": "3", "processor": "abacus", "quick": True}


def test_every_way_to_fail_is_a_result(tmp_path, environments):
    solvers = fakes(tmp_path, "Base", "Raises", "Aborts", "Toils")
    solvers += fakes(tmp_path, "Slow", environment="skmatter")
    task = summing()
    found = measure(task, task.problems(True)[0], solvers, environments, repeats=2, limit=1)
    status = {outcome.competitor: outcome.status for outcome in found}
    assert status[OURS] == "ok"
    assert status["Raises"] == "crashed: ValueError: no such thing"
    assert status["Aborts"].startswith("crashed: signal 6")
    assert status["Toils"] == "timeout after 1 s"
    assert status["Slow"] == "not installed"


def test_warm_up_is_excluded_and_labels_are_withheld(tmp_path, environments):
    task = summing(leader="Slow")
    solvers = fakes(tmp_path, "Base", "Slow")
    ours, slow = measure(task, task.problems(True)[0], solvers, environments, repeats=3)
    assert len(ours.seconds) == len(slow.seconds) == 3
    assert ours.quality == {"value": 13.0, "seen": 0.0}  # the leader's result reached it
    assert slow.quality["value"] == 3.0
    assert slow.median > ours.median


def test_a_run_goes_on_where_it_stopped(tmp_path, about):
    problem = Problem("fake", "sum", "three", 3)
    store = Store(tmp_path / "a.sqlite", about)
    assert not store.has(problem)
    kept = Outcome(OURS, "1", "ok", [0.1, 0.3, 0.2], 5.0, {"value": 1.0})
    store.add(problem, [kept])
    store.close()
    again = Store(tmp_path / "a.sqlite", about)
    assert again.has(problem)
    assert again.outcomes("fake", "sum") == {"three": [kept]}
    assert kept.median == 0.2
    other = Store(tmp_path / "a.sqlite", about | {"python": "4"})
    assert not other.has(problem)  # ratios are compared within one machine and version
    assert not Store(tmp_path / "a.sqlite", about, fresh=True).has(problem)


def test_after_so_many_minutes_nothing_begins(tmp_path, about, environments):
    store, said = Store(tmp_path / "a.sqlite", about), []
    options = {"quick": True, "repeats": 1, "limit": 1, "out": said.append}
    left = run(("startup",), store, environments, [], minutes=0, **options)
    assert left == sum(len(task.problems(True)) for task in tasks("startup"))
    assert not said
    assert not any(store.outcomes("startup", task.name) for task in tasks("startup"))


def test_runs_share_the_problems_of_a_task(tmp_path, about, environments):
    options = {"quick": False, "repeats": 1, "limit": 1, "minutes": 0, "out": str}
    counts = [
        run(("noise",), Store(tmp_path / "a.sqlite", about), environments, [], part=part, **options)
        for part in ((0, 2), (1, 2), (0, 1))
    ]
    assert min(counts) > 10
    assert counts[0] + counts[1] == counts[2]


def test_promises_come_first():
    names = [task.name for task in plan(SUITES)]
    assert sorted(names) == sorted(task.name for suite in SUITES for task in tasks(suite))
    assert names[:2] == ["spca", "fssl"]
    assert [task.name for task in plan(("startup",))] == ["import", "command"]


def test_rivals_from_a_folder_need_no_environment(tmp_path):
    site = tmp_path / "site"
    (site / "sparsepca-9.9.dist-info").mkdir(parents=True)
    (site / "sparsepca-9.9.dist-info" / "METADATA").write_text("Name: sparsepca\nVersion: 9.9\n")
    (site / "sparsepca.py").write_text("where = 'folder'\n")
    places = Environments(tmp_path / "none", make=False, site=site)
    assert places.python("components") == sys.executable
    assert places.version("components", "sparsepca") == "9.9"
    solver = fakes(tmp_path, "FromFolder", environment="components")[0]
    solver = Solver(OURS, ("sum",), "components", "sparsepca", solver.file, "FromFolder")
    task = summing()
    found = measure(task, task.problems(True)[0], [solver], places, repeats=1, limit=20)[0]
    assert found.status == "ok"
    assert found.quality["folder"] == 1.0


def test_table_says_where_we_are_slower_or_worse(tmp_path, about):
    store, task = Store(tmp_path / "a.sqlite", about), summing()
    object.__setattr__(task, "bars", lambda outcomes: [Bar("as good", "it is not", False)])
    outcomes = [
        Outcome(OURS, "1", "ok", [0.2], 1.0, {"value": 1.0}),
        Outcome("quick and good", "1", "ok", [0.1], 1.0, {"value": 2.0}),
        Outcome("slow and bad", "1", "ok", [2.0], 1.0, {"value": 0.5}),
        Outcome("absent", None, "not installed"),
    ]
    store.add(task.problems(True)[0], outcomes)
    report.write(tmp_path / "RESULTS.md", Results(store, [task]), [task])
    text = (tmp_path / "RESULTS.md").read_text()
    assert "| quick and good | 1 | 0.50 | -1.000 | 1.00 | **slower** on 1 of 1; **worse**" in text
    assert "| slow and bad | 1 | 10.0 | +0.500 | 1.00 |  |" in text
    assert "| absent | 0 of 1 |  |  |  | not installed |" in text
    assert "| as good | it is not | **MISSED** |" in text


def page_of(path, store, task, **more):
    report.write(path, Results(store, [task], path.with_suffix(".json"), **more), [task])
    return path.read_text()


def test_what_a_run_did_not_measure_stays_with_its_version(tmp_path, about):
    task, path = summing(), tmp_path / "RESULTS.md"
    about = about | {"quick": False}
    first = Store(tmp_path / "a.sqlite", about)
    slow = Outcome("slow", "7.1", "ok", [2.0, 2.2, 2.8, 2.1], 3.0, {"value": 0.5})
    absent = Outcome("absent", None, "not installed")
    first.add(task.problems(False)[0], [Outcome(OURS, "1", "ok", [0.2], 1.0), slow, absent])
    before = page_of(path, first, task, note="Nothing else ran.")
    assert "- fake: abacus, Python 3, numpy 0. Nothing else ran." in before
    later = Store(tmp_path / "b.sqlite", about | {"versions": {"numpy": "2"}})
    assert page_of(path, later, task) == before  # to the last digit
    later.add(task.problems(False)[0], [Outcome(OURS, "1", "ok", [0.1], 1.0)])
    after = page_of(path, later, task)
    assert "- fake: abacus, Python 3, numpy 2\n" in after
    assert "slow" not in after.split("Problem by problem")[1]  # outcomes are not mixed


def test_the_stored_results_make_the_page_of_results(tmp_path, monkeypatch):
    stored = ROOT / "benchmarks" / "RESULTS.json"
    page = stored.with_suffix(".md").read_text()
    left = page[page.index("## Not measured") : page.index("<!-- end -->")]
    every = [task for suite in SUITES for task in tasks(suite)]
    # What is left to measure depends on which datasets are here.
    incomplete = {task.name for task in every if f"- {task.title}:" in left}
    monkeypatch.setattr(report, "missing", lambda measured, quick: (left, incomplete))
    nothing = {"versions": {}, "quick": False}
    results = Results(Store(tmp_path / "a.sqlite", nothing), every, stored)
    report.write(tmp_path / "RESULTS.md", results, every)
    for name in ("RESULTS.md", "RESULTS.json"):
        assert (tmp_path / name).read_text() == (ROOT / "benchmarks" / name).read_text(), name


@pytest.mark.slow
def test_quick_suite_with_a_fake_rival(tmp_path, environments, about):
    names = ("reconstruction", "clusters")
    solvers = fakes(tmp_path, "First", tasks=names)
    solvers += [s for s in all_solvers() if s.name == OURS and set(names) <= set(s.tasks)]
    assert len(solvers) == 2
    store, said = Store(tmp_path / "a.sqlite", about), []
    for _ in range(2):  # nothing is left to measure the second time
        run(
            ["selection"],
            store,
            environments,
            solvers,
            quick=True,
            repeats=1,
            limit=60,
            out=said.append,
        )
    assert len(said) == 2
    found = {o.competitor: o for o in store.outcomes("selection", "reconstruction")["wine"]}
    # Of the dropped features alone: kept ones are exact, and count no longer.
    assert 0.2 < found["First"].quality["r2"] < found[OURS].quality["r2"] < 1
    assert found["First"].quality["stability"] == 1  # the same features on both halves


@pytest.mark.slow
def test_command_writes_the_table(tmp_path):
    words = ["--quick", "--suite", "startup", "--no-install", "--repeats", "1"]
    words += ["--environments", str(tmp_path / "none"), "--database", str(tmp_path / "q.sqlite")]
    main([*words, "--output", str(tmp_path), "--figures", str(tmp_path)])
    text = (tmp_path / "RESULTS-quick.md").read_text()
    assert "not installed" in text  # skmatter has no environment here: said, not left out
    assert "Importing jointsparse is faster than importing scikit-learn" in text


def test_every_task_has_ours_and_a_rival():
    solvers = all_solvers()
    for task in (task for suite in SUITES for task in tasks(suite)):
        names = [solver.name for solver in solvers if task.name in solver.tasks]
        assert OURS in names, task.name
        assert any(not name.startswith(OURS) for name in names), task.name
        assert len(names) == len(set(names)), task.name


def test_slopes_of_a_power_law():
    outcomes = {
        f"{n} samples": [Outcome("a", "1", "ok", [1e-6 * n**1.5], 0.01 * n)] for n in (10, 100, 900)
    }
    time, memory, count = scaling.slopes(outcomes)["a"]
    assert time == pytest.approx(1.5)
    assert memory == pytest.approx(1.0)
    assert count == 3


def test_convex_objectives_are_those_of_the_oracle():
    S, _ = oracles.planted_problem(6, seed=0)
    X = np.linalg.cholesky(S).T
    optimum, omega = oracles.spca_psd_optimum(S, 0.01, 0.05)
    params = {"model": "spca-psd", "lam": 0.01, "eta": 0.05}
    values, vectors = np.linalg.eigh(omega)
    loadings = vectors * np.sqrt(np.clip(values, 0, None))
    for result in ({"omega": omega}, {"loadings": loadings}):
        value = convex.spca_psd_objective({"X": X}, params, result)["objective"]
        assert value == pytest.approx(optimum, rel=1e-6)
    assert reference.reference(S, 0.01, 0.05)[1][-1] >= optimum


@pytest.mark.parametrize("model", ["cspca-psd", "aw-spca-psd"])
def test_sample_references_end_above_the_optimum_but_near(model):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 5))
    X += 0.3 * rng.standard_normal((20, 5))
    X -= X.mean(axis=0)
    free = model == "aw-spca-psd"
    params = {"model": model, "lam": 2.0, "eta": 0.0 if free else 1.0}
    optimum, best = oracles.sample_loss_optimum(
        X, params["lam"], params["eta"], psd=True, free_mean=free
    )
    found = (
        reference.aw_spca_psd_reference(X, 2.0)
        if free
        else reference.cspca_psd_reference(X, 2.0, 1.0)
    )
    judged = convex.judge_samples({"X": X}, params, {"omega": best})["objective"]
    assert judged == pytest.approx(optimum, rel=1e-5)
    theirs = convex.judge_samples({"X": X}, params, {"omega": found[0]})["objective"]
    assert 1 - 1e-6 <= theirs / optimum < 1.3


def test_dictionaries_are_judged_at_their_best_codes():
    import cvxpy as cp

    rng = np.random.default_rng(0)
    X, V = rng.standard_normal((12, 6)), rng.standard_normal((3, 6))
    found = components.dictionary_objective({"X": X}, {"lam": 0.5}, {"components": V})
    W, unit = cp.Variable((12, 3)), V / np.linalg.norm(V, axis=1, keepdims=True)
    penalty = cp.sum(cp.multiply(0.5 * np.abs(unit).sum(axis=1), cp.norm(W, 2, axis=0)))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(X - W @ unit) + penalty))
    assert found["objective"] == pytest.approx(problem.solve(solver=cp.CLARABEL), rel=1e-6)


def test_reweighting_reaches_the_optimum_of_fssl():
    rng = np.random.default_rng(0)
    X, Y, mu = rng.standard_normal((15, 8)), rng.standard_normal((15, 2)), 0.3
    optimum, _ = oracles.group_lasso_optimum(X, Y, 1 / mu)
    A, passes = reference.fssl_reference(X, Y, mu, optimum * mu * (1 + 1e-5))
    assert passes < 5000
    assert reference.fssl_objective(X, Y, A, mu) == pytest.approx(optimum * mu, rel=2e-5)


def test_spca_reference_solves_our_problem():
    from jointsparse import SPCA

    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 8)) + rng.standard_normal((60, 8))
    X -= X.mean(axis=0)
    B = reference.spca_reference(X, 2, 20.0, 5.0, tol=1e-8)
    model = SPCA(n_components=2, alpha=20.0, ridge=5.0, penalty_scale="absolute", tol=1e-9).fit(X)
    unit = (B / np.linalg.norm(B, axis=0)).T
    cosines = np.abs(unit @ model.components_.T)
    assert np.sort(cosines.max(axis=1)) == pytest.approx([1, 1], abs=1e-4)


def test_guard_names_what_grew():
    stored = {"a": {"eigh": 10, "peak bytes": 1000}, "gone": {"eigh": 1}}
    same = {"a": {"eigh": 11, "peak bytes": 50_000}}
    assert operations.growths(stored, same) == ["gone: stored, but no longer counted"]
    more = {"a": {"eigh": 12, "svd": 1, "peak bytes": 10}, "gone": {"eigh": 1}, "new": {}}
    assert operations.growths(stored, more) == [
        "a: eigh grew from 10 to 12",
        "a: svd grew from 0 to 1",
        "new: not stored yet",
    ]


@pytest.mark.slow
def test_guard_passes_and_fails(tmp_path):
    code = textwrap.dedent("""
        import json, sys
        from pathlib import Path
        from benchmarks import operations
        status = operations.main([])
        stored = json.loads(operations.STORED.read_text(encoding="utf-8"))
        assert stored["greedy, wide"]["multiplications"] > 300 * 30 * 10  # a pass over X a pick
        stored["UDFS"]["eigh"] //= 2
        operations.STORED = Path(sys.argv[1])
        operations.STORED.write_text(json.dumps(stored))
        found = {"UDFS": {"eigh": 2 * stored["UDFS"]["eigh"]}}
        assert operations.growths({"UDFS": stored["UDFS"]}, found)
        sys.exit(status)
    """)
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "operations.json")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads((tmp_path / "operations.json").read_text())


def test_suites_that_are_scripts_have_the_same_entrance(capsys):
    main(["--suite", "l0", "--quick"])
    assert "methods of the field ahead at equal k: none ok" in capsys.readouterr().out
    main(["--suite", "missing", "--quick"])
    assert "em: recovery 1.00" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--suite", "l0", "--suite", "convex"])
    assert "l0 has options of its own: ask for it alone" in capsys.readouterr().err


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_says_what_it_can_do(name, capsys):
    if name == "gpu":
        pytest.importorskip("torch")
    with pytest.raises(SystemExit) as end:
        main(["--suite", name, "--help"])
    assert end.value.code == 0
    assert "usage" in capsys.readouterr().out
