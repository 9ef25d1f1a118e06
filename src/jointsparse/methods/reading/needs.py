"""What a method needs of samples: declared by the method, read by the plan, quoted in messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any


def scatter_bytes(n_samples: int, n_features: int) -> int:
    """Return the bytes of a scatter matrix and a copy; 0 for wide samples, which need none."""
    return 2 * 8 * n_features**2 if n_features <= n_samples else 0


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
    """

    samples: bool = False
    passes: bool = False
    products: bool = False
    judged: bool = False
    sparse: bool = True
    dense_bytes: Callable[[int, int], int] = field(default=scatter_bytes, compare=False)
    scatter_copies: int = SCATTER_COPIES

    @classmethod
    def of(cls, estimator: Any) -> Needs:
        """Return the needs of a method, as its parameters are now."""
        needs: Needs = estimator._needs()
        return replace(needs, judged=hasattr(estimator, "selection_report"))


# What is asked about a set of features after the fit: any samples will do, however they are read.
TO_JUDGE = Needs(products=True, judged=True)
