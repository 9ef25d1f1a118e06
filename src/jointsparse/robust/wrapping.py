r"""Wrapping: a bounded function of standardised values that gives gross ones no say at all.

.. math:: \psi(z) = \begin{cases} z & |z| \le b \\
          q_1\tanh\bigl(q_2(c-|z|)\bigr)\operatorname{sign}z & b < |z| \le c \\
          0 & |z| > c \end{cases}

(Raymaekers, Rousseeuw 2021, Fast robust correlation for high-dimensional data, Technometrics 63.)
What is near the centre stays as it is, so that correlations keep their meaning; what is beyond c
counts as if it were at the centre.
"""

from __future__ import annotations

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace

# b and c of the paper: 13 % of Gaussian values are changed and 1 in 16 000 is taken as gross. q₁
# and q₂ are the paper's for these two: ψ is continuous, and the most efficient of its shape.
BEND, GROSS = 1.5, 4.0
HEIGHT, STEEPNESS = 1.540793, 0.8622731


def wrapped(values: Array) -> Array:
    """Return ψ of standardised values.

    Parameters
    ----------
    values : array
        Values less their location, divided by their scale; infinite ones are gross.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.robust.wrapping import wrapped
    >>> wrapped(np.array([-0.5, 1.5, 2.5, 100.0])).round(2).tolist()
    [-0.5, 1.5, 1.33, 0.0]
    """
    xp = array_namespace(values)
    size = xp.abs(values)
    bent = HEIGHT * xp.tanh(STEEPNESS * (GROSS - xp.clip(size, BEND, GROSS))) * xp.sign(values)
    return xp.where(size <= BEND, values, bent)
