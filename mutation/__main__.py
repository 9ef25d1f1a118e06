"""Put faults into the code and count those that the tests notice."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from mutation.operators import Mutant, mutants
from mutation.reach import measure
from mutation.report import keep, report, reviewed, score_of
from mutation.runner import run
from mutation.store import Store

ROOT = Path(__file__).parents[1]
REVIEW = Path(__file__).with_name("reviewed.toml")
SCORE = Path(__file__).with_name("score.json")  # what CONTRIBUTING.md quotes
SOURCES = (
    "src/jointsparse/solvers/**/*.py",
    "src/jointsparse/eigen/*.py",
    "src/jointsparse/operators/*.py",
    "src/jointsparse/incomplete/*.py",
    "src/jointsparse/robust/*.py",
    "src/jointsparse/metrics/*.py",
    "src/jointsparse/moments.py",
    "src/jointsparse/selection/noise.py",
    "src/jointsparse/numerics/semidefinite.py",
    "src/jointsparse/significance.py",
    "src/jointsparse/trials.py",
)
TESTS = (
    "tests/solvers/test_*.py",
    "tests/eigen/test_*.py",
    "tests/operators/test_*.py",
    "tests/metrics/test_*.py",
    "tests/methods/test_*.py",
    "tests/sources/test_file_wide.py",
    "tests/sources/test_sources.py",
    "tests/test_backends.py",
    "tests/test_component_paths.py",
    "tests/test_constrained_selection.py",
    "tests/test_kernel_parts.py",
    "tests/test_missing.py",
    "tests/test_moments.py",
    "tests/test_parts.py",
    "tests/test_proved_bounds.py",
    "tests/test_robust.py",
    "tests/test_semidefinite.py",
    "tests/test_selection.py",
    "tests/test_significance.py",
    "tests/test_sparse.py",
    "tests/test_sparse_registry.py",
    "tests/test_swap_rule.py",
    "tests/test_trials.py",
)


def main() -> int:
    """Measure what the tests reach, try faults, print the score."""
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("--per-file", type=int, default=10, help="faults per source file")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of faults")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=60, help="limit on the time of faults")
    parser.add_argument(
        "--seconds",
        type=float,
        default=30,
        help="of tests for one fault: the fastest that reach it",
    )
    parser.add_argument(
        "--only", action="append", help="pattern of source files, as '*greedy.py'; may be repeated"
    )
    parser.add_argument(
        "--same", action="store_true", help=f"the source files of {SCORE.name}, and no others"
    )
    parser.add_argument(
        "--tests",
        action="append",
        help="pattern of files of tests, as '*subset*'; may be repeated. The others count as if "
        "they were not there: the score is at least the one printed",
    )
    parser.add_argument(
        "--again", action="store_true", help="try those again that survived unreviewed"
    )
    parser.add_argument("--report", action="store_true", help="print what is known, try nothing")
    parser.add_argument(
        "--keep", action="store_true", help=f"write the score to {SCORE.name}, for pages to quote"
    )
    parser.add_argument("--fail-under", type=float, default=0, help="score after review, per cent")
    parser.add_argument("--store", type=Path, default=ROOT / "build" / "mutation.sqlite")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that copies are removed

    store = Store(arguments.store, ROOT)
    every = _files(SOURCES)
    patterns = arguments.only or ["*"]
    if arguments.same:
        patterns = list(json.loads(SCORE.read_text(encoding="utf-8"))["files"])
    chosen = [file for file in every if any(fnmatch(file, pattern) for pattern in patterns)]
    if not arguments.report:
        wanted = arguments.tests or ["*"]
        tests = [file for file in _files(TESTS) if any(fnmatch(file, p) for p in wanted)]
        _refresh(store, every, tests, arguments.jobs)
        todo = _sample(store, chosen, arguments.per_file, arguments.seed, again=arguments.again)
        until = time.monotonic() + 60 * arguments.minutes
        tried = run(ROOT, store, todo, arguments.jobs, arguments.seconds, until)
        print(f"{tried} faults tried")
    score = score_of(ROOT, store, chosen, REVIEW)
    report(score)
    if arguments.keep:
        keep(score, SCORE, per_file=arguments.per_file, seed=arguments.seed)
    return int(100 * score.after < arguments.fail_under)


def _files(patterns: tuple[str, ...]) -> list[str]:
    return [
        str(path.relative_to(ROOT)) for pattern in patterns for path in sorted(ROOT.glob(pattern))
    ]


def _refresh(store: Store, sources: list[str], tests: list[str], jobs: int) -> None:
    """Forget what no longer holds: results of changed sources, lines that changed tests reach."""
    stale = set(store.changed(tests))
    for file in store.changed(sources):
        stale |= set(store.reaching(file)) & set(tests)
        store.forget_results(file)
    measure(ROOT, store, sorted(stale), jobs)
    for file in store.changed(sources):
        store.know(file)


def _sample(
    store: Store, files: list[str], count: int, seed: int, *, again: bool
) -> Iterator[Mutant]:
    """Yield the faults to try: one of every file, then a second of every file, and so on."""
    reasons = reviewed(REVIEW)
    samples = []
    for file in files:
        possible = mutants(file, (ROOT / file).read_text())
        random.Random(f"{seed} {file}").shuffle(possible)
        known = {number: row[0] for number, row in store.results(file).items()}
        if again:
            wanted = [
                m
                for m in possible
                if known.get(m.number) in ("survived", "unreached")
                and (file, m.before, m.after) not in reasons
            ]
        else:
            wanted = [m for m in possible[:count] if m.number not in known]
        samples.append(wanted)
    for turn in range(max(map(len, samples), default=0)):
        yield from (sample[turn] for sample in samples if turn < len(sample))


if __name__ == "__main__":
    sys.exit(main())
