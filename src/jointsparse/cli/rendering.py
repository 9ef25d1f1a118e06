"""A finished selection as text for people and as JSON for programs."""

import math
from dataclasses import asdict, astuple, dataclass
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from jointsparse.cli.arguments import parameters_of
from jointsparse.cli.components import component_records
from jointsparse.cli.console import Glyphs, bar, shorten_middle
from jointsparse.cli.fitting import Selection, nothing_kept_message
from jointsparse.text import counted, visible

if TYPE_CHECKING:
    from jointsparse.selection_report import SelectionReport

_NARROWEST = 10  # cells of names and bars, however narrow the terminal
_WIDEST_BAR = 24
_NARROWEST_BAR = 6
# Rank, score, kept mark, R², five gaps between columns and two edges.
_OTHER_CELLS = 4 + 10 + 4 + 6 + 5 * 3 + 2

RANKING_HEADER = ("rank", "feature", "score", "kept", "r2", "stand_in", "stand_in_r2")

_DIAGNOSTICS = {
    "objective_": "objective",
    "duality_gap_": "relative duality gap",
    "converged_": "converged",
    "stopping_reason_": "stopped because",
    "alpha_": "alpha used (absolute)",
    "eta_": "eta used (absolute)",
}


@dataclass(frozen=True)
class Row:
    """One feature of the ranking.

    ``r2`` is what the kept features down to this one explain of all; of a dropped feature,
    ``stand_in`` is the kept one that explains it best, and ``stand_in_r2`` how much of it.
    """

    rank: int
    feature: str
    score: float
    kept: bool
    r2: float | None = None
    stand_in: str | None = None
    stand_in_r2: float | None = None


def ranking_rows(selection: Selection) -> list[Row]:
    """Return every feature, best first."""
    scores, kept, names = selection.scores, selection.kept, selection.table.names
    r2 = dict(enumerate(selection.curve, start=1))
    stand_ins: dict[int, tuple[str, float]] = {}
    if selection.report is not None:
        found = selection.report.stand_ins
        best = zip(found.dropped, found.kept[:, 0], found.r2[:, 0], strict=True)
        stand_ins = {int(d): (names[int(k)], float(share)) for d, k, share in best if k >= 0}
    return [
        Row(
            rank,
            names[column],
            float(scores[column]),
            bool(kept[column]),
            r2.get(rank) if kept[column] else None,
            *stand_ins.get(column, (None, None)),
        )
        for rank, column in enumerate(selection.best_first, start=1)
    ]


def ranking_cells(selection: Selection) -> list[tuple[Any, ...]]:
    """Return the cells of the ranking as a file: nothing where nothing is known."""
    return [
        tuple("" if cell is None else cell for cell in astuple(row))
        for row in ranking_rows(selection)
    ]


def as_record(selection: Selection) -> dict[str, Any]:
    """Return everything a program may want to know, ready for JSON."""
    model = selection.model
    n_samples, n_features = selection.table.shape
    rows = ranking_rows(selection)
    return {
        "data": selection.data,
        "label": selection.table.label_name,
        "n_samples": n_samples,
        "n_features": n_features,
        "method": selection.method,
        "parameters": parameters_of(selection.estimator),
        "scale": selection.scale.value,
        "kept": [row.feature for row in rows if row.kept],
        "worth": _worth_record(selection),
        "components": component_records(selection),
        "ranking": [asdict(row) for row in rows],
        "objective": getattr(model, "objective_", None),
        "duality_gap": getattr(model, "duality_gap_", None),
        "converged": getattr(model, "converged_", None),
        "iterations": getattr(model, "n_iter_", None),
        "seconds": selection.seconds,
        "notes": selection.notes,
        "warnings": selection.warnings,
    }


def _worth_record(selection: Selection) -> dict[str, Any] | None:
    """Return what the kept features explain, beside PCA and random features."""
    report = selection.report
    if report is None:
        return None
    _, _, mean, spread = report.headline
    return {
        "r2": report.r2,
        "r2_held_out": report.r2_held_out,
        "pca_r2": report.pca_r2,
        "pca_r2_held_out": report.pca_r2_held_out,
        "random_r2_mean": mean,
        "random_r2_std": spread,
        "held_out": report.held_out,
    }


def print_selection(console: Console, selection: Selection, top: int, verbose: bool) -> None:
    """Print heading, ranking and outcome for a person."""
    glyphs = Glyphs.for_console(console)
    # One line each, however narrow the terminal: a pipe can then search for them.
    console.print(_heading(selection, glyphs), soft_wrap=True)
    for note in selection.notes:
        console.print(Text(f"note: {visible(note)}", "dim"))
    rows = ranking_rows(selection)
    shown = rows[:top]
    console.print(_ranking_table(console.width, shown, glyphs, float(selection.scores.max())))
    if len(rows) > len(shown):
        console.print(Text(_rest_line(rows[len(shown) :], len(rows), glyphs), "dim"))
    if verbose:
        console.print(_diagnostics(selection))
    console.print(Text(_outcome_line(selection)), soft_wrap=True)
    console.print(_kept_line(selection), soft_wrap=True)
    if selection.report is not None:
        console.print(_worth_line(selection.report, glyphs), soft_wrap=True)


def _heading(selection: Selection, glyphs: Glyphs) -> Text:
    n_samples, n_features = selection.table.shape
    shape = f"{counted(n_samples, 'sample')} {glyphs.times} {counted(n_features, 'feature')}"
    separator = (glyphs.separator, "dim")
    return Text.assemble(
        (visible(selection.data), "bold"),
        separator,
        shape,
        separator,
        (selection.method, "bold"),
        separator,
        selection.scaling,
    )


def _ranking_table(width: int, rows: list[Row], glyphs: Glyphs, best: float) -> RichTable:
    names = [visible(row.feature) for row in rows]
    with_r2 = any(row.r2 is not None for row in rows)
    room = max(width - _OTHER_CELLS, _NARROWEST)
    bar_cells = min(_WIDEST_BAR, room // 3)
    if bar_cells < _NARROWEST_BAR:
        bar_cells = 0
    name_cells = min(max(map(cell_len, names)), room - bar_cells)

    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("feature", no_wrap=True)
    if bar_cells:
        table.add_column("", no_wrap=True, min_width=bar_cells)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("kept", justify="center", no_wrap=True)
    if with_r2:
        table.add_column(glyphs.r_squared, justify="right", no_wrap=True)
    for row, name in zip(rows, names, strict=True):
        share = row.score / best if best > 0 else 0.0
        drawn = Text(bar(share, bar_cells, glyphs), "cyan" if row.kept else "bright_black")
        table.add_row(
            Text(str(row.rank)),
            Text(shorten_middle(name, name_cells, glyphs.ellipsis), "bold" if row.kept else ""),
            *([drawn] if bar_cells else []),
            Text(f"{row.score:#.4g}" if row.score else "0"),
            Text(glyphs.tick if row.kept else "", "bold"),
            *([Text("" if row.r2 is None else f"{row.r2:.1%}")] if with_r2 else []),
        )
    return table


def _rest_line(rest: list[Row], total: int, glyphs: Glyphs) -> str:
    kept = sum(row.kept for row in rest) or "none"
    more = counted(len(rest), "more feature")
    return f"{glyphs.ellipsis} and {more}, {kept} of them kept (--top {total} shows all)"


def _diagnostics(selection: Selection) -> RichTable:
    estimator = selection.model
    table = RichTable.grid(padding=(0, 2))
    for attribute, title in _DIAGNOSTICS.items():
        value = getattr(estimator, attribute, None)
        if value is not None:
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
            table.add_row(Text(title, "dim"), Text(visible(text)))
    nonzero = int((selection.scores > 0).sum())
    table.add_row(Text("features with a nonzero score", "dim"), Text(str(nonzero)))
    if hasattr(estimator, "proved_zero_"):
        proved = int(estimator.proved_zero_.sum())
        table.add_row(Text("features proved zero in every optimum", "dim"), Text(str(proved)))
    for name, value in getattr(estimator, "diagnostics_", {}).items():
        table.add_row(Text(name, "dim"), Text(f"{value:.6g}"))
    for name, value in parameters_of(selection.estimator).items():
        table.add_row(Text(f"parameter {name}", "dim"), Text(visible(repr(value))))
    return table


def _kept_line(selection: Selection) -> Text:
    n_kept, n_features = int(selection.kept.sum()), selection.kept.size
    if n_kept == 0:
        return Text(nothing_kept_message(selection.estimator), "bold yellow")
    curve = selection.curve
    they = "explains" if n_kept == 1 else "explain"
    worth = f", which {they} {curve[-1]:.1%} of the variance" if curve else ""
    return Text(f"kept {n_kept} of {counted(n_features, 'feature')}{worth}", "bold")


def _worth_line(report: "SelectionReport", glyphs: Glyphs) -> Text:
    """Say what the kept features explain, what PCA would and what random ones would."""
    own, pca, mean, spread = report.headline
    where = "on held-out samples" if report.held_out else "on these samples"
    they = "it explains" if report.n_kept == 1 else "they explain"
    return Text(
        f"{where} {they} {own:.1%}; PCA would explain {pca:.1%}, "
        f"random features {mean:.1%} {glyphs.plus_minus} {spread:.1%}"
    )


def _outcome_line(selection: Selection) -> str:
    """Say how good the fit is: a certificate where there is one, else why it stopped."""
    estimator = selection.model
    n_iter = getattr(estimator, "n_iter_", None)
    steps = "" if n_iter is None else f"{counted(int(n_iter), 'iteration')}, "
    effort = f"{steps}{selection.seconds:.1f} s"
    gap = getattr(estimator, "duality_gap_", None)
    if gap is not None and math.isfinite(gap):
        return f"certified: within {gap:.1e} of the optimum (relative duality gap), {effort}"
    reason = visible(getattr(estimator, "stopping_reason_", "")).removeprefix("stopped ")
    return f"stopped after {effort}{': ' if reason else ''}{reason} (no certificate)"
