"""``jointsparse report``: an HTML page from the results of an earlier run."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from jointsparse.cli.console import output_console
from jointsparse.cli.errors import CommandError
from jointsparse.cli.reporting import check_page_target

HELP = "Make an HTML page of an earlier run: select --json, or the results of reproduce."
_SQLITE = b"SQLite format 3\0"


def report(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="What 'select --json' printed, in a file, or the results file of 'reproduce'.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Where the page goes; by default beside RUN, with the ending .html.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Read the run, write one page."""
    target = run.with_suffix(".html") if output is None else output
    check_page_target(target, "--output")
    try:
        with run.open("rb") as stream:
            start = stream.read(len(_SQLITE))
        if start == _SQLITE:
            _write_experiments(run, target)
        else:
            _write_selection(run, target)
    except OSError as error:
        raise CommandError(f"{run} cannot be read: {error.strerror or error}") from error
    output_console().print(Text(f"wrote {target}"), soft_wrap=True)


def _write_selection(run: Path, target: Path) -> None:
    from jointsparse.report import Report
    from jointsparse.report.record import findings_from_record

    try:
        # The byte order mark is what Windows shells put in front of a redirected output.
        record: Any = json.loads(run.read_text(encoding="utf-8-sig"))
        findings = findings_from_record(record)
    except ValueError as error:
        raise CommandError(
            f"{run} is neither a file of results of 'jointsparse reproduce' nor the output of "
            f"'jointsparse select --json': {error}"
        ) from error
    _save(Report(findings).save, target)


def _write_experiments(run: Path, target: Path) -> None:
    import sqlite3

    from jointsparse.experiments import Store, experiments
    from jointsparse.experiments.pages import write_page

    try:
        store = Store(run)
        found = {}
        for name, experiment in experiments().items():
            done = store.finished(name)
            runs = [{task.key for task in experiment.tasks(quick=quick)} for quick in (False, True)]
            # Of a quick run, the quick tasks are there; the full run goes first where both are.
            keys = max(runs, key=lambda keys: len(keys & done) / max(len(keys), 1))
            if keys & done:
                outcome = experiment.judge(store.results(name, keys & done))
                notes = [f"Failed: {case}: {text}" for case, text in store.failures(name)]
                if keys - done:
                    notes.append(f"Not complete: {len(keys & done)} of {len(keys)} tasks are done.")
                found[name] = (experiment.title, outcome, notes)
    except sqlite3.Error as error:
        raise CommandError(f"{run} cannot be used as a file of results: {error}") from error
    if not found:
        raise CommandError(f"{run} has no finished task of any experiment")
    _save(lambda path: write_page(path, found), target)


def _save(save: Any, target: Path) -> None:
    from jointsparse.io import TableError

    try:
        save(target)
    except (TableError, OSError) as error:
        raise CommandError(str(error).rstrip(".")) from error
