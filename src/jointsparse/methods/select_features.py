"""SelectFeatures: any method with components becomes a selector of features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags

from jointsparse.arrays import IntArray
from jointsparse.device import is_device_array, to_host
from jointsparse.methods.bases.all_or_nothing import all_or_nothing
from jointsparse.methods.bases.choosing import ChoosesFeatures, Model
from jointsparse.methods.bases.estimator import MomentsEstimator
from jointsparse.methods.bases.online import Online
from jointsparse.methods.bases.ranking import Ranked
from jointsparse.methods.bases.robustness import (
    ROBUST_ATTRIBUTES,
    made_robust_for,
    moments_from,
    scale_of,
)
from jointsparse.methods.bases.selector import ColumnSelector
from jointsparse.methods.reading.needs import Needs
from jointsparse.methods.reading.preparing import note_preparation, rows_for
from jointsparse.methods.reading.samples import takes_missing, valid_samples
from jointsparse.methods.reading.scaling import remark_on_scale, scaled_moments, scaled_source
from jointsparse.moments import Moments, check_variance
from jointsparse.preparation import prepared
from jointsparse.robust.learning import refuse_with_robust
from jointsparse.selection.choosing import projection_target
from jointsparse.solvers.subset.constraints import Constraints
from jointsparse.sources import Source, as_source, is_streamed
from jointsparse.sources.frames import flat_frame, is_frame
from jointsparse.sources.in_memory import ArraySource


class SelectFeatures(
    ChoosesFeatures, Online, Ranked, MetaEstimatorMixin, ColumnSelector, BaseEstimator
):
    r"""Keep the original features that explain a method's components best.

    The method gives components: loadings b₁ … b_k. The greedy rule picks, one after the other, the
    features that lower

    .. math:: \min_B\ \|XV - X_HB\|_F^2 ,\qquad V = (b_1 \dots b_k),

    most: what a regression on the kept features H leaves unexplained of the component scores XV.

    Parameters
    ----------
    estimator : estimator
        A component method: of this library or any that has ``components_`` once fitted, such as
        scikit-learn's ``PCA`` or ``SparsePCA``. A selector or other method with
        ``feature_scores_`` only will do too. Of a pipeline, the last step is meant and the steps
        before it scale the data; they must keep the columns. It is cloned; wrap a fitted one in
        scikit-learn's ``FrozenEstimator``.
    :shared: n_features_to_select
    :shared: rule_of_model
    :shared: constraints
    :shared: scale

    Attributes
    ----------
    estimator_ : estimator
        The fitted method.
    feature_scores_ : ndarray of shape (n_features,)
        The method's scores, or else the length of each feature's loadings.
    :shared: order
    :shared: attributes
    :shared: features_in

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import SelectFeatures
    >>> X = StandardScaler().fit_transform(load_breast_cancer().data)
    >>> selector = SelectFeatures(PCA(n_components=3), n_features_to_select=5).fit(X)
    >>> selector.transform(X).shape
    (569, 5)
    >>> selector.selection_curve_.round(2).tolist()
    [0.4, 0.57, 0.63, 0.69, 0.72]
    """

    estimator_: Any

    def __init__(
        self,
        estimator: Any,
        *,
        n_features_to_select: int | float | str = "auto",
        rule: str = "greedy",
        constraints: Constraints | None = None,
        scale: str | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_features_to_select = n_features_to_select
        self.rule = rule
        self.constraints = constraints
        self.scale = scale

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        batch: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the method and choose the features.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_samples, n_features)
            Samples, one per row. Not modified. For methods of this library also a source of
            samples, or the path of a file or folder, which need not fit in memory.
        y : array-like or None
            Handed to the method.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights, at least 0. Whole numbers are counts: a sample of weight 2 is there twice, one
            of weight 0 is not. Others, for methods of this library that work from the scatter
            matrix, are divided by their mean, so that only their ratios matter.
        batch : array-like of shape (n_samples,) or None, default=None
            Which samples were measured together; the fit is to what varies within batches.
        **fit_params
            Handed to the method's ``fit``.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            prepare = sample_weight is not None or batch is not None or self.scale is not None
            own = isinstance(self.estimator, MomentsEstimator)
            if own and (prepare or takes_missing(self)) and not (fit_params or is_streamed(X)):
                return self._fit_prepared(X, y, sample_weight, batch)
            self._forget()
            if is_streamed(X):
                return self._fit_streamed(as_source(X), sample_weight, batch)
            checked = valid_samples(self, X, fitting=True)
            self._check_wanted(self.n_features_in_)
            origin = None
            if prepare:
                checked, origin = self._prepared(checked, sample_weight, batch)
                X = checked
                y = rows_for(y, sample_weight)
            X = self._for_method(X, checked)
            self.estimator_ = clone(self.estimator).fit(X, y, **fit_params)
            method, values = self._method_and_its_data(X, checked)
            self._take_step(method)
            moments = Moments.from_data(self._as_fitted(values), copy=False)
            moments.scale = self.scale
            self._note_shrunk(moments.made_of(origin))
            return self._select(method, moments, y)

    def _fit_prepared(self, X: Any, y: Any, sample_weight: Any, batch: Any) -> Self:
        """Fit a method of this library and choose the features, from the same moments."""
        moments = self.estimator.moments_of(X, y, sample_weight=sample_weight, batch=batch)
        return self._fit_both(scaled_moments(moments, scale_of(self)), rows_for(y, sample_weight))

    def _fit_streamed(self, source: Source, sample_weight: Any, batch: Any) -> Self:
        table = source
        batches = origin = None
        if sample_weight is not None or batch is not None:
            refuse_with_robust(self.robust, sample_weight=sample_weight, batch=batch)
            found = prepared(source, sample_weight=sample_weight, batch=batch)
            table, batches, origin = found.samples, found.batches, found.origin
        scale = scale_of(self)
        moments = moments_from(scaled_source(table, scale), self)
        moments.scale, moments.batches = scale, batches
        if origin is not None:
            moments.made_of(origin)
        return self.fit_moments(moments)

    def _prepared(self, checked: Any, sample_weight: Any, batch: Any) -> tuple[Any, Any]:
        """Return samples for a method of another library, weighted and scaled, and their origin."""
        samples = checked if is_device_array(checked) else ArraySource(checked)
        table = prepared(samples, sample_weight=sample_weight, batch=batch)
        if table.mixed:
            name = type(self.estimator).__name__
            raise ValueError(
                f"{name} gets samples, so their weights are whole numbers: how often each sample "
                "is there; other weights are for this library's methods that work from the "
                "scatter matrix, such as SPCA"
            )
        note_preparation(self, Moments.of_prepared(table))
        moments = scaled_moments(Moments.of_prepared(table), self.scale)
        values = moments.data if moments.data is not None else table.samples.read()
        return values, table.origin

    def fit_moments(self, moments: Moments) -> Self:
        """Fit the method to moments instead of samples, and choose the features.

        Parameters
        ----------
        moments : Moments
            Count, mean and scatter matrix of the samples.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            moments = made_robust_for(self, moments)
            return self._fit_both(scaled_moments(moments, scale_of(self)))

    def _fit_both(self, moments: Moments, y: Any = None) -> Self:
        self._forget()
        note_preparation(self, moments)
        self._fit_method_to(moments)
        self._take_step(self.estimator_)
        return self._select(self.estimator_, moments, y)

    @property
    def robust(self) -> str | None:
        """What the method bounds: its parameter ``robust``, where it has one."""
        robust: str | None = getattr(self.estimator, "robust", None)
        return robust

    def _take_step(self, method: Any) -> None:
        """Know what the method knows about outliers; a pipeline scales before its last step."""
        for name in ROBUST_ATTRIBUTES:
            self.__dict__.pop(name, None)
            if hasattr(method, name):
                setattr(self, name, getattr(method, name))

    def _fit_method_to(self, moments: Moments) -> None:
        if not hasattr(self.estimator, "fit_moments"):
            raise ValueError(
                f"{type(self.estimator).__name__} has no fit_moments, so it needs all samples as "
                "an array: only this library's methods can be fitted to moments, a source or a path"
            )
        self.n_features_in_ = moments.n_features
        self.__dict__.pop("feature_names_in_", None)
        if moments.feature_names is not None:
            self.feature_names_in_ = np.asarray(moments.feature_names, dtype=object)
        self._check_wanted(moments.n_features)
        self.estimator_ = clone(self.estimator).fit_moments(moments)

    def _needs(self) -> Needs:
        if not hasattr(self.estimator, "_needs"):  # of another library
            return Needs(samples=True)
        return replace(self.estimator._needs(), products=False)

    def _select(self, method: Any, moments: Moments, y: Any = None) -> Self:
        check_variance(moments)
        remark_on_scale(self, moments)
        self._ask_about_noise(moments, self._check_wanted(moments.n_features))
        self._make_set(_as_model(method, moments), moments, y)
        return self

    def _model_of(self, moments: Moments, rows: IntArray | None, y: Any) -> Model:
        method = clone(self.estimator)
        if isinstance(method, Pipeline):  # the steps before the last have scaled the data
            method = method[-1]
        if getattr(method, "robust", None) is not None:
            method.set_params(robust=None)  # the samples are robust already
        if isinstance(method, MomentsEstimator) and y is None:
            return _as_model(method.fit_moments(moments), moments)
        data = self._for_method(moments.data, moments.data)
        outcome = None if y is None else np.asarray(y)[rows]
        return _as_model(method.fit(data, outcome), moments)

    def _data_for_report(self, X: Any) -> Any:
        if is_streamed(X):
            return super()._data_for_report(X)
        checked = super()._data_for_report(X)
        return self._method_and_its_data(self._for_method(X, checked), checked)[1]

    def _for_method(self, X: Any, checked: Any) -> Any:
        """Return the samples for the method, which need not be one of this library.

        Such a method has its tensors on the host and knows data frames, but no other container.
        """
        if is_frame(X):
            return flat_frame(X)
        if isinstance(self.estimator, MomentsEstimator):
            return X
        return to_host(checked) if is_device_array(checked) else checked

    def _method_and_its_data(self, X: Any, checked: Any) -> tuple[Any, Any]:
        """Return what has the components, and the data that it saw."""
        if not isinstance(self.estimator_, Pipeline):
            return self.estimator_, checked
        method = self.estimator_[-1]
        if len(self.estimator_.steps) == 1:
            return method, checked
        values = self.estimator_[:-1].transform(X)
        if values.shape[1] != self.n_features_in_:
            raise ValueError(
                f"the steps before the last turn {self.n_features_in_} features into "
                f"{values.shape[1]}: there are no loadings of the original features"
            )
        return method, values

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = takes_missing(self)
        tags.target_tags.required = inner.target_tags.required
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _as_model(method: Any, moments: Moments) -> Model:
    """Return what a fitted method says about the features: its loadings, or else its scores."""
    components = getattr(method, "components_", None)
    scores = getattr(method, "feature_scores_", None)
    if components is None and scores is None:
        raise ValueError(
            f"{type(method).__name__} has neither components_ nor feature_scores_ after fit, so "
            "there is nothing to select features by"
        )
    target = None
    if components is not None:
        loadings = np.asarray(components, dtype=np.float64).T
        if loadings.shape[:1] != (moments.n_features,):
            raise ValueError(
                f"components_ of {type(method).__name__} has {loadings.shape[:1]} columns, not one "
                f"for each of the {moments.n_features} features"
            )
        target = projection_target(loadings)
        if scores is None:
            scores = np.linalg.norm(loadings, axis=1)
    # Rounding of the loadings must not keep a feature that does not vary.
    kept = np.where(moments.variances > 0, np.asarray(scores, dtype=np.float64), 0.0)
    return Model(kept, target, weigh=target is None)
