"""``jointsparse reproduce --cluster`` on a cluster of real processes, some of which are killed."""

import os
import signal
import subprocess
import sys
import time

import pytest
from clusters import Cluster, environment
from typer.testing import CliRunner

from jointsparse.cli.main import app
from jointsparse.experiments import Store, Task, catalogue, run
from jointsparse.experiments.store import Finished

# Loaded by every worker and by the client: an experiment that says which process did each task.
DEMO = """
import os, time
from jointsparse.experiments import Experiment, Outcome, catalogue

def compute(case):
    with open({started!r}, "a") as file:
        file.write(f"{{case['n']}}\\n")
    time.sleep({seconds})
    if case["n"] == {broken!r}:
        raise RuntimeError("no luck")
    if case["n"] == {deadly!r}:
        os.kill(os.getpid(), 9)
    return [{{"process": os.getpid(), "square": case["n"] ** 2}}]

demo = Experiment(
    "demo", "Squares", lambda quick: [{{"n": n}} for n in range({count})], compute,
    lambda results: Outcome([], [("Squares", ("n",), [(row["square"],) for _, row in results])]),
)
catalogue.experiments = lambda: {{"demo": demo}}
"""
COMMAND = """
import sys
sys.path.insert(0, {folder!r})
import demo
from jointsparse import experiments
from jointsparse.experiments import catalogue
experiments.experiments = catalogue.experiments
from jointsparse.cli.main import main
main()
"""


@pytest.fixture
def demo(tmp_path, monkeypatch):
    """Write the demonstration for workers, and load it here."""

    def make(count=40, seconds=0.1, broken=None, deadly=None):
        file = tmp_path / "demo.py"
        started = str(tmp_path / "started")
        file.write_text(
            DEMO.format(started=started, seconds=seconds, count=count, broken=broken, deadly=deadly)
        )
        (tmp_path / "command.py").write_text(COMMAND.format(folder=str(tmp_path)))
        monkeypatch.setattr(catalogue, "experiments", None)
        namespace = {}
        exec(file.read_text(), namespace)
        return file, namespace["demo"].tasks()

    return make


def command(tmp_path, cluster, results):
    """Start ``jointsparse reproduce demo`` as a process of its own."""
    words = ["reproduce", "demo", "--cluster", cluster.address, "--results", str(results)]
    return subprocess.Popen(
        [sys.executable, str(tmp_path / "command.py"), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def squares(store):
    return {case["n"]: row["square"] for case, row in store.results("demo")}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="kill -9 is for POSIX systems")
class TestRealCluster:
    def test_tasks_fan_out_and_find_what_one_process_finds(self, tmp_path):
        tasks = catalogue.experiments()["000-outliers"].tasks(quick=True)
        one, many = Store(tmp_path / "1.sqlite"), Store(tmp_path / "2.sqlite")
        run(tasks, one)
        seen = []
        with Cluster(tmp_path, 2) as cluster:
            failed = run(
                tasks, many, cluster=cluster.address, on_progress=lambda *now: seen.append(now)
            )
        assert failed == 0
        assert many.results("000-outliers") == one.results("000-outliers")
        assert [done for done, _, _ in seen] == list(range(len(tasks) + 1))
        assert seen[-1][1:] == (len(tasks), 0)

    def test_a_killed_worker_loses_nothing(self, tmp_path, demo):
        file, tasks = demo()
        store = Store(tmp_path / "r.sqlite")
        with Cluster(tmp_path, 2, preload=file) as cluster:
            killed = []

            def on_progress(done, total, left):
                if done == 10:
                    cluster.kill_worker(0)
                    killed.append(cluster.workers[0].pid)

            assert run(tasks, store, cluster=cluster.address, on_progress=on_progress) == 0
            survivor = cluster.workers[1].pid
        processes = [row["process"] for _, row in store.results("demo")]
        assert set(processes) == {survivor, *killed}, "both workers have worked"
        assert squares(store) == {n: n**2 for n in range(40)}
        # What had arrived was not computed again: at most what the dead worker had in hand.
        assert len((tmp_path / "started").read_text().split()) <= 40 + 4

    def test_a_task_that_kills_its_workers_is_given_up_and_the_others_are_kept(
        self, tmp_path, demo
    ):
        file, tasks = demo(count=12, seconds=0.05, broken=3, deadly=5)
        store = Store(tmp_path / "r.sqlite")
        with Cluster(tmp_path, 5, preload=file) as cluster:
            assert run(tasks, store, cluster=cluster.address) == 2
        (broken, deadly) = store.failures("demo")
        assert broken == ({"n": 3}, "RuntimeError: no luck")
        assert deadly[0] == {"n": 5}
        assert deadly[1].startswith("KilledWorker: ")
        assert squares(store) == {n: n**2 for n in range(12) if n not in (3, 5)}

    def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(self, tmp_path, demo):
        file, _ = demo()
        results = tmp_path / "r.sqlite"
        with Cluster(tmp_path, 2, preload=file) as cluster:
            process = command(tmp_path, cluster, results)
            wait_for(lambda: results.exists() and len(Store(results).finished("demo")) >= 5)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 130
            kept = Store(results).finished("demo")
            assert 5 <= len(kept) < 40
            assert f"interrupted; {len(kept)} of 40 tasks of demo are kept in" in errors
            assert "Traceback" not in errors
            process = command(tmp_path, cluster, results)
            output, errors = process.communicate(timeout=60)
        assert process.returncode == 0
        assert "demo: 40 of 40 tasks" in errors
        assert "1521" in output
        assert squares(Store(results)) == {n: n**2 for n in range(40)}

    def test_a_scheduler_that_dies_is_one_sentence(self, tmp_path, demo):
        file, _ = demo()
        results = tmp_path / "r.sqlite"
        with Cluster(tmp_path, 1, preload=file) as cluster:
            process = command(tmp_path, cluster, results)
            wait_for(lambda: results.exists() and len(Store(results).finished("demo")) >= 3)
            cluster.scheduler.kill()
            _, errors = process.communicate(timeout=120)
        assert process.returncode == 2
        assert "the connection to the Dask scheduler was lost" in errors
        assert "Traceback" not in errors
        assert len(Store(results).finished("demo")) >= 3


@pytest.mark.parametrize("address", ["nonsense", "tcp://", "gopher://a:1", "127.0.0.1:port"])
def test_an_address_that_is_none_is_one_sentence(tmp_path, address):
    pytest.importorskip("distributed", reason="dask and distributed are not installed")
    words = ["reproduce", "001", "--cluster", address, "--results", str(tmp_path / "r.sqlite")]
    result = CliRunner().invoke(app, words, env={"TERM": "dumb", "COLUMNS": "100"})
    assert result.exit_code == 2
    assert "is not the address of a scheduler" in result.stderr
    assert not (tmp_path / "r.sqlite").exists()


def test_where_a_task_was_computed_is_kept(tmp_path):
    import sqlite3

    store = Store(tmp_path / "r.sqlite")
    store.add_finished(Finished(Task("a", {}), [{"x": 1}], 1.0, "Elsewhere", "{}"))
    with sqlite3.connect(store.path) as connection:
        assert connection.execute("SELECT machine, versions FROM task").fetchone() == (
            "Elsewhere",
            "{}",
        )
