"""Kernel FSSL: subspace learning in the space of a kernel, from a few landmark samples."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from jointsparse.arrays import FloatArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.methods.bases.all_or_nothing import all_or_nothing
from jointsparse.methods.bases.selector import is_number
from jointsparse.methods.fssl import FSSL
from jointsparse.methods.reading.from_source import check_features, moments_to_fit
from jointsparse.methods.reading.needs import Needs
from jointsparse.methods.reading.samples import valid_samples
from jointsparse.sources import as_source, is_streamed


class KernelFSSL(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Joint landmark selection and subspace learning with a kernel.

    For samples :math:`x_1,\dots,x_n`, candidates :math:`c_1,\dots,c_q` among them, the kernel
    matrix :math:`K_{ij} = k(x_i, c_j)` (centred) and the targets Y of a graph
    (:class:`jointsparse.FSSL`), solve

    .. math:: \min_{A\in\mathbb R^{q\times d}}\ \sum_j\|a_j\|_2 + \mu\,\|KA - Y\|_F^2 .

    A row of A that is zero is a candidate that is not needed. The others are the landmarks: new
    samples are compared with these alone, :math:`z(x) = \sum_j k(x, c_j)\,a_j` less its mean.

    Parameters
    ----------
    n_components : int or None, default=None
        Number of targets d; None is one less than the number of classes, or 2 without classes.
    graph : {"auto", "lda", "lpp", "pca"}, default="auto"
        Which targets, see :class:`jointsparse.FSSL`. Neighbours of "lpp" are those in the space of
        the kernel columns.
    mu : float or "auto", default="auto"
        Weight of the fit, in multiples of the smallest one that keeps a landmark.
    kernel : str or callable, default="rbf"
        As in :func:`sklearn.metrics.pairwise.pairwise_kernels`.
    gamma : float or "scale", default="scale"
        Coefficient of the "rbf", "poly", "sigmoid", "laplacian" and "chi2" kernels; "scale" is
        1 / (n_features × X.var()), over all entries, as in scikit-learn's ``SVC``. It is free of
        the units of X, but not of their offsets: standardise features with different means.
    degree : float, default=3
        Exponent of the "poly" kernel.
    coef0 : float, default=1
        Constant of the "poly" and "sigmoid" kernels.
    n_candidates : int, default=1000
        Most samples that may become landmarks: the kernel matrix is n × n_candidates. Where there
        are more samples, as many are drawn.
    n_neighbors : int, default=5
        Neighbours of the "lpp" graph.
    tol : float, default=1e-6
        Duality gap to reach.
    max_iter : int, default=1000
        Iteration limit.
    random_state : int, RandomState or None, default=0
        Draws the candidates, where they are fewer than the samples.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_landmarks,)
        Numbers of the samples that are landmarks.
    landmark_samples_ : ndarray of shape (n_landmarks, n_features)
        The landmarks themselves.
    coefficients_ : ndarray of shape (n_landmarks, n_components)
        Their rows of A.
    offset_ : ndarray of shape (n_components,)
        What is taken off the scores, so that those of the training samples have mean zero.
    duality_gap_ : float
        Proven relative distance from the optimum.
    n_iter_ : int
        Iterations made.
    gamma_ : float
        Coefficient of the kernel.
    fssl_ : FSSL
        The model on the kernel columns.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had any.

    See Also
    --------
    FSSL : the linear form, which selects features.

    Examples
    --------
    >>> from sklearn.datasets import make_circles
    >>> from jointsparse import KernelFSSL
    >>> X, y = make_circles(200, factor=0.4, noise=0.05, random_state=0)
    >>> model = KernelFSSL().fit(X, y)
    >>> scores = model.transform(X)[:, 0]
    >>> inner, outer = scores[y == 1], scores[y == 0]
    >>> bool(inner.min() > outer.max() or outer.min() > inner.max())
    True
    >>> len(model.landmarks_) < 30
    True
    """

    def __init__(
        self,
        *,
        n_components: int | None = None,
        graph: str = "auto",
        mu: float | str = "auto",
        kernel: Any = "rbf",
        gamma: float | str = "scale",
        degree: float = 3,
        coef0: float = 1,
        n_candidates: int = 1000,
        n_neighbors: int = 5,
        tol: float = 1e-6,
        max_iter: int = 1000,
        random_state: Any = 0,
    ) -> None:
        self.n_components = n_components
        self.graph = graph
        self.mu = mu
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_candidates = n_candidates
        self.n_neighbors = n_neighbors
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find landmarks and coefficients.

        Parameters
        ----------
        X : array-like, data frame, Dask collection or Source of shape (n_samples, n_features)
            Samples, one per row. Not modified. What is not in memory is read into it.
        y : array-like of shape (n_samples,) or None
            Classes; needed for ``graph="lda"``.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            return self._fit(X, y)

    def _fit(self, X: Any, y: Any) -> Self:
        source = as_source(X) if is_streamed(X) else None
        values = X if source is None else moments_to_fit(source, self).data
        X = self._on_host(values, fitting=True)
        if source is not None and source.feature_names is not None:
            self.feature_names_in_ = source.feature_names
        self.gamma_ = self._gamma(X)
        candidates = self._candidates(len(X))
        inner = FSSL(
            n_components=self.n_components,
            graph=self.graph,
            mu=self.mu,
            n_neighbors=self.n_neighbors,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        self.fssl_ = inner.fit(self._kernel(X, X[candidates]), y)
        used = self.fssl_.get_support()
        self.landmarks_ = candidates[used]
        self.landmark_samples_ = X[self.landmarks_]
        self.coefficients_ = self.fssl_.components_.T[used]
        self.offset_ = self.fssl_.mean_[used] @ self.coefficients_
        self.duality_gap_ = self.fssl_.duality_gap_
        self.n_iter_ = self.fssl_.n_iter_
        return self

    def transform(self, X: Any) -> Any:
        """Return the scores of samples, from their kernel values with the landmarks.

        Parameters
        ----------
        X : array-like, data frame, Dask collection or Source of shape (n_samples, n_features)
            Samples, one per row.

        Returns
        -------
        ndarray of shape (n_samples, n_components), Dask collection or Source
            Scores; not computed yet where the samples are not.
        """
        check_is_fitted(self)
        if not is_streamed(X):
            scores = self._scores(self._on_host(X, fitting=False))
            return like(scores, X) if is_device_array(X) else scores
        source = as_source(X)
        check_features(self, source)
        names, count = self.get_feature_names_out(), self._n_features_out
        return source.map_finite(self._scores, count, np.float64, names).as_given()

    def _needs(self) -> Needs:
        return Needs(samples=True)

    def _on_host(self, X: Any, *, fitting: bool) -> FloatArray:
        """Return checked samples as NumPy: scikit-learn's kernels run on the host."""
        X = valid_samples(self, X, fitting=fitting, sparse=False, dtype=np.float64)
        return to_host(X).astype(np.float64, copy=False)

    def _scores(self, X: FloatArray) -> FloatArray:
        if self.landmarks_.size == 0:
            return np.zeros((len(X), self._n_features_out))
        scores = self._kernel(X, self.landmark_samples_) @ self.coefficients_ - self.offset_
        return np.asarray(scores)

    @property
    def _n_features_out(self) -> int:
        return int(self.coefficients_.shape[1])

    def _kernel(self, X: FloatArray, landmarks: FloatArray) -> FloatArray:
        if callable(self.kernel):
            return np.asarray(pairwise_kernels(X, landmarks, metric=self.kernel))
        parameters = {"gamma": self.gamma_, "degree": self.degree, "coef0": self.coef0}
        return np.asarray(
            pairwise_kernels(X, landmarks, metric=self.kernel, filter_params=True, **parameters)
        )

    def _gamma(self, X: FloatArray) -> float:
        if isinstance(self.gamma, str) and self.gamma == "scale":
            variance = float(X.var())
            return 1 / (X.shape[1] * variance) if variance > 0 else 1.0
        if not is_number(self.gamma) or not float(self.gamma) > 0:
            raise ValueError(f"gamma={self.gamma!r} is neither a positive number nor 'scale'")
        return float(self.gamma)

    def _candidates(self, n_samples: int) -> NDArray[np.int64]:
        if not is_number(self.n_candidates) or self.n_candidates < 1:
            raise ValueError(f"n_candidates={self.n_candidates!r} is not a number of at least 1")
        if n_samples <= self.n_candidates:
            return np.arange(n_samples)
        rng = check_random_state(self.random_state)
        return np.sort(rng.choice(n_samples, int(self.n_candidates), replace=False))
