"""Which lines of the sources every test reaches, measured once for each file of tests."""

from __future__ import annotations

import json
import multiprocessing as mp
import shutil
import sys
import tempfile
from pathlib import Path

from mutation.store import Store
from mutation.trees import Watch, copy_tree, in_child, session

WALL = 1200.0  # seconds that one file of tests may take
NOT_BEFOREHAND = ("jointsparse", "tests", "conftest", "pytest", "_pytest", "coverage", "mutation")


def measure(root: Path, store: Store, test_files: list[str], jobs: int) -> None:
    """Run files of tests under coverage in processes side by side, and keep what they reach."""
    with mp.get_context("spawn").Pool(jobs) as pool:
        work = [(str(root), file) for file in test_files]
        for file, seconds, lines, modules, failed in pool.imap_unordered(_measure, work):
            store.put_coverage(file, seconds, lines, modules)
            store.know(file)
            note = f", left out as they fail: {', '.join(failed)}" if failed else ""
            print(f"{file}: {len(seconds)} tests, {sum(seconds.values()):.0f} s{note}", flush=True)


def _measure(work: tuple[str, str]):  # type: ignore[no-untyped-def]
    root, file = Path(work[0]), work[1]
    tree = Path(tempfile.mkdtemp(prefix="mutation-"))
    try:
        copy_tree(root, tree)
        text, status = in_child(tree, lambda: _inside(tree, file), WALL)
        log = (tree / "log").read_text()[-400:]
        if text is None:
            return file, {}, [], [], [f"the session ended with status {status}: {log}"]
        seconds, lines, modules, failed = json.loads((tree / "answer.json").read_text())
        if not seconds:  # a file that cannot be read has no failed tests either
            failed = [f"no test passed: {log}"]
        return file, seconds, lines, modules, failed
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def _inside(tree: Path, file: str) -> str:
    import coverage

    source = tree / "src" / "jointsparse"
    cover = coverage.Coverage(data_file=None, source=[str(source)], config_file=False)
    cover.start()
    watch = Watch(context=cover.switch_context)
    session(tree, [file, "--maxfail=1000"], watch, None)
    cover.stop()
    data = cover.get_data()
    lines = [
        (str(Path(measured).relative_to(tree)), line, test)
        for measured in data.measured_files()
        for line, tests in data.contexts_by_lineno(measured).items()
        for test in tests
        if test
    ]
    good = watch.passed - set(watch.failed)
    seconds = {test: spent for test, spent in watch.seconds.items() if test in good}
    names = [
        name
        for name, module in list(sys.modules.items())
        if getattr(module, "__file__", None)
        and not str(module.__file__).startswith(str(tree))
        and name.split(".")[0] not in NOT_BEFOREHAND
    ]
    answer = json.dumps([seconds, lines, names, watch.failed])
    (tree / "answer.json").write_text(answer)
    return "done"
