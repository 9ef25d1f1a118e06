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
    "s004.table3",
    "s004.convergence",
    "s004.synthetic",
    "s004.clustering",
    "s004.pixels",
    "s004.time",
    "s004.sensitivity",
    "s004.algorithm",
    "beyond.rules",
    "beyond.optimum",
    "beyond.labels",
    "beyond.l0",
    "beyond.sets",
    "beyond.noise",
)

# What the numbers of sources stand for: a name for the command line, and what was published.
PAPERS = {
    "000": ("jspca", "Joint sparse PCA: a project report after Yi et al. 2017"),
    "001": ("spca", "Sparse PCA: lecture notes after Zou, Hastie and Tibshirani 2006"),
    "002": ("fssl", "Joint feature selection and subspace learning: a report after Gu et al. 2011"),
    "003": ("dictionary", "Sparse PCA as dictionary learning: a course page"),
    "004": ("spca-psd", "Fast sparse PCA via positive semidefinite projection: Zheng et al. 2023"),
    "beyond": ("beyond", "Beyond the papers: questions that they leave open"),
}


def named_by_paper(name: str) -> str:
    """Return the name of an experiment with that of its paper in place of a number.

    Examples
    --------
    >>> from jointsparse.experiments.catalogue import named_by_paper
    >>> named_by_paper("004-table3")
    'spca-psd-table3'
    """
    source, _, part = name.partition("-")
    return f"{PAPERS[source][0]}-{part}" if source in PAPERS else name


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
        module = import_module(f"jointsparse.experiments.papers.{source}")
        found.update((experiment.name, experiment) for experiment in module.EXPERIMENTS)
    return found
