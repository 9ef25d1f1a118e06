"""Names as text that can be shown: nothing hidden in them, not too long; numbers with nouns."""

from __future__ import annotations

import math
import unicodedata

# Control and format characters, lone surrogates, line and paragraph separators.
_INVISIBLE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_ZERO_WIDTH_JOINER = "\u200d"  # part of many emoji, harmless


def visible(text: str) -> str:
    r"""Replace characters that move the cursor or hide by their escapes.

    Examples
    --------
    >>> from jointsparse.text import visible
    >>> visible("left\u202eright")
    'left\\u202eright'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in _INVISIBLE and character != _ZERO_WIDTH_JOINER
        else character
        for character in text
    )


def cut_middle(text: str, most: int) -> str:
    """Return at most that many characters: both ends, since long names often share a beginning.

    Examples
    --------
    >>> from jointsparse.text import cut_middle
    >>> cut_middle("a very long name", 9)
    'a ve…name'
    """
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def counted(number: int | str, noun: str) -> str:
    """Return number and noun, in the plural unless the number is one.

    Examples
    --------
    >>> from jointsparse.text import counted
    >>> counted(1, "feature"), counted(30, "feature"), counted("about 900", "sample")
    ('1 feature', '30 features', 'about 900 samples')
    """
    return f"{number} {noun}{'' if str(number) == '1' else 's'}"


def left_out(parts: int) -> str:
    """Return how much of the samples one of so many parts is: "half", "a third", "a part".

    Examples
    --------
    >>> from jointsparse.text import left_out
    >>> left_out(2), left_out(3), left_out(10)
    ('half', 'a third', 'a part')
    """
    return {2: "half", 3: "a third"}.get(parts, "a part")


def percent(share: float, *, bare: bool = False) -> str:
    """Return a share in percent: whole above 1 %, one digit below; nothing is less than 0 %.

    A share below 0 means that something predicts worse than the mean does, which for a reader is
    nothing. ``bare`` leaves the sign out.

    Examples
    --------
    >>> from jointsparse.text import percent
    >>> percent(0.364), percent(0.0042), percent(-0.2), percent(0.9996)
    ('36 %', '0.4 %', '0 %', '100 %')
    """
    share = max(share, 0.0)
    digits = f"{100 * share:.1f}" if 0.0005 <= share < 0.0095 else f"{100 * share:.0f}"
    return digits if bare else f"{digits} %"


def rounded_up(number: float, digits: int = 2) -> float:
    """Return a bound with so many digits after the point that is still one.

    What is less than 1e-7 of the last digit does not count: it is rounding.

    Examples
    --------
    >>> from jointsparse.text import rounded_up
    >>> rounded_up(78.2211), rounded_up(78.22), rounded_up(3.1e-7)
    (78.23, 78.22, 0.01)
    """
    unit = 10.0**digits
    return math.ceil(number * unit - 1e-7) / unit


def few_digits_up(number: float) -> str:
    """Return a bound in two digits, however small it is, rounded up.

    Examples
    --------
    >>> from jointsparse.text import few_digits_up
    >>> few_digits_up(0.5711), few_digits_up(2.61e-5), few_digits_up(-1)
    ('0.58', '2.7e-05', '0')
    """
    if number <= 0:
        return "0"
    return f"{rounded_up(number, 1 - math.floor(math.log10(number))):g}"
