"""The suites, one file each: their tasks, how results are judged, and the bars."""

import importlib

SUITES = ("convex", "components", "graphs", "selection", "sets", "noise", "scaling", "startup")
# Suites that are not about other tools on the same data: the module that measures each.
SCRIPTS = {
    "limits": "limits",
    "cores": "cores",
    "l0": "l0",
    "outliers": "outliers",
    "missing": "missing",
    "memory": "beyond_memory",
    "gpu": "gpu",
}
# What the issues promise is measured first: a run may have to end early.
FIRST = ("spca", "fssl", "dictionary", "spca-psd", "laplacian-score", "udfs", "reconstruction")
FIRST += ("samples", "features", "import", "clusters")


def tasks(suite):
    """Return the tasks of a suite."""
    return importlib.import_module(f"{__name__}.{suite}").TASKS


def plan(suites):
    """Return the tasks of some suites, those with promises first."""
    chosen = [task for suite in suites for task in tasks(suite)]
    return sorted(
        chosen, key=lambda task: FIRST.index(task.name) if task.name in FIRST else len(FIRST)
    )
