"""The list of experiments."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from jointsparse.experiments.task import Experiment

SOURCES = (
    "s000",
    "s001",
    "s002",
    "s003",
    "s004_table3",
    "s004_convergence",
    "s004_synthetic",
    "s004_clustering",
    "s004_pixels",
    "s004_time",
    "s004_sensitivity",
    "s004_algorithm",
    "beyond",
    "beyond_optimum",
    "beyond_labels",
    "beyond_l0",
)


@cache
def experiments() -> dict[str, Experiment]:
    """Return all experiments by name, in the order of the sources.

    Examples
    --------
    >>> from jointsparse.experiments import experiments
    >>> experiments()["001-pitprops"].title
    'Pitprops: nonzeros and variances of six sparse components'
    """
    found: dict[str, Experiment] = {}
    for source in SOURCES:
        module = import_module(f"jointsparse.experiments.sources.{source}")
        found.update((experiment.name, experiment) for experiment in module.EXPERIMENTS)
    return found
