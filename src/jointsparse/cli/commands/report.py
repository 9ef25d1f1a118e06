"""``jointsparse report``: an HTML page from the results of an earlier run."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from jointsparse.cli.commands.compare import made
from jointsparse.cli.display.console import output_console
from jointsparse.cli.errors import CommandError, told
from jointsparse.cli.outputs import Kind, Output, check_outputs

HELP = "Make an HTML page of an earlier run: select or compare --json, or results of reproduce."
_SQLITE = b"SQLite format 3\0"
# What a document that somebody else wrote can lead to, however it is checked.
_NOT_A_RECORD = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)


def report(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="What 'select --json' or 'compare --json' printed, in a file, or the results file "
            "of 'reproduce'.",
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
    check_outputs([Output("--output", target, Kind.PAGE)], [run])
    if run.exists() and not run.is_file():  # a pipe or a device might never end
        raise CommandError(f"{run} cannot be read: it is not a file")
    try:
        with run.open("rb") as stream:
            start = stream.read(len(_SQLITE))
        if start == _SQLITE:
            _write_experiments(run, target)
        else:
            _write_record(run, target)
    except OSError as error:
        raise CommandError(f"{run} cannot be read: {error.strerror or error}") from error
    output_console().print(Text(f"wrote {target}"), soft_wrap=True)


def _write_record(run: Path, target: Path) -> None:
    """Write the page of a JSON document of ``select`` or ``compare``."""
    from jointsparse.report import Report
    from jointsparse.report.comparison import save_comparison
    from jointsparse.report.comparison_record import comparison_from_record, is_comparison
    from jointsparse.report.record import findings_from_record

    try:
        # The byte order mark is what Windows shells put in front of a redirected output.
        record: Any = json.loads(run.read_text(encoding="utf-8-sig"))
        if is_comparison(record):
            found, data, scaling = comparison_from_record(record)
            words = {"title": f"Methods side by side: {data}", "scaling": scaling, "made": made()}
            save: Callable[[Path], Any] = partial(save_comparison, found=found, **words)
        else:
            save = Report(findings_from_record(record)).save
        _save(save, target)
    except CommandError:
        raise
    except _NOT_A_RECORD as error:
        # What Python says of one that is nested too deeply is no help.
        why = str(error) if isinstance(error, ValueError) else "it is damaged, or nested too deeply"
        raise CommandError(
            f"{run} is neither a file of results of 'jointsparse reproduce' nor the output of "
            "'jointsparse select --json' or 'jointsparse compare --json' from version 0.2 on: "
            f"{why}"
        ) from error


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
        raise told(error, about=f"{run} cannot be used as a file of results: ") from error
    if not found:
        raise CommandError(f"{run} has no finished task of any experiment")
    _save(lambda path: write_page(path, found), target)


def _save(save: Any, target: Path) -> None:
    from jointsparse.io import TableError

    try:
        save(target)
    except (TableError, OSError) as error:
        raise told(error) from error
