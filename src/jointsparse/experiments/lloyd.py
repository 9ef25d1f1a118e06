"""K-means from many starts at once: one matrix product gives the distances for all of them.

Each run is Lloyd's iteration as in scikit-learn's ``KMeans(init=start, n_init=1)``, with the same
rule to stop and the same treatment of clusters that become empty. The runs share the passes over
the samples, and after the first one only samples that change their cluster are added up anew.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from jointsparse.arrays import Array, FloatArray, IntArray
from jointsparse.device import is_device_array, like, to_host
from jointsparse.linalg import array_namespace

TOL = 1e-4  # squared movement of the centres, relative to the mean variance of the features
BLOCK = 2**18  # distances that are held at a time: they stay in the cache of the processor


def lloyd_labels(X: Array, starts: FloatArray, *, max_iter: int = 100) -> IntArray:
    """Cluster the rows of X once from every start.

    Parameters
    ----------
    X : ndarray or tensor of shape (n_samples, n_features)
        Samples; on a device, distances and sums are computed there.
    starts : ndarray of shape (n_runs, n_clusters, n_features)
        First centres of every run.
    max_iter : int, default=100
        Limit on the number of iterations of each run.

    Returns
    -------
    ndarray of shape (n_runs, n_samples)
        Cluster of every sample in every run.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.experiments.lloyd import lloyd_labels
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> lloyd_labels(X, np.array([[[0.0], [1.0]], [[11.0], [0.0]]])).tolist()
    [[0, 0, 1, 1], [1, 1, 0, 0]]
    """
    device = X if is_device_array(X) else None
    X = to_host(X)
    mean = X.mean(axis=0)
    X = X - mean  # distances stay as they are, and lose fewer digits
    there = None if device is None else like(X, device)
    enough = TOL * float(np.mean(np.var(X, axis=0)))
    found = np.full((len(starts), len(X)), -1)
    kind = _Runs if there is None else _DeviceRuns
    active, runs = np.arange(len(starts)), kind(X, starts - mean, there)
    for _ in range(max_iter):
        same, shift = runs.step()
        found[active] = runs.labels
        last = ~same & (shift <= enough)
        if np.any(last):  # the centres have moved since: the labels follow
            found[active[last]] = runs.keep(last).assigned()
        going = ~same & ~last
        active, runs = active[going], runs.keep(going)
        if not len(active):
            return found
    found[active] = runs.assigned()
    return found


class _Runs:
    """The runs that have not ended: their centres, and sums and sizes of their clusters."""

    def __init__(self, X: FloatArray, centres: FloatArray, there: Array | None = None) -> None:
        self.X, self.centres, self.there = X, centres, there
        count, clusters, width = centres.shape
        self.labels = np.full((count, len(X)), -1)
        self.sums = np.zeros((count * clusters, width))
        self.sizes = np.zeros(count * clusters)

    def keep(self, chosen: NDArray[np.bool_]) -> _Runs:
        """Return the chosen runs."""
        kept = type(self)(self.X, self.centres[chosen], self.there)
        clusters = self.centres.shape[1]
        every = np.repeat(chosen, clusters)
        kept.labels, kept.sums, kept.sizes = (
            self.labels[chosen],
            self.sums[every],
            self.sizes[every],
        )
        return kept

    def assigned(self) -> IntArray:
        """Return the nearest centre of every sample."""
        count, clusters, width = self.centres.shape
        # All first clusters, then all second ones, ...: what is compared lies in whole rows.
        flat = self.centres.transpose(1, 0, 2).reshape(-1, width)
        half, labels = np.sum(flat**2, axis=1)[:, None] / 2, np.empty_like(self.labels)
        size = max(1, BLOCK // max(1, len(flat)))
        for first in range(0, len(self.X), size):
            block = self.X[first : first + size]
            # ‖x - c‖² = ‖x‖² - 2(xᵀc - ‖c‖²/2): the nearest centre has the largest bracket.
            nearness = (flat @ block.T - half).reshape(clusters, count, len(block))
            best, label = nearness[0], np.zeros((count, len(block)), dtype=np.int16)
            for cluster in range(1, clusters):
                np.copyto(label, cluster, where=nearness[cluster] > best)
                np.maximum(best, nearness[cluster], out=best)
            labels[:, first : first + size] = label
        return labels

    def step(self) -> tuple[NDArray[np.bool_], FloatArray]:
        """Assign the samples and move the centres.

        Returns which runs have the labels of before, and how far the centres have moved, squared.
        """
        count, clusters, width = self.centres.shape
        labels = self.assigned()
        run, sample = np.nonzero(labels != self.labels)
        self._count(labels, run, sample)
        self.labels = labels
        sums, sizes = self._without_empty()
        centres = (sums / sizes[:, None]).reshape(count, clusters, width)
        shift = np.sum((centres - self.centres) ** 2, axis=(1, 2))
        self.centres = centres
        same = np.ones(count, dtype=bool)
        same[run] = False
        return same, shift

    def _count(self, labels: IntArray, run: IntArray, sample: IntArray) -> None:
        """Bring sums and sizes up to new labels, given where they are new."""
        clusters = self.centres.shape[1]
        came, left = labels[run, sample], self.labels[run, sample]
        gone = left >= 0  # in the first step all samples come from nowhere
        rows = np.concatenate([run * clusters + came, (run * clusters + left)[gone]])
        columns = np.concatenate([sample, sample[gone]])
        signs = np.concatenate([np.ones(len(run)), -np.ones(np.count_nonzero(gone))])
        change = sp.csr_array((signs, (rows, columns)), shape=(len(self.sizes), len(self.X)))
        self.sums += change @ self.X
        self.sizes += np.bincount(rows, weights=signs, minlength=len(self.sizes))

    def _without_empty(self) -> tuple[FloatArray, FloatArray]:
        """Return sums and sizes; an empty cluster takes the sample farthest from its centre."""
        empty = np.flatnonzero(self.sizes == 0)
        if not len(empty):
            return self.sums, self.sizes
        sums, sizes = self.sums.copy(), self.sizes.copy()
        clusters = self.centres.shape[1]
        for run in np.unique(empty // clusters):
            places = empty[empty // clusters == run]
            distances = np.sum((self.X - self.centres[run][self.labels[run]]) ** 2, axis=1)
            for place, sample in zip(places, np.argsort(-distances), strict=False):
                old = run * clusters + self.labels[run, sample]
                sums[place], sizes[place] = self.X[sample], 1.0
                sums[old], sizes[old] = sums[old] - self.X[sample], sizes[old] - 1
        return sums, np.maximum(sizes, 1.0)


class _DeviceRuns(_Runs):
    """The same where the samples are on a device as well, which does all that grows with them."""

    def assigned(self) -> IntArray:
        """Return the nearest centre of every sample."""
        count, clusters, width = self.centres.shape
        flat = like(self.centres.reshape(-1, width), self.there)
        xp = array_namespace(flat)
        nearness = self.there @ flat.T - xp.sum(flat**2, axis=1) / 2
        nearness = xp.reshape(nearness, (len(self.X), count, clusters))
        return to_host(xp.argmax(nearness, axis=2).T)

    def _count(self, labels: IntArray, run: IntArray, sample: IntArray) -> None:
        """Bring sums and sizes up to new labels: all of them anew, by one product."""
        count, clusters, _ = self.centres.shape
        here = like(labels, self.there)
        xp = array_namespace(here)
        members = here.T[:, :, None] == xp.arange(clusters, device=here.device)
        members = xp.reshape(xp.astype(members, xp.float64), (len(self.X), count * clusters))
        self.sums = to_host(members.T @ self.there)
        self.sizes = to_host(xp.sum(members, axis=0))
