"""What all component methods share: order and signs, scores and back."""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from jointsparse.arrays import Array, FloatArray
from jointsparse.device import checked_samples, is_device_array, like, to_host
from jointsparse.linalg import RANK, array_namespace, column_norms, double
from jointsparse.methods.bases.estimator import MomentsEstimator
from jointsparse.methods.bases.selector import is_number
from jointsparse.methods.bases.shared_docs import with_shared
from jointsparse.methods.reading.from_source import check_features
from jointsparse.methods.reading.samples import takes_missing, valid_samples
from jointsparse.metrics.loadings import sequential_variance
from jointsparse.moments import Moments, check_variance
from jointsparse.preparation import fill_missing
from jointsparse.running.notices import warn_caller
from jointsparse.solvers.products.gram import Gram, gram_of
from jointsparse.solvers.solution import Solution
from jointsparse.sources import as_source, is_streamed
from jointsparse.sources.door import as_samples
from jointsparse.sources.in_memory import ArraySource
from jointsparse.sources.views.columnwise import ColumnwiseSource

_SINGLE = ("mean_", "explained_variance_ratio_")  # besides the matrices


class ComponentsMethod(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MomentsEstimator):
    """Base of the methods that project; they see the data through its :class:`Moments`.

    With unit loadings B (n_features × n_components) and the mean μ of the training samples, the
    scores of a sample x are (x - μ)B, and the way back is μ + zPᵀ with P = S B (BᵀS B)⁺, the least
    squares regression of the training samples on their scores.

    A subclass has the parameter ``n_components`` and defines ``_solve(moments, gram)``, which
    returns a :class:`Solution`; it may override the small methods below.
    """

    n_components: int | None
    _comparable_columns = False  # robust samples keep their units, as components must

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__doc__:
            cls.__doc__ = with_shared(cls.__doc__)

    def _solve(self, moments: Moments, gram: Gram) -> Solution:
        raise NotImplementedError  # pragma: no cover - the subclasses define it

    def _gram(self, moments: Moments) -> Gram:
        return gram_of(moments, sparse=self._needs().sparse)

    def _keep_order(self) -> bool:
        """Whether the user named the components one by one, so that their order must stay."""
        return False

    def _reordered(self, order: NDArray[np.int64]) -> None:
        """Bring what the subclass keeps for each component into the order of ``components_``."""

    def _reconstruction(self, solution: Solution, gram: Gram) -> Array:
        """Return the map from scores back to features, on the host or where these are."""
        return regression(gram, self.components_.T)

    def _check_n_components(self) -> None:
        check_count(self.n_components)

    def _centre(self, moments: Moments) -> FloatArray:
        """Return what is taken off the samples before they are projected."""
        return moments.mean.copy()

    def _feature_scores(self) -> FloatArray:
        return column_norms(double(self.components_))

    def _remark(self, solution: Solution) -> str:
        """Return what the user should know about an answer to the penalties chosen, if anything."""
        return ""

    def _fit(self, moments: Moments) -> Self:
        scores, solution = self.solution(moments)
        remark = self._remark(solution)
        if remark:
            self._warn(remark)
        self._record(solution)
        self.mean_ = self._centre(moments)
        reconstruction = self._reconstruction(solution, self._gram(moments))
        self.reconstruction_ = _kept_as(reconstruction, moments.dtype)
        self._rank(scores, moments)
        self._keep_as(moments.dtype)
        return self

    def _keep_as(self, dtype: np.dtype[Any]) -> None:
        """Keep what was learned in single precision where the samples were, as scikit-learn does.

        All sums were computed in double precision. Scores, by which features are ranked, and what
        is told of every iteration stay so.
        """
        for name, value in list(vars(self).items()):
            matrix = isinstance(value, np.ndarray) and value.ndim == 2 and name.endswith("_")
            if (matrix and value.dtype == np.float64) or name in _SINGLE:
                setattr(self, name, _kept_as(value, dtype))

    def solution(self, moments: Moments) -> tuple[FloatArray, Solution]:
        """Return the scores of the features and the solution; set the components.

        Parameters
        ----------
        moments : Moments
            Moments of the samples.

        Returns
        -------
        scores : ndarray of shape (n_features,)
            Score of each feature, zero where no component uses it.
        solution : Solution
            What the solver returned.
        """
        self._check_n_components()
        tall = moments.n_features <= moments.n_samples
        if tall and not (sp.issparse(moments.data) or is_device_array(moments.data)):
            moments.scatter  # noqa: B018 - needed anyway, and the variances come with it
        check_variance(moments)
        self._check_dense(moments)
        gram = self._gram(moments)
        solution = self._solve(moments, gram)
        self._set_components(solution.loadings, gram, moments)
        return self._feature_scores(), solution

    def _set_components(self, loadings: Array, gram: Gram, moments: Moments) -> None:
        greedy = not self._keep_order()
        _, ratio, order = sequential_variance(gram, loadings, moments, greedy=greedy)
        xp = array_namespace(loadings)
        peaks, each = xp.argmax(abs(loadings), axis=0), like(np.arange(order.size), loadings)
        signs = np.where(to_host(loadings[peaks, each]) < 0, -1.0, 1.0)
        turned = xp.stack([float(signs[j]) * loadings[:, j] for j in order.tolist()])
        # At once in the type that is kept: what follows from the components follows from these.
        self.components_ = _kept_as(turned, moments.dtype)
        self.n_components_ = int(order.size)
        self.explained_variance_ratio_ = ratio
        self._reordered(order)

    def transform(self, X: Any) -> Any:
        """Return the scores ``(X - mean_) @ components_.T``, sample by sample.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix, tensor or source
            Samples, one per row: n_samples × n_features.

        Returns
        -------
        ndarray of shape (n_samples, n_components), tensor, Dask collection or Source
            Scores; float32 for float32 samples. Of a tensor, a tensor on the same device. Of a Dask
            array or DataFrame, one of the same kind that is not computed yet. Of a source (or a
            path), a source again: nothing is read before its ``blocks`` are, or it is read or
            written as a whole.
        """
        check_is_fitted(self)
        project = partial(_scores, components=double(self.components_), mean=double(self.mean_))
        if not is_streamed(X):
            return project(self._checked(X))
        source = as_source(X)
        check_features(self, source)
        names = self.get_feature_names_out()
        dtype = _float_type(source.dtype)
        if takes_missing(self):
            source = ColumnwiseSource(source, fill=double(self.mean_))
        return source.map_finite(project, self.n_components_, dtype, names).as_given()

    def inverse_transform(self, X: Any) -> Any:
        """Return the samples that the scores stand for, ``mean_ + X @ reconstruction_``.

        Parameters
        ----------
        X : array-like, tensor, Dask collection or Source of shape (n_samples, n_components)
            Scores.

        Returns
        -------
        ndarray of shape (n_samples, n_features), tensor, Dask collection or Source
            Least squares reconstruction; not computed yet where the scores are not.
        """
        check_is_fitted(self)
        reconstruction, mean = double(self.reconstruction_), double(self.mean_)
        back = partial(_reconstructed, reconstruction=reconstruction, mean=mean)
        streamed = is_streamed(X)
        scores: Any = as_source(X) if streamed else _checked_scores(X)
        n_columns = scores.n_features if streamed else scores.shape[1]
        if n_columns != self.n_components_:
            raise ValueError(f"scores have {n_columns} columns; {self.n_components_} were expected")
        if not streamed:
            return back(scores)
        names = getattr(self, "feature_names_in_", None)
        return scores.map_finite(
            back, self.n_features_in_, _float_type(scores.dtype), names
        ).as_given()

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
        fold = partial(
            _fold_missed,
            components=double(self.components_),
            reconstruction=double(self.reconstruction_),
            mean=double(self.mean_),
        )
        found: FloatArray | None
        if is_device_array(X):
            found = fold(None, self._checked(X), 0)
        else:
            source = as_source(X) if is_streamed(X) else ArraySource(self._checked(X))
            check_features(self, source)
            found = source.reduce(fold, np.add)
        missed, total = (0.0, 0.0) if found is None else found
        return 1.0 - float(missed / total) if total > 0 else 1.0

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
        """Return samples that were checked; the mean of ``fit`` stands for what is missing."""
        samples = valid_samples(self, X, fitting=False)
        return fill_missing(samples, double(self.mean_)) if takes_missing(self) else samples

    def _warn(self, message: str) -> None:
        warn_caller(f"{type(self).__name__}: {message}")

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = takes_missing(self)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _checked_scores(X: Any) -> Any:
    return (
        checked_samples(X)
        if is_device_array(X)
        else as_samples(X, sparse=False, dtype=["float64", "float32"]).values
    )


def _scores(X: Any, components: FloatArray, mean: FloatArray) -> Any:
    if is_device_array(X):
        # Centred before the product: a large mean must not cancel digits of the scores.
        return _of_same_type((double(X) - like(mean, X)) @ like(components.T, X), X)
    scores = centred_product(X, components.T, mean)
    return scores.astype(_float_type(X.dtype), copy=False)


def _reconstructed(scores: Any, reconstruction: FloatArray, mean: FloatArray) -> Any:
    if is_device_array(scores):
        full = like(mean, scores) + double(scores) @ like(reconstruction, scores)
        return _of_same_type(full, scores)
    full = mean + scores @ reconstruction
    return np.asarray(full).astype(_float_type(scores.dtype), copy=False)


def _fold_missed(
    state: Any,
    block: Any,
    start: int,
    components: FloatArray,
    reconstruction: FloatArray,
    mean: FloatArray,
) -> FloatArray:
    """Add Σ‖x - x̂‖² and Σ‖x - mean‖² of some more samples."""
    if sp.issparse(block):
        found = _missed_of_sparse(block, components, reconstruction, mean)
        return found if state is None else state + found
    centred = double(block) - like(mean, block)
    total = float((centred**2).sum())
    centred -= (centred @ like(components.T, block)) @ like(reconstruction, block)
    found = np.array([float((centred**2).sum()), total])
    return found if state is None else state + found


def _missed_of_sparse(
    block: Any, components: FloatArray, reconstruction: FloatArray, mean: FloatArray
) -> FloatArray:
    """Return the same two sums by products: neither centred samples nor residuals are formed."""
    values = block.astype(np.float64)
    squares = float((values.data**2).sum()) - 2 * float((values @ mean).sum())
    total = max(squares + block.shape[0] * float(mean @ mean), 0.0)
    scores = centred_product(values, components.T, mean)
    images = centred_product(values, reconstruction.T, mean)
    both = scores @ (reconstruction @ reconstruction.T) - 2 * images
    return np.array([max(total + float(np.sum(scores * both)), 0.0), total])


def _of_same_type(values: Any, samples: Any) -> Any:
    """Return the values in float32 where the samples are, otherwise in float64."""
    xp = array_namespace(values)
    dtype = xp.float32 if samples.dtype == xp.float32 else xp.float64
    return xp.astype(values, dtype, copy=False)


def regression(gram: Gram, loadings: FloatArray) -> Array:
    """Return the least squares regression of the features on the scores, (BᵀSB)⁺BᵀS.

    Of many features it is where the samples are.
    """
    loadings = double(loadings if gram.through_samples is None else gram.here(loadings))
    image = gram.apply(loadings)
    # The pseudo-inverse: zero components and dependent scores have no regression of their own.
    values, axes = np.linalg.eigh(to_host(loadings.T @ image))
    kept = abs(values) > RANK * abs(values).max(initial=0.0)
    back = (axes[:, kept] / values[kept]) @ axes[:, kept].T
    return (image @ like(back, image)).T


def check_count(n_components: Any) -> None:
    """Refuse a number of components that makes no sense."""
    if not is_number(n_components, Integral) or n_components < 1:
        raise ValueError(f"n_components={n_components!r} is not a whole number of at least 1")


def _kept_as(values: Array, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the values in a type, on the host; in double where theirs is too narrow for them.

    Loadings are the inverse of the data: those of samples of 1e-40 exceed what float32 can hold.
    Those of published iterations come near zero and never to it: what is none must not become one,
    or fewer features would be used than the same samples in double precision use.
    """
    if type(values) is np.ndarray and values.dtype == dtype:
        return values
    xp, limits = array_namespace(values), np.finfo(dtype)
    if values.dtype == getattr(xp, dtype.name):
        return to_host(values)
    largest = float(xp.max(abs(values))) if 0 not in values.shape else 0.0
    # Below tiny/eps the digits of what is a millionth of the largest begin to be lost.
    if largest > limits.max or 0 < largest < limits.tiny / limits.eps:
        return to_host(values)
    narrow = xp.astype(values, getattr(xp, dtype.name))
    same = bool(xp.all(xp.any(narrow != 0, axis=0) == xp.any(values != 0, axis=0)))
    return to_host(narrow if same else values)


def _float_type(dtype: Any) -> type:
    return np.float32 if dtype == np.float32 else np.float64


def centred_product(block: Any, matrix: FloatArray, centre: FloatArray) -> FloatArray:
    """Return (X - 1cᵀ) matrix for some rows, in float64."""
    if sp.issparse(block):
        return np.asarray(block @ matrix - centre @ matrix)
    # Centred before the product: a large mean must not cancel digits.
    return np.asarray(np.subtract(block, centre, dtype=np.float64) @ matrix)
