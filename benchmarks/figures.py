"""Figures for the documentation, drawn from the stored measurements."""

import numpy as np

from benchmarks.report import CONTEXT, rivals
from benchmarks.suites.scaling import size_of
from benchmarks.suites.selection import means
from benchmarks.tasks import OURS, ratios

BY_QUALITY = ("selection", "noise")  # suites in which how long it takes is beside the point


def draw(folder, results, tasks):
    """Draw what has been measured; return the paths of the figures."""
    import matplotlib

    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    measured = [(task, results.outcomes(task.suite, task.name)) for task in tasks]
    measured = [(task, outcomes) for task, outcomes in measured if outcomes]
    made = []
    for name, figure in (
        ("speed", speed(measured)),
        ("quality", quality(measured)),
        ("scaling", scaling(measured)),
    ):
        if figure is not None:
            path = folder / f"benchmarks-{name}.svg"
            # The same measurements give the same file.
            with matplotlib.rc_context({"svg.hashsalt": "jointsparse"}):
                figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
            made.append(path)
    return made


def speed(measured):
    """Time of every rival over ours, one dot for a problem."""
    from matplotlib.figure import Figure

    rows = [
        (f"{task.name}: {rival}", list(ratios(outcomes, rival).values()))
        for task, outcomes in measured
        if task.sizes is None and task.suite not in BY_QUALITY
        for rival in rivals(outcomes)
        if rival not in CONTEXT and not rival.startswith(OURS)
    ]
    rows = [(name, values) for name, values in rows if values][::-1]
    if not rows:
        return None
    figure = Figure(figsize=(8, 0.6 + 0.3 * len(rows)))
    axes = figure.add_subplot()
    for place, (_, values) in enumerate(rows):
        axes.plot(values, [place] * len(values), "o", color="C0", alpha=0.5)
        axes.plot(np.median(values), place, "|", color="black", markersize=14)
    axes.axvline(1, color="grey", linewidth=1)
    axes.set(xscale="log", xlabel="time of the other tool / time of jointsparse (log scale)")
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    return figure


def quality(measured):
    """Mean R² of the dropped features in new samples, of every way to keep some."""
    from matplotlib.figure import Figure

    found = {}
    for task, outcomes in measured:
        if task.name == "reconstruction":
            found = means(outcomes, "r2")
    if not found:
        return None
    names = sorted(found, key=lambda name: found[name])
    figure = Figure(figsize=(7, 0.6 + 0.3 * len(names)))
    axes = figure.add_subplot()
    colours = ["C1" if name.startswith(OURS) else "C0" for name in names]
    axes.barh(names, [100 * found[name] for name in names], color=colours)
    axes.set(xlabel="R² of the dropped features in new samples, mean over the datasets (%)")
    return figure


def scaling(measured):
    """Time against size, a panel for each axis."""
    from matplotlib.figure import Figure

    panels = [(task, outcomes) for task, outcomes in measured if task.sizes is not None]
    if not panels:
        return None
    figure = Figure(figsize=(5 * len(panels), 4))
    for place, (task, outcomes) in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        for name in [OURS, *rivals(outcomes)]:
            points = [
                (size_of(problem), outcome.median)
                for problem, rows in outcomes.items()
                for outcome in rows
                if outcome.competitor == name and outcome.good
            ]
            if points:
                label = "jointsparse, SPCAPSD" if name == OURS else name
                axes.plot(*zip(*points, strict=True), "o-", label=label)
        axes.set(xscale="log", yscale="log", xlabel=task.name, ylabel="seconds")
        axes.set_title(task.title, fontsize="small")
        axes.legend(fontsize="x-small")
    return figure
