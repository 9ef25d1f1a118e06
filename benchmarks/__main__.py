"""Speed and quality beside every rival: ``python -m benchmarks [--suite NAME] [--quick]``.

What has been measured is kept in an SQLite file: a run that was stopped goes on where it was, and
the tables and figures are written from the file, also after a part of a run. Tasks that a run has
not measured stay as RESULTS.json has them, with the version that they belong to.

Suites without a table beside other tools (limits, cores, l0, outliers, missing, memory, gpu) are
scripts with pages and options of their own: ``python -m benchmarks --suite l0 --help``.
"""

import argparse
import importlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))  # these sources, installed or not

from benchmarks import history, report
from benchmarks.common import ROOT, has_data
from benchmarks.competitors import all_solvers
from benchmarks.earlier import Results
from benchmarks.environments import Environments, default_folder
from benchmarks.measure import measure
from benchmarks.store import Store, description
from benchmarks.suites import SCRIPTS, SUITES, plan, tasks
from benchmarks.tasks import OURS


def arguments(words):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "--suite",
        choices=(*SUITES, *SCRIPTS, "all"),
        action="append",
        help=f"may be given more than once, but for {', '.join(SCRIPTS)}",
    )
    parser.add_argument("--task", action="append", help="only these tasks of the suites")
    parser.add_argument("--quick", action="store_true", help="small problems: does it all run?")
    parser.add_argument("--repeats", type=int, default=None, help="runs of each (5; quick: 2)")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one run (60)")
    parser.add_argument(
        "--environments",
        type=Path,
        default=default_folder(),
        help="folder with the rivals' virtual environments; made there where absent",
    )
    parser.add_argument(
        "--site", type=Path, default=None, help="folder with rivals unpacked: no environments"
    )
    parser.add_argument("--no-install", action="store_true", help="make no environment")
    parser.add_argument(
        "--minutes", type=float, default=None, help="begin no further problem after so many"
    )
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument(
        "--part", default="0/1", help="K/M: every M-th problem, from the K-th on; runs may share"
    )
    parser.add_argument("--database", type=Path, default=None, help="the SQLite file")
    parser.add_argument(
        "--store", action="store_true", help="keep the results for the history of versions"
    )
    parser.add_argument("--output", type=Path, default=None, help="folder for RESULTS.md")
    parser.add_argument("--note", default="", help="what a reader must know of this run")
    parser.add_argument(
        "--alone", action="store_true", help="leave out what RESULTS.json has of other tasks"
    )
    parser.add_argument("--tables-only", action="store_true", help="measure nothing more")
    parser.add_argument("--figures", type=Path, default=None, help="folder for the figures")
    return parser.parse_args(words)


def run(
    suites,
    store,
    environments,
    solvers,
    *,
    quick,
    repeats,
    limit,
    minutes=None,
    part=(0, 1),
    only=None,
    out=print,
):
    """Measure every problem of some suites that the store does not have; return how many are left.

    With ``part=(k, m)`` every m-th problem of a task, from the k-th on: several runs may share a
    store. After so many minutes no further problem begins. A problem that cannot be measured at all
    (its data are not there, say) is told about and left out, and the others go on.
    """
    end = time.monotonic() + 60 * minutes if minutes is not None else float("inf")
    left = 0
    for task in plan(suites):
        if only and task.name not in only:
            continue
        here = [solver for solver in solvers if task.name in solver.tasks]
        for problem in task.problems(quick)[part[0] :: part[1]]:
            if store.has(problem):
                continue
            if time.monotonic() >= end:
                left += 1
                continue
            start = time.perf_counter()
            try:
                outcomes = measure(task, problem, here, environments, repeats=repeats, limit=limit)
            except (OSError, ValueError, ArithmeticError, KeyError) as error:
                left += 1
                out(f"\n{task.title}: {problem.name} was not measured: {error!r}")
                continue
            store.add(problem, outcomes)
            out(lines(task, problem, outcomes, time.perf_counter() - start))
    return left


def lines(task, problem, outcomes, seconds):
    """Return one problem in words: ratios of time, and the measure of quality."""
    words = [f"\n{task.title}: {problem.name}  [{seconds:.0f} s]"]
    ours = next((o for o in outcomes if o.competitor == OURS and o.good), None)
    for o in outcomes:
        ratio = f"{o.median / ours.median:8.2f} ×" if o.good and ours else " " * 10
        value = o.quality.get(task.metric.name) if task.metric else None
        quality = "" if value is None else f"{task.metric.name} {value:.6g}"
        time_ = f"{o.median:9.4f} s" if o.good else " " * 11
        words.append(f"  {o.competitor:42s}{time_} {ratio}  {quality} {'' if o.good else o.status}")
    return "\n".join(words)


def script(words):
    """Return the name of the suite that is a script, if one is asked for, and the words for it."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--suite", action="append", default=[])
    known, rest = parser.parse_known_args(words)
    found = [name for name in known.suite if name in SCRIPTS]
    if found and len(known.suite) > 1:
        parser.error(f"{found[0]} has options of its own: ask for it alone")
    return (found[0] if found else None), rest


def main(words=None):
    name, rest = script(words)
    if name is not None:
        importlib.import_module(f"benchmarks.{SCRIPTS[name]}").main(rest)
        return
    options = arguments(words)
    chosen = options.suite or ["all"]
    suites = SUITES if "all" in chosen else [name for name in SUITES if name in chosen]
    suites = () if options.tables_only else suites
    output = options.output or (ROOT / "benchmarks" if not options.quick else Path.cwd())
    site = None if options.site is None else options.site.resolve()
    make = not options.no_install and site is None
    environments = Environments(options.environments, make=make, site=site)
    name = "quick.sqlite" if options.quick else "results.sqlite"
    path = options.database or default_folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    store = Store(path, description(sys.executable, quick=options.quick), fresh=options.fresh)
    if not has_data() and not options.quick:
        print("JOINTSPARSE_DATA names no folder with the datasets: bundled tables only")
    left = 0
    try:
        left = run(
            suites,
            store,
            environments,
            all_solvers(),
            quick=options.quick,
            repeats=options.repeats or (2 if options.quick else 5),
            limit=options.limit,
            minutes=options.minutes,
            part=tuple(map(int, options.part.split("/"))),
            only=options.task,
            out=lambda words: print(words, flush=True),
        )
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
    if left:
        print(f"\n{left} problems are left; the same command without --fresh goes on from here")
    every = [task for suite in SUITES for task in tasks(suite)]
    target = output / ("RESULTS-quick.md" if options.quick else "RESULTS.md")
    output.mkdir(parents=True, exist_ok=True)
    earlier = None if options.alone else target.with_suffix(".json")
    results = Results(store, every, earlier, options.note)
    bars = report.write(target, results, every)
    print(f"\n{target}")
    for _, bar in bars:
        word = {True: "ok", False: "MISSED", None: "not measured"}[bar.met]
        print(f"{bar.promise}: {bar.found} {word}")
    if options.store:
        version = store.about["versions"]["jointsparse"]
        print(history.keep(target.with_suffix(".json"), version))
        print(history.write_page())
    if options.figures:
        from benchmarks.figures import draw

        for figure in draw(options.figures, results, every):
            print(figure)
    store.close()


if __name__ == "__main__":
    main()
