r"""What can be known about a selection without labels.

A criterion judges a set of kept features in several runs of K-means, so that its mean has a
standard error; more is better. (``"held-out"`` judges how the set was found, not the set: it is in
:mod:`jointsparse.model_selection.nested`.)

* ``"agreement"``: normalised mutual information between K-means on the kept features and K-means on
  all of them.
* ``"silhouette"``: silhouette of K-means on the kept features, *measured in all of them*. Measured
  in the kept features it would reward sets that repeat themselves.

Another one judges the model: ``"rank"``, how near its effective rank is to c - 1, the number of
directions in which c clusters differ, :math:`-|\log(r/(c-1))|` with
:math:`r = (\sum_i s_i)^2/\sum_i s_i^2` from the singular values of Ω.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import FloatArray, IntArray
from jointsparse.moments import Moments
from jointsparse.solvers.picking.row_targets import row_axes
from jointsparse.solvers.products.columns import feature_columns

N_REFERENCES = 3  # clusterings by all features
STARTS = 5  # of each of them; by the kept features every run has a single start
SILHOUETTE_SAMPLES = 1000  # all their distances are kept


class Criterion:
    """Judges sets of features; the subclasses say how.

    Parameters
    ----------
    moments : Moments
        The data.
    n_clusters : int or None
        Number of clusters c, for those that need it.
    n_repeats : int
        Runs of K-means.
    rows : ndarray of int
        The samples that are clustered.
    seed : int
        Seed of K-means.
    """

    def __init__(
        self,
        moments: Moments,
        n_clusters: int | None,
        *,
        n_repeats: int,
        rows: IntArray,
        seed: int,
    ) -> None:
        self.moments = moments
        self.n_clusters = n_clusters
        self.n_repeats = n_repeats
        self.rows = rows
        self.seed = seed
        self.prepare()

    def prepare(self) -> None:
        """Compute what all sets share, once and before there are several threads."""

    def values(self, kept: IntArray) -> FloatArray:
        """Return the values, one for each run; more is better."""
        raise NotImplementedError  # pragma: no cover - the subclasses define it


class _Clusters(Criterion):
    """Base of the criteria that cluster the samples by K-means."""

    @cached_property
    def _whole(self) -> FloatArray:
        """The samples, in coordinates with the distances of all features."""
        return _points(self.moments.data[self.rows])

    def _partitions(self, kept: IntArray) -> list[NDArray[Any]]:
        points = _points(self.moments.data[self.rows][:, kept])
        return [_kmeans(points, self.n_clusters, 1, seed) for seed in self._seeds(self.n_repeats)]

    def _seeds(self, count: int) -> list[int]:
        # Run k of every set has the same seed: differences between sets are then less noisy.
        return [int(s) for s in np.random.SeedSequence(self.seed).generate_state(count)]


class Agreement(_Clusters):
    """Agreement of the clusters in the kept features with those in all features."""

    def prepare(self) -> None:
        """Cluster the samples by all features."""
        self._references = [
            _kmeans(self._whole, self.n_clusters, STARTS, seed)
            for seed in self._seeds(N_REFERENCES)
        ]

    def values(self, kept: IntArray) -> FloatArray:
        """Return for each run its mean agreement with all references."""
        found = self._partitions(kept)
        return np.array([np.mean([_shared(r, f) for r in self._references]) for f in found])


class Silhouette(_Clusters):
    """Silhouette, in all features, of the clusters found in the kept ones."""

    def prepare(self) -> None:
        """Compute the distances in all features."""
        from sklearn.metrics import pairwise_distances

        self._distances = pairwise_distances(self._whole[:SILHOUETTE_SAMPLES])

    def values(self, kept: IntArray) -> FloatArray:
        """Return the silhouette of each run; -1 where all samples fell into one cluster."""
        from sklearn.metrics import silhouette_score

        found = [labels[:SILHOUETTE_SAMPLES] for labels in self._partitions(kept)]
        return np.array(
            [
                silhouette_score(self._distances, labels, metric="precomputed")
                if 1 < len(np.unique(labels)) < len(labels)
                else -1.0
                for labels in found
            ]
        )


KINDS: dict[str, type[Criterion]] = {
    "agreement": Agreement,
    "silhouette": Silhouette,
}


def nearness_of_rank(rank: float, n_clusters: int) -> float:
    """Return how near a rank is to the number of clusters less one; 0 is on the spot."""
    return -abs(float(np.log(max(rank, 1e-9) / max(1, n_clusters - 1))))


def effective_rank(model: Any) -> float | None:
    """Return (Σs)²/Σs² of the singular values of Ω; None where the model has no loadings."""
    loadings = getattr(model, "loadings_", None)
    if loadings is None:
        return None
    small = np.asarray(loadings, dtype=np.float64)
    squares = np.clip(np.linalg.eigvalsh(small.T @ small), 0.0, None)
    # On the cone Ω = UUᵀ; otherwise Ω = BLᵀ with orthonormal B.
    values = squares if getattr(model, "psd", True) else np.sqrt(squares)
    return float(values.sum() ** 2 / np.sum(values**2)) if values.any() else 0.0


def _points(data: Any) -> FloatArray:
    """Return coordinates of the samples with the same distances, no more of them than samples."""
    if data.shape[1] > data.shape[0]:
        values, axes = row_axes(feature_columns(Moments.from_data(data, copy=False)), 1e-12)
        return axes * np.sqrt(values)
    return np.asarray(data.toarray() if sp.issparse(data) else data, dtype=np.float64)


def _kmeans(points: FloatArray, n_clusters: int | None, starts: int, seed: int) -> NDArray[Any]:
    from sklearn.cluster import KMeans

    return np.asarray(KMeans(n_clusters, n_init=starts, random_state=seed).fit_predict(points))


def _shared(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return the normalised mutual information (geometric mean) of two clusterings.

    scikit-learn's takes as long as K-means itself on small data: it checks its input every time.
    """
    width = int(other.max()) + 1
    counts = np.bincount(one * width + other, minlength=(int(one.max()) + 1) * width)
    joint = counts.reshape(-1, width) / one.size
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    entropies = _entropy(rows) * _entropy(columns)
    if entropies <= 0:
        return float(rows.size == columns.size == 1)
    mutual = _entropy(rows) + _entropy(columns) - _entropy(joint.ravel())
    return float(max(0.0, mutual) / np.sqrt(entropies))


def _entropy(shares: FloatArray) -> float:
    positive = shares[shares > 0]
    return float(-np.sum(positive * np.log(positive)))
