"""A finished selection as text for people and as JSON for programs."""

import math
from dataclasses import asdict, astuple
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from jointsparse.cli.display.components import component_records
from jointsparse.cli.display.console import Glyphs, shorten_middle
from jointsparse.cli.intake.fitting import Selection, nothing_kept_message
from jointsparse.cli.options.arguments import parameters_of
from jointsparse.cli.options.proving import better_set, set_record
from jointsparse.cli.options.robustness import outlier_record, outliers_in_words
from jointsparse.text import counted, cut_middle, left_out, percent, visible

if TYPE_CHECKING:
    from jointsparse.methods.bases.ranking import RankedFeature
    from jointsparse.selection_report import SelectionReport

MOST_SHOWN = 30  # kept features that are shown where no number is asked for
_NAME_LENGTH = 40  # characters of a name in a sentence
_NARROWEST = 10  # cells of names, however narrow the terminal
# Rank, kept mark, three gaps between columns and two edges.
_OTHER_CELLS = 4 + 4 + 3 * 3 + 2
_AGAIN_CELLS = 6 + 3  # "3 of 3" and a gap
_SHARED_CELLS = 6 + 3  # "shared" and a gap
_SCORE_CELLS = 10 + 3

RANKING_HEADER = (
    *("rank", "feature", "score", "kept", "r2", "stand_in", "stand_in_r2"),
    *("shared", "p_value", "found_again"),
)

_DIAGNOSTICS = {
    "objective_": "objective",
    "duality_gap_": "relative duality gap",
    "converged_": "converged",
    "stopping_reason_": "stopped because",
    "alpha_": "alpha used (absolute)",
    "eta_": "eta used (absolute)",
}


def ranking_rows(selection: Selection) -> "list[RankedFeature]":
    """Return every feature, best first."""
    from jointsparse.methods.bases.ranking import ranked_features

    return ranked_features(selection.estimator, selection.table.names, selection.report)


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
        "ids": list(selection.table.id_names),
        "n_samples": n_samples,
        "n_features": n_features,
        "method": selection.method,
        "parameters": parameters_of(selection.estimator),
        "scale": selection.scale.value,
        "transform": selection.transform and selection.transform.value,
        "outliers": outlier_record(selection),
        "kept": [row.feature for row in rows if row.kept],
        "verdict": None if selection.report is None else selection.report.verdict,
        "worth": _worth_record(selection),
        "set": set_record(selection.certificate, selection.table.names),
        "constraints": selection.constraints,
        "components": component_records(selection),
        "ranking": map(asdict, rows),  # each when it is printed
        "objective": getattr(model, "objective_", None),
        "duality_gap": getattr(model, "duality_gap_", None),
        "converged": getattr(model, "converged_", None),
        "iterations": getattr(model, "n_iter_", None),
        "seconds": selection.seconds,
        "notes": selection.notes,
        "warnings": selection.warnings,
    }


def _worth_record(selection: Selection) -> dict[str, Any] | None:
    """Return what the kept features predict, account for and make up, beside the baselines."""
    report = selection.report
    if report is None:
        return None
    _, _, mean, spread = report.headline
    return {
        "n_patterns": report.n_patterns,
        "more_patterns": report.more_patterns,
        "n_significant": report.n_significant,
        "n_kept_significant": report.n_kept_significant,
        "r2": report.r2,
        "own_share": report.own_share,
        "r2_held_out": report.r2_held_out,
        "pca_r2": report.pca_r2,
        "pca_r2_held_out": report.pca_r2_held_out,
        "random_r2_mean": mean,
        "random_r2_std": spread,
        "ceiling": report.ceiling,
        "coverage": report.coverage,
        "beaten_by": report.beaten_by if report.held_out else None,
        "held_out": report.held_out,
        "why_not_held_out": report.why_not,
        "n_parts": 0 if report.worth is None else report.worth.n_folds,
        "related": _related_record(report),
        "curve": _curve_record(report),
        "extremes": _extremes_record(selection),
    }


def _related_record(report: "SelectionReport") -> dict[str, float] | None:
    """Return what is predicted of the features that share something, where most do not."""
    if report.of_related is None:
        return None
    return dict(zip(("r2", "random_r2_mean", "random_r2_std"), report.of_related, strict=True))


def _curve_record(report: "SelectionReport") -> dict[str, list[float]] | None:
    """Return what other numbers of features predict in new samples."""
    curve = report.curve
    if curve is None:
        return None
    return {
        "sizes": curve.sizes.tolist(),
        "r2": curve.r2.tolist(),
        "error": curve.error.tolist(),
    }


def _extremes_record(selection: Selection) -> dict[str, Any] | None:
    """Return the columns and samples with gross values; rows are counted from 1."""
    report = selection.report
    if report is None or report.extremes is None:
        return None
    found, names = report.extremes, selection.table.names
    return {
        "matter": report.extremes_matter,
        "columns": [
            {"feature": names[j], "share": float(share), **_sample(selection, row)}
            for j, share, row in zip(
                found.columns.tolist(), found.column_shares, found.column_samples, strict=True
            )
        ],
        "samples": [
            {**_sample(selection, row), "share": float(share)}
            for row, share in zip(found.samples, found.sample_shares, strict=True)
        ],
    }


def _sample(selection: Selection, row: Any) -> dict[str, Any]:
    """Return the number of a sample, counted from 1, and its IDs."""
    ids = {name: column[int(row)].item() for name, column in selection.table.ids.items()}
    return {"row": int(row) + 1} | ({"ids": ids} if ids else {})


def extremes_in_words(selection: Selection) -> dict[str, str]:
    """Say which columns and samples hold gross values, and which option helps, where it matters."""
    report = selection.report
    if report is None or report.extremes is None or not report.extremes_matter:
        return {}
    from jointsparse.extremes import BELONGS

    found = report.extremes
    advice = "--transform rank makes them comparable"
    if selection.transform is None and _logarithms_exist(selection, found.columns):
        advice = "--transform log1p or rank makes them comparable"
    advice_samples = BELONGS
    if selection.step is None:
        advice += ", and --robust cells leaves such values out"
        advice_samples += ", or try --robust samples"
    sentences = found.sentences(selection.table.names, advice, advice_samples, first_row=1)
    titles = ["extreme values"] * bool(found.columns.size) + ["extreme samples"]
    return dict(zip(titles, sentences, strict=False))


def _logarithms_exist(selection: Selection, columns: Any) -> bool:
    """Tell whether the values of these columns, as they were read, are not negative."""
    values = getattr(selection.table, "values", None)  # of a table that is in memory
    return values is not None and (not columns.size or bool(values[:, columns].min() >= 0))


def print_selection(
    console: Console,
    selection: Selection,
    top: int | None,
    *,
    scores: bool,
    verbose: bool,
    next_step: tuple[str, str] | None,
) -> None:
    """Print the answer for a person: the verdict, the kept features, how sure that is, what next.

    With a number ``top``, so many features of the ranking, kept or not; else the kept ones.
    """
    glyphs = Glyphs.for_console(console)
    # One line each, however narrow the terminal: a pipe can then search for them.
    console.print(_heading(selection, glyphs), soft_wrap=True)
    for note in selection.notes:
        console.print(Text(f"note: {visible(note)}", "dim"))
    console.print()
    console.print(_verdict(selection, glyphs), soft_wrap=True)
    sure = _how_sure(selection, glyphs)
    rows = ranking_rows(selection)
    kept = sum(row.kept for row in rows)
    shown = rows[: min(kept, MOST_SHOWN) if top is None else top]
    if shown:
        related = getattr(selection.estimator, "significant_", None)
        names = selection.table.names
        unrelated = set() if related is None else {names[j] for j in (~related).nonzero()[0]}
        represented = _represented(rows, unrelated)
        sure = _with_stand_ins(sure, represented)
        worth = None if selection.report is None else selection.report.worth
        parts = 0 if worth is None else worth.n_folds
        console.print(_ranking_table(console.width, shown, represented, parts, glyphs, scores))
    if shown and len(rows) > len(shown):
        console.print(Text(_rest_line(rows[len(shown) :], len(rows), glyphs), "dim"))
    if verbose:
        console.print(_diagnostics(selection))
    for name, text in sure.items():
        console.print(Text.assemble((f"{name:<17}", "dim"), text), soft_wrap=True)
    if next_step is not None:
        why, command = next_step
        console.print(Text.assemble((f"{'next':<17}", "dim"), f"{why}:"), soft_wrap=True)
        console.print(Text(f"  {visible(command)}", "bold"), soft_wrap=True)


def _verdict(selection: Selection, glyphs: Glyphs) -> Text:
    """Return the answer in one sentence; where nothing was judged, how many are kept."""
    report = selection.report
    if report is not None:
        return Text(report.verdict.replace("±", glyphs.plus_minus), "bold")
    n_kept, n_features = int(selection.kept.sum()), selection.kept.size
    if n_kept == 0:
        return Text(nothing_kept_message(selection.estimator), "bold yellow")
    return Text(f"kept {n_kept} of {counted(n_features, 'feature')}", "bold")


def _represented(
    rows: "list[RankedFeature]", unrelated: set[str]
) -> dict[str, list[tuple[str, float]]]:
    """Return for each kept feature the dropped ones that it stands in for, best first, with R².

    Nothing stands in for a feature that is unrelated to all others.
    """
    found: dict[str, list[tuple[float, str]]] = {}
    for row in rows:
        if row.stand_in is None or row.feature in unrelated:
            continue
        if row.stand_in_r2 is not None:
            found.setdefault(row.stand_in, []).append((-row.stand_in_r2, row.feature))
    return {
        name: [(feature, -share) for share, feature in sorted(pairs)]
        for name, pairs in found.items()
    }


def _with_stand_ins(
    sure: dict[str, str], represented: dict[str, list[tuple[str, float]]]
) -> dict[str, str]:
    """Say also how well the best and the worst of the stand-ins do, before what is above noise."""
    from jointsparse.selection.verdict import GOOD

    pairs = sorted((pair for pairs in represented.values() for pair in pairs), key=lambda p: -p[1])
    if not pairs:
        return sure

    def share(pair: tuple[str, float]) -> str:
        return f"{percent(pair[1])} of '{cut_middle(visible(pair[0]), _NAME_LENGTH)}'"

    text = "each dropped feature is listed with the kept one that alone accounts for most of it"
    text += f": {'from ' if len(pairs) > 1 else ''}{share(pairs[0])}"
    if len(pairs) > 1:
        text += f" to {'only ' if pairs[-1][1] < GOOD else ''}{share(pairs[-1])}"
    places = list(sure)
    before = places.index("above the noise") if "above the noise" in sure else len(places)
    items = list(sure.items())
    return dict([*items[:before], ("stands in for", text), *items[before:]])


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


def _ranking_table(
    width: int,
    rows: "list[RankedFeature]",
    represented: dict[str, list[tuple[str, float]]],
    parts: int,
    glyphs: Glyphs,
    scores: bool,
) -> RichTable:
    """Return the table; ``parts`` is in how many parts of the samples features may be found."""
    names = [visible(row.feature) for row in rows]
    shared = all(row.shared is not None for row in rows)
    dropped = any(not row.kept for row in rows)
    again = parts > 0 and any(row.found_again is not None for row in rows)
    others = _OTHER_CELLS + again * _AGAIN_CELLS + shared * _SHARED_CELLS + scores * _SCORE_CELLS
    room = max(width - others, _NARROWEST)
    name_cells = min(max(map(cell_len, names)), max(room // 2, _NARROWEST))
    text_cells = room - name_cells

    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("feature", no_wrap=True)
    if dropped:
        table.add_column("kept", justify="center", no_wrap=True)
    for title in ["shared"] * shared + ["score"] * scores:
        table.add_column(title, justify="right", no_wrap=True)
    if again:
        table.add_column("again", justify="right", no_wrap=True)
    if represented:
        table.add_column("stands in for", no_wrap=True, overflow="ellipsis")
    for row, name in zip(rows, names, strict=True):
        numbers = [percent(row.shared)] if row.shared is not None and shared else []
        numbers += [f"{row.score:#.4g}" if row.score else "0"] * scores
        stands_for = _few(
            [name for name, _ in represented.get(row.feature, [])], text_cells, glyphs
        )
        table.add_row(
            Text(str(row.rank)),
            Text(shorten_middle(name, name_cells, glyphs.ellipsis), "bold" if row.kept else "dim"),
            *([Text(glyphs.tick if row.kept else "", "bold")] if dropped else []),
            *map(Text, numbers),
            *([Text(_again(row, parts))] if again else []),
            *([Text(stands_for)] if represented else []),
        )
    return table


def _again(row: "RankedFeature", parts: int) -> str:
    return "" if row.found_again is None else f"{round(row.found_again * parts)} of {parts}"


def _few(names: list[str], cells: int, glyphs: Glyphs) -> str:
    """Return as many names as there is room for, and how many there are in all."""
    if not names:
        return ""
    end = f" ({len(names)})" if len(names) > 1 else ""
    shown: list[str] = []
    for name in map(visible, names):
        more = f", {glyphs.ellipsis}" if len(shown) + 1 < len(names) else ""
        if shown and cell_len(", ".join([*shown, name])) + cell_len(more + end) > cells:
            break
        shown.append(name)
    first = shorten_middle(shown[0], max(cells - cell_len(end) - 3, 4), glyphs.ellipsis)
    text = ", ".join([first, *shown[1:]])
    return f"{text}{f', {glyphs.ellipsis}' if len(shown) < len(names) else ''}{end}"


def _rest_line(rest: "list[RankedFeature]", total: int, glyphs: Glyphs) -> str:
    kept = sum(row.kept for row in rest)
    which = f"{kept or 'none'} of them kept" if len(rest) > 1 else "kept" if kept else "not kept"
    more = counted(len(rest), "more feature")
    return f"{glyphs.ellipsis} and {more}, {which} (--top {total} shows all)"


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


def _how_sure(selection: Selection, glyphs: Glyphs) -> dict[str, str]:
    """Say what the answer rests on: new samples, this table, the model; one line each."""
    from jointsparse.selection.verdict import mean_and_spread, patterns_in_words

    lines: dict[str, str] = {}
    report = selection.report
    if report is not None and report.worth is not None:
        worth, count = report.worth, report.n_kept
        random = mean_and_spread(worth.random).replace("±", glyphs.plus_minus)
        lines["in new samples"] = (
            f"the kept predict {percent(worth.r2)} of the others, random ones {random}, all others "
            f"together {percent(worth.ceiling)}; {counted(count, 'principal component')} of all "
            f"features {'gives' if count == 1 else 'give'} {percent(worth.pca)}"
        )
        if not math.isnan(report.found_again[0]):
            lines["again"] = (
                "how often a feature, or one that is nearly the same (squared correlation of at "
                f"least 0.8), is kept when {left_out(worth.n_folds)} of the samples is left out"
            )
    if report is not None and report.n_kept:
        lines["in this table"] = (
            f"the kept account for {percent(report.r2)} of the variance and make up "
            f"{percent(report.own_share)} of it themselves"
        )
    if report is not None and report.n_kept and hasattr(selection.estimator, "feature_shares_"):
        lines["shared"] = "the part of a feature that the other features account for, beyond noise"
    if report is not None:
        lines["above the noise"] = (
            f"{patterns_in_words(report)}; {report.n_significant} of "
            f"{counted(report.n_features, 'feature')} share something with others"
        )
    lines |= extremes_in_words(selection) | outliers_in_words(selection)
    if not hasattr(selection.estimator, "set_certificate_"):  # else the set is the model
        lines["the model"] = _outcome_line(selection)
    if selection.certificate is not None:
        lines["the set"] = visible(str(selection.certificate))
        better = better_set(selection.certificate, selection.table.names)
        lines |= {"a better set": visible(better)} if better else {}
    if selection.constraints is not None:
        lines["constraints"] = visible("; ".join(selection.constraints["words"]))
    return lines


def _outcome_line(selection: Selection) -> str:
    """Say how far the model is solved: what is proved, else why it stopped."""
    estimator = selection.model
    n_iter = getattr(estimator, "n_iter_", None)
    steps = "" if n_iter is None else f"{counted(int(n_iter), 'iteration')}, "
    effort = f"{steps}{selection.seconds:.1f} s"
    gap = getattr(estimator, "duality_gap_", None)
    if gap is not None and math.isfinite(gap):
        return f"solved to within {gap:.1e} of its optimum (proved), {effort}"
    reason = visible(getattr(estimator, "stopping_reason_", "")).removeprefix("stopped ")
    return f"stopped after {effort}{': ' if reason else ''}{reason} (no proof)"
