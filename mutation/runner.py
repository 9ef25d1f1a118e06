"""One fault after the other, each in a process forked from one that has the libraries loaded."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import multiprocessing as mp
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path

from mutation.operators import Mutant
from mutation.store import Store
from mutation.trees import BROKEN, Watch, copy_tree, in_child, session

FIXED, TIMES = 5.0, 4.0  # seconds of computing allowed: a fixed part, and times those of the tests
PATIENCE = 8.0  # a machine may be busy: seconds by the clock for one second of computing

FIRST = 8  # tests that run before the files of all others are read

Timed = list[tuple[str, float]]  # tests, and the seconds that each of them takes

_tree: Path | None = None


def run(
    root: Path, store: Store, todo: Iterator[Mutant], jobs: int, seconds: float, until: float
) -> int:
    """Try faults until there are none left or the time is up; return how many were tried."""
    done, busy, sound = 0, {}, False
    folder = Path(tempfile.mkdtemp(prefix="mutation-"))
    pool = ProcessPoolExecutor(
        jobs, mp.get_context("spawn"), _begin, (str(root), str(folder), store.modules())
    )
    try:
        while True:
            while len(busy) < jobs and time.monotonic() < until:
                mutant = next(todo, None)
                if mutant is None:
                    break
                reaching = store.tests_for(mutant)
                if not reaching:
                    store.put_result(mutant, "unreached", "", 0, 0, 0.0)
                    continue
                chosen = _affordable(reaching, seconds)
                if not sound:
                    _check_sound(pool, root, mutant.file, chosen)
                    sound = True
                task = pool.submit(_try, mutant.file, mutant.text, chosen)
                busy[task] = (mutant, len(chosen), len(reaching))
            if not busy:
                return done
            for task in wait(busy, return_when=FIRST_COMPLETED).done:
                mutant, ran, reaching_count = busy.pop(task)
                _note(store, mutant, task, ran, reaching_count)
                done += 1
    finally:
        pool.shutdown(cancel_futures=True)
        shutil.rmtree(folder, ignore_errors=True)


def _check_sound(pool: ProcessPoolExecutor, root: Path, file: str, tests: Timed) -> None:
    """Refuse to go on where tests fail without any fault: everything would count as noticed."""
    outcome, by, _ = pool.submit(_try, file, (root / file).read_text(), tests).result()
    if outcome != "survived":
        raise RuntimeError(f"the tests of {file} fail without any fault: {outcome} {by}")


def _affordable(reaching: Timed, seconds: float) -> Timed:
    chosen, spent = [], 0.0
    for test, cost in reaching:
        if chosen and spent + cost > seconds:
            continue
        chosen.append((test, cost))
        spent += cost
    return chosen


def _note(store: Store, mutant: Mutant, task: Future, run: int, reaching: int) -> None:
    outcome, by, spent = task.result()
    store.put_result(mutant, outcome, by, run, reaching, spent)
    if outcome != "killed":
        where = f"{mutant.file}:{mutant.line}"
        print(f"{outcome} {by} {where}: {mutant.before} -> {mutant.after}", flush=True)


def _begin(root: str, folder: str, modules: list[str]) -> None:
    """Make this process a tree of its own and load what the tests load, the package excepted."""
    global _tree
    _tree = Path(tempfile.mkdtemp(dir=folder))
    copy_tree(Path(root), _tree)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in modules:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def _try(file: str, text: str, tests: Timed) -> tuple[str, str, float]:
    """Return what became of one fault, the test that noticed it, and the seconds it took.

    A few tests come first by themselves: mostly they suffice, the files of the others need not be
    read, and what is endless is known to be so after the time of a few.
    """
    assert _tree is not None
    path = _tree / file
    sound = path.read_text()
    began = time.monotonic()
    outcome, by = "survived", ""
    try:
        _write(path, text)
        for part in (tests[:FIRST], tests[FIRST:]):
            if part and outcome == "survived":
                limit = FIXED + TIMES * sum(cost for _, cost in part)
                outcome, by = _run_tests(_tree, [test for test, _ in part], limit)
    finally:
        _write(path, sound)
    return outcome, by, time.monotonic() - began


def _run_tests(tree: Path, tests: list[str], limit: float) -> tuple[str, str]:
    answer, status = in_child(tree, lambda: _inside(tree, tests, limit), PATIENCE * limit)
    if answer is None:
        if status == BROKEN:
            return "error", (tree / "log").read_text()[-300:]
        stopped = status in (-24, -9)  # SIGXCPU, or killed at the limit by the clock
        return ("timeout" if stopped else "killed"), f"status {status}"
    outcome, by = json.loads(answer)
    return outcome, by


def _write(path: Path, text: str) -> None:
    """Write a source, and remove its compiled form, which may look as new as it."""
    path.write_text(text)
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def _inside(tree: Path, tests: list[str], limit: float) -> str:
    files = list(dict.fromkeys(test.split("::")[0] for test in tests))
    watch = Watch(tests)
    status = session(tree, files, watch, limit)
    if watch.failed:
        return json.dumps(["killed", watch.failed[0]])
    if status == 0:
        return json.dumps(["survived", ""])
    return json.dumps(["killed", f"pytest status {status}"])  # a file of tests cannot be imported
