"""SpatialSign and Wrap: transformers after which outliers can do little, in front of any method."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from jointsparse.arrays import FloatArray
from jointsparse.methods.bases.all_or_nothing import all_or_nothing
from jointsparse.methods.reading.from_source import check_features
from jointsparse.methods.reading.samples import valid_samples
from jointsparse.robust.learning import Robust, apply_rule, learn, learn_from, scores_of
from jointsparse.robust.rule import RobustRule
from jointsparse.sources import as_source, is_streamed
from jointsparse.sources.origin import Origin

UNITS = ("comparable", "original")
LENGTHS = ("bounded", "one")


class RobustStep(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """What both transformers share: a rule that is learned from samples and applied to others."""

    kind: ClassVar[str]
    units: str
    location_: FloatArray
    n_features_in_: int

    def _check(self) -> None:
        if self.units not in UNITS:
            raise ValueError(f"units={self.units!r} is not one of 'comparable', 'original'")

    def _signs(self) -> bool:
        return False

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn what is usual in the samples, and which of them are outliers.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix, tensor, Dask collection, source or path
            Samples, one per row. Not modified; what does not fit in memory is read in two or three
            passes.
        y : ignored
            For compatibility with scikit-learn.

        Returns
        -------
        self
        """
        self._check()
        with all_or_nothing(self):
            if is_streamed(X):
                source = as_source(X)
                rule = learn_from(source, self.kind, signs=self._signs())
                self.n_features_in_ = source.n_features
                self.__dict__.pop("feature_names_in_", None)
                if source.feature_names is not None:
                    self.feature_names_in_ = np.asarray(source.feature_names, dtype=object)
                return self.take(Robust(rule, scores_of(source, rule)))
            values = valid_samples(self, X, fitting=True)
            rule = learn(values, self.kind, signs=self._signs())
            return self.take(Robust(rule, rule.scores(values)))

    def take(self, how: Robust) -> Self:
        """Take over what was learned.

        Parameters
        ----------
        how : Robust
            The rule, and the outlier scores of the samples it was learned from.
        """
        rule = how.rule
        self.location_, self.unit_, self.deviation_ = rule.location, rule.unit, rule.deviation
        self.shift_, self.factors_ = rule.shift, rule.factors
        self.length_, self.spread_ = rule.length, rule.spread
        self.center_, self.scale_ = rule.centre, rule.scale
        self.outlier_scores_, self.outliers_ = how.scores, how.outliers
        self.n_features_in_ = rule.location.size
        return self

    @property
    def rule(self) -> RobustRule:
        """What is done to samples."""
        return RobustRule(
            self.kind,
            self.location_,
            self.unit_,
            self.deviation_,
            self.shift_,
            float(self.length_),
            float(self.spread_),
            self.factors_,
            self._signs(),
        )

    def transform(self, X: Any) -> Any:
        """Return the samples as they count.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix, tensor, Dask collection, source or path
            Samples: n_samples × n_features.

        Returns
        -------
        array of the same kind and on the same device, Dask collection or Source
            Not computed yet where X is not.
        """
        check_is_fitted(self)
        change = partial(apply_rule, rule=self.rule, comparable=self.units == "comparable")
        if not is_streamed(X):
            return change(valid_samples(self, X, fitting=False))
        source = as_source(X)
        check_features(self, source)
        dtype = np.float32 if source.dtype == np.float32 else np.float64
        names = source.feature_names
        return source.map_finite(change, source.n_features, dtype, names).as_given()

    def origin_of(self, n_samples: int) -> Origin | None:
        """Return what rows are that were made so, where a test of noise has to know."""
        return Origin.of_rows(n_samples, shrunk=True) if self.kind == "samples" else None

    def score_samples(self, X: Any) -> FloatArray:
        """Return the outlier scores of samples, seen in ``fit`` or new.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix, tensor, Dask collection, source or path
            Samples: n_samples × n_features.

        Returns
        -------
        ndarray of shape (n_samples,)
            How far each is from the centre, in robust units; above 2.8 it is an outlier.
        """
        check_is_fitted(self)
        if not is_streamed(X):
            return self.rule.scores(valid_samples(self, X, fitting=False))
        source = as_source(X)
        check_features(self, source)
        return scores_of(source.finite(), self.rule)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class SpatialSign(RobustStep):
    r"""Keep the direction of far samples, and leave gross ones without a say.

    With robust locations m and deviations s of the columns, and the centre c of the samples
    :math:`(x_i-m)/s` (their geometric median, then the mean of what counts from there),

    .. math:: z_i = (x_i-m)/s - c,\qquad y_i = w_i z_i,\qquad
              w_i = \min\Bigl(1, \frac{L}{\|z_i\|}\Bigr)\Bigl(\frac{5-t_i}{5-2.8}\Bigr)_0^1 ,

    where the outlier score :math:`t_i` is :math:`\|z_i\|^{2/3}` less its median, divided by its
    robust scale. Samples of usual length stay as they are, longer ones than L (:math:`t = 1`) have
    that length, and outliers fade to 0 between scores of 2.8 and 5. At last the columns are divided
    by their standard deviations, so that no other scaling is needed. The scatter matrix of such
    samples is bounded, and convex methods on it are as certified as on any other.

    Parameters
    ----------
    lengths : {"bounded", "one"}, default="bounded"
        "one": :math:`y_i = z_i/\|z_i\|` for all samples, and nothing else: the textbook's spatial
        signs. A group of outliers on one side, 5 % of all, still decides the first component.
    units : {"comparable", "original"}, default="comparable"
        "original" multiplies the columns by their scales again, and adds the centre.

    Attributes
    ----------
    center_ : ndarray of shape (n_features,)
        Centre, in the units of the samples.
    scale_ : ndarray of shape (n_features,)
        What the values of usual samples are divided by.
    outlier_scores_ : ndarray of shape (n_samples,)
        :math:`t_i` of the samples of ``fit``.
    outliers_ : ndarray of bool of shape (n_samples,)
        Which are above 2.8: 1 in 400 Gaussian samples, and at most 1 in 100 of few of them.
    location_, unit_, deviation_ : ndarray of shape (n_features,)
        Robust location, scale of the values that differ from the median, and robust standard
        deviation (0 for a constant column).
    shift_, factors_, length_, spread_ : ndarray or float
        c, what columns are multiplied by at last, and median and scale of :math:`\|z_i\|^{2/3}`.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had any.

    See Also
    --------
    Wrap : For single wrong values in good samples.

    Notes
    -----
    Sparse samples stay sparse and are not centred: m and c are 0, and lengths are counted from
    there. Of more than 8 million entries (or 1000 samples, if these have more) a random part of
    the samples tells what is usual, the same in every run.

    Where most values of a column are the same, :func:`feature_significance` may take the pattern of
    shrinking for pairs of features that go together, unless it knows of it: use the parameter
    ``robust="samples"`` of a method there, not this step before it.

    A sample is judged by its length alone. A group of samples that is smaller than the others and
    far from them is taken for outliers, whether it is one or not: look at ``outliers_``.

    References
    ----------
    Raymaekers, Rousseeuw (2019). A generalized spatial sign covariance matrix. Journal of
    Multivariate Analysis 171.

    Visuri, Koivunen, Oja (2000). Sign and rank covariance matrices. Journal of Statistical Planning
    and Inference 91.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import SpatialSign
    >>> X = np.random.default_rng(0).standard_normal((200, 30))
    >>> X[:20] += 100.0
    >>> step = SpatialSign().fit(X)
    >>> int(step.outliers_[:20].sum()), int(step.outliers_[20:].sum())
    (20, 0)
    >>> bool(np.abs(step.transform(X)[:20]).max() == 0)
    True
    """

    kind = "samples"

    def __init__(self, *, lengths: str = "bounded", units: str = "comparable") -> None:
        self.lengths = lengths
        self.units = units

    def _check(self) -> None:
        super()._check()
        if self.lengths not in LENGTHS:
            raise ValueError(f"lengths={self.lengths!r} is not one of 'bounded', 'one'")

    def _signs(self) -> bool:
        return self.lengths == "one"


class Wrap(RobustStep):
    r"""Leave gross single values without a say, and their samples otherwise as they are.

    With a robust location :math:`m_j` (the median, one step improved) and a robust scale
    :math:`u_j` of each column,

    .. math:: y_{ij} = \psi\Bigl(\frac{x_{ij}-m_j}{u_j}\Bigr),\qquad
              \psi(z) = \begin{cases} z & |z| \le 1.5 \\
              1.54\tanh\bigl(0.86(4-|z|)\bigr)\operatorname{sign}z & 1.5 < |z| \le 4 \\
              0 & |z| > 4 \end{cases}

    and the columns divided by their standard deviations after that, so that no other scaling is
    needed. Correlations of wrapped columns are robust, and every method works on them as it is.

    Parameters
    ----------
    units : {"comparable", "original"}, default="comparable"
        "original" multiplies the columns by their scales again, and adds the centre: gross values
        become that.

    Attributes
    ----------
    center_, scale_ : ndarray of shape (n_features,)
        Location of the columns, and what usual values are divided by.
    outlier_scores_ : ndarray of shape (n_samples,)
        How far the samples of ``fit`` are from the centre, gross values cut at 4 units, as in
        :class:`SpatialSign`.
    outliers_ : ndarray of bool of shape (n_samples,)
        Which are above 2.8: 1 in 400 Gaussian samples, and at most 1 in 100 of few of them.
    location_, unit_, deviation_ : ndarray of shape (n_features,)
        Robust location, scale of the values that differ from the median, and robust standard
        deviation (0 for a constant column).
    shift_, factors_, length_, spread_ : ndarray or float
        0, what columns are multiplied by at last, and median and scale of the samples' lengths to
        the power 2/3.
    n_features_in_ : int
        Number of features seen during fit.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had any.

    See Also
    --------
    SpatialSign : For samples that are outliers as a whole.

    Notes
    -----
    The scale is the median deviation of the values that differ from the median, so that columns of
    which most values are the same (word counts, pixels at the edge) have one too. Up to a quarter
    of a column may be gross; of such columns, half of the values that differ.

    Sparse samples stay sparse: what zero becomes is taken off every value of the column, which
    changes its mean only. Of more than 8 million entries (or 1000 samples, if these have more) a
    random part of the samples tells what is usual, the same in every run.

    References
    ----------
    Raymaekers, Rousseeuw (2021). Fast robust correlation for high-dimensional data. Technometrics
    63(2), 184-198.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse import Wrap
    >>> X = np.random.default_rng(0).standard_normal((200, 30))
    >>> X[7, 3] = 1e6
    >>> step = Wrap().fit(X)
    >>> np.argwhere(step.gross_cells(X)).tolist()
    [[7, 3]]
    >>> float(step.transform(X)[7, 3])
    0.0
    """

    kind = "cells"

    def __init__(self, *, units: str = "comparable") -> None:
        self.units = units

    def gross_cells(self, X: Any) -> NDArray[np.bool_]:
        """Return which single values count as nothing: more than 4 units from the median.

        Parameters
        ----------
        X : array-like, data frame, sparse matrix or tensor of shape (n_samples, n_features)
            Samples, in memory.

        Returns
        -------
        ndarray or sparse matrix of bool of shape (n_samples, n_features)
            1 in 16 000 of Gaussian values, at most 1 in 1000 with 50 samples or more. Of a sparse
            matrix, values that are not stored never are.
        """
        check_is_fitted(self)
        found: NDArray[np.bool_] = self.rule.gross(valid_samples(self, X, fitting=False))
        return found


def step_of(how: Robust) -> RobustStep:
    """Return the transformer that made samples robust."""
    kinds: dict[str, Any] = {"samples": SpatialSign, "cells": Wrap}
    units = "comparable" if how.comparable else "original"
    step: RobustStep = kinds[how.rule.kind](units=units)
    return step.take(how)
