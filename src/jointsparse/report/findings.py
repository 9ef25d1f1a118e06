"""What a report tells, as plain data: wherever it came from, the page is made from this alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.report.look import Look
from jointsparse.report.outliers import Outliers
from jointsparse.text import percent as plain_percent

N_STAND_INS = 3
WELL_EXPLAINED = 0.9  # of a dropped feature: then the kept ones are the reason that it was dropped

# Why a feature was kept or dropped. The page and its script fill in the braces.
REASONS = {
    "f": "accounts for {gain} of the variance in this table by itself",
    "g": "adds {gain} to what those above account for",
    "z": "adds next to nothing to what those above account for",
    "n": "not zero in this solution",
    "v": "zero in this solution; kept for its variance, to make up the number",
    "k": "among the highest scores",
    "c": "does not vary",
    "p": "proved zero: no optimum of the model uses it",
    "u": "shares nothing with the other features",
    "0": "zero in this solution",
    "e": "the kept ones account for it",
    "x": "nothing is kept",
    "b": "not among the best {n_kept}",
}


@dataclass(frozen=True)
class Features:
    """All features in the order of the ranking, the best first.

    Attributes
    ----------
    columns : ndarray of shape (n_features,)
        Number of each feature's column in the table.
    names : list of str or None
        Names; None where the table had none.
    scores : ndarray of shape (n_features,)
        The method's own; higher is better.
    shares : ndarray of shape (n_features,)
        What of each feature is shared with the others; NaN where that is not known.
    kept : ndarray of bool of shape (n_features,)
        Which were kept.
    r2 : ndarray of shape (n_features,)
        What the kept features down to this one account for together, of all features in this
        table; NaN where that is not known.
    explained : ndarray of shape (n_features,)
        What all kept features together account for of a dropped one; NaN where that is not known.
    stand_ins : ndarray of shape (n_features, 3)
        Places, in this order, of the kept features that stand in for a dropped one; -1 for none.
    stand_in_r2 : ndarray of shape (n_features, 3)
        What the first, the first two, … of them account for of it.
    reasons : ndarray of one-letter strings
        Keys of ``REASONS``.
    found_again : ndarray of shape (n_features,) or None
        Of a kept feature, the share of the repeats in which it, or one nearly the same, is kept.
    """

    columns: IntArray
    names: list[str] | None
    scores: FloatArray
    shares: FloatArray
    kept: NDArray[np.bool_]
    r2: FloatArray
    explained: FloatArray
    stand_ins: IntArray
    stand_in_r2: FloatArray
    reasons: NDArray[np.str_]
    found_again: FloatArray | None = None

    @property
    def n_kept(self) -> int:
        """Number of kept features."""
        return int(self.kept.sum())

    def __len__(self) -> int:
        return int(self.columns.size)

    def name(self, place: int) -> str:
        """Return the name of the feature at a place of the order."""
        return f"feature {self.columns[place]}" if self.names is None else self.names[place]


@dataclass(frozen=True)
class Worth:
    """The answer and its evidence.

    Attributes
    ----------
    verdict : str
        The answer in one sentence.
    own, pca, random, random_spread : float
        What the kept features, as many principal components and random sets (mean and standard
        deviation) predict of the dropped features in new samples; without new samples, what they
        account for in this table.
    held_out : bool
        Whether in new samples.
    why_not : str
        Why not.
    ceiling : float
        What all other features together predict in new samples; NaN where that is not known.
    in_table : float
        What the kept features account for, of all features in this table.
    own_share : float
        What they make up of the total variance.
    n_patterns, n_significant : int
        Independent patterns above the noise; features that share something with others.
    more_patterns : bool
        Whether there are more patterns than were counted.
    n_parts : int
        In how many parts of the samples the selection was repeated; 0 where that is not known.
    related : (float, float, float) or None
        Where most features are unrelated to all others: what the kept ones and random sets (mean
        and standard deviation) predict of the dropped features that do share something.
    n_related_dropped : int or None
        How many these are; None where that was not recorded.
    """

    verdict: str
    own: float
    pca: float
    random: float
    random_spread: float
    held_out: bool
    why_not: str
    ceiling: float
    in_table: float
    own_share: float
    n_patterns: int
    n_significant: int
    more_patterns: bool
    n_parts: int = 0
    related: tuple[float, float, float] | None = None
    n_related_dropped: int | None = None


@dataclass(frozen=True)
class Sizes:
    """What numbers of features predict in new samples, with the standard error over the parts."""

    sizes: IntArray
    r2: FloatArray
    error: FloatArray


@dataclass(frozen=True)
class Curves:
    """R² against the number of features: kept ones, principal components, random ones."""

    kept: FloatArray
    pca: FloatArray | None = None
    random: FloatArray | None = None


@dataclass(frozen=True)
class Component:
    """One component: its share of the variance and its strongest loadings."""

    share: float
    n_nonzero: int
    loadings: list[tuple[str, float]]


@dataclass(frozen=True)
class SolverRun:
    """How the solver ran, and what it proved."""

    history: FloatArray = field(default_factory=lambda: np.empty(0))
    gaps: FloatArray = field(default_factory=lambda: np.empty(0))
    tol: float | None = None
    n_iter: int | None = None
    converged: bool | None = None
    reason: str = ""
    gap: float | None = None
    objective: float | None = None
    seconds: float | None = None
    diagnostics: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Clusters:
    """Mean and spread of cluster scores, for each set of features; what they were measured on."""

    rows: list[tuple[str, dict[str, tuple[float, float]]]]
    n_classes: int
    n_samples: int
    n_repeats: int


@dataclass(frozen=True)
class PathPoints:
    """A regularisation path, features in the order of :class:`Features`."""

    alphas: FloatArray
    penalties: FloatArray
    scores: FloatArray
    gaps: FloatArray
    used: float | None = None  # penalty of the model in this report, on the scale of alphas


@dataclass(frozen=True)
class PixelMaps:
    """Pictures: caption, and one number for each pixel in [0, 1] or NaN."""

    shape: tuple[int, int]
    background: FloatArray | None
    scores: FloatArray
    kept: NDArray[np.bool_]
    explained: FloatArray | None


@dataclass(frozen=True)
class Findings:
    """All that one report tells."""

    title: str
    features: Features
    data: str = ""
    n_samples: int | None = None
    scaling: str = ""
    method: str = ""
    summary: str = ""
    source: str = ""
    asked: str = ""
    supervised: bool = False  # the method itself looked at classes
    parameters: dict[str, str] = field(default_factory=dict)
    worth: Worth | None = None
    curves: Curves | None = None
    sizes: Sizes | None = None
    look: Look | None = None
    components: list[Component] = field(default_factory=list)
    run: SolverRun = field(default_factory=SolverRun)
    proof: str = ""  # what is proved about the kept set, in words
    constraints: list[str] = field(default_factory=list)  # those that held, and what they cost
    clusters: Clusters | None = None
    path: PathPoints | None = None
    pixels: PixelMaps | None = None
    outliers: Outliers | None = None
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    code: str = ""
    command: str = ""  # what repeats the run on a command line
    made: dict[str, str] = field(default_factory=dict)


def give_reasons(
    *,
    kept: NDArray[np.bool_],
    scores: FloatArray,
    r2: FloatArray,
    explained: FloatArray,
    constant: NDArray[np.bool_],
    proved_zero: NDArray[np.bool_],
    unrelated: NDArray[np.bool_],
    by_support: bool,
) -> NDArray[np.str_]:
    """Return the key of the reason for each feature, in the order of the ranking.

    Parameters
    ----------
    kept, scores, r2, explained : ndarray of shape (n_features,)
        As in :class:`Features`.
    constant, proved_zero, unrelated : ndarray of bool of shape (n_features,)
        Which do not vary; which are zero in every optimum; which share nothing with others.
    by_support : bool
        Whether the nonzero scores themselves decided what is kept.
    """
    gain = gains_of(r2)
    # The first reason that is true of a feature is the one given.
    rules: list[tuple[Any, str]] = [
        (kept & (scores == 0), "v"),
        (kept & (np.arange(kept.size) == 0) & np.isfinite(r2), "f"),
        (kept & (gain > 0), "g"),
        (kept & np.isfinite(r2), "z"),
        (kept & by_support, "n"),
        (kept, "k"),
        (constant, "c"),
        (proved_zero, "p"),
        (unrelated, "u"),
        (scores == 0, "0"),
        (explained >= WELL_EXPLAINED, "e"),
        (np.full(kept.size, not kept.any()), "x"),
    ]
    return np.select([rule for rule, _ in rules], [key for _, key in rules], default="b")


def gains_of(r2: FloatArray) -> FloatArray:
    """Return what each feature adds, in whole thousandths: the sums of what is shown are right."""
    return np.diff(np.concatenate([[0.0], np.round(r2, 3)]))


def percent(share: float, digits: int = 1) -> str:
    """Return a share in per cent, with the space that does not break."""
    return f"{100 * share:.{digits}f}\u202f%"


def short_percent(share: float) -> str:
    """Return a share as the terminal says it: whole per cent, nothing below 0."""
    return plain_percent(share, bare=True) + "\u202f%"


def mean_and_spread(mean: float, spread: float) -> str:
    """Return "74 ± 5 %", with the space that does not break."""
    return f"{plain_percent(mean, bare=True)} ± {short_percent(spread)}"


def grouped(number: int) -> str:
    """Return a whole number with its digits in groups of three."""
    return f"{number:,}".replace(",", "\u202f")


def counted(number: int, noun: str) -> str:
    """Return number and noun, in the plural unless the number is one."""
    return f"{grouped(number)} {noun}{'' if number == 1 else 's'}"
