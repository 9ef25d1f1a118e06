r"""Where the rotation of sparse PCA lives: over the features, or over the samples.

With B fixed, :math:`A = \operatorname{polar}(SB)`; all that the next B needs is S A. Let
:math:`X = U\Sigma V^\top` be thin. Then :math:`A = Va` with :math:`a =
\operatorname{polar}(\Sigma U^\top XB)`, and :math:`SA = X^\top U\Sigma a`: of A itself nothing is
needed, and where p > n one pass over X makes an alternation.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import is_device_array, to_host
from jointsparse.linalg import array_namespace, column_norms
from jointsparse.numerics.projections import polar
from jointsparse.numerics.rows import rows_in_use
from jointsparse.solvers.products.gram import Gram, SampleGram

MOST = 0.25  # share of the features that may be copied, where the others stay zero
MARGIN, FEWEST = 4, 200  # features copied: so many times those with loadings, and at least


class Space(Protocol):
    """A, and the features that B can use for the time being."""

    def correlation(self, B: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return S A and B, both for the features that can have loadings now."""

    @property
    def frame(self) -> FloatArray:
        """A in coordinates that keep lengths; never changed in place."""

    def place(self, frame: FloatArray) -> None:
        """Set A, by these coordinates."""

    def turn(
        self, B: FloatArray, alive: NDArray[np.bool_], image: FloatArray | None = None
    ) -> tuple[float, float]:
        """Set the columns of A to the best for B; return tr(AᵀSB) and tr(BᵀSB).

        ``image`` is S B where that is known.
        """

    def pull(self) -> FloatArray:
        """Return S A for all features."""

    def directions(self) -> FloatArray:
        """Return A for all features."""

    def all_rows(self, B: FloatArray) -> FloatArray:
        """Return B for all features."""


class FeatureSpace:
    """A as it is, and the scatter matrix."""

    def __init__(self, gram: Gram, start: FloatArray) -> None:
        self.gram, self.frame = gram, start.copy()

    def place(self, frame: FloatArray) -> None:
        """Set A."""
        self.frame = frame

    def correlation(self, B: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return S A and B."""
        return self.gram.apply(self.frame), B

    def turn(
        self, B: FloatArray, alive: NDArray[np.bool_], image: FloatArray | None = None
    ) -> tuple[float, float]:
        """Set the columns of A to the best for B; return tr(AᵀSB) and tr(BᵀSB)."""
        SB = self.gram.apply(B) if image is None else image
        if alive.all():
            A = polar(SB)
        else:
            A = self.frame.copy()
            A[:, alive] = polar(SB[:, alive])
        self.frame = A
        return float(np.vdot(A, SB)), float(np.vdot(B, SB))

    def pull(self) -> FloatArray:
        """Return S A."""
        return self.gram.apply(self.frame)

    def directions(self) -> FloatArray:
        """Return A."""
        return self.frame

    def all_rows(self, B: FloatArray) -> FloatArray:
        """Return B."""
        return B


class SampleSpace:
    r"""A through X A; with fixed penalties, features that stay zero for a while are left out.

    Kept is a; U stays where X is, so that of X A = UΣa nothing comes over.

    Let C = S A for one A. For another, feature i has :math:`|(SA')_{ij} - c_{ij}| \le
    \|x_i\|\,\|Xa'_j - Xa_j\|`: as long as X A has not moved by more than some δ, only features
    within :math:`\|x_i\|\delta` of the threshold can have loadings. The others need not be looked
    at, and δ is as large as the number of features looked at allows.

    Parameters
    ----------
    gram : SampleGram
        Scatter matrix.
    start : array of shape (n_features, n_components)
        First A. Where that is on the device of the samples, so is all that has a row for each of
        the features; the features looked at are on the host.
    thresholds : ndarray of shape (n_components,) or None
        Loadings are zero where |S A| is not above; None: not known, all features are looked at.
    """

    def __init__(self, gram: SampleGram, start: Array, thresholds: FloatArray | None) -> None:
        self.gram, self.start, self.thresholds = gram, start, thresholds
        self.values, self.rows = gram.rows
        self.sigma = np.sqrt(self.values)[:, None]
        self.turned = np.zeros(start.shape[1], dtype=bool)
        along = to_host(self.rows.T @ gram.here(gram.image(start)))
        self.place(along / self.sigma)
        self.kept: IntArray | None = None
        self.part: Array = np.empty((0, 0))  # X for the features kept
        self.known = self.inner  # Σa when they were chosen
        self.reach = -1.0  # δ

    def correlation(self, B: Array) -> tuple[FloatArray, FloatArray]:
        """Return S A and B, both for the features that can have loadings now."""
        if self.kept is not None:
            moved = float(column_norms(self.inner - self.known).max())  # U keeps lengths
            if moved <= self.reach:
                return to_host(self.part.T @ self._image()), B
        B = self.all_rows(B)
        C = self.pull()
        self.kept = None
        xp = array_namespace(C)
        # No fewer features are used than one component uses on average.
        least = MARGIN * int(xp.sum(B != 0)) / B.shape[1]
        if self.thresholds is None or least >= MOST * B.shape[0]:
            return to_host(C), to_host(B)
        there = is_device_array(self.start)
        lengths = xp.sqrt(self.gram.squared_lengths if there else self.gram.diagonal)
        # How far X A can move before a loading appears; never for features that do not vary.
        limits = self.thresholds.tolist()
        nearest = limits[0] - abs(C[:, 0])
        for j, limit in enumerate(limits[1:], start=1):  # the minimum of each row takes far longer
            nearest = xp.minimum(nearest, limit - abs(C[:, j]))
        varies = lengths > 0
        room = xp.where(varies, nearest / xp.where(varies, lengths, 1.0), xp.inf)
        used = rows_in_use(B) | (room < 0)
        most = max(MARGIN * int(xp.sum(used)), FEWEST)
        if most >= MOST * room.shape[0]:
            return to_host(C), to_host(B)
        room[used] = -1.0
        self.reach = _smallest(room, most) * (1 - 1e-9)
        kept = xp.nonzero(room <= self.reach)[0]
        self.kept = to_host(kept)
        self.known = self.inner
        self.part = self.gram.sample_columns(kept)
        return to_host(C[kept, :]), to_host(B[kept, :])

    def _with_start(self, array: Array) -> Array:
        """Return an array where all features are: there where the first A is."""
        return self.gram.here(array) if is_device_array(self.start) else array

    def _image(self) -> Array:
        """Return X A, where X is."""
        return self.rows @ self.gram.here(self.inner)

    def place(self, frame: FloatArray) -> None:
        """Set A = V frame."""
        self.frame, self.inner = frame, self.sigma * frame

    def turn(
        self, B: FloatArray, alive: NDArray[np.bool_], image: FloatArray | None = None
    ) -> tuple[float, float]:
        """Set the columns of A to the best for B; return tr(AᵀSB) and tr(BᵀSB)."""
        there = self.gram.here(B)
        scores = self.gram.image(there) if self.kept is None else self.part @ there
        along = to_host(self.rows.T @ scores)
        inner = self.sigma * along
        frame = self.frame.copy()
        frame[:, alive] = polar(inner[:, alive])
        self.turned = self.turned | alive
        self.place(frame)
        return float(np.sum(frame * inner)), float(np.sum(along * along))

    def pull(self) -> Array:
        """Return S A for all features."""
        image = self._image()
        return self.gram.back(image if is_device_array(self.start) else to_host(image))

    def directions(self) -> FloatArray:
        """Return A for all features, on the host: one more pass over X."""
        A = to_host(self.start).copy()
        inner = self.gram.here(self.frame[:, self.turned] / self.sigma)
        A[:, self.turned] = to_host(self.gram.back(self.rows @ inner))
        return A

    def all_rows(self, B: Array) -> Array:
        """Return B for all features."""
        B = self._with_start(B)
        if self.kept is None:
            return B
        full = array_namespace(self.start).zeros_like(self.start)
        full[self._with_start(self.kept), :] = B
        return full


def _smallest(values: Array, place: int) -> float:
    """Return the number at a place among values in ascending order."""
    if is_device_array(values):
        return float(array_namespace(values).sort(values)[place])
    return float(np.partition(values, place)[place])
