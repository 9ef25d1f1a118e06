"""``jointsparse reproduce``: run published tables and figures again, beside what was published."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table as RichTable
from rich.text import Text

from jointsparse.cli.display.console import error_console, output_console, print_json, print_warning
from jointsparse.cli.errors import CommandError, told
from jointsparse.cli.options.devices import find_device
from jointsparse.cli.outputs import Kind, Output, check_outputs
from jointsparse.cli.start import retold, stopped

if TYPE_CHECKING:
    from jointsparse.experiments import Experiment, Outcome, Store
    from jointsparse.experiments.store import Finished

HELP = "Run the tables and figures of the papers again: what was published, and what comes out."
SECONDS_BETWEEN_LINES = 30.0  # where there is no terminal to draw a bar on
STYLES = {"reproduced": "green", "close": "yellow", "not reproduced": "red", "not testable": "dim"}


@dataclass(frozen=True)
class ReproduceOptions:
    """What ``jointsparse reproduce`` can be asked for."""

    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT]...",
            help="Which, such as jspca-table1, or the beginning of names, such as spca-psd. "
            "Without it, all.",
            show_default=False,
        ),
    ] = None
    list_them: Annotated[
        bool, typer.Option("--list", help="List the experiments, paper by paper.")
    ] = False
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller data and fewer repeats: a minute for each.")
    ] = False
    jobs: Annotated[
        int, typer.Option("--jobs", min=1, metavar="N", help="Number of processes.")
    ] = 1
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="ADDRESS",
            help="Dask scheduler to send the work to, such as tcp://127.0.0.1:8786.",
        ),
    ] = None
    device: Annotated[
        str | None,
        typer.Option(
            "--device",
            metavar="NAME",
            help="Cluster large data on a device of PyTorch, and fit models to it where no time is "
            "measured: cuda, cuda:1, …",
        ),
    ] = None
    results: Annotated[
        Path,
        typer.Option(
            "--results",
            metavar="FILE",
            help="SQLite file of results; what is in it is not computed again.",
        ),
    ] = Path("jointsparse-results.sqlite")
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FOLDER",
            help="Write Markdown and HTML pages with the figures, and the results as JSON.",
        ),
    ] = None
    earlier: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Take over the results that an earlier --output wrote; only what is missing is "
            "computed.",
        ),
    ] = None
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object instead of tables.")
    ] = False


def reproduce(options: ReproduceOptions) -> None:
    """Run what is missing, then print every claim beside what was found."""
    from jointsparse.experiments import experiments
    from jointsparse.experiments.records import versions_of

    known = experiments()
    if options.list_them:
        _print_list(known, options.as_json)
        return
    chosen = _chosen(options.names or [], known)
    check_outputs(
        [
            Output("--results", options.results, Kind.DATABASE),
            Output("--output", options.output, Kind.FOLDER),
        ]
    )
    find_device(options.device)  # or say why there is none
    outcomes = {}
    versions = {}
    with nullcontext() if options.cluster is None else _connected(options.cluster) as client:
        store = _open(options.results)
        if options.earlier is not None:
            _take_over(options.earlier, store)
        for name in chosen:
            outcomes[name] = _run(known[name], store, options, client)
            if options.output is not None:
                done = _done(known[name], store, options.quick)
                versions[name] = versions_of(done)
                _write(options.output, known[name], outcomes[name], store, done)
    if options.output is not None:
        pages = {n: (known[n].title, outcome) for n, outcome in outcomes.items()}
        _write_summary(options.output, pages, versions)
    if options.as_json:
        print_json([_record(known[name], outcome) for name, outcome in outcomes.items()])
    else:
        _print_all(output_console(), known, outcomes, options.output)


def _chosen(names: list[str], known: "dict[str, Experiment]") -> list[str]:
    if not names:
        return list(known)
    from jointsparse.experiments.catalogue import PAPERS, named_by_paper

    short = {source: paper for source, (paper, _) in PAPERS.items()}
    chosen: list[str] = []
    for name in names:
        # The name of a paper stands for it alone: "spca" is not the beginning of "spca-psd".
        found = [key for key in known if name in (key, short.get(key.partition("-")[0]))]
        found += [key for key in known if key.startswith(f"{name}-")]
        found += [key for key in known if named_by_paper(key) == name]
        if not found:
            raise CommandError(
                f"there is no experiment {name!r}; jointsparse reproduce --list names them all"
            )
        chosen += [key for key in found if key not in chosen]
    return chosen


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Connect to the cluster; what goes wrong with it, then or later, is one sentence."""
    import logging

    from jointsparse.experiments.cluster import connected, has_workers
    from jointsparse.sources.dask.graph import ClusterError

    try:
        with connected(address) as client:
            # Dask prints tracebacks of its own about what is reported here in one sentence.
            logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
            if not has_workers(client):
                print_warning(f"{address} has no worker yet; waiting for the first one")
            yield client
    except ClusterError as error:
        raise told(error) from error


def _open(path: Path) -> "Store":
    import sqlite3

    from jointsparse.experiments import Store

    try:
        return Store(path)
    except sqlite3.Error as error:
        raise told(error, about=f"{path} cannot be used as a file of results: ") from error


def _run(
    experiment: "Experiment", store: "Store", options: ReproduceOptions, client: Any
) -> "Outcome":
    import sqlite3

    from jointsparse.experiments import run

    tasks = experiment.tasks(quick=options.quick)
    try:
        with _progress(error_console(), experiment.name) as on_progress:
            failed = run(
                tasks,
                store,
                jobs=options.jobs,
                cluster=client,
                device=options.device,
                on_progress=on_progress,
            )
    except KeyboardInterrupt as error:
        kept = len(store.finished(experiment.name) & {task.key for task in tasks})
        raise retold(
            error,
            f"{stopped(error)}; {kept} of {len(tasks)} tasks of {experiment.name} are kept in "
            f"{store.path}, and the same command goes on from there",
        ) from error
    except OSError as error:
        raise told(error, about=f"{experiment.name} stopped: ") from error
    except sqlite3.Error as error:
        raise told(error, about=f"{store.path} cannot be written: ") from error
    try:
        if failed:
            _, message = store.failures(experiment.name)[0]
            print_warning(
                f"{experiment.name}: {failed} of {len(tasks)} tasks failed, such as {message}"
            )
        found = store.results(experiment.name, {task.key for task in tasks})
    except (sqlite3.Error, ValueError) as error:
        raise told(error, about=f"{store.path} cannot be read: ") from error
    return experiment.judge(found)


@contextmanager
def _progress(console: Console, name: str) -> Iterator[Any]:
    if not console.is_terminal:
        last = time.monotonic()

        def line(done: int, total: int, left: float | None) -> None:
            nonlocal last
            if done == total or time.monotonic() - last >= SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                words = f", about {_duration(left)} left" if left else ""
                console.print(Text(f"{name}: {done} of {total} tasks{words}"), soft_wrap=True)

        yield line
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        transient=True,
    )
    with bar:
        number = bar.add_task(name, total=None, left="")

        def draw(done: int, total: int, left: float | None) -> None:
            words = "" if left is None else f"about {_duration(left)} left"
            bar.update(number, completed=done, total=total, left=words)

        yield draw


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _take_over(folder: Path, store: "Store") -> None:
    """Put the results that lie beside the pages of an earlier run into the store."""
    from jointsparse.experiments.records import from_text, records_in

    found = records_in(folder)
    if not found:
        raise CommandError(
            f"--from {folder}: there are no results in it; give the folder that an earlier "
            "jointsparse reproduce --output FOLDER wrote"
        )
    for path in found.values():
        try:
            for done in from_text(path.read_text(encoding="utf-8")):
                store.add_finished(done)
        except (OSError, ValueError) as error:
            raise told(error, about=f"{path} cannot be used: ") from error


def _done(experiment: "Experiment", store: "Store", quick: bool) -> "list[Finished]":
    return store.done(experiment.name, {task.key for task in experiment.tasks(quick=quick)})


def _write(
    folder: Path,
    experiment: "Experiment",
    outcome: "Outcome",
    store: "Store",
    done: "list[Finished]",
) -> None:
    from jointsparse.experiments.pages import write_pages
    from jointsparse.io import TableError

    failures = [f"{case}: {message}" for case, message in store.failures(experiment.name)]
    try:
        write_pages(folder, experiment.name, experiment.title, outcome, failures, done)
    except (OSError, TableError) as error:
        raise told(error, about=f"{folder}: ") from error


def _write_summary(
    folder: Path, outcomes: "dict[str, tuple[str, Outcome]]", versions: dict[str, list[str]]
) -> None:
    from jointsparse.experiments.pages import write_summary
    from jointsparse.io import TableError

    try:
        write_summary(folder, outcomes, versions)
    except (OSError, TableError) as error:
        raise told(error, about=f"{folder}: ") from error


def _record(experiment: "Experiment", outcome: "Outcome") -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "claims": [vars(claim) for claim in outcome.claims],
        "tables": [
            {"caption": caption, "header": list(header), "rows": [list(row) for row in rows]}
            for caption, header, rows in outcome.tables
        ],
        "notes": outcome.notes,
    }


def _print_list(known: "dict[str, Experiment]", as_json: bool) -> None:
    from jointsparse.experiments.catalogue import PAPERS, named_by_paper

    if as_json:
        records = [
            {"name": e.name, "by_paper": named_by_paper(e.name), "title": e.title}
            for e in known.values()
        ]
        print_json(records)
        return
    console = output_console()
    width = 2 + max(len(named_by_paper(name)) for name in known)
    for source, (_, paper) in PAPERS.items():
        console.print(Text(paper, "bold"))
        table = RichTable(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True, min_width=width)
        table.add_column()
        for name, experiment in known.items():
            if name.startswith(f"{source}-"):
                table.add_row(Text(f"  {named_by_paper(name)}"), Text(experiment.title))
        console.print(table)


def _print_all(
    console: Console,
    known: "dict[str, Experiment]",
    outcomes: "dict[str, Outcome]",
    output: Path | None,
) -> None:
    from jointsparse.experiments.catalogue import named_by_paper
    from jointsparse.experiments.claims import VERDICTS

    for name, outcome in outcomes.items():
        console.print(Text.assemble((named_by_paper(name), "bold"), "  ", known[name].title))
        _print_outcome(console, outcome)
    total = {v: sum(o.counts()[v] for o in outcomes.values()) for v in VERDICTS}
    words = ", ".join(f"{count} {verdict}" for verdict, count in total.items() if count)
    console.print(Text(f"{sum(total.values())} claims: {words or 'none tested'}"))
    if output is not None:
        console.print(Text(f"wrote {output / 'summary.html'}"), soft_wrap=True)


def _print_outcome(console: Console, outcome: "Outcome") -> None:
    from jointsparse.experiments.pages import cell

    if outcome.claims:
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for title in ("claim", "published", "found", "verdict"):
            table.add_column(title)
        for claim in outcome.claims:
            verdict = Text(claim.verdict, style=STYLES[claim.verdict])
            table.add_row(Text(claim.statement), Text(claim.published), Text(claim.found), verdict)
        console.print(table)
        for reason in dict.fromkeys(c.reason for c in outcome.claims if c.reason):
            console.print(Text(reason, style="dim"))
    for caption, header, rows in outcome.tables:
        table = RichTable(
            box=box.SIMPLE_HEAD, pad_edge=False, title=Text(caption), title_justify="left"
        )
        for title in header:
            table.add_column(Text(title))
        for row in rows:
            table.add_row(*(Text(cell(value)) for value in row))
        console.print(table)
    for note in outcome.notes:
        console.print(Text(note))
    console.print()
