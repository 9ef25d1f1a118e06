"""How well clusters found in the kept features agree with known classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length, column_or_1d

from jointsparse.arrays import FloatArray
from jointsparse.sources.door import as_samples


def clustering_accuracy(y_true: Any, y_pred: Any) -> float:
    r"""Share of samples in the right cluster, under the best matching of clusters to classes.

    .. math:: \mathrm{ACC} = \frac1n\max_{\pi}\sum_{i=1}^n [\,y_i = \pi(c_i)\,] ,

    the maximum over one-to-one maps :math:`\pi` from clusters to classes, found by the
    Kuhn-Munkres algorithm. Where there are more clusters than classes (or fewer), the ones left
    over match nothing.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Classes; numbers or text.
    y_pred : array-like of shape (n_samples,)
        Clusters; numbers or text.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from jointsparse.metrics import clustering_accuracy
    >>> clustering_accuracy(["a", "a", "b", "b"], [1, 1, 0, 1])
    0.75
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics.cluster import contingency_matrix

    y_true, y_pred = column_or_1d(y_true), column_or_1d(y_pred)
    check_consistent_length(y_true, y_pred)
    counts = contingency_matrix(y_true, y_pred)
    return float(counts[linear_sum_assignment(counts, maximize=True)].sum() / len(y_true))


@dataclass(frozen=True)
class ClusteringScores:
    """Scores of repeated K-means, one entry per repeat.

    Attributes
    ----------
    accuracy, nmi, ari : ndarray of shape (n_repeats,)
        Clustering accuracy, normalised mutual information (geometric mean of the entropies) and
        adjusted Rand index.
    """

    accuracy: FloatArray
    nmi: FloatArray
    ari: FloatArray

    def summary(self) -> dict[str, tuple[float, float]]:
        """Return mean and standard deviation (over repeats) of each score."""
        parts = {"accuracy": self.accuracy, "nmi": self.nmi, "ari": self.ari}
        return {
            name: (float(v.mean()), float(v.std(ddof=min(1, v.size - 1))))
            for name, v in parts.items()
        }

    def __repr__(self) -> str:
        parts = (f"{name}={mean:.4f}±{sd:.4f}" for name, (mean, sd) in self.summary().items())
        return f"ClusteringScores({', '.join(parts)}, n_repeats={self.accuracy.size})"


def clustering_scores(
    X: Any,
    y: Any,
    n_clusters: int | None = None,
    *,
    n_repeats: int = 30,
    random_state: int | None = 0,
) -> ClusteringScores:
    """Cluster X by K-means again and again, and compare with the classes y.

    This is the protocol of the papers on unsupervised feature selection: 30 runs of K-means from
    different starts on the kept features, mean and standard deviation of each score. The labels
    serve for the scores alone.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The kept features.
    y : array-like of shape (n_samples,)
        Classes.
    n_clusters : int or None, default=None
        Number of clusters; None takes the number of classes.
    n_repeats : int, default=30
        Number of runs, each with one start.
    random_state : int or None, default=0
        Seed. Run i has the same start whatever the number of runs.

    Returns
    -------
    ClusteringScores
        Scores of all runs.

    Notes
    -----
    Wide data are rotated into the at most n dimensions that they span: distances, and so K-means,
    stay the same, and every run is cheaper.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from jointsparse.metrics import clustering_scores
    >>> X, y = load_iris(return_X_y=True)
    >>> scores = clustering_scores(X, y, n_repeats=5)
    >>> round(scores.summary()["accuracy"][0], 2) > 0.8
    True
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    X, y = _dense(X), column_or_1d(y)
    check_consistent_length(X, y)
    if n_repeats < 1:
        raise ValueError(f"n_repeats={n_repeats} is not a whole number of at least 1")
    count = len(np.unique(y)) if n_clusters is None else n_clusters
    points = _isometric(X)
    seeds = np.random.SeedSequence(random_state).generate_state(n_repeats)
    rows = []
    for seed in seeds:
        found = KMeans(count, n_init=1, random_state=int(seed)).fit_predict(points)
        nmi = normalized_mutual_info_score(y, found, average_method="geometric")
        rows.append((clustering_accuracy(y, found), nmi, adjusted_rand_score(y, found)))
    return ClusteringScores(*np.asarray(rows, dtype=np.float64).T)


def nearest_neighbour_accuracy(
    X: Any, y: Any, transform: Any, *, per_class: int, n_repeats: int = 20, random_state: int = 0
) -> FloatArray:
    """Accuracy of the nearest neighbour when a few samples of each class are known.

    This is the protocol of source 002: ``per_class`` random samples of every class are the
    training set, everything is learned on them alone, all other samples are the test set.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,)
        Classes.
    transform : callable or None
        Called with the training samples and their classes; returns a function from samples to the
        space in which neighbours are looked for. None: the samples as they are.
    per_class : int
        Training samples of each class.
    n_repeats : int, default=20
        Number of random training sets.
    random_state : int, default=0
        Seed.

    Returns
    -------
    ndarray of shape (n_repeats,)
        Accuracy of every repeat.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from jointsparse.metrics import nearest_neighbour_accuracy
    >>> X, y = load_iris(return_X_y=True)
    >>> accuracy = nearest_neighbour_accuracy(X, y, None, per_class=5)
    >>> accuracy.shape, bool(accuracy.mean() > 0.9)
    ((20,), True)
    """
    from sklearn.neighbors import KNeighborsClassifier

    X, y = _dense(X), column_or_1d(y)
    check_consistent_length(X, y)
    classes, counts = np.unique(y, return_counts=True)
    if not 1 <= per_class < counts.min():
        raise ValueError(
            f"per_class={per_class} is not between 1 and {counts.min() - 1}: the smallest class "
            f"has {counts.min()} samples, and one at least must be left to test on"
        )
    rng = np.random.default_rng(random_state)
    result = np.empty(n_repeats)
    for repeat in range(n_repeats):
        chosen = [rng.choice(np.flatnonzero(y == c), per_class, replace=False) for c in classes]
        train = np.zeros(len(y), dtype=bool)
        train[np.concatenate(chosen)] = True
        seen = (lambda Z: Z) if transform is None else transform(X[train], y[train])
        neighbour = KNeighborsClassifier(1).fit(seen(X[train]), y[train])
        result[repeat] = neighbour.score(seen(X[~train]), y[~train])
    return result


def _dense(X: Any) -> NDArray[Any]:
    return np.asarray(as_samples(X, sparse=False, dtype=[np.float64, np.float32]).values)


def _isometric(X: NDArray[Any]) -> NDArray[Any]:
    """Return coordinates of the rows with the same distances, no more of them than rows."""
    if X.shape[1] <= X.shape[0]:
        return X
    centred = X - X.mean(axis=0, dtype=np.float64)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    positive = values > 1e-12 * values[-1]
    if not np.any(positive):
        return X[:, :1]
    return np.asarray(vectors[:, positive] * np.sqrt(values[positive])).astype(X.dtype)
