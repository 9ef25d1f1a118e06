"""What the displays share: colours, clean axes, names as plain text."""

import re
from typing import TYPE_CHECKING

from jointsparse.text import cut_middle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Blue and vermilion of the Okabe-Ito palette: distinct for every kind of colour vision.
STRONG = "#0072B2"
ACCENT = "#D55E00"
FAINT = "#BDBDBD"
QUIET_TEXT = "#595959"

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


def clean_axes(ax: "Axes") -> None:
    """Take away the frame lines that carry no information."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)


def new_axes(width: float, height: float) -> "Axes":
    """Return the axes of a new figure of that size, in inches."""
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def plain_label(name: str, max_length: int) -> str:
    r"""Return a name that matplotlib draws as it is, on one line.

    ``$`` is escaped, because a pair of them would start a formula; of a long name both ends stay.
    """
    return cut_middle(_UNPRINTABLE.sub(" ", name), max_length).replace("$", r"\$")
