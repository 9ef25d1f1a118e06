import numpy as np
import pytest

from jointsparse.metrics import selection_stability


def test_equal_selections_are_fully_stable():
    assert selection_stability([[1, 0, 1, 0]] * 5) == pytest.approx((1, 1, 1))
    assert selection_stability(np.ones((3, 4))) == (1, 1, 1)


def test_random_selections_have_no_stability_on_average():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(300):
        supports = np.zeros((6, 20))
        for row in supports:
            row[rng.choice(20, 7, replace=False)] = 1
        found.append(selection_stability(supports)[0])
    assert abs(np.mean(found)) < 4 * np.std(found) / np.sqrt(300)


def test_it_is_the_mean_pairwise_agreement_corrected_for_chance():
    # For selections of one size it equals the mean of Kuncheva's pairwise index.
    rng = np.random.default_rng(1)
    supports = np.zeros((5, 12))
    for row in supports:
        row[rng.choice(12, 4, replace=False)] = 1
    pairs = [
        (supports[i] @ supports[j] - 16 / 12) / (4 - 16 / 12) for i in range(5) for j in range(i)
    ]
    assert selection_stability(supports)[0] == pytest.approx(np.mean(pairs))


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(2)
    shares = rng.uniform(0, 1, 30) ** 2
    truth = selection_stability(rng.random((20_000, 30)) < shares)[0]
    covered = 0
    for _ in range(200):
        _, lower, upper = selection_stability(rng.random((100, 30)) < shares)
        covered += lower <= truth <= upper
    assert 0.87 <= covered / 200 <= 1


def test_anything_but_yes_and_no_is_refused():
    with pytest.raises(ValueError, match="True and False"):
        selection_stability([[0.5, 1], [1, 0]])
    with pytest.raises(ValueError, match="confidence=2"):
        selection_stability([[0, 1], [1, 0]], confidence=2)


def test_the_interval_is_the_first_order_spread_of_the_index():
    # The index as a function of weights of the selections; its slopes, by differences, are what
    # every selection contributes, and their mean square is the variance of the index.
    rng = np.random.default_rng(3)
    shares = rng.uniform(0, 1, 12) ** 2
    chosen = (rng.random((400, 12)) < shares).astype(float)
    count = len(chosen)

    def index(weights):
        share, kept = weights @ chosen, weights @ chosen.sum(axis=1) / 12
        spread = np.mean(share * (1 - share)) * count / (count - 1)
        return 1 - spread / (kept * (1 - kept))

    equal = np.full(count, 1 / count)
    step = 1e-6
    slopes = [
        (index((1 - step) * equal + step * row) - index(equal)) / step for row in np.eye(count)
    ]
    error = np.sqrt(np.mean(np.square(slopes)) / count)
    stability, lower, upper = selection_stability(chosen)
    assert stability == pytest.approx(index(equal))
    assert upper - stability == pytest.approx(stability - lower)
    assert upper - stability == pytest.approx(1.959964 * error, rel=5e-3)
    _, _, wide = selection_stability(chosen, confidence=0.99)
    assert (wide - stability) / (upper - stability) == pytest.approx(2.575829 / 1.959964)


def test_keeping_nothing_is_stable_too():
    assert selection_stability(np.zeros((2, 3))) == (1.0, 1.0, 1.0)
    assert selection_stability([[1, 0], [0, 1]])[0] == pytest.approx(-1)
    for confidence in (0, 1):
        with pytest.raises(ValueError, match=f"confidence={confidence} is not between 0 and 1"):
            selection_stability([[0, 1], [1, 0]], confidence=confidence)
