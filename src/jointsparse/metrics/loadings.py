r"""Variance explained by components that are not orthogonal, and sparseness against variance.

The scores of sparse components are correlated and their loadings are not orthogonal, so the sum of
the score variances counts what they share more than once and can exceed the total. The three
definitions here do not: each gives a component only what those before it have left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.linalg import array_namespace
from jointsparse.moments import Moments, check_variance
from jointsparse.solvers.products.gram import Gram, gram_of, root_of

KINDS = ("reconstruction", "adjusted", "span")
DEPENDENT = 1e-12  # share of its variance below which a score adds only rounding
WORN = 1e-4  # share of the terms of a sum of squares below which its rounding may be 1e-12 of it

Sequence = tuple[FloatArray, FloatArray, NDArray[np.int64]]  # of sequential_variance


def explained_variance(X: Any, components: Any, *, kind: str = "reconstruction") -> FloatArray:
    r"""Share of the variance that each component adds to those before it.

    With centred X, S = XᵀX, unit loadings B (p × k) and scores Z = XB, the cumulative share of the
    first j components is

    * ``"reconstruction"``: R² of the regression of X on the first j scores,
      :math:`\|P_jX\|_F^2/\|X\|_F^2` with P_j the projection on the span of the first j scores.
      The total depends on the span only, not on rotation, scale or order.
    * ``"adjusted"``: :math:`\sum_{i\le j} R_{ii}^2/\|X\|_F^2` with Z = QR (Zou, Hastie and
      Tibshirani); never above "reconstruction". The total depends on the order.
    * ``"span"``: :math:`\operatorname{tr}(Q_j^\top SQ_j)/\operatorname{tr}S` with Q_j an
      orthonormal basis of the first j loadings: X projected onto the loadings, not regressed.

    All three equal PCA's ratios when the components are the principal ones, add up to at most 1,
    and to 1 when the components span all features.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features) or Moments
        The samples, or their moments.
    components : array-like of shape (n_components, n_features)
        Loadings, one component per row, of any length; zero rows explain nothing.
    kind : {"reconstruction", "adjusted", "span"}, default="reconstruction"
        The definition.

    Returns
    -------
    ndarray of shape (n_components,)
        Share added by each component; the cumulative sum is the share of the first j.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.metrics import explained_variance
    >>> X = np.array([[2.0, 2.0], [-2.0, -2.0], [1.0, -1.0], [-1.0, 1.0]])
    >>> explained_variance(X, [[1, 0], [0, 1]])
    array([0.68, 0.32])
    >>> explained_variance(X, [[1, 0], [0, 1]], kind="span")
    array([0.5, 0.5])
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is not one of {', '.join(map(repr, KINDS))}")
    moments = X if isinstance(X, Moments) else Moments.from_data(X, copy=False)
    loadings = _unit_loadings(components, moments.n_features)
    check_variance(moments)
    gram = gram_of(moments)
    if kind == "span":
        basis = _orthonormal(loadings)
        return np.asarray(np.sum(basis * gram.apply(basis), axis=0))
    adjusted, reconstruction, _ = sequential_variance(gram, loadings, moments)
    return adjusted if kind == "adjusted" else reconstruction


def index_of_sparseness(X: Any, components: Any, *, kind: str = "reconstruction") -> float:
    r"""Variance explained times sparseness: large when few loadings explain much.

    .. math:: \mathrm{IS} = V_{\text{PCA}}\,V_{\text{sparse}}\,
              \frac{\#\{b_{ij}=0\}}{p\,k} ,

    with V the shares of the variance explained by k components (Trendafilov 2014; in this
    normalised form Gajjar, Kulahci and Palazoglu 2017). It is 0 for PCA itself, and for a model
    that is empty; the largest value along a path balances the two.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features) or Moments
        The samples, or their moments.
    components : array-like of shape (n_components, n_features)
        Sparse loadings, one component per row.
    kind : {"reconstruction", "adjusted", "span"}, default="reconstruction"
        Definition of the variance explained, see :func:`explained_variance`.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.metrics import index_of_sparseness
    >>> X = np.array([[2.0, 2.0], [-2.0, -2.0], [1.0, -1.0], [-1.0, 1.0]])
    >>> round(index_of_sparseness(X, [[1, 0]]), 3)
    0.272
    """
    moments = X if isinstance(X, Moments) else Moments.from_data(X, copy=False)
    sparse = float(np.sum(explained_variance(moments, components, kind=kind)))
    loadings = np.asarray(components)
    values, _ = gram_of(moments).leading(len(loadings))
    principal = float(np.sum(values[: loadings.shape[0]]))
    return principal * sparse * float(np.mean(loadings == 0))


def sequential_variance(
    gram: Gram, loadings: Array, moments: Moments, *, greedy: bool = False
) -> Sequence:
    r"""Orthogonalise scores one after the other.

    That takes SB and BᵀSB alone, and costs digits: what a score has left beside those before it is
    a sum of terms that may cancel, and beside a far larger direction of S there are scores that
    are nothing else. Where less than ``WORN`` of the terms is left, the scores Z = RB themselves,
    RᵀR = S, are made orthogonal: with Z = QU and G = RᵀQ everything is a matter of the
    k columns of U, and the shares of orthonormal scores add up to no more than 1.

    Parameters
    ----------
    gram : Gram
        S, of trace 1.
    loadings : array of shape (n_features, n_components)
        B, on the host or on the device of the samples.
    moments : Moments
        Those that S is of.
    greedy : bool
        Take next the component that adds most to the reconstruction, not the next one.

    Returns
    -------
    adjusted, reconstruction : ndarray of shape (n_components,)
        What each component adds, in the order in which they were taken.
    order : ndarray of shape (n_components,)
        That order.
    """
    image = gram.apply(loadings)
    variances = moments.native.variances if is_device_array(loadings) else moments.variances
    xp = array_namespace(loadings)
    sizes = xp.sqrt(variances / moments.total_variance)[:, None]
    # What each score is a sum of.
    terms = to_host(xp.linalg.vector_norm(loadings * sizes, axis=0))
    found = _by_products(image, to_host(loadings.T @ image), terms, greedy=greedy)
    if found is None:
        found = _by_scores(root_of(gram, moments), to_host(loadings), terms, greedy=greedy)
    return found


def _by_products(
    image: Array, gram: FloatArray, terms: FloatArray, *, greedy: bool
) -> Sequence | None:
    """Return the same, knowing only SB and BᵀSB; None: that leaves too few digits."""
    xp = array_namespace(image)
    rows, gram = xp.asarray(image.T, copy=True), gram.copy()
    count = gram.shape[0]
    first = np.diagonal(gram).copy()
    adjusted, reconstruction = np.zeros(count), np.zeros(count)
    combinations = np.eye(count)
    order: list[int] = []
    for step in range(count):
        pivots = np.diagonal(gram)
        useful = (pivots > DEPENDENT * first) & (first > 0)
        # In the given order, gains and changes of those before are not asked for.
        asked = useful if greedy else useful & (np.arange(count) == step)
        gains = np.zeros(count)
        some = rows[like(asked, rows), :]
        gains[asked] = to_host(xp.vecdot(some, some)) / pivots[asked]
        j = _next(gains, order) if greedy else step
        order.append(j)
        if not useful[j]:
            continue
        if pivots[j] < WORN * (np.abs(combinations[j]) @ terms) ** 2:
            return None
        adjusted[step], reconstruction[step] = pivots[j], gains[j]
        weights = gram[j] / pivots[j]
        later = slice(0 if greedy else step + 1, count)
        rows[later, :] -= like(weights[later], rows)[:, None] * rows[j, :]
        combinations[later] -= np.outer(weights[later], combinations[j])
        gram -= np.outer(gram[j], weights)
    return adjusted, reconstruction, np.asarray(order, dtype=np.int64)


def _next(gains: FloatArray, order: list[int]) -> int:
    """Return the component that adds most, of those that are not taken yet."""
    return max((j for j in range(gains.size) if j not in order), key=gains.__getitem__)


def _by_scores(gram: Gram, loadings: FloatArray, terms: FloatArray, *, greedy: bool) -> Sequence:
    """Return the same by an orthonormal basis of the scores."""
    lengths = np.where(terms > 0, terms, 1.0)
    basis, left = np.linalg.qr(gram.image(loadings / lengths))
    image = gram.back(basis)
    shares = image.T @ image
    count = left.shape[1]
    first = np.linalg.norm(left, axis=0)
    adjusted, reconstruction = np.zeros(count), np.zeros(count)
    order: list[int] = []
    for step in range(count):
        norms = np.linalg.norm(left, axis=0)
        useful = norms > np.maximum(np.sqrt(DEPENDENT) * first, DEPENDENT)
        units = left / np.where(useful, norms, np.inf)
        gains = np.sum(units * (shares @ units), axis=0)
        j = _next(gains, order) if greedy else step
        order.append(j)
        if not useful[j]:
            continue
        adjusted[step], reconstruction[step] = (norms[j] * lengths[j]) ** 2, gains[j]
        for _ in range(2):  # the second time takes what rounding left of the first
            left = left - np.outer(units[:, j], units[:, j] @ left)
    return adjusted, reconstruction, np.asarray(order, dtype=np.int64)


def _unit_loadings(components: Any, n_features: int) -> FloatArray:
    rows = check_array(components, dtype=np.float64)
    if rows.shape[1] != n_features:
        raise ValueError(f"components have {rows.shape[1]} features, the data {n_features}")
    # The largest entry first: the squares of very large or small loadings would not be finite.
    rows = rows / np.where(np.any(rows, axis=1), np.max(np.abs(rows), axis=1), 1.0)[:, None]
    norms = np.linalg.norm(rows, axis=1)
    return np.ascontiguousarray((rows / np.where(norms > 0, norms, 1.0)[:, None]).T)


def _orthonormal(loadings: FloatArray) -> FloatArray:
    """Gram-Schmidt, twice for accuracy; dependent columns become zero."""
    basis = np.zeros_like(loadings)
    for j in range(loadings.shape[1]):
        rest = loadings[:, j].copy()
        for _ in range(2):
            rest -= basis[:, :j] @ (basis[:, :j].T @ rest)
        norm = float(np.linalg.norm(rest))
        if norm > 1e-10:
            basis[:, j] = rest / norm
    return basis
