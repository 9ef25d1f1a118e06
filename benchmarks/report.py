"""The table of results beside every other tool, and where jointsparse is slower or worse.

RESULTS.md is for people; RESULTS.json, beside it, has the same numbers for pages and tests that
quote one of them, and for the history.
"""

import json

import numpy as np

from benchmarks.earlier import origin_lines, plain
from benchmarks.suites.scaling import slopes
from benchmarks.tasks import OURS, by_name

HEAD = """# Side by side

Written by `python -m benchmarks`; do not edit.{about}

Every tool of a task ran on the same data in the same run, in a process of its own, on one thread,
in turn with the others; the first run of each does not count, unless it took longer than 5 seconds
(then it is the only one). Times are seconds of the processor: compare the ratios, not the seconds.
*Time* is that of the other tool over that of jointsparse: above 1 jointsparse is faster. *Quality*
compares the two in the measure named with the task: + says that jointsparse is better. *Memory* is
what a run added at its peak, as a ratio like the times. Ranges are over the problems, whose number
stands in front.
"""
ON_OTHER_PAGES = {"sets": "docs/sets.md"}  # suites with a page, and stored results, of their own
CONTEXT = ("PCA, h components (no subset)", "scikit-learn PCA (not sparse)", "bare Python")


def write(path, results, tasks):
    """Write results as Markdown and as JSON; return the bars with their verdicts."""
    about, line = results.about, ""
    if about["quick"]:
        line = " **Quick sizes: they say that everything runs, not how fast.**"
    measured = [(task, results.outcomes(task.suite, task.name)) for task in tasks]
    left, incomplete = missing(measured, quick=about["quick"])
    measured = [(task, outcomes) for task, outcomes in measured if outcomes]
    bars = [(task, bar) for task, outcomes in measured for bar in task.bars(outcomes)]
    # What lies between the two marks is shown on the page of the documentation.
    parts = [
        HEAD.format(about=line),
        "<!-- promises -->",
        origin_lines(results.origins, tasks),
        bar_table(bars, incomplete),
        summary(measured),
    ]
    parts += [slope_table(task, outcomes) for task, outcomes in measured if task.sizes]
    parts += [left, "<!-- end -->"]
    parts += ["## Problem by problem", *(details(task, rows) for task, rows in measured)]
    path.write_text("\n\n".join(part.rstrip() for part in parts if part) + "\n", encoding="utf-8")
    numbers = {
        "measured": results.origins,
        "promises": promises(bars),
        "tasks": dict(map(numbers_of, measured)),
    }
    text = json.dumps(numbers, indent=1, ensure_ascii=False)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
    return bars


def promises(bars):
    """Return the bars as plain values."""
    return [
        {"task": task.title, "promise": bar.promise, "found": bar.found, "met": bar.met}
        for task, bar in bars
    ]


def numbers_of(task_and_outcomes):
    """Return a task's title and {problem: {competitor: what is known of its outcome}}."""
    task, outcomes = task_and_outcomes
    return task.title, {
        problem: {o.competitor: plain(o) for o in rows} for problem, rows in outcomes.items()
    }


def missing(measured, *, quick):
    """What belongs to the suites and has not been measured."""
    lines, incomplete = ["## Not measured", ""], set()
    for task, outcomes in measured:
        names = [problem.name for problem in task.problems(quick)]
        left = [name for name in names if name not in outcomes]
        if left:
            incomplete.add(task.name)
            what = "everything" if len(left) == len(names) else "; ".join(left)
            what = ON_OTHER_PAGES.get(task.suite, what)
            lines.append(f"- {task.title}: {what}")
    lines += [] if incomplete else ["Nothing: every task is complete."]
    return "\n".join(lines), incomplete


def bar_table(bars, incomplete=()):
    """What was promised, and whether it holds."""
    lines = ["## Promises", "", "| promise | found | |", "|---|---|---|"]
    words = {True: "met", False: "**MISSED**", None: "not measured"}
    for task, bar in bars:
        part = ", on what was measured" if bar.met and task.name in incomplete else ""
        lines.append(f"| {bar.promise} | {bar.found} | {words[bar.met]}{part} |")
    return "\n".join(lines)


def summary(measured):
    """One row for every task and rival."""
    lines = [
        "## Every task, every tool",
        "",
        "| task | tool | problems | time | quality | memory | |",
        "|---|---|---|---|---|---|---|",
    ]
    for task, outcomes in measured:
        # Other methods at growing sizes are no rivals of each other: their exponents follow.
        for rival in rivals(outcomes) if task.sizes is None else ():
            lines.append(f"| {task.title} | {rival} | {row(task, outcomes, rival)} |")
    return "\n".join(lines)


def rivals(outcomes):
    """Return all competitors but ours, in the order in which they ran."""
    names = dict.fromkeys(o.competitor for rows in outcomes.values() for o in rows)
    return [name for name in names if name != OURS]


def row(task, outcomes, rival):
    times, leads, memory, failures = [], [], [], []
    for rows in outcomes.values():
        here = {o.competitor: o for o in rows}
        if rival not in here:
            continue
        pair = by_name(rows)
        if rival not in pair:
            failures.append(here[rival].status)
        elif OURS in pair:
            ours, theirs = pair[OURS], pair[rival]
            times.append(theirs.median / ours.median)
            memory.append(max(theirs.memory, 0.1) / max(ours.memory, 0.1))
            metric = task.metric
            if metric and metric.name in ours.quality and metric.name in theirs.quality:
                leads.append(metric.lead(ours.quality[metric.name], theirs.quality[metric.name]))
    count = str(len(times)) + (f" of {len(times) + len(failures)}" if failures else "")
    quality = spread(leads, signed=True) if leads and task.metric.same < 1 else ""
    if leads and task.metric.same >= 1:
        quality = f"agreement {spread([1 - lead for lead in leads])}"
    remarks = [*verdicts(task, times, leads, rival), failure_words(failures)]
    words = "; ".join(word for word in remarks if word)
    return f"{count} | {spread(times)} | {quality} | {spread(memory)} | {words}"


def verdicts(task, times, leads, rival):
    """Where we are slower or worse, in words."""
    words = []
    slower = sum(ratio < 1 for ratio in times)
    if slower:
        words.append(f"**slower** on {slower} of {len(times)}")
    worse = sum(lead < -task.metric.same for lead in leads) if leads else 0
    if worse:
        words.append(f"**worse** on {worse} of {len(leads)}")
    if rival in CONTEXT:
        words.append("for scale")
    return words


def failure_words(failures):
    counts = {}
    for failure in failures:
        short = failure.split(":")[0] if failure.startswith("does not") else failure
        counts[short] = counts.get(short, 0) + 1
    return "; ".join(
        f"{short} ({count})" if count > 1 else short for short, count in counts.items()
    )


def spread(values, *, signed=False):
    """Median and range of some numbers."""
    if not values:
        return ""
    form = signed_number if signed else number
    middle = form(float(np.median(values)))
    if len(values) == 1:
        return middle
    return f"{middle} ({form(min(values))} … {form(max(values))})"


def number(value):
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"


def signed_number(value):
    if value == 0:
        return "0"
    return f"{value:+.1e}" if abs(value) < 1e-3 else f"{value:+.3f}"


def slope_table(task, outcomes):
    """Exponents of time and memory for every competitor of a scaling task."""
    lines = [
        f"## {task.title}: exponents",
        "",
        "| tool | time ~ size^ | memory ~ size^ | sizes |",
        "|---|---|---|---|",
    ]
    for name, (time, memory, count) in slopes(outcomes, task.sizes).items():
        cells = ["" if value is None else f"{value:+.2f}" for value in (time, memory)]
        lines.append(f"| {name} | {cells[0]} | {cells[1]} | {count} |")
    return "\n".join(lines)


def details(task, outcomes):
    """Every outcome of a task."""
    names = sorted({key for rows in outcomes.values() for o in rows for key in o.quality})
    lines = [f"### {task.title}", ""]
    if task.notes:
        lines += [task.notes, ""]
    lines += [
        f"| problem | tool | seconds | memory, MB | {' | '.join(names)} | status |",
        "|---" * (5 + len(names)) + "|",
    ]
    for problem, rows in outcomes.items():
        for o in rows:
            cells = [f"{o.quality[key]:.6g}" if key in o.quality else "" for key in names]
            memory = "" if o.memory is None else f"{o.memory:.0f}"
            label = f"{o.competitor} {o.version}" if o.version and OURS not in o.competitor else ""
            quality = "".join(f"{cell} | " for cell in cells)
            lines.append(
                f"| {problem} | {label or o.competitor} | {seconds_of(o)} | {memory} | {quality}"
                f"{o.status} |"
            )
    return "\n".join(lines).replace("|  | status", "| status")


def seconds_of(outcome):
    """Median and half the range between the quartiles, of how many runs."""
    if not outcome.seconds:
        return ""
    if outcome.half_range is None:
        return f"{outcome.median:.3g} (1 run)"
    return f"{outcome.median:.3g} ± {outcome.half_range:.1g}"
