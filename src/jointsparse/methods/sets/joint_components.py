"""Several components with few features in common, with a proof: the function, its result."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.methods.sets.proved import Callback, Proved, Question, check_limits
from jointsparse.selection.choosing import is_number
from jointsparse.solvers.sparse_component.solve import prove_jointly


@dataclass(frozen=True, eq=False, kw_only=True)
class JointComponents(Proved):
    """Components with common features, and how much better any others can be.

    Attributes
    ----------
    components : ndarray of shape (n_components, n_features)
        Orthonormal rows, the one of the largest variance first; the largest loading in absolute
        value is positive.
    features : ndarray
        The features with a loading, ascending.
    value : float
        Variance along all components together, in the unit of the scatter matrix S.
    bound : float
        Proved: no components with k features have more.
    gap : float
        (bound - value) / value: how much better others can be at most.
    proved : bool
        Whether the gap is within the tolerance.
    share : float
        Share of the total variance: value / tr S.
    eliminated : ndarray
        Features that are proved to be in no set that is better by more than the tolerance.
    nodes : int
        Nodes of the search that were looked at.
    seconds : float
        Time spent.
    k : int
        Number of features allowed.
    tol : float
        Relative gap that counts as proved.
    feature_names : ndarray of shape (n_features,) or None
        Names of the features, where the data had any.
    """

    components: FloatArray

    @classmethod
    def _vectors(cls, loadings: FloatArray) -> dict[str, Any]:
        peak = np.argmax(np.abs(loadings), axis=0)
        signs = np.where(loadings[peak, np.arange(peak.size)] < 0, -1.0, 1.0)
        return {
            "components": np.ascontiguousarray((loadings * signs).T) + 0.0,
            "features": np.flatnonzero(loadings.any(axis=1)),
        }

    def __str__(self) -> str:
        how = f" with {len(self.components)} components"
        return self._in_words(np.linalg.norm(self.components, axis=0), how)


def joint_components(
    X: Any,
    k: int,
    n_components: int = 2,
    *,
    is_scatter: bool | None = None,
    include: Iterable[Any] = (),
    exclude: Iterable[Any] = (),
    time_limit: float | None = 60.0,
    max_nodes: int | None = None,
    tol: float = 1e-6,
    callback: Callback | None = None,
) -> JointComponents:
    r"""Find the components of largest variance that use k features in common, with a proof.

    For the scatter matrix S of the samples and r components,

    .. math:: \max_V\ \operatorname{tr}(V^\top S V)\quad\text{with } V^\top V = I_r
              \text{ and at most k rows of V that are not zero}

    (row-sparse PCA). The components are orthogonal. A good V is found at once; a search then lowers
    an upper bound that holds for every V with k rows, until both meet or the time is over. Rounding
    is charged to the bound. The proof is about this table; it is no statement about new data.

    Parameters
    ----------
    X : array-like, data frame, sparse matrix, source, path or Moments
        Samples, one per row; or their :class:`Moments`, of which ``Moments.from_scatter`` makes
        some of a covariance or correlation matrix. Features are centred, not scaled.
    k : int
        Number of features allowed.
    n_components : int, default=2
        Number of components r, at most k.
    is_scatter : bool or None, default=None
        Whether X is a scatter, covariance or correlation matrix instead of samples. With None it is
        taken for samples, and refused where it is square and symmetric and could be either.
    include, exclude : iterable of int or str, default=()
        Features that must be, or must not be, among the k: numbers or names.
    time_limit : float or None, default=60.0
        Seconds after which to stop; None: when it is proved.
    max_nodes : int or None, default=None
        Nodes of the search after which to stop; None: as many as the time allows.
    tol : float, default=1e-6
        Relative gap that counts as proved.
    callback : callable or None, default=None
        Called after every node with an object that has ``value``, ``bound``, ``nodes``,
        ``open_nodes`` and ``seconds``; the search stops where it returns something true.

    Returns
    -------
    JointComponents
        The components, their value, the bound, and ``improve`` to go on.

    Notes
    -----
    :math:`P = VV^\top` is a projection that is zero outside the chosen features H, so
    :math:`P\preceq\operatorname{diag}(1_H)`. For every positive semidefinite Λ therefore
    :math:`\operatorname{tr}(V^\top SV)\le\Lambda_r(S-\Lambda)+` the sum of the k largest diagonal
    entries of Λ, where :math:`\Lambda_r` is the sum of the r largest eigenvalues: see the page
    *Proofs*. The scatter matrix is formed; a few hundred features are the usual case.

    Examples
    --------
    >>> from jointsparse import joint_components
    >>> from jointsparse.datasets import load_pitprops
    >>> correlations = load_pitprops()[0]
    >>> found = joint_components(correlations, 5, 2, is_scatter=True)
    >>> round(found.value, 4), found.proved, found.components.shape
    (4.391, True, (2, 13))
    """
    question = Question.of(X, k, is_scatter=is_scatter, include=include, exclude=exclude)
    check_limits(time_limit, max_nodes, tol)
    if not is_number(n_components, Integral) or not 1 <= n_components <= question.k:
        raise ValueError(
            f"n_components={n_components!r} is not a whole number between 1 and k={question.k}"
        )
    moments = question.moments
    proof = prove_jointly(
        moments.scatter,
        question.k,
        int(n_components),
        question.candidates,
        question.included,
        tol=tol,
    )
    proof.run(time_limit=time_limit, max_nodes=max_nodes, callback=callback)
    return JointComponents._of(
        proof,
        k=question.k,
        total=moments.total_variance,
        names=moments.feature_names,
        conditions=question.has_conditions,
    )
