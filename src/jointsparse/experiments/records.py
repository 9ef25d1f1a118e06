"""Results as text beside the pages that are made of them: one JSON file for each experiment."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jointsparse.experiments.store import Finished
from jointsparse.experiments.task import Task


def as_text(experiment: str, done: Iterable[Finished]) -> str:
    """Return finished tasks as JSON, one task a line, so that a change is seen where it is.

    Parameters
    ----------
    experiment : str
        Its name.
    done : iterable of Finished
        Tasks of it.

    Examples
    --------
    >>> from jointsparse.experiments import Task
    >>> from jointsparse.experiments.records import as_text, from_text
    >>> from jointsparse.experiments.store import Finished
    >>> task = Task("demo", {"seed": 1})
    >>> done = Finished(task, [{"accuracy": 0.5}], 0.1, "Linux", '{"numpy": "2"}')
    >>> from_text(as_text("demo", [done])) == [done]
    True
    """
    runs: dict[tuple[str, str], list[Finished]] = {}
    for one in done:
        runs.setdefault((one.machine, one.versions), []).append(one)
    parts = []
    for (machine, versions), tasks in sorted(runs.items()):
        lines = [
            json.dumps(
                {"case": one.task.case, "seconds": round(one.seconds, 3), "rows": one.rows},
                sort_keys=True,
                ensure_ascii=False,
            )
            for one in sorted(tasks, key=lambda one: one.task.text)
        ]
        head = f'{{"machine": {json.dumps(machine)},\n"versions": {versions},\n"tasks": [\n'
        parts.append(head + ",\n".join(lines) + "\n]}")
    body = ",\n".join(parts)
    return f'{{"experiment": {json.dumps(experiment)},\n"runs": [\n{body}\n]}}\n'


def from_text(text: str) -> list[Finished]:
    """Return the tasks that :func:`as_text` wrote.

    Raises
    ------
    ValueError
        Where the text is nothing of the kind.
    """
    try:
        record: dict[str, Any] = json.loads(text)
        return [
            Finished(
                Task(str(record["experiment"]), dict(one["case"])),
                [dict(row) for row in one["rows"]],
                float(one["seconds"]),
                str(run["machine"]),
                json.dumps(dict(run["versions"])),
            )
            for run in record["runs"]
            for one in run["tasks"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("these are no results of experiments") from error


def records_in(folder: Path) -> dict[str, Path]:
    """Return the files of results in a folder of pages, by experiment."""
    from jointsparse.experiments.catalogue import experiments

    return {n: path for n in experiments() if (path := folder / f"{n}.json").is_file()}


def origin(done: Iterable[Finished]) -> list[str]:
    """Say what computed the tasks: one sentence for each kind of machine and versions."""
    counts: dict[tuple[str, str], int] = {}
    for one in done:
        key = (one.machine, one.versions)
        counts[key] = counts.get(key, 0) + 1
    total = sum(counts.values())
    sentences = []
    for (machine, versions), count in sorted(counts.items()):
        packages = ", ".join(f"{name} {number}" for name, number in json.loads(versions).items())
        share = "" if count == total else f"{count} of {total} tasks: "
        sentences.append(f"{share}Computed with {packages}; {machine}.")
    return sentences


def versions_of(done: Iterable[Finished]) -> list[str]:
    """Return the versions of this package that computed the tasks."""
    return sorted({str(json.loads(one.versions).get("jointsparse", "unknown")) for one in done})
