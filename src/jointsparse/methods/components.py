"""What all component methods share: order and signs, scores and back."""

from __future__ import annotations

import warnings
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from jointsparse.methods.base import is_number
from jointsparse.methods.from_moments import MomentsEstimator
from jointsparse.methods.from_source import check_features
from jointsparse.metrics.loadings import sequential_variance
from jointsparse.moments import Moments
from jointsparse.solvers.gram import Gram, gram_of
from jointsparse.solvers.solution import Solution
from jointsparse.sources import as_source, is_streamed
from jointsparse.sources.base import BLOCK_ENTRIES
from jointsparse.sources.products import centred_product

FloatArray = NDArray[np.float64]


class ComponentsMethod(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MomentsEstimator):
    """Base of the methods that project; they see the data through its :class:`Moments`.

    With unit loadings B (n_features × n_components) and the mean μ of the training samples, the
    scores of a sample x are (x - μ)B, and the way back is μ + zPᵀ with P = S B (BᵀS B)⁺, the least
    squares regression of the training samples on their scores.

    A subclass has the parameter ``n_components`` and defines ``_solve(moments, gram)``, which
    returns a :class:`Solution`; it may override the small methods below.
    """

    n_components: int | None

    def _solve(self, moments: Moments, gram: Gram) -> Solution:
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _keep_order(self) -> bool:
        """Whether the user named the components one by one, so that their order must stay."""
        return False

    def _reordered(self, order: NDArray[np.int64]) -> None:
        """Bring what the subclass keeps for each component into the order of ``components_``."""

    def _reconstruction(self, solution: Solution, gram: Gram) -> FloatArray:
        """Return the map from scores back to features."""
        return regression(gram, self.components_.T)

    def _check_n_components(self) -> None:
        check_count(self.n_components)

    def _centre(self, moments: Moments) -> FloatArray:
        """Return what is taken off the samples before they are projected."""
        return moments.mean.copy()

    def _feature_scores(self) -> FloatArray:
        return np.linalg.norm(self.components_, axis=0)

    def _fit(self, moments: Moments) -> Self:
        self._check_n_components()
        if not np.any(moments.variances > 0):
            raise ValueError("every feature is constant: there is no variance to explain")
        gram = gram_of(moments)
        solution = self._solve(moments, gram)
        self._record(solution)
        self.mean_ = self._centre(moments)
        self._set_components(np.asarray(solution.loadings), gram)
        self.reconstruction_ = self._reconstruction(solution, gram)
        self._rank(self._feature_scores(), moments.variances)
        return self

    def _set_components(self, loadings: FloatArray, gram: Gram) -> None:
        image = gram.apply(loadings)
        inner = loadings.T @ image
        _, ratio, order = sequential_variance(image, inner, greedy=not self._keep_order())
        loadings = loadings[:, order]
        peak = np.argmax(np.abs(loadings), axis=0)
        signs = np.where(loadings[peak, np.arange(peak.size)] < 0, -1.0, 1.0)
        self.components_ = np.ascontiguousarray((loadings * signs).T)
        self.n_components_ = int(order.size)
        self.explained_variance_ratio_ = ratio
        self._reordered(order)

    def transform(self, X: Any) -> Any:
        """Return the scores (X - mean_) components_ᵀ, sample by sample.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or source of shape (n_samples, n_features)
            Samples, one per row.

        Returns
        -------
        ndarray of shape (n_samples, n_components), or Source
            Scores; float32 for float32 samples. Of a source (or a path), a source again: nothing
            is read before its ``blocks`` are, or it is read or written as a whole.
        """
        check_is_fitted(self)
        project = partial(_scores, components=self.components_, mean=self.mean_)
        if not is_streamed(X):
            return project(self._checked(X))
        source = as_source(X)
        check_features(self, source)
        names = self.get_feature_names_out()
        return source.map(project, self.n_components_, _float_type(source.dtype), names)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return the samples that the scores stand for, mean_ + X reconstruction_.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Least squares reconstruction.
        """
        check_is_fitted(self)
        scores = check_array(X, dtype=[np.float64, np.float32])
        if scores.shape[1] != self.n_components_:
            raise ValueError(
                f"scores have {scores.shape[1]} columns; {self.n_components_} were expected"
            )
        full = self.mean_ + scores @ self.reconstruction_
        return np.asarray(full).astype(scores.dtype, copy=False)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the share of the variance of X around ``mean_`` that the scores reconstruct.

        Higher is better, 1 is perfect, and new samples may fall below 0; for cross-validation.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_samples, n_features)
            Samples, seen in fit or new.
        y : ignored
            For compatibility with scikit-learn.

        Returns
        -------
        float
            1 - Σ‖x - x̂‖² / Σ‖x - mean_‖².
        """
        check_is_fitted(self)
        X = self._checked(X)
        rows = max(1, BLOCK_ENTRIES // X.shape[1])
        total = missed = 0.0
        for start in range(0, X.shape[0], rows):
            block = X[start : start + rows]
            dense = block.toarray() if sp.issparse(block) else block
            centred = np.subtract(dense, self.mean_, dtype=np.float64)
            total += float(np.sum(centred**2))
            centred -= (centred @ self.components_.T) @ self.reconstruction_
            missed += float(np.sum(centred**2))
        return 1.0 - missed / total if total > 0 else 1.0

    def get_support(self, indices: bool = False) -> NDArray[Any]:
        """Return which features have a nonzero loading in some component.

        Parameters
        ----------
        indices : bool, default=False
            Return the numbers of the features instead of a mask.
        """
        check_is_fitted(self)
        mask = self.feature_scores_ > 0
        return np.flatnonzero(mask) if indices else mask

    def _checked(self, X: Any) -> Any:
        return validate_data(self, X, accept_sparse="csr", dtype="numeric", reset=False)

    def _warn(self, message: str) -> None:
        # Attributed to the caller of fit or fit_moments, from inside _solve.
        warnings.warn(f"{type(self).__name__}: {message}", UserWarning, stacklevel=5)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _scores(X: Any, components: FloatArray, mean: FloatArray) -> NDArray[Any]:
    scores = centred_product(X, components.T, mean)
    return scores.astype(_float_type(X.dtype), copy=False)


def regression(gram: Gram, loadings: FloatArray) -> FloatArray:
    """Return the least squares regression of the features on the scores, (BᵀSB)⁺BᵀS."""
    image = gram.apply(loadings)
    # The pseudo-inverse: zero components and dependent scores have no regression of their own.
    back = np.linalg.pinv(loadings.T @ image, rcond=1e-12, hermitian=True)
    return np.asarray((image @ back).T)


def check_count(n_components: Any) -> None:
    """Refuse a number of components that makes no sense."""
    if not is_number(n_components, Integral) or n_components < 1:
        raise ValueError(f"n_components={n_components!r} is not a whole number of at least 1")


def _float_type(dtype: Any) -> type:
    return np.float32 if dtype == np.float32 else np.float64
