"""What is derived from data and needed again: each thing has a slot, and a slot knows its type."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Slot(Generic[T]):
    """The place of one kind of thing; whoever derives it defines the slot, and its type.

    Attributes
    ----------
    name : str
        Slots of one name are one slot.
    """

    name: str


class Workspace:
    """Things that were derived, by slot and, where there are several of a kind, by variant.

    Examples
    --------
    >>> from jointsparse.running.workspace import Slot, Workspace
    >>> LENGTH: Slot[float] = Slot("length")
    >>> workspace = Workspace()
    >>> workspace.kept(LENGTH, lambda: 5.0), workspace.kept(LENGTH, lambda: 6.0)
    (5.0, 5.0)
    >>> workspace.found(LENGTH, "in cm") is None
    True
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, Hashable], Any] = {}

    def kept(self, slot: Slot[T], make: Callable[[], T], variant: Hashable = None) -> T:
        """Return what is in a slot; what is not yet there is made first."""
        key = (slot.name, variant)
        if key not in self._kept:
            self._kept[key] = make()
        found: T = self._kept[key]
        return found

    def found(self, slot: Slot[T], variant: Hashable = None) -> T | None:
        """Return what is in a slot, or None."""
        return self._kept.get((slot.name, variant))

    def keep(self, slot: Slot[T], value: T, variant: Hashable = None) -> None:
        """Put something into a slot, in place of what is there."""
        self._kept[slot.name, variant] = value
