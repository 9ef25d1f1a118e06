"""Results that a run did not measure again stay as they were, with the version that they belong to.

One suite can be measured by itself: what RESULTS.json has of the other tasks is taken over, all
outcomes of a task together, since they are compared with each other. The page says of every task
with which version, and on which machine, it was measured.
"""

import json

from benchmarks.measure import Outcome

SAID = ("processor", "machine", "python", "versions", "quick", "note")  # of a run, on the page


class Results:
    """The measurements of one run and, of tasks that it has not measured, earlier ones.

    ``outcomes`` and ``about`` are those of the store; ``origins`` tells of every task, by its
    title, what it was measured with.
    """

    def __init__(self, store, tasks, earlier=None, note=""):
        self.about = store.about
        about = {key: store.about[key] for key in SAID if key in store.about}
        about |= {"note": note} if note else {}
        known = _read(earlier)
        self.found, self.origins = {}, {}
        for task in tasks:
            measured, origin = store.outcomes(task.suite, task.name), about
            if not measured and task.title in known["tasks"]:
                measured = outcomes_of(known["tasks"][task.title])
                origin = known["measured"][task.title]
            self.found[task.suite, task.name] = measured
            if measured:
                self.origins[task.title] = origin

    def outcomes(self, suite, task):
        """Return {problem: [outcome, …]} of one task."""
        return self.found[suite, task]


def _read(path):
    if path is None or not path.exists():
        return {"tasks": {}, "measured": {}}
    return json.loads(path.read_text(encoding="utf-8"))


def plain(outcome):
    """Return an outcome as plain values."""
    return {
        "version": outcome.version,
        "seconds": outcome.median,
        "half_range": outcome.half_range,
        "memory": outcome.memory,
        "quality": outcome.quality,
        "status": outcome.status,
    }


def outcomes_of(problems):
    """Return {problem: [outcome, …]} from {problem: {competitor: plain values}}."""
    return {
        problem: [
            Outcome(
                competitor,
                one["version"],
                one["status"],
                [] if one["seconds"] is None else [one["seconds"]],
                one["memory"],
                one["quality"],
                one["half_range"],
            )
            for competitor, one in rows.items()
        ]
        for problem, rows in problems.items()
    }


def origin_lines(origins, tasks):
    """Return which version and machine each task was measured with, those alike in one line."""
    suites = {task.title: task.suite for task in tasks}
    groups = {}
    for title, about in origins.items():
        groups.setdefault(json.dumps(about, sort_keys=True), []).append(title)
    lines = ["## Measured with", ""]
    for titles in groups.values():
        about = origins[titles[0]]
        versions = ", ".join(f"{name} {value}" for name, value in about["versions"].items())
        place = f"{about['processor'] or about['machine']}, Python {about['python']}, {versions}"
        note = f". {about['note']}" if about.get("note") else ""
        names = ", ".join(dict.fromkeys(suites[title] for title in titles))
        lines.append(f"- {names}: {place}{note}")
    return "\n".join(lines)
