"""What a method needs of samples: declared by the method, read by the plan, quoted in messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from jointsparse.graphs.neighbours import BLOCK_ENTRIES, PAIR_ENTRIES

NEIGHBOURS = 5  # of a sample, as methods on them have it unless told otherwise


def scatter_bytes(n_samples: int, n_features: int) -> int:
    """Return the bytes of a scatter matrix and a copy; 0 for wide samples, which need none."""
    return 2 * 8 * n_features**2 if n_features <= n_samples else 0


def copies_of(tall: int, wide: int) -> Callable[[int, int], int]:
    """Return what gives the bytes of so many arrays of the size of dense samples.

    Parameters
    ----------
    tall, wide : int
        How many, of at least as many samples as features, and of fewer.
    """
    return lambda n_samples, n_features: (
        (tall if n_features <= n_samples else wide) * 8 * n_samples * n_features
    )


def matrices_of(tables: int, squares: int, wide: int) -> Callable[[int, int], int]:
    """Return what gives the bytes of arrays of the size of dense samples and of p × p matrices.

    Parameters
    ----------
    tables, squares : int
        How many of each, of at least as many samples as features.
    wide : int
        How many of the size of the samples, of fewer samples.
    """
    samples = copies_of(tables, wide)
    return lambda n_samples, n_features: (
        samples(n_samples, n_features)
        + (squares * 8 * n_features**2 if n_features <= n_samples else 0)
    )


def copies_with_graph(wide: int, pairs: int = 0) -> Callable[[int, int], int]:
    """Return what gives the bytes of a method on neighbours, of dense samples.

    Copies of the samples, distances, which are compared in blocks, and products of the smaller
    side. Measured with 4000 × 600, 1500 × 400 and 100 × 20 000 entries.

    Parameters
    ----------
    wide : int
        Arrays of the size of the samples, of wide ones; of others there are 4.
    pairs : int
        Blocks of differences between neighbours.
    """
    samples = copies_of(4, wide)

    def needed(n_samples: int, n_features: int) -> int:
        distances = min(n_samples**2, BLOCK_ENTRIES)
        squares = 4 * min(n_samples, n_features) ** 2
        differences = min(NEIGHBOURS * n_samples * n_features, PAIR_ENTRIES)
        return samples(n_samples, n_features) + 8 * (squares + distances + pairs * differences)

    return needed


# Arrays as large as the scatter matrix that exist at the same time: those of all samples and of two
# halves, what the solver makes of them, and the regressions of the report. Measured over all
# methods that need no more than the scatter matrix: 13 at most, but for those that say more.
SCATTER_COPIES = 13


@dataclass(frozen=True)
class Needs:
    """What a method needs of samples.

    Attributes
    ----------
    samples : bool
        Whether it looks at the samples themselves, not only at their scatter matrix.
    passes : bool
        Whether one pass over them in every iteration is enough, besides their moments.
    products : bool
        Whether products with them are enough where there are more features than samples.
    judged : bool
        Whether a set of features is judged by them.
    sparse : bool
        Whether its kernel takes sparse samples as they are.
    dense_bytes : callable
        Given the numbers of samples and features, what the dense arrays take that it makes of
        sparse samples; 0 for none.
    scatter_copies : int
        How many arrays as large as the scatter matrix it holds, where it works on that.
    fit_bytes : callable
        Given the numbers of samples and features, what a fit to dense samples takes at its peak,
        the samples included, where that is more than a few copies of them; 0 elsewhere.
    """

    samples: bool = False
    passes: bool = False
    products: bool = False
    judged: bool = False
    sparse: bool = True
    dense_bytes: Callable[[int, int], int] = field(default=scatter_bytes, compare=False)
    scatter_copies: int = SCATTER_COPIES
    fit_bytes: Callable[[int, int], int] = field(default=copies_of(0, 0), compare=False)

    @classmethod
    def of(cls, estimator: Any) -> Needs:
        """Return the needs of a method, as its parameters are now."""
        needs: Needs = estimator._needs()
        return replace(needs, judged=hasattr(estimator, "selection_report"))


# What is asked about a set of features after the fit: any samples will do, however they are read.
TO_JUDGE = Needs(products=True, judged=True)
