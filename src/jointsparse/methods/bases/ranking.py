"""The features of a fitted method, best first, with all that is known about each."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from jointsparse.io.errors import listed
from jointsparse.io.table import distinct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jointsparse.selection_report import SelectionReport


@dataclass(frozen=True)
class RankedFeature:
    """One feature of the ranking.

    ``r2`` is what the kept features down to this one account for of all, in this table; of a
    dropped feature, ``stand_in`` is the kept one that predicts it best, and ``stand_in_r2`` how
    much of it. ``shared`` is the share of the feature that the others account for, and ``p_value``
    how probable so much is for a feature that has nothing to do with them. ``found_again`` is the
    share of the parts of the samples in which a kept feature, or one that stands in for it, is
    found again.
    """

    rank: int
    feature: str
    score: float
    kept: bool
    r2: float | None = None
    stand_in: str | None = None
    stand_in_r2: float | None = None
    shared: float | None = None
    p_value: float | None = None
    found_again: float | None = None


def ranked_features(
    estimator: Any, names: Sequence[str], report: SelectionReport | None
) -> list[RankedFeature]:
    """Return every feature of a fitted method, best first.

    Parameters
    ----------
    estimator : estimator
        Fitted, with scores, a ranking and kept features.
    names : sequence of str
        What the features are called.
    report : SelectionReport or None
        What is known about the kept ones.
    """
    scores, kept = estimator.feature_scores_, estimator.get_support()
    r2 = dict(enumerate(getattr(estimator, "selection_curve_", ()), start=1))
    shares = getattr(estimator, "feature_shares_", None)
    pvalues = getattr(estimator, "feature_pvalues_", None)
    stand_ins: dict[int, tuple[str, float]] = {}
    again: dict[int, float] = {}
    if report is not None and report.n_kept:
        found = report.stand_ins
        best = zip(found.dropped, found.kept[:, 0], found.r2[:, 0], strict=True)
        stand_ins = {int(d): (names[int(k)], float(share)) for d, k, share in best if k >= 0}
        pairs = zip(report.kept.tolist(), report.found_again, strict=True)
        again = {feature: float(share) for feature, share in pairs if not math.isnan(share)}
    return [
        RankedFeature(
            rank,
            names[column],
            float(scores[column]),
            bool(kept[column]),
            float(r2[rank]) if kept[column] and rank in r2 else None,
            stand_in=stand_ins.get(column, (None, None))[0],
            stand_in_r2=stand_ins.get(column, (None, None))[1],
            shared=None if shares is None else float(shares[column]),
            p_value=None if pvalues is None else float(pvalues[column]),
            found_again=again.get(column),
        )
        for rank, column in enumerate(np.argsort(estimator.ranking_, kind="stable").tolist(), 1)
    ]


class Ranked:
    """What methods with scores for features can tell about these."""

    def ranking_table(self) -> Any:
        """Return the features as a data frame, best first, with their names.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Of the first of these that is installed. A row for each feature: ``rank``, ``feature``,
            ``score``, ``kept``; of kept features ``r2`` (what those down to this one account for in
            these samples) and ``found_again`` (in which share of the parts of the samples); of
            dropped ones ``stand_in``, the kept feature that predicts it best, and ``stand_in_r2``;
            ``shared`` with other features and its ``p_value``. Nothing where nothing is known.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from jointsparse import GreedySelector
        >>> z = np.random.default_rng(0).standard_normal((200, 2))
        >>> X = pd.DataFrame({"a": z[:, 0], "b": 2 * z[:, 0] + 0.1 * z[:, 1]})
        >>> table = GreedySelector(n_features_to_select=1).fit(X).ranking_table()
        >>> table[["rank", "feature", "kept", "stand_in"]].values.tolist()[0][:3]
        [1, 'b', True]
        """
        check_is_fitted(self)
        report = getattr(self, "selection_report_", None)
        rows = [asdict(row) for row in ranked_features(self, self._names_of_features(), report)]
        return _as_frame(rows)

    def mark_selected(self, annotated: Any, key: str = "selected") -> None:
        """Write which features are kept into an AnnData object.

        Parameters
        ----------
        annotated : AnnData
            With the features of the fit: ``var[key]`` becomes whether each is kept, and
            ``var[key + "_rank"]`` its rank. Nothing else is changed.
        key : str, default="selected"
            What the new column is called.
        """
        check_is_fitted(self)
        names = [str(name) for name in annotated.var_names]
        known = self._names_of_features()
        if len(names) != len(known) or (
            hasattr(self, "feature_names_in_") and distinct(names)[0] != known
        ):
            raise ValueError(
                f"the AnnData object has other features than those of the fit: {len(names)}, "
                f"beginning with {listed(names[:3])}; the fit had {len(known)}, beginning with "
                f"{listed(known[:3])}"
            )
        annotated.var[key] = np.asarray(self.get_support())  # type: ignore[attr-defined]
        annotated.var[f"{key}_rank"] = np.asarray(self.ranking_)  # type: ignore[attr-defined]

    def _names_of_features(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            return [str(name) for name in names]
        return [f"x{j}" for j in range(self.n_features_in_)]  # type: ignore[attr-defined]


def _as_frame(rows: list[dict[str, Any]]) -> Any:
    """Return rows as a data frame of what is installed."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    try:
        import pandas as pd
    except ImportError:
        pass
    else:
        return pd.DataFrame(columns)
    try:
        import polars as pl
    except ImportError:
        import pyarrow as pa

        return pa.table(columns)
    return pl.DataFrame(columns)
