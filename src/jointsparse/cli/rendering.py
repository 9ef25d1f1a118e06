"""A finished selection as text for people and as JSON for programs."""

import math
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from jointsparse.cli.console import Glyphs, bar, shorten_middle, visible
from jointsparse.cli.fitting import Selection, nothing_kept_message

SMALLEST_TABLE = 10
_WIDEST_BAR = 24
_NARROWEST_BAR = 6
# Rank, score, kept mark, four gaps between columns and two edges.
_OTHER_CELLS = 4 + 10 + 4 + 4 * 3 + 2

_DIAGNOSTICS = {
    "objective_": "objective",
    "duality_gap_": "relative duality gap",
    "converged_": "converged",
    "stopping_reason_": "stopped because",
    "alpha_": "alpha used (absolute)",
    "eta_": "eta used (absolute)",
}


def ranking_rows(selection: Selection) -> list[tuple[int, str, float, bool]]:
    """Return rank, name, score and kept for every feature, best first."""
    scores, kept, names = selection.scores, selection.kept, selection.table.names
    return [
        (rank, names[column], float(scores[column]), bool(kept[column]))
        for rank, column in enumerate(selection.best_first, start=1)
    ]


def as_record(selection: Selection) -> dict[str, Any]:
    """Return everything a program may want to know, ready for JSON."""
    estimator = selection.estimator
    n_samples, n_features = selection.table.values.shape
    rows = ranking_rows(selection)
    return {
        "data": selection.data,
        "label": selection.table.label_name,
        "n_samples": n_samples,
        "n_features": n_features,
        "method": selection.method,
        "parameters": estimator.get_params(),
        "scale": selection.scale.value,
        "kept": [name for _, name, _, kept in rows if kept],
        "ranking": [
            {"rank": rank, "feature": name, "score": score, "kept": kept}
            for rank, name, score, kept in rows
        ],
        "objective": getattr(estimator, "objective_", None),
        "duality_gap": getattr(estimator, "duality_gap_", None),
        "converged": getattr(estimator, "converged_", None),
        "iterations": getattr(estimator, "n_iter_", None),
        "seconds": selection.seconds,
        "notes": selection.notes,
        "warnings": selection.warnings,
    }


def print_selection(console: Console, selection: Selection, top: int, verbose: bool) -> None:
    """Print heading, ranking and outcome for a person."""
    glyphs = Glyphs.for_console(console)
    # One line each, however narrow the terminal: a pipe can then search for them.
    console.print(_heading(selection, glyphs), soft_wrap=True)
    for note in selection.notes:
        console.print(Text(f"note: {visible(note)}", "dim"))
    rows = ranking_rows(selection)
    shown = rows[: max(top, SMALLEST_TABLE)]
    console.print(_ranking_table(console.width, shown, glyphs, float(selection.scores.max())))
    if len(rows) > len(shown):
        console.print(Text(_rest_line(rows[len(shown) :], len(rows), glyphs), "dim"))
    if verbose:
        console.print(_diagnostics(selection))
    console.print(_kept_line(selection), soft_wrap=True)
    console.print(Text(_outcome_line(selection)), soft_wrap=True)


def _heading(selection: Selection, glyphs: Glyphs) -> Text:
    n_samples, n_features = selection.table.values.shape
    shape = f"{n_samples} samples {glyphs.times} {n_features} features"
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


def _ranking_table(
    width: int, rows: list[tuple[int, str, float, bool]], glyphs: Glyphs, best: float
) -> RichTable:
    names = [visible(name) for _, name, _, _ in rows]
    room = max(width - _OTHER_CELLS, SMALLEST_TABLE)
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
    for (rank, _, score, kept), name in zip(rows, names, strict=True):
        share = score / best if best > 0 else 0.0
        drawn = Text(bar(share, bar_cells, glyphs), "cyan" if kept else "bright_black")
        table.add_row(
            Text(str(rank)),
            Text(shorten_middle(name, name_cells, glyphs.ellipsis), "bold" if kept else ""),
            *([drawn] if bar_cells else []),
            Text(f"{score:#.4g}" if score else "0"),
            Text(glyphs.tick if kept else "", "bold"),
        )
    return table


def _rest_line(rest: list[tuple[int, str, float, bool]], total: int, glyphs: Glyphs) -> str:
    kept = sum(kept for *_, kept in rest) or "none"
    more = counted(len(rest), "more feature")
    return f"{glyphs.ellipsis} and {more}, {kept} of them kept (--top {total} shows all)"


def _diagnostics(selection: Selection) -> RichTable:
    estimator = selection.estimator
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
    for name, value in estimator.get_params().items():
        table.add_row(Text(f"parameter {name}", "dim"), Text(visible(repr(value))))
    return table


def _kept_line(selection: Selection) -> Text:
    n_kept, n_features = int(selection.kept.sum()), selection.kept.size
    if n_kept == 0:
        return Text(nothing_kept_message(selection.estimator), "bold yellow")
    curve = getattr(selection.estimator, "selection_curve_", None)
    worth = "" if curve is None else f", which explain {curve[-1]:.1%} of the variance"
    return Text(f"kept {n_kept} of {counted(n_features, 'feature')}{worth}", "bold")


def _outcome_line(selection: Selection) -> str:
    """Say how good the fit is: a certificate where there is one, else why it stopped."""
    estimator = selection.estimator
    n_iter = getattr(estimator, "n_iter_", None)
    steps = "" if n_iter is None else f"{counted(int(n_iter), 'iteration')}, "
    effort = f"{steps}{selection.seconds:.1f} s"
    gap = getattr(estimator, "duality_gap_", None)
    if gap is not None and math.isfinite(gap):
        return f"certified: within {gap:.1e} of the optimum (relative duality gap), {effort}"
    reason = visible(getattr(estimator, "stopping_reason_", "")).removeprefix("stopped ")
    return f"stopped after {effort}{': ' if reason else ''}{reason} (no certificate)"


def counted(number: int, noun: str) -> str:
    """Return number and noun, in the plural unless the number is one."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
