from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, make_blobs
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from jointsparse.metrics import (
    clustering_accuracy,
    clustering_scores,
    nearest_neighbour_accuracy,
)

labels = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=25)


@given(pairs=labels)
@settings(max_examples=60, deadline=None)
def test_accuracy_is_the_best_over_all_matchings(pairs):
    y, c = (np.array(part) for part in zip(*pairs, strict=True))
    best = max(np.mean(y == np.array(order)[c]) for order in permutations(range(4)))
    assert clustering_accuracy(y, c) == pytest.approx(best)


def test_accuracy_takes_text_and_more_clusters_than_classes():
    assert clustering_accuracy(["x", "x", "y"], [5, 5, 9]) == 1
    assert clustering_accuracy([0, 0, 0, 0], [0, 1, 2, 2]) == 0.5
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clustering_accuracy([0, 1], [0])


def test_scores_are_reproducible_and_extend():
    X, y = load_iris(return_X_y=True)
    few = clustering_scores(X, y, n_repeats=3)
    more = clustering_scores(X, y, n_repeats=5)
    np.testing.assert_array_equal(few.accuracy, more.accuracy[:3])
    assert np.all((more.nmi > 0.5) & (more.ari > 0.4))
    mean, sd = more.summary()["nmi"]
    assert mean == pytest.approx(more.nmi.mean())
    assert sd == pytest.approx(np.std(more.nmi, ddof=1))
    assert "n_repeats=5" in repr(more)


def test_wide_data_are_clustered_as_they_are():
    X, y = make_blobs(40, n_features=300, centers=3, cluster_std=0.5, random_state=0)
    scores = clustering_scores(X, y, n_repeats=5)
    assert scores.accuracy.max() == 1
    # Distances are the same, so the scores are those of the points themselves.
    from sklearn.cluster import KMeans

    from jointsparse.metrics.clustering import _isometric

    Z = _isometric(X)
    assert Z.shape[1] < 40
    gaps = [np.linalg.norm(A[:, None] - A[None], axis=2) for A in (X, Z)]
    np.testing.assert_allclose(*gaps, atol=1e-6)
    found = KMeans(3, n_init=5, random_state=0).fit_predict(X)
    assert adjusted_rand_score(y, found) == 1
    assert normalized_mutual_info_score(y, found) == pytest.approx(1)


def test_equal_samples_do_not_crash():
    scores = clustering_scores(np.ones((6, 20)), [0, 0, 0, 1, 1, 1], n_repeats=1)
    assert scores.accuracy[0] == 0.5
    assert scores.summary()["accuracy"] == (0.5, 0.0)


def test_nearest_neighbours_learn_on_the_training_samples_alone():
    X, y = load_iris(return_X_y=True)
    seen = []

    def transform(train, classes):
        seen.append((train.shape, np.bincount(classes).tolist()))
        return lambda Z: Z - train.mean(axis=0)

    moved = nearest_neighbour_accuracy(X, y, transform, per_class=4, n_repeats=3)
    assert seen == [((12, 4), [4, 4, 4])] * 3
    plain = nearest_neighbour_accuracy(X, y, None, per_class=4, n_repeats=3)
    np.testing.assert_allclose(moved, plain)
    with pytest.raises(ValueError, match="between 1 and 49"):
        nearest_neighbour_accuracy(X, y, None, per_class=50)


def test_scores_are_those_of_kmeans_runs_of_their_own():
    from sklearn.cluster import KMeans

    X, y = load_iris(return_X_y=True)
    scores = clustering_scores(X, y, 4, n_repeats=2, random_state=3)
    seeds = np.random.SeedSequence(3).generate_state(2)
    for repeat, seed in enumerate(seeds):
        found = KMeans(4, n_init=1, random_state=int(seed)).fit_predict(X)
        assert scores.accuracy[repeat] == clustering_accuracy(y, found)
        assert scores.ari[repeat] == adjusted_rand_score(y, found)
        nmi = normalized_mutual_info_score(y, found, average_method="geometric")
        assert scores.nmi[repeat] == nmi
    assert clustering_scores(X, y, n_repeats=1).ari.shape == (1,)
    assert clustering_scores(X[:, :2], y).accuracy.size == 30
    with pytest.raises(ValueError, match="n_repeats=0 is not a whole number of at least 1"):
        clustering_scores(X, y, n_repeats=0)
    for score in (clustering_scores, nearest_neighbour_accuracy):
        options = {"transform": None, "per_class": 1} if score is not clustering_scores else {}
        with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[150, 149\]"):
            score(X, y[:-1], **options)


def test_only_wide_points_are_turned():
    from jointsparse.metrics.clustering import _isometric

    square = np.random.default_rng(0).standard_normal((5, 5))
    assert _isometric(square) is square
    wide = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    turned = _isometric(wide)
    assert turned.shape == (5, 4)  # the mean takes one dimension
    assert turned.dtype == np.float32
    np.testing.assert_array_equal(_isometric(np.full((2, 3), 7.0)), [[7], [7]])


def test_nearest_neighbours_by_hand():
    # Two points of a class in each of two places: one known, and the other is next to it.
    X = np.array([[0.0], [0.1], [9.0], [9.1]])
    assert nearest_neighbour_accuracy(X, [0, 0, 1, 1], None, per_class=1).tolist() == [1.0] * 20
    mixed = nearest_neighbour_accuracy(X, [0, 1, 0, 1], None, per_class=1, n_repeats=40)
    assert set(mixed) <= {0.0, 0.5, 1.0}
    assert mixed.min() < 0.5
    again = nearest_neighbour_accuracy(
        X, [0, 1, 0, 1], None, per_class=1, n_repeats=40, random_state=0
    )
    np.testing.assert_array_equal(mixed, again)
    for wrong in (0, 2):
        with pytest.raises(ValueError, match=f"per_class={wrong} is not between 1 and 1"):
            nearest_neighbour_accuracy(X, [0, 0, 1, 1], None, per_class=wrong)
