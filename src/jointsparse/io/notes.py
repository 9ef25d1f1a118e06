"""Sentences about what reading did, in the words of Python and in options."""

from __future__ import annotations


class Note(str):
    """A sentence in the words of Python that knows the same one in options of the command line.

    Attributes
    ----------
    in_options : str
        That sentence.
    """

    __slots__ = ("in_options",)
    in_options: str


def note(sentence: str, cure: str, cure_option: str) -> Note:
    """Return a note.

    Parameters
    ----------
    sentence : str
        What was done.
    cure, cure_option : str
        How to say otherwise, in the words of Python and in options.
    """
    made = Note(f"{sentence}{cure}")
    made.in_options = f"{sentence}{cure_option}"
    return made
