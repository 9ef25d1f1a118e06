"""What a method needs of samples: declared by the method, read by the plan, quoted in messages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


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
    """

    samples: bool = False
    passes: bool = False
    products: bool = False
    judged: bool = False

    @classmethod
    def of(cls, estimator: Any) -> Needs:
        """Return the needs of a method, as its parameters are now."""
        needs: Needs = estimator._needs()
        return replace(needs, judged=hasattr(estimator, "selection_report"))


# What is asked about a set of features after the fit: any samples will do, however they are read.
TO_JUDGE = Needs(products=True, judged=True)
