"""A fit that fails leaves the estimator as it was: nothing of two fits is ever mixed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Give an estimator its attributes back where what is done to it ends in an error.

    What a fit learns is set attribute by attribute, while checks and solvers may still fail, or be
    interrupted. Attributes are replaced, never changed in place, so that the old ones are still
    whole.
    """
    before = dict(vars(estimator))
    try:
        yield
    except BaseException:
        _give_back(estimator, before)
        raise


@contextmanager
def unchanged(estimator: Any) -> Iterator[None]:
    """Give an estimator its attributes back in any case."""
    before = dict(vars(estimator))
    try:
        yield
    finally:
        _give_back(estimator, before)


def _give_back(estimator: Any, attributes: dict[str, Any]) -> None:
    vars(estimator).clear()
    vars(estimator).update(attributes)
