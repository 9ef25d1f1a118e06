r"""Entries far beyond the rest of a matrix, drawn in while principal component pursuit iterates.

Where one sample is a million times as large as the others, its way out of the low-rank part is a
million times as long as the steps that the others need. But the solution does not depend on how
large an error is. If (L, E) solves

.. math:: \min_{L,E}\ \|L\|_* + \lambda\|E\|_1\quad\text{such that}\quad L + E = X,

then (L, E - D) solves the problem for X - D, for any D that changes no sign of E: the conditions of
optimality see nothing of E but its signs. So the iteration sees entries of limited size, and D is
added to E at the end. Objective and dual value of a pair are those of X all the time; whether the
signs are what D takes them for shows near the optimum.

Sizes from ``near`` to that of the largest entry are mapped to sizes from ``near`` to ``limit``, in
proportion: a sample that is far away as a whole keeps its shape. (Cut off at the limit, all its
entries would be of one size, and the sample as dear in the low-rank part as in the errors.)
"""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import Array
from jointsparse.linalg import array_namespace

NEAR = 0.1  # of the limit: smaller entries stay as they are


class FarEntries:
    """A matrix whose entries are at most of some size, in units of that, and what was left out.

    Parameters
    ----------
    X : array of shape (n, p)
        The matrix.
    largest : float
        The size of its largest entry.
    limit : float
        That size, or a smaller one above 0.

    Attributes
    ----------
    data : array of shape (n, p)
        X - D in units: new memory, in rows on the host.
    unit : float
        The limit.
    places : tuple of array
        Rows and columns of the entries that are drawn in.
    beyond : array
        D there, in units.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.pursuit_far import FarEntries
    >>> far = FarEntries(np.array([[1.0, -2.0], [8.0, -440.0]]), 440.0, 80.0)
    >>> (far.data * far.unit).round(6).tolist(), round(far.added_norm(far.data) * far.unit, 6)
    ([[1.0, -2.0], [8.0, -80.0]], 360.0)
    """

    def __init__(self, X: Array, largest: float, limit: float) -> None:
        xp = array_namespace(X)
        self.unit = limit
        if type(X) is np.ndarray:
            self.data = np.divide(X, limit, order="C")
        else:
            self.data = xp.asarray(X / limit, copy=True)
        near = NEAR if limit < largest else 1.0  # no entry is above that then
        self.places = xp.nonzero(xp.abs(self.data) > near)
        values = self.data[self.places]
        slope = (1 - NEAR) / (largest / limit - NEAR)
        drawn_in = xp.sign(values) * (near + slope * (xp.abs(values) - near))
        self.beyond = values - drawn_in
        self.data[self.places] = drawn_in

    def added_norm(self, E: Array) -> float:
        """Return how much larger the sum of the sizes of E + D is than that of E."""
        xp, errors = array_namespace(E), E[self.places]
        return float(xp.sum(xp.abs(errors + self.beyond)) - xp.sum(xp.abs(errors)))

    def added_product(self, Z: Array) -> float:
        """Return the inner product of D and Z."""
        return float(array_namespace(Z).sum(self.beyond * Z[self.places]))

    def is_kept(self, E: Array) -> bool:
        """Return whether E has the signs that D takes for given."""
        return bool(array_namespace(E).all(self.beyond * E[self.places] > 0))

    def add_to(self, E: Array) -> None:
        """Add D to E, in place."""
        E[self.places] += self.beyond
