r"""The joint relaxation: its multipliers by alternating directions, wherever the arrays are.

The relaxation of :mod:`joint_certificate` has variables P, z and ζ (for zzᵀ, with diag ζ = z),
ζ̄_ij = 1 - z_i - z_j + ζ_ij, G₁, G₂, ζ ⪰ 0, Σz = k, and the inequalities ζ ≥ 0, ζ̄ ≥ 0, ζ_ij ≤ z_i,
Σ_{j≠i} ζ_ij = (k - 1)z_i. Copies of G₁, G₂, ζ and of the inequalities are projected on their cones;
P and ζ then have closed forms, z costs one product with a constant matrix. Three
eigendecompositions for each step; the multipliers are the parts that the projections cut off.

Any multipliers are a proof, so steps may be rounded as one likes: those of many features are made
in single precision, which takes half the time. Proofs are in double precision, and on the host.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh, solve_triangular

from jointsparse import linalg
from jointsparse.arrays import Array, FloatArray
from jointsparse.device import like, numbers, to_host
from jointsparse.linalg import array_namespace
from jointsparse.solvers.subset.joint_certificate import Frame, Multipliers

OVER_RELAXATION = 1.8
# Of the inequalities, and of ζ ⪰ 0, against the Gram matrices. Their c² copies hold z and ζ where
# they are: with a weight of 0.5, USPS needs ten times as many steps.
WEIGHT, PAIR_WEIGHT = 0.005, 0.05
FEW = 75  # features up to which the penalty begins at the mean eigenvalue; then as their square
SPARSE = 10  # features for each chosen one from which it is twice that: then fewer steps do
SINGLE = 100  # features from which steps are made in single precision
MUCH = 10  # times the other residual: a penalty that changes sooner is changed back later


class Relaxation:
    """The iterates of the method of alternating directions.

    Parameters
    ----------
    frame : Frame
        The problem.
    home : array or None
        An array of the library and on the device where the steps are made; None is NumPy.
    """

    def __init__(self, frame: Frame, home: Array | None = None) -> None:
        self.frame, self.steps = frame, 0
        count, size = len(frame.target), frame.size
        self._home = np.zeros(0) if home is None else home
        self._single = count >= SINGLE
        self._columns, self._duals_of, self._inner, self._dual_inner, self._target = (
            self._here(part)
            for part in (frame.columns, frame.duals, frame.inner, frame.dual_inner, frame.target)
        )
        self._identity = self._here(np.eye(count))
        self._off = 1 - self._identity
        self._one, self._two = self._inner * self._off, self._dual_inner * self._off
        self.penalty = max(float(np.trace(frame.target)), 1e-12) / count
        self.penalty *= max(1.0, (count / FEW) ** 2) * (2 if count > SPARSE * size else 1)
        self._prepare(count, size)
        self._projection = self._identity * (size / count)
        self._chosen = self._here(np.full(count, size / count))
        both = size * (size - 1) / (count * (count - 1))
        self._pairs = both * self._off + (size / count) * self._identity
        self._copies = [_positive(matrix)[0] for matrix in self._matrices()]
        self._duals = [0 * matrix for matrix in self._copies]
        self._bounds = [linalg.positive_part(part) for part in self._inequalities()]
        self._slopes = [0 * self._pairs for _ in range(3)]
        self._rows = 0 * self._chosen

    @property
    def weights(self) -> FloatArray:
        """How much of each feature is in: z."""
        return _in_double(self._chosen)

    def restricted(self, frame: Frame) -> Relaxation:
        """Return the relaxation of some of the features, as far as this one has come.

        Parameters
        ----------
        frame : Frame
            The same problem without some features.
        """
        kept = np.isin(self.frame.features, frame.features)
        # Its coordinates are those of the span of fewer columns: B X̂' = X̂ for those.
        basis = solve_triangular(frame.columns.T, self.frame.columns[:, kept].T, lower=True).T
        lengths = np.linalg.norm(basis.T @ self.frame.duals[:, kept], axis=0)
        found = Relaxation(frame, self._home)
        places = like(np.flatnonzero(kept), self._home)

        def part(matrix: Array, scale: FloatArray | None = None) -> Array:
            small = matrix[places, :][:, places]
            if scale is None:
                return small
            return small * self._here(scale)[:, None] * self._here(scale)

        def gram(matrix: Array, scale: FloatArray) -> Array:
            split, turn = len(self.frame.target), self._here(basis)
            across = turn.T @ matrix[:split, split:][:, places] * self._here(scale)
            first = turn.T @ matrix[:split, :split] @ turn
            return _of_blocks(first, across, part(matrix[split:, split:], scale))

        plain = np.ones(lengths.size)
        one, two, three = self._copies
        found._copies = [gram(one, plain), gram(two, 1 / lengths), part(three)]
        one, two, three = self._duals
        found._duals = [gram(one, plain), gram(two, lengths), part(three)]
        found._bounds = [part(each) for each in self._bounds]
        found._slopes = [part(each) for each in self._slopes]
        found._rows, found.penalty = self._rows[places], self.penalty
        return found

    def _here(self, array: FloatArray) -> Array:
        """Return an array where the steps are made, in their precision."""
        return like(np.asarray(array, np.float32 if self._single else np.float64), self._home)

    def _prepare(self, count: int, size: int) -> None:
        """Invert the matrix of the linear system for z (and the multipliers of its rows)."""
        off = ~np.eye(count, dtype=bool)
        one, two = self.frame.inner * off, self.frame.dual_inner * off
        inverse = off / (one**2 + two**2 + 4 * WEIGHT + PAIR_WEIGHT)
        cross = (two**2 + 2 * WEIGHT) * off
        own = (two**2 + WEIGHT) * off - cross**2 * inverse
        alone = 3 + PAIR_WEIGHT / 2 + WEIGHT * (count - 1)
        system = own + np.diag(alone + own.sum(axis=1))
        ratio = cross * inverse
        self._has_rows = self.frame.exactly and size > 1
        width = 2 * count + 1 if self._has_rows else count + 1
        matrix = np.zeros((width, width))
        matrix[:count, :count] = system
        matrix[:count, -1], matrix[-1, :count] = -1.0, 1.0
        if self._has_rows:
            link = ratio + np.diag(ratio.sum(axis=1) - (size - 1))
            matrix[:count, count:-1], matrix[count:-1, :count] = -link, link
            matrix[count:-1, count:-1] = inverse + np.diag(inverse.sum(axis=1))
        self._solve = like(np.linalg.inv(matrix), self._home)
        self._wanted = like(np.array([float(size)]), self._home)
        self._inverse, self._cross = self._here(inverse), self._here(cross)

    def _matrices(self) -> list[Array]:
        chosen = self._chosen
        inside, outside = self._columns * chosen, self._duals_of * (1 - chosen)
        neither = (1 - chosen[:, None] - chosen + self._pairs) * self._off
        neither = neither + self._identity * (1 - chosen)
        rest = self._identity - self._projection
        return [
            _of_blocks(self._projection, inside, self._inner * self._pairs),
            _of_blocks(rest, outside, self._dual_inner * neither),
            self._pairs,
        ]

    def _inequalities(self) -> list[Array]:
        chosen, pairs = self._chosen, self._pairs
        return [pairs, 1 - chosen[:, None] - chosen + pairs, chosen[:, None] - pairs]

    def step(self) -> None:
        """Make one step."""
        self._update_variables()
        xp = array_namespace(self._pairs)
        primal = dual = 0.0
        for place, matrix in enumerate(self._matrices()):
            copy = self._copies[place]
            mixed = OVER_RELAXATION * matrix + (1 - OVER_RELAXATION) * copy + self._duals[place]
            positive, negative = _positive(mixed)
            weight = 1.0 if place < 2 else PAIR_WEIGHT
            primal = primal + weight * xp.sum((matrix - positive) ** 2)
            dual = dual + weight * xp.sum((positive - copy) ** 2)
            self._copies[place], self._duals[place] = positive, negative
        for place, part in enumerate(self._inequalities()):
            copy = self._bounds[place]
            mixed = OVER_RELAXATION * part + (1 - OVER_RELAXATION) * copy + self._slopes[place]
            positive = linalg.positive_part(mixed)
            primal = primal + WEIGHT * xp.sum((part - positive) ** 2 * self._off)
            dual = dual + WEIGHT * xp.sum((positive - copy) ** 2 * self._off)
            self._bounds[place] = positive
            self._slopes[place] = (mixed - positive) * self._off
        self._residuals = [primal, dual]
        self.steps += 1

    def _update_variables(self) -> None:
        split = count = len(self.frame.target)
        xp = array_namespace(self._pairs)
        kind = self._pairs.dtype
        first, second, third = (c - d for c, d in zip(self._copies, self._duals, strict=True))
        low, none, part = (b - s for b, s in zip(self._bounds, self._slopes, strict=True))
        projection = first[:split, :split] + self._identity - second[:split, :split]
        projection = 0.5 * (projection + self._target / self.penalty)
        excess = (xp.linalg.trace(projection) - self.frame.size) / split
        projection = projection - excess * self._identity
        inside = xp.sum(self._columns * first[:split, split:], axis=0)
        outside = xp.sum(self._duals_of * second[:split, split:], axis=0)
        one, two = first[split:, split:], second[split:, split:]
        right = inside + 0.5 * xp.linalg.diagonal(one) + 1 - outside
        right = right + 0.5 * (1 - xp.linalg.diagonal(two))
        right = right + 0.5 * PAIR_WEIGHT * xp.linalg.diagonal(third)
        pull = self._one * one + self._two * two - self._two**2 + PAIR_WEIGHT * third
        pull = (pull + WEIGHT * (low + none - 1 - part - part.T)) * self._off
        constant = -(self._two**2) - WEIGHT + self._two * two + WEIGHT * (none - part)
        constant = (constant - self._cross * self._inverse * pull) * self._off
        known = [right - xp.sum(constant, axis=1)]
        if self._has_rows:
            known.append(-xp.sum(pull * self._inverse, axis=1))
        known = [xp.astype(part, xp.float64) for part in known]
        solution = self._solve @ xp.concat([*known, self._wanted])
        if self._has_rows:
            self._rows = xp.astype(solution[count:-1], kind)
        chosen = xp.astype(solution[:count], kind)
        sums = chosen[:, None] + chosen
        pairs = (pull + self._cross * sums + self._rows[:, None] + self._rows) * self._inverse
        pairs = pairs + self._identity * chosen  # the inverse has no diagonal
        self._projection, self._chosen, self._pairs = projection, chosen, pairs

    def adapt(self) -> None:
        """Change the penalty where one of the residuals is much the larger."""
        primal, dual = (value**0.5 for value in numbers(*self._residuals))
        factor = 1.5 if primal > MUCH * dual else 1 / 1.5 if dual > MUCH * primal else 1.0
        self.penalty *= factor
        self._duals = [part / factor for part in self._duals]
        self._slopes = [part / factor for part in self._slopes]

    def multipliers(self) -> Multipliers:
        """Return what the projections have cut off, on the host."""
        first, second, third = (-self.penalty * _in_double(part) for part in self._duals)
        _, none, part = (-WEIGHT * self.penalty * _in_double(part) for part in self._slopes)
        turn = 2 * part - 2 * self.penalty * _in_double(self._rows)[:, None]
        return Multipliers(first, second, none, turn, PAIR_WEIGHT * third)


def _in_double(array: Array) -> FloatArray:
    return to_host(array).astype(np.float64)


def _of_blocks(first: Array, across: Array, last: Array) -> Array:
    """Return a symmetric matrix of blocks."""
    xp = array_namespace(first)
    upper, lower = xp.concat([first, across], axis=1), xp.concat([across.T, last], axis=1)
    return xp.concat([upper, lower], axis=0)


def _positive(matrix: Array) -> tuple[Array, Array]:
    """Return the positive and the negative part of a symmetric matrix; their sum is the matrix.

    The second becomes a multiplier, whose rounding is charged to the proof: it is computed from its
    own eigenvalues, not as a difference.
    """
    if type(matrix) is not np.ndarray:
        values, vectors = linalg.eigh(matrix)
        # All of it, rather than to wait for the device to say how many are negative.
        negative = (vectors * -linalg.positive_part(-values)) @ vectors.T
        return matrix - negative, negative
    # SciPy's driver makes use of single precision, NumPy's does not.
    values, vectors = eigh(matrix, driver="evd", check_finite=False)
    vectors = vectors[:, : int(np.searchsorted(values, 0.0))]
    negative = (vectors * values[: vectors.shape[1]]) @ vectors.T
    return matrix - negative, negative
