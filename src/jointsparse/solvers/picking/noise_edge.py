r"""The largest eigenvalue that noise alone would have: the separable Marchenko-Pastur edge.

Noise is :math:`x_{ij} = \sqrt{a_id_j}\,z_{ij}` with independent z of variance 1: d_j is the noise
variance of feature j, a_i the noise level of sample i relative to the others (mean 1). With
n' directions of samples spread over the levels and p' over the features, let

.. math:: \varphi(h) = \tfrac{p'}{p}\sum_j \frac{d_jh}{1-d_jh},\qquad
          \psi(u) = \tfrac{n'}{n}\sum_i \frac{a_iu}{1-a_iu} .

Eigenvalues of XᵀX outside of the bulk are :math:`z = \varphi(h)/(uh)` on the curve φ(h) = ψ(u), and
the bulk ends at the smallest of them. Both functions are power series with positive coefficients,
so that log φ is convex in log h and log ψ in log u, and log z is convex in t = log φ: there is one
minimum, where the elasticities E of φ and ψ satisfy :math:`1/E_\varphi + 1/E_\psi = 1`. Newton's
iteration finds it from where it is for equal variances and levels, in about four steps; should it
not end, the left side falls with h, so that its root can be bracketed.

Around the edge e the counting density of eigenvalues is
:math:`\tfrac1\pi\sigma^{-3/2}\sqrt{e-x}` with :math:`\sigma^3 = z''(t)/(2u^2h^2)`, which is the
unit of the Tracy-Widom law; its 95 % point for real data is 0.9793 units above e.

For a ≡ 1 and d ≡ σ² the edge is σ²(√n' + √p')² and the unit Johnstone's.

**Sequential.** Eigenvalues above the edge are patterns, not noise. With r of them taken out,

.. math:: R_j = S_{jj} - \sum_{i\le r} s_iv_{ij}^2,\qquad
          d_j = \frac{R_j}{n-1-r}\,\frac{p}{p-r},\qquad n' = n-1-r,\qquad p' = p-r,

the edge falls, and the count is repeated until it stays. The levels a are what is left of the
squared lengths of the samples, relative to their mean, and drawn towards 1 by the part of their
variance that Gaussian samples of one level would show, :math:`2\sum_jd_j^2/(\sum_jd_j)^2`. What
heavier tails add to it is kept: a sample that holds large entries is louder *in this table*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import is_device_array, like, numbers, to_host
from jointsparse.solvers.picking.patterns import Patterns

# Points of the law of the largest eigenvalue, real data, in its own unit: 95 %, and 99 % for where
# samples, and with them the tails, are not known (log-normal columns exceed the first in 6 %).
TRACY_WIDOM_95, TRACY_WIDOM_99 = 0.9793, 2.0234
PRECISION = 1e-13  # of the condition for the minimum, a number between -1 and 1
STEPS = 200  # of an iteration that takes about ten, should rounding keep it from ending
NEWTON_STEPS = 12  # of Newton's iteration, which takes about four, before a bracket is looked for
LONGEST = 2.0  # a step of it, in logarithms
LAST = 1e-8  # one whose square, which is what such a step leaves of the way, is rounding
LEAST_START = 0.3  # of δ as it is for equal coefficients: where unequal ones let it start
FACTOR = 16.0  # by which the bracket of the minimum is widened


@dataclass(frozen=True)
class Edge:
    """Where the eigenvalues of noise end.

    Attributes
    ----------
    bulk : float
        The end of the limiting spectrum.
    unit : float
        Unit of the fluctuations of the largest eigenvalue around it.
    """

    bulk: float
    unit: float

    @property
    def upper(self) -> float:
        """The value that the largest eigenvalue of noise exceeds in 5 % of tables."""
        return self.bulk + TRACY_WIDOM_95 * self.unit


class _Series:
    """The function w Σ_k cₖy/(1 - cₖy) of y in (0, 1/max c), in the variable δ = 1/y - max c.

    Small δ keep their digits, where 1 - c y would lose them.
    """

    def __init__(self, coefficients: Array, weight: float) -> None:
        largest, total, squares = numbers(
            coefficients.max(), coefficients.sum(), coefficients @ coefficients
        )
        self.largest, self.coefficients = largest, coefficients
        self.gaps = largest - coefficients
        self.count = weight * coefficients.shape[0]
        self.weight = weight
        self.total = weight * total
        self.centre = squares / total

    def elasticity(self, delta: float) -> tuple[float, float]:
        """Return the value and the elasticity E = d log / d log y."""
        # Inner products: of a few numbers, a sum takes NumPy several times as long.
        inverse = 1 / (self.gaps + delta)
        value = float(self.coefficients @ inverse)
        slope = (self.largest + delta) * float((self.coefficients * inverse) @ inverse)
        return self.weight * value, slope / value

    def sums(self, delta: float) -> list[float]:
        """Return the sums of coefficients over gap + δ, its square and its cube."""
        inverse = 1 / (self.gaps + delta)
        once = self.coefficients * inverse
        return numbers(once.sum(), once @ inverse, (once * inverse) @ inverse)

    def with_slopes(
        self, delta: float, sums: Sequence[float] = ()
    ) -> tuple[float, float, float, float]:
        """Return the logarithm of the function and 1/E, and the slopes of both in log δ."""
        first, second, third = sums or self.sums(delta)
        place = self.largest + delta
        elastic = first / (place * second)
        slope = (2 * elastic * third / second - (1 + elastic) / place) * delta
        return math.log(self.weight * first), elastic, -second / first * delta, slope

    def start(self, delta: float) -> float:
        """Return where δ may be that it is for equal coefficients of size 1, as a logarithm."""
        usual = self.centre * (1 + delta) - self.largest
        return math.log(max(usual, LEAST_START * self.largest * delta))

    def delta_at(self, value: float) -> float:
        """Return the δ at which the function has a value.

        One over the function is concave and increases with δ, so that Newton's iteration from the
        left of the root stays there and converges. Two bounds lie on the left: the function is at
        least the term of the largest coefficient, and at least what its first two moments say.
        """
        delta = max(
            self.weight * self.largest / value,
            self.centre + self.total / value - self.largest,
        )
        for _ in range(STEPS):
            inverse = 1 / (self.gaps + delta)
            found = self.weight * float(self.coefficients @ inverse)
            slope = self.weight * float((self.coefficients * inverse) @ inverse)
            step = (found - value) / value * (found / slope)
            delta += max(step, 0.0)
            if step <= 1e-15 * delta:
                break
        return delta


class _Pair:
    """The sums of two series in arrays of NumPy: of few terms, its calls take longer than they."""

    def __init__(self, one: _Series, other: _Series) -> None:
        self.gaps = one.gaps, other.gaps
        self.coefficients = np.concatenate([one.coefficients, other.coefficients])
        size, whole = one.gaps.size, self.coefficients.size
        self.over = np.empty((4, whole))  # gap + δ, and the coefficients over it once, twice, …
        self.parts = self.over[0, :size], self.over[0, size:]
        self.whose = np.zeros((whole, 2))
        self.whose[:size, 0] = self.whose[size:, 1] = 1.0

    def sums(self, *deltas: float) -> list[list[float]]:
        """Return the sums of each series at its δ."""
        for gaps, delta, part in zip(self.gaps, deltas, self.parts, strict=True):
            np.add(gaps, delta, out=part)
        below, once, twice, thrice = self.over
        np.divide(self.coefficients, below, out=once)
        np.divide(once, below, out=twice)
        np.divide(twice, below, out=thrice)
        return (self.over[1:] @ self.whose).T.tolist()


class _OneByOne:
    """The same for features on a device: their sums come over together, of equal ones none do."""

    def __init__(self, features: _Series, samples: _Series) -> None:
        self.features, self.samples = features, samples
        self.equal = not bool(features.gaps.any())

    def sums(self, delta: float, other: float) -> list[list[float]]:
        """Return the sums of each series at its δ."""
        total = self.features.total / self.features.weight
        equal = [total / delta**power for power in (1, 2, 3)]
        return [equal if self.equal else self.features.sums(delta), self.samples.sums(other)]


def separable_edge(
    variances: Array, levels: FloatArray, *, n_rows: float, n_columns: float
) -> Edge:
    """Return where the eigenvalues of XᵀX end for noise with given variances and levels.

    Parameters
    ----------
    variances : array of shape (n_features,)
        d, at least 0; on whatever device.
    levels : ndarray of shape (n_samples,)
        a, at least 0, of mean 1; one number stands for equal levels.
    n_rows, n_columns : float
        n' and p': how many directions of samples and of features the noise has.

    Returns
    -------
    Edge
        The end and the unit of what is beyond it; zeros where there is no noise.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.solvers.picking.noise_edge import separable_edge
    >>> edge = separable_edge(np.ones(400), np.ones(1), n_rows=100, n_columns=400)
    >>> round(edge.bulk, 6), (100**0.5 + 400**0.5) ** 2
    (900.0, 900.0)
    """
    count = variances.shape[0]
    unit = float(variances.max()) if count else 0.0
    if unit <= 0.0:
        return Edge(0.0, 0.0)
    live = variances[variances > 0] / unit
    features = _Series(live, n_columns / count)
    samples = _Series(levels, n_rows / levels.size)
    bulk, curvature, product = _by_newton(features, samples) or _by_bracket(features, samples)
    second = bulk * curvature
    return Edge(unit * bulk, unit * (second / (2 * product**2)) ** (1 / 3))


def _by_newton(features: _Series, samples: _Series) -> tuple[float, float, float] | None:
    """Return z, (log z)'' and uh at the minimum; None where the steps do not come to an end."""
    delta = math.sqrt(features.count / samples.count)
    x, y = features.start(delta), samples.start(1 / delta)
    both = (_OneByOne if is_device_array(features.gaps) else _Pair)(features, samples)
    for _ in range(NEWTON_STEPS):
        at_x, at_y = math.exp(x), math.exp(y)
        sums = both.sums(at_x, at_y)
        value, elastic, value_x, elastic_x = features.with_slopes(at_x, sums[0])
        others, other_elastic, value_y, elastic_y = samples.with_slopes(at_y, sums[1])
        apart, excess = value - others, elastic + other_elastic - 1
        determinant = value_x * elastic_y + value_y * elastic_x
        if not determinant < 0:  # both slopes of values are negative, those of 1/E positive
            return None
        step_x = (apart * elastic_y + value_y * excess) / -determinant
        step_y = (value_x * excess - elastic_x * apart) / -determinant
        longest = max(abs(step_x), abs(step_y))
        shorter = LONGEST / max(longest, LONGEST)
        x, y = x + shorter * step_x, y + shorter * step_y
        if longest <= LAST:
            curvature = max(-elastic_x / value_x, 0.0) + max(-elastic_y / value_y, 0.0)
            place = (features.largest + math.exp(x)) * (samples.largest + math.exp(y))
            return math.exp(value + value_x * step_x) * place, curvature, 1 / place
    return None


def _by_bracket(features: _Series, samples: _Series) -> tuple[float, float, float]:
    """Return the same by a search that always ends."""

    def excess(log_delta: float) -> float:
        value, elasticity = features.elasticity(math.exp(log_delta))
        other = samples.elasticity(samples.delta_at(value))[1]
        return 1 / elasticity + 1 / other - 1

    delta = math.exp(_increasing_root(excess, math.log(FACTOR)))
    other = samples.delta_at(features.elasticity(delta)[0])
    value, _, value_x, elastic_x = features.with_slopes(delta)
    _, _, value_y, elastic_y = samples.with_slopes(other)
    curvature = max(-elastic_x / value_x, 0.0) + max(-elastic_y / value_y, 0.0)
    place = (features.largest + delta) * (samples.largest + other)
    return math.exp(value) * place, curvature, 1 / place


def _increasing_root(function: Callable[[float], float], step: float) -> float:
    """Return where an increasing function from -1 to 1 is zero: regula falsi, as Illinois has it.

    By the convexity of log z in t the edge at the place returned is too high by at most the value
    of the function there, times the distance to the root.
    """
    low, high = -step, step
    at_low, at_high = function(low), function(high)
    while at_low > 0:
        low, high, at_high = low - step, low, at_low
        at_low = function(low)
    while at_high < 0:
        low, high, at_low = high, high + step, at_high
        at_high = function(high)
    place, side = (low + high) / 2, 0
    for _ in range(STEPS):
        place = (low * at_high - high * at_low) / (at_high - at_low)
        found = function(place)
        if abs(found) <= PRECISION:
            break
        if found < 0:
            low, at_low = place, found
            at_high, side = (at_high / 2 if side < 0 else at_high), -1
        else:
            high, at_high = place, found
            at_low, side = (at_low / 2 if side > 0 else at_low), 1
    return place


@dataclass(frozen=True)
class NoiseEdge:
    """The edge between patterns and noise in a table.

    Attributes
    ----------
    edge : float
        The largest eigenvalue that noise alone would have (95 % point; 99 % where samples are not
        at hand), in the units of the scatter matrix.
    n_patterns : int
        How many eigenvalues are larger: independent patterns.
    noise : ndarray of shape (n_features,)
        Noise variance of each feature, in squared units of the features.
    levels : ndarray of shape (n_samples,) or (1,)
        Noise level of each sample relative to the mean; one number where they are taken as equal.
    first_levels : ndarray of shape (n_samples,) or (1,)
        The same with the patterns in it.
    spread : float
        Standard deviation of the noise levels beyond what samples of equal level would show; 0
        where they are taken as equal.
    limited : bool
        Whether counting stopped at its limit, half of all directions or as many eigenvalues as are
        known, so that there may be more patterns.
    """

    edge: float
    n_patterns: int
    noise: FloatArray
    levels: FloatArray
    first_levels: FloatArray
    spread: float
    limited: bool


def sequential_edge(patterns: Patterns, *, equal_samples: bool = False) -> NoiseEdge:
    """Tell patterns from noise: the edge, and how many eigenvalues are above it.

    The noise levels of samples are estimated where these are at hand, and taken as equal where not.

    Parameters
    ----------
    patterns : Patterns
        The spectrum of a table.
    equal_samples : bool
        Take the levels as equal all the same.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import Moments
    >>> from jointsparse.solvers.picking.noise_edge import sequential_edge
    >>> from jointsparse.solvers.picking.patterns import patterns_of
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 50))
    >>> sequential_edge(patterns_of(Moments.from_data(X), standardised=True)).n_patterns
    0
    >>> X[:, :10] += rng.standard_normal((100, 1))
    >>> sequential_edge(patterns_of(Moments.from_data(X), standardised=True)).n_patterns
    1
    """
    n_features = patterns.n_features
    most = min(min(patterns.n_directions, n_features) // 2, patterns.values.size)
    point = TRACY_WIDOM_95 if patterns.has_rows else TRACY_WIDOM_99
    count, first, edge = 0, np.ones(1), math.inf
    varying: Any = patterns.varying
    if not isinstance(varying, slice):
        varying = like(varying, patterns.residual_squares(0))
    while True:
        rows, columns = patterns.n_directions - count, max(n_features - count, 1)
        ratio = n_features / columns
        left = patterns.residual_squares(count)
        noise = left[varying] * (ratio / rows)
        levels, spread = patterns.known_levels, 0.0
        loud = None if equal_samples else patterns.residual_rows(count)
        squares, total = (0.0, 0.0) if loud is None else numbers(noise @ noise, noise.sum())
        if loud is not None and total > 0:
            gaussian = 2 * squares / total**2 * ratio
            levels, spread = sample_levels(loud, gaussian, patterns.row_variance * ratio)
        first = levels if count == 0 else first
        noise_edge = separable_edge(noise, levels, n_rows=rows, n_columns=columns)
        new = noise_edge.bulk + point * noise_edge.unit
        edge = min(edge, new)  # what was a pattern stays one, whatever its levels look like now
        found = min(int(np.count_nonzero(patterns.values > edge)), most)
        if found <= count:
            break
        count = found
    beyond = patterns.values[count:]
    limited = bool(beyond.size and beyond[0] > edge) or (patterns.others[0] > 0 and count == most)
    if limited:
        edge = max(edge, float(beyond.max(initial=0.0)))
    every = np.zeros(patterns.squares.size)
    every[patterns.varying] = to_host(noise)
    return NoiseEdge(edge, count, every, levels, first, spread, limited)


def sample_levels(
    rows: FloatArray, gaussian: float, independent: float
) -> tuple[FloatArray, float]:
    """Return the noise levels of samples, of mean 1, and their spread beyond sampling.

    Levels are drawn towards 1: all by the part of their variance that Gaussian samples of equal
    level show, but less so a level that is farther out than any of those would be.

    Parameters
    ----------
    rows : ndarray of shape (n_samples,)
        Squared lengths of the samples, without the patterns.
    gaussian, independent : float
        Variance of such a length, relative to its mean squared, for samples of equal level that
        are Gaussian, and for those that have independent entries with the tails of this table.
    """
    mean = float(rows.sum()) / rows.size
    if not mean > 0:
        return np.ones(1), 0.0
    levels = rows / mean
    away = levels - 1
    variance = float(away @ away) / levels.size
    if not variance > 0:
        return np.ones(1), 0.0
    shrunk = max(1 - gaussian / variance, 0.0)
    farthest = 2 * math.log(levels.size) * gaussian  # squared, among so many Gaussian ones
    squares = away * away
    kept: FloatArray | float = shrunk
    if squares.max() > farthest:
        kept = np.maximum(shrunk, 1 - farthest / np.maximum(squares, farthest))
    spread = math.sqrt(max(variance - max(independent, gaussian), 0.0))
    return 1 + kept * away, spread
