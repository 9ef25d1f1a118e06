"""The suites, one file each: their tasks, how results are judged, and the bars."""

import importlib

SUITES = ("convex", "components", "graphs", "selection", "scaling", "startup")


def tasks(suite):
    """Return the tasks of a suite."""
    return importlib.import_module(f"{__name__}.{suite}").TASKS
