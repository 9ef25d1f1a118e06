"""Copies of the repository in which the tests run, and the pytest session inside a copy."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PARTS = ("src", "tests", "benchmarks", "docs", "examples", "fuzz", "pyproject.toml", "README.md")
ARGUMENTS = (
    "-o", "addopts=", "--import-mode=importlib", "--strict-markers",
    "-m", "not slow and not exhaustive",
    "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", "-q", "-x",
)  # fmt: skip
BROKEN = 70  # status of a process in which the check itself failed, not a test
# Bytes of address space: a fault that asks for more fails instead.
MEMORY = max(16 << 30, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2)


def copy_tree(root: Path, tree: Path) -> None:
    """Copy what the tests need."""
    for part in PARTS:
        source = root / part
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "_build", "auto_examples", "generated")
            shutil.copytree(source, tree / part, ignore=ignored)
        elif source.exists():
            shutil.copy(source, tree / part)


class Watch:
    """Runs the chosen tests of a session in the order given, and notes how each of them went."""

    def __init__(self, chosen: list[str] | None = None, context: Any = None) -> None:
        self.order = None if chosen is None else {name: i for i, name in enumerate(chosen)}
        self.context = context
        self.seconds: dict[str, float] = {}
        self.passed: set[str] = set()
        self.failed: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.order is not None:
            items[:] = [item for item in items if item.nodeid in self.order]
            items.sort(key=lambda item: self.order[item.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if self.context is not None:
            self.context(item.nodeid)
        began = time.process_time()
        result = yield
        self.seconds[item.nodeid] = time.process_time() - began
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        elif report.when == "call" and report.passed:
            self.passed.add(report.nodeid)


def session(tree: Path, files: list[str], watch: Watch, limit: float | None) -> int:
    """Run tests of a tree in this process, which is one made for it; return pytest's status."""
    os.chdir(tree)
    sys.dont_write_bytecode = False  # compiled files stay in the tree and serve the next fault
    sys.path.insert(0, str(tree / "src"))
    os.environ.update(
        PYTHONPATH=str(tree / "src"),
        OPENBLAS_NUM_THREADS="1",
        HYPOTHESIS_STORAGE_DIRECTORY=str(tree / "hypothesis"),
    )
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if limit is not None:  # seconds of computing, so that a busy machine kills no honest test
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit) + 1, int(limit) + 5))
    status = int(pytest.main([*ARGUMENTS, f"--basetemp={tree / 'tmp'}", *files], plugins=[watch]))
    package = sys.modules.get("jointsparse")  # a fault may keep it from being imported at all
    if package is not None and not Path(str(package.__file__)).is_relative_to(tree):
        raise RuntimeError(f"the tests ran on {package.__file__}, not on the copy in {tree}")
    return status


def in_child(tree: Path, work: Any, wall: float) -> tuple[str | None, int]:
    """Fork, call ``work`` there, and return the line of text it returned and its exit status."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.close(reading)
            log = os.open(tree / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.write(writing, work().encode())
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(BROKEN)
        os._exit(0)
    os.close(writing)
    status = _wait(child, wall)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, 9)  # what its tests started and left
    with os.fdopen(reading) as pipe:
        os.set_blocking(reading, False)
        return pipe.read() or None, status


def _wait(child: int, wall: float) -> int:
    until = time.monotonic() + wall
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, 9)
    os.waitpid(child, 0)
    return -9
