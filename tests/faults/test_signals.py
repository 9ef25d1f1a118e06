"""Programs that are interrupted, terminated and killed, for real and at random moments."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from programs import environment, one_sentence

from fuzz import kills
from jointsparse.cli import start
from jointsparse.io import Table, write_table
from jointsparse.io.atomic import PREFIX

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")

# A run that stops in the middle of a file, which is where the harm would be done.
HALFWAY = """
import signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests were started with nohup
from jointsparse.io import writing
real = writing.write_arrow
def slowly(stream, *arguments):
    stream.write(b"half of a file")
    stream.flush()
    sys.stderr.write("writing\\n")
    sys.stderr.flush()
    time.sleep(60)
writing.write_arrow = slowly
sys.argv = ["jointsparse", "select", "in.csv", "--output", "out.csv", "--quiet"]
from jointsparse.cli.start import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status", "word"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 129, "terminated"),
    ],
)
def test_in_the_middle_of_a_file(tmp_path, number, status, word):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((50, 4)) + 2 * rng.standard_normal((50, 1))
    write_table(tmp_path / "in.csv", Table(values, list("abcd")))
    (tmp_path / "out.csv").write_text("old")
    process = subprocess.Popen(
        [sys.executable, "-c", HALFWAY],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr.readline() == "writing\n"
    assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 1
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == status
    assert errors == f"jointsparse: {word}; nothing was written.\n"
    assert (tmp_path / "out.csv").read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv", "out.csv"}


@pytest.mark.slow
def test_processes_of_reproduce_end_with_it(tmp_path):
    """Workers of --jobs end too, and what they had done is kept."""
    arguments = ["reproduce", "000-table1", "001-pitprops", "--quick", "--jobs", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "jointsparse", *arguments, "--results", "results.sqlite"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not (tmp_path / "results.sqlite").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1)
    process.terminate()
    _, errors = process.communicate(timeout=120)
    assert process.returncode in (0, 143), errors  # it may have been done by then
    if process.returncode:
        assert one_sentence(errors)
        assert "goes on from there" in errors
    assert _gone(process.pid), "a process of the run is still there"
    kills._results(tmp_path / "results.sqlite")


def _gone(group):
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.2)
    return False


@pytest.mark.slow
def test_killed_at_random_moments():
    """A few of ``python -m fuzz --kills 100``: nothing lost, nothing half written."""
    assert kills.run(6, first=7) == 0


@pytest.mark.slow
def test_interrupted_at_random_moments():
    assert kills.run(6, first=1000, names=("INT", "TERM")) == 0


def test_words_and_statuses():
    assert start.status_of(KeyboardInterrupt()) == 130
    assert start.status_of(start.Terminated()) == 143
    closed = start.Terminated()
    closed.number = signal.SIGHUP
    assert start.status_of(start.retold(closed, "what was done")) == 129
    assert str(start.retold(KeyboardInterrupt(), "what was done")) == "what was done"
    assert start.stopped(KeyboardInterrupt()) == "interrupted"
    assert start.stopped(start.Terminated()) == "terminated"
