"""From a fitted estimator to findings: reads what the fit left, measures what can be measured."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.moments import Moments
from jointsparse.report.findings import (
    N_STAND_INS,
    Clusters,
    Component,
    Curves,
    Features,
    Sizes,
    SolverRun,
    Worth,
    give_reasons,
)
from jointsparse.report.look import Look, look_at
from jointsparse.selection_report import SelectionReport, selection_report
from jointsparse.solvers.picking.greedy import select_greedily
from jointsparse.solvers.products.columns import feature_columns
from jointsparse.sources import is_streamed
from jointsparse.sources.door import as_samples
from jointsparse.text import cut_middle, visible
from jointsparse.trials import Cut

if TYPE_CHECKING:
    from jointsparse.methods.sets.set_certificate import SetCertificate

MOST_MEASURED = 3000  # kept features: the worth of more is not measured (their Gram is dense)
RANDOM_CURVES = 5
RANDOM_WORK = 4e9  # multiplications for the random curves: a few seconds
CLUSTER_REPEATS = 10
CLUSTER_SAMPLES = 3000
CLUSTER_ENTRIES = 5_000_000  # of the table with all features, beside the kept ones
MOST_CLASSES = 50
MOST_COMPONENTS = 12
STRONGEST = 12  # loadings of a component
LONGEST_NAME = 5000
NAME_BUDGET = 2_500_000  # characters of all names together


class Fitted:
    """A fitted estimator, taken apart.

    Parameters
    ----------
    estimator : estimator
        Fitted: a selector or component method, or a pipeline that ends with one.
    X : array-like or None
        The samples of fit.
    feature_names : sequence of str or None
        Names; those seen in fit if not given.

    Attributes
    ----------
    selector : estimator
        What says which features are kept: the estimator, or the last step of the pipeline.
    model : estimator
        What was solved: the selector, or the method inside it.
    values : array, data frame or None
        The samples as the selector saw them.
    """

    def __init__(self, estimator: Any, X: Any, feature_names: Sequence[str] | None) -> None:
        check_is_fitted(estimator)
        self.selector = estimator.steps[-1][1] if hasattr(estimator, "steps") else estimator
        inner = getattr(self.selector, "estimator_", self.selector)
        self.model = inner.steps[-1][1] if hasattr(inner, "steps") else inner
        known = X is None or hasattr(X, "shape") or is_streamed(X)
        self.values = X if known else as_samples(X).values
        if X is not None and self.selector is not estimator and len(estimator.steps) > 1:
            self.values = estimator[:-1].transform(X)
        self.scores = _scores(self.selector)
        self.names = _names(estimator, self.selector, feature_names, self.scores.size)
        self.warnings: list[str] = []

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Mask of the kept features."""
        if hasattr(self.selector, "get_support"):
            return np.asarray(self.selector.get_support(), dtype=bool)
        return self.scores > 0

    @property
    def order(self) -> IntArray:
        """Features, the best first."""
        ranking = getattr(self.selector, "ranking_", None)
        return np.argsort(-self.scores if ranking is None else ranking, kind="stable")

    @property
    def by_support(self) -> bool:
        """Whether the nonzero scores decided what is kept."""
        return getattr(self.selector, "n_features_to_select", "support") == "support"

    def worth(self) -> SelectionReport | None:
        """Return what the kept features are worth; None where that cannot be measured."""
        kept = self.kept
        if kept.sum() > MOST_MEASURED:
            return None
        known = self.selector.__dict__.get("selection_report_")
        if known is not None:
            return known if isinstance(known, SelectionReport) else None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = self._measured(kept)
        self.warnings += dict.fromkeys(str(warning.message) for warning in caught)
        return report

    def _measured(self, kept: NDArray[np.bool_]) -> SelectionReport | None:
        report: SelectionReport | None = None
        if self.values is None:
            report = getattr(self.selector, "selection_report_", None)
        elif hasattr(self.selector, "selection_report"):
            report = self.selector.selection_report(self.values)
        elif kept.any() and not kept.all():
            unknown = Cut(why_not="the selection of this method cannot be repeated")
            report = selection_report(self._moments(), np.flatnonzero(kept), unknown)
        return report

    def _moments(self) -> Moments:
        return Moments.from_data(self.values, copy=False)

    def features(self, report: SelectionReport | None) -> Features:
        """Return all features with the reasons why they were kept or dropped."""
        order, kept = self.order, self.kept
        size = order.size
        place = np.empty(size, dtype=np.int64)
        place[order] = np.arange(size)
        curve = np.asarray(getattr(self.selector, "selection_curve_", ()), dtype=np.float64)
        r2 = np.full(size, np.nan)
        spots = np.flatnonzero(kept[order])
        if curve.size == spots.size:
            r2[spots] = curve
        explained = np.full(size, np.nan)
        stand_ins = np.full((size, N_STAND_INS), -1, dtype=np.int64)
        stand_in_r2 = np.full((size, N_STAND_INS), np.nan)
        constant, again = np.zeros(size, dtype=bool), np.full(size, np.nan)
        if report is not None:
            again[place[report.kept]] = report.found_again
            found = report.stand_ins
            rows, depth = place[found.dropped], found.kept.shape[1]
            explained[rows] = found.r2_all
            stand_ins[rows, :depth] = np.where(found.kept >= 0, place[found.kept], -1)
            stand_in_r2[rows, :depth] = found.r2
            constant[rows] = np.isnan(found.r2_all)
        proved = np.asarray(getattr(self.model, "proved_zero_", np.zeros(size, dtype=bool)))
        shares, related = self._shared()
        return Features(
            columns=order,
            names=None if self.names is None else [self.names[j] for j in order.tolist()],
            scores=self.scores[order],
            shares=shares[order],
            kept=kept[order],
            r2=r2,
            explained=explained,
            stand_ins=stand_ins,
            stand_in_r2=stand_in_r2,
            reasons=give_reasons(
                kept=kept[order],
                scores=self.scores[order],
                r2=r2,
                explained=explained,
                constant=constant,
                proved_zero=proved[order] if proved.size == size else constant,
                unrelated=~related[order],
                by_support=self.by_support,
            ),
            found_again=again,
        )

    def _shared(self) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return what of each feature is shared with others, and which share anything."""
        size = self.scores.size
        shares = np.asarray(getattr(self.selector, "feature_shares_", np.empty(0)))
        related = np.asarray(getattr(self.selector, "significant_", np.empty(0)))
        if shares.size != size or related.size != size:  # of another method, or not known
            return np.full(size, np.nan), np.ones(size, dtype=bool)
        return shares.astype(np.float64), related.astype(bool)

    def curves(self, report: SelectionReport | None) -> Curves | None:
        """Return R² against the number of features."""
        curve = np.asarray(getattr(self.selector, "selection_curve_", ()), dtype=np.float64)
        if curve.size == 0:
            return None
        pca = None if report is None else report.pca_curve
        return Curves(curve, pca, self._random_curve(curve.size))

    def _random_curve(self, count: int) -> FloatArray | None:
        """Return the mean R² of random features, one after the other."""
        if self.values is None:
            return None
        n_samples, size = self.values.shape
        if RANDOM_CURVES * count * size * (min(n_samples, size) + count) > RANDOM_WORK:
            return None
        moments = self._moments()
        columns, rng = feature_columns(moments), np.random.default_rng(0)
        varying = np.flatnonzero(moments.variances > 0)
        curves = np.full((RANDOM_CURVES, count), np.nan)
        for row in curves:
            given = rng.choice(varying, min(count, varying.size), replace=False)
            run = select_greedily(columns, n_picks=given.size, criterion="residual", given=given)
            # Features that those before determine are not picked: they add nothing.
            row[: run.curve.size] = run.curve
            row[run.curve.size :] = run.curve[-1]
        return np.asarray(curves.mean(axis=0))

    def look(self, y: Any, original: Any, sample_names: Sequence[Any] | None) -> Look | None:
        """Return the samples in pictures; None where they are not at hand."""
        order = self.order
        kept = order[self.kept[order]]
        if self.values is None or is_streamed(self.values) or kept.size > MOST_MEASURED:
            return None
        values = as_samples(self.values, missing=True).values
        original = None if original is None else as_samples(original, missing=True).values
        if original is not None and original.shape != values.shape:
            original = None  # steps before may have dropped or made features
        return look_at(values, kept, original=original, labels=y, sample_names=sample_names)

    def components(self) -> list[Component]:
        """Return what the components are made of; none for a method without any."""
        loadings = np.asarray(getattr(self.model, "components_", np.empty(0)))
        if loadings.ndim != 2 or loadings.shape[1] != self.scores.size:
            return []
        shares = getattr(self.model, "explained_variance_ratio_", np.full(len(loadings), np.nan))
        found = []
        for row, share in zip(loadings[:MOST_COMPONENTS], shares, strict=False):
            strongest = np.argsort(-np.abs(row), kind="stable")[:STRONGEST]
            pairs = [(self._name(int(j)), float(row[j])) for j in strongest if row[j] != 0]
            found.append(Component(float(share), int(np.count_nonzero(row)), pairs))
        return found

    def _name(self, column: int) -> str:
        return f"feature {column}" if self.names is None else self.names[column]

    def proof(self, certificate: SetCertificate | None) -> str:
        """Say what is proved about the kept features: as given, else what the selector knows."""
        if certificate is None and self.kept.any():
            certificate = getattr(self.selector, "set_certificate_", None)
        return "" if certificate is None else str(certificate)

    def solver_run(self, seconds: float | None) -> SolverRun:
        """Return how the solver ran."""
        model = self.model
        history = np.asarray(getattr(model, "history_", ()), dtype=np.float64).ravel()
        gaps = np.asarray(getattr(model, "gap_history_", ()), dtype=np.float64).ravel()
        gap = getattr(model, "duality_gap_", None)
        tol = getattr(model, "tol", None)
        numbers = {
            "penalty alpha, in the units of the data": getattr(model, "alpha_", None),
            "penalty eta, in the units of the data": getattr(model, "eta_", None),
            **getattr(model, "diagnostics_", {}),
        }
        return SolverRun(
            history=history,
            gaps=gaps if gaps.size == history.size else np.empty(0),
            tol=tol if isinstance(tol, float) else None,
            n_iter=getattr(model, "n_iter_", None),
            converged=getattr(model, "converged_", None),
            reason=str(getattr(model, "stopping_reason_", "")),
            gap=float(gap) if gap is not None and np.isfinite(gap) else None,
            objective=getattr(model, "objective_", None),
            seconds=seconds,
            diagnostics={
                name.replace("_", " "): f"{value:.6g}"
                for name, value in numbers.items()
                if isinstance(value, float)
            },
        )

    def clusters(self, y: Any) -> Clusters | str:
        """Return cluster scores of the kept features and of all, or why there are none."""
        from jointsparse.metrics import clustering_scores

        if self.values is None:
            return "the labels were not used: cluster scores need the samples, X"
        check_consistent_length(self.values, y)
        kept = np.flatnonzero(self.kept)
        labels = np.asarray(y)
        known = np.flatnonzero(labels.astype(str) != "")
        known = np.sort(np.random.default_rng(0).permutation(known)[:CLUSTER_SAMPLES])
        labels = labels[known]
        n_classes = np.unique(labels).size
        if kept.size == 0 or not 2 <= n_classes <= min(MOST_CLASSES, labels.size // 2):
            return (
                f"the label has {n_classes} different values, so it does not name classes: "
                "no cluster scores"
                if kept.size
                else "nothing was kept: no cluster scores"
            )
        dense = as_samples(self.values).values[known]
        sets = [(f"the {kept.size} kept features", kept)]
        if dense.shape[0] * dense.shape[1] <= CLUSTER_ENTRIES and kept.size < dense.shape[1]:
            sets.append((f"all {dense.shape[1]} features", np.arange(dense.shape[1])))
        rows = []
        for title, columns in sets:
            part = dense[:, columns]
            part = part.toarray() if hasattr(part, "toarray") else part
            with warnings.catch_warnings():
                # K-means says so where there are fewer different points than clusters.
                warnings.simplefilter("ignore", ConvergenceWarning)
                scores = clustering_scores(part, labels, n_repeats=CLUSTER_REPEATS)
            rows.append((title, scores.summary()))
        return Clusters(rows, n_classes, labels.size, CLUSTER_REPEATS)


def worth_of(report: SelectionReport | None) -> Worth | None:
    """Return the answer and its evidence, from a report on a selection."""
    if report is None:
        return None
    own, pca, random, spread = report.headline
    return Worth(
        verdict=report.verdict,
        own=own,
        pca=pca,
        random=random,
        random_spread=spread,
        held_out=report.held_out,
        why_not=report.why_not,
        ceiling=report.ceiling,
        in_table=report.r2,
        own_share=report.own_share,
        n_patterns=report.n_patterns,
        n_significant=report.n_significant,
        more_patterns=report.more_patterns,
        n_parts=0 if report.worth is None else report.worth.n_folds,
        related=report.of_related,
        n_related_dropped=report.n_related_dropped,
    )


def sizes_of(report: SelectionReport | None) -> Sizes | None:
    """Return what other numbers of features predict in new samples, where that was measured."""
    if report is None or report.curve is None or not report.curve.sizes.size:
        return None
    return Sizes(report.curve.sizes, report.curve.r2, report.curve.error)


def shown_names(names: Sequence[Any]) -> list[str]:
    """Return names as they can be shown; cut, where there are many long ones, to bound the page."""
    texts = [visible(str(name)) for name in names]
    most = LONGEST_NAME
    if sum(map(len, texts)) > NAME_BUDGET:
        most = max(NAME_BUDGET // len(texts), 16)
    return [cut_middle(text, most) for text in texts]


def _scores(selector: Any) -> FloatArray:
    scores = getattr(selector, "feature_scores_", None)
    if scores is None and np.ndim(getattr(selector, "components_", 0)) == 2:
        scores = np.linalg.norm(selector.components_, axis=0)
    if scores is None:
        raise ValueError(
            f"{type(selector).__name__} has neither feature_scores_ nor components_: a report "
            "needs a fitted selector or component method, or a pipeline that ends with one"
        )
    return np.asarray(scores, dtype=np.float64)


def _names(
    estimator: Any, selector: Any, given: Sequence[str] | None, n_features: int
) -> list[str] | None:
    names: Any = given
    if names is None:
        names = getattr(selector, "feature_names_in_", None)
    if names is None and selector is not estimator and hasattr(estimator, "feature_names_in_"):
        # The steps before may have dropped or made features.
        earlier = estimator[:-1]
        names = (
            earlier.get_feature_names_out() if hasattr(earlier, "get_feature_names_out") else None
        )
    if names is None:
        return None
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} names for {n_features} features")
    return shown_names(names)
