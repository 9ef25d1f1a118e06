"""The check that compares a container with its twin finds what is wrong, and excuses only ties."""

import copy
import zlib
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from fuzz import estimators
from fuzz.containers import CONTAINERS, close, same_content
from fuzz.oracle import wrong_sums
from fuzz.twins import (
    GROWTH,
    OPEN,
    REFUSED,
    SAME,
    SAME_LIMIT,
    TIED,
    TIGHT,
    Answer,
    answer,
    as_stream,
    explained,
    rounded_otherwise,
    verdict,
)
from jointsparse import JSPCA, SPCA, SPCAPSD, GreedySelector, LaplacianScore, moments
from jointsparse.operators import blocks
from jointsparse.operators.sparse import SparseSamples
from jointsparse.sources import weighting
from jointsparse.sources.sums import Sums


def table(n=40, p=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)) @ rng.standard_normal((2, p))
    return X + 0.5 * rng.standard_normal((n, p))


def changed(**wrong):
    """Return a fit whose answer has some parts replaced, by a function of the right ones."""

    def fit(estimator, X):
        right = answer(estimator, X)
        for name, change in wrong.items():
            setattr(right, name, change(getattr(right, name)))
        return right

    return fit


def swapped(values):
    """Return the same with what belongs to the first two features exchanged."""
    return values[[1, 0, *range(2, len(values))]]


WRONG = [
    ({"scores": lambda scores: scores * (1 + 1e-6)}, "scores differ by 1.0e-06"),
    ({"objective": lambda objective: objective + 1e-3}, "objectives differ"),
    ({"support": np.logical_not}, "kept"),
    ({"ranking": swapped}, "ranking"),
]
WRONG_COMPONENTS = [
    ({"components": lambda components: -components}, "components differ by 2.0e"),
    ({"components": lambda components: components[:1]}, "components differ by inf"),
]


@pytest.mark.parametrize(
    ("estimator", "wrong", "words"),
    [
        *((LaplacianScore(n_features_to_select=3), *case) for case in WRONG),
        *((SPCA(), *case) for case in WRONG + WRONG_COMPONENTS),
    ],
)
def test_a_wrong_answer_is_a_fault(estimator, wrong, words):
    X = table()
    fit = changed(**wrong)
    assert verdict(estimator, lambda one: answer(one, X), X) == SAME
    assert words in verdict(estimator, lambda one: fit(one, X), X)


class Largest(BaseEstimator):
    """Keep the feature with the largest sum of squares, by however little."""

    def fit(self, X, y=None):
        self.feature_scores_ = (X**2).sum(axis=0)
        order = np.argsort(-self.feature_scores_, kind="stable")
        self.ranking_ = np.argsort(order) + 1
        self.objective_ = float(self.feature_scores_.sum())
        self.converged_ = True
        return self

    def get_support(self):
        return self.ranking_ == 1


def test_the_other_of_two_equal_columns_is_a_tie_and_another_column_is_none():
    X = table()
    X = np.column_stack([9 * X[:, 2], 9 * X[::-1, 2], X])
    assert answer(Largest(), X).support[:2].sum() == 1
    tied = changed(ranking=swapped, support=swapped)
    assert verdict(Largest(), lambda one: tied(one, X), X) == TIED
    other = changed(**dict.fromkeys(("ranking", "support"), lambda one: one[::-1]))
    assert "kept" in verdict(Largest(), lambda one: other(one, X), X)


class Chaotic(Largest):
    """Scores that are nothing but rounding, of a solver that did not converge."""

    converged = False

    def fit(self, X, y=None):
        digits = np.random.default_rng(zlib.crc32(np.asarray(X).tobytes()))
        super().fit(digits.uniform(0.1, 1.0, X.shape))
        self.converged_ = self.converged
        return self


class ChaoticButSure(Chaotic):
    """The same, that says to have converged."""

    converged = True


def test_there_is_nothing_to_agree_on_where_a_solver_diverges():
    X = table(n=3)
    other = rounded_otherwise(X, np.random.default_rng(5))
    assert verdict(Chaotic(), lambda one: answer(one, other), X) == TIED
    wrong = changed(scores=lambda scores: 50 * scores, objective=lambda value: 50 * value)
    assert "scores differ" in verdict(ChaoticButSure(), lambda one: wrong(one, other), X)


class ByOrder(Largest):
    """A solver that rounding leads to one of two points, and the order of memory to a third."""

    sure = False

    def fit(self, X, y=None):
        super().fit(X)
        drawn = zlib.crc32(np.ascontiguousarray(X).tobytes()) % 2 and not self.sure
        size = 4.0 if np.isfortran(X) else 1.8 if drawn else 1.0
        self.feature_scores_, self.objective_ = size * np.arange(6.0, 0, -1), size
        return self


class ByOrderAlone(ByOrder):
    """One that only the order of memory leads elsewhere: a fault of what reads such arrays."""

    sure = True


def test_another_order_of_memory_is_a_tie_only_where_rounding_decides_already():
    X = table()
    turned = np.asfortranarray(X)
    assert verdict(ByOrder(), lambda one: answer(one, turned), X) == TIED
    assert "scores differ" in verdict(ByOrderAlone(), lambda one: answer(one, turned), X)


class CutOff(Largest):
    """A solver that is cut off on its way: scores of the first two features depend on when."""

    def __init__(self, max_iter=100):
        self.max_iter = max_iter

    def fit(self, X, y=None):
        super().fit(X)
        self.feature_scores_[:2] = [1.0, 1.1 - 0.001 * self.max_iter]
        self.feature_scores_[2:] = [0.5, 0.2, 0.1, 0.05]
        self.ranking_ = np.arange(1, 7)  # the same, wherever it is cut off
        self.converged_ = False
        return self


def test_features_change_places_only_where_their_scores_move_as_far():
    X = table()
    near = changed(ranking=swapped)
    assert verdict(CutOff(), lambda one: near(one, X), X) == TIED
    far = changed(ranking=lambda ranking: ranking[[0, 1, 2, 5, 4, 3]])
    assert verdict(CutOff(), lambda one: far(one, X), X) == TIED  # 0.2 and 0.05: near enough
    too_far = changed(ranking=lambda ranking: ranking[[5, 1, 2, 3, 4, 0]])
    assert "ranking" in verdict(CutOff(), lambda one: too_far(one, X), X)


class Shaky(Largest):
    """A method of whose scores rounding changes the fifth digit."""

    def __init__(self, least=1e-7):
        self.least = least

    def fit(self, X, y=None):
        super().fit(X)
        last_digits = int(np.ascontiguousarray(X).view(np.int64).sum() % 1000)
        self.feature_scores_ = np.array([1.0 + 1e-8 * last_digits, 0.5, 0.4, 0.3, 0.2, self.least])
        self.ranking_ = np.arange(1, 7)
        self.kept_ = np.ones(6, dtype=bool)
        return self

    def get_support(self):
        return self.kept_


def test_a_feature_stays_away_only_where_its_score_is_no_larger_than_scores_move():
    X = table()
    without = changed(support=lambda kept: kept & (np.arange(6) < 5))
    assert verdict(Shaky(), lambda one: without(one, X), X) == TIED
    assert "kept" in verdict(Shaky(least=1e-3), lambda one: without(one, X), X)


class LastByRounding(Largest):
    """Keep two features and one of four others, all of which would do: 3 or 4, by rounding."""

    def fit(self, X, y=None):
        super().fit(X)
        last = 3 + zlib.crc32(np.ascontiguousarray(X).tobytes()) % 2
        order = [0, 1, last, *(feature for feature in (5, 4, 3, 2) if feature != last)]
        self.feature_scores_ = np.array([0.9, 0.8, 0.4, 0.5, 0.6, 0.7])
        self.ranking_ = np.argsort(order) + 1
        return self

    def get_support(self):
        return self.ranking_ <= 3


def with_last(last, rest):
    """Return a fit that keeps the first two and this one, and ranks the rest as given."""
    ranking = np.argsort([0, 1, last, *rest]) + 1
    return changed(ranking=lambda _: ranking, support=lambda _: ranking <= 3)


def test_of_sets_that_explain_the_same_those_that_not_all_keep_have_no_rank():
    rng = np.random.default_rng(2)
    X = table(n=30)
    X[:, 2:] = X[:, :2] @ rng.standard_normal((2, 4)) + rng.standard_normal((30, 1))
    kept = {tuple(answer(LastByRounding(), rounded_otherwise(X, rng)).support) for _ in range(9)}
    assert len(kept) == 2
    fit = with_last(2, [5, 4, 3])
    assert verdict(LastByRounding(), lambda one: fit(one, X), X) == TIED
    # The first two have their places, whichever is the third.
    ranking = np.argsort([1, 0, 2, 5, 4, 3]) + 1
    wrong = changed(ranking=lambda _: ranking, support=lambda _: ranking <= 3)
    assert "kept" in verdict(LastByRounding(), lambda one: wrong(one, X), X)
    # A set that explains less is no tie.
    X[:, 5] = 2 * X[:, 2]
    ranking = np.argsort([0, 2, 5, 1, 4, 3]) + 1
    less = changed(ranking=lambda _: ranking, support=lambda _: ranking <= 3)
    assert "kept" in verdict(LastByRounding(), lambda one: less(one, X), X)


class Unfinished(Largest):
    """A solver that says that it is within 20 % of an optimum, and no nearer."""

    duality_gap_ = 0.2

    def fit(self, X, y=None):
        super().fit(X)
        self.converged_ = False
        return self


@pytest.mark.parametrize(
    ("wrong", "outcome"),
    [
        ({"scores": lambda scores: scores * 1.1, "objective": lambda value: value * 1.1}, OPEN),
        ({"objective": lambda value: value * 1.6}, "objectives differ"),
        ({"objective": lambda value: value * np.nan}, "objectives differ"),
        ({"scores": swapped, "converged": lambda _: True}, "scores differ"),
        ({"gap": lambda _: None, "scores": swapped}, "scores differ"),
        ({"support": lambda kept: np.roll(kept, 1)}, "kept"),
    ],
)
def test_two_fits_that_are_not_there_are_compared_by_what_they_prove(wrong, outcome):
    X = table()
    X[:, 5] = 9 * X[::-1, 0]  # kept, and most of what there is
    fit = changed(**wrong)
    assert outcome in verdict(Unfinished(), lambda one: fit(one, X), X)


class Firm(Largest):
    """Scores that no rounding changes."""

    def fit(self, X, y=None):
        super().fit(X)
        self.feature_scores_ = np.array([1.0, 0.5, 0.4, 0.3, 0.2, 1e-6])
        self.ranking_ = np.arange(1, 7)
        return self

    def get_support(self):
        return np.ones(6, dtype=bool)


@pytest.mark.parametrize(
    ("wrong", "outcome"),
    [
        ({}, OPEN),
        ({"support": lambda kept: kept & (np.arange(6) < 5)}, OPEN),  # its score is next to none
        ({"support": lambda kept: kept & (np.arange(6) < 4)}, "kept"),
        ({"converged": lambda _: True}, "scores differ"),
        ({"objective": lambda value: value * (1 + 1e-6)}, "objectives differ"),
        ({"scores": lambda scores: scores * (1 + 1e-3)}, "scores differ"),
    ],
)
def test_a_fit_that_says_it_is_not_there_may_be_near(wrong, outcome):
    X = table()
    near = {"scores": lambda scores: scores * (1 + 1e-5), "converged": lambda _: False}
    fit = changed(**{**near, **wrong})
    assert outcome in verdict(Firm(), lambda one: fit(one, X), X)


def test_what_every_twin_decides_alike_is_no_tie():
    X = table()
    X = np.column_stack([X[:, 2], X[:, 2], X[:, [0, 1, 3]]])
    selector = GreedySelector(n_features_to_select=2)  # of equal columns, it keeps the first
    assert answer(selector, X).support[:2].tolist() == [True, False]
    other = changed(scores=swapped, ranking=swapped, support=swapped)
    assert "kept" in verdict(selector, lambda one: other(one, X), X)


def test_two_solvers_stop_within_their_gaps_and_meet():
    X = table(p=9)
    # The same model by another algorithm, which stops elsewhere.
    estimator = SPCAPSD(alpha=0.3, eta=0.2, n_features_to_select=3)

    def split(one):
        return answer(one.set_params(solver="splitting"), X)

    def elsewhere(one):
        return answer(one.set_params(alpha=0.31), X)

    assert verdict(estimator, lambda one: split(one.__class__(**one.get_params())), X) in (
        SAME,
        SAME_LIMIT,
    )
    found = verdict(estimator, lambda one: elsewhere(one.__class__(**one.get_params())), X)
    assert "their proved gaps add up to" in found


class Proved(Largest):
    """A solver with a proof, and without a limit on its iterations."""

    def __init__(self, tol=1e-3):
        self.tol = tol

    def fit(self, X, y=None):
        self.duality_gap_ = self.tol
        return super().fit(X)


def test_a_solver_with_a_proof_and_no_limit_on_its_iterations_goes_on_too():
    X = table()

    def apart(by):
        return changed(scores=lambda scores: scores * np.linspace(1, 1 + by, scores.size))

    near = 0.5 * GROWTH * TIGHT**0.5
    assert verdict(Proved(), lambda one: apart(near)(one, X), X) == SAME_LIMIT
    assert "scores differ" in verdict(Proved(), lambda one: apart(10 * near)(one, X), X)
    assert "scores differ" in verdict(Largest(), lambda one: apart(near)(one, X), X)


def test_solvers_without_a_proof_meet_when_they_go_on():
    X = table(n=30, p=9, seed=4)
    estimator = SPCA(n_components=2, alpha=0.1)

    def late(one, tol):
        return answer(one.__class__(**one.get_params()).set_params(tol=max(one.tol, tol)), X)

    # It stops earlier, by itself: as it goes on it comes to the same point.
    assert verdict(estimator, lambda one: late(one, 0.1 if one.tol > 1e-6 else 0), X) == SAME_LIMIT
    # It never gets there, or to another point.
    assert "scores differ" in verdict(estimator, lambda one: late(one, 0.1), X)
    stopped = SPCA(n_components=2, alpha=0.1, max_iter=1)
    assert "scores differ" in verdict(estimator, lambda one: answer(stopped, X), X)


def test_copies_of_a_column_change_places_where_a_solver_stops_at_a_tolerance():
    X = table(n=30)
    X = np.column_stack([X[:, 2], X[:, 2], X[:, :2], X[:, 3:]])
    estimator = SPCAPSD(alpha=0.1, n_features_to_select=4)
    tied = changed(ranking=swapped, support=swapped)
    assert verdict(estimator, lambda one: tied(one, X), X) == TIED
    divided = changed(scores=lambda scores: scores + 0.1 * scores[0] * np.r_[1, -1, X[0, 2:] * 0])
    shared = verdict(estimator, lambda one: divided(one, X), X)
    assert shared in (SAME_LIMIT, TIED)  # the penalty is that of the sum of the two
    more = changed(scores=lambda scores: scores + 0.1 * scores[0] * np.r_[1, 0, X[0, 2:] * 0])
    assert "scores differ" in verdict(estimator, lambda one: more(one, X), X)
    other = [2, 1, 0, *range(3, X.shape[1])]
    wrong = changed(ranking=lambda ranking: ranking[other], support=lambda kept: kept[other])
    assert verdict(estimator, lambda one: wrong(one, X), X) not in (SAME, SAME_LIMIT, TIED)


class Creeping(Largest):
    """A solver that is cut off while a small loading still moves with its iterations."""

    def __init__(self, max_iter=100, at=None):
        self.max_iter = max_iter
        self.at = at

    def fit(self, X, y=None):
        super().fit(X)
        small = 1e-5 * (self.max_iter if self.at is None else self.at)
        self.components_ = np.array([[1.0, small, 0.0, 0.0, 0.0, 0.0]])
        self.feature_scores_ = self.components_[0] ** 2
        self.ranking_ = np.arange(1, 7)
        self.objective_, self.converged_ = 1.0, False
        return self


def test_scores_may_move_by_the_square_of_what_loadings_move():
    X = table()
    # Among the twins the loading goes up to 4e-3: to 2e-2 is SAMPLED times as far, or less.
    assert verdict(Creeping(), lambda one: answer(Creeping(at=2000), X), X) == TIED
    assert "components" in verdict(Creeping(), lambda one: answer(Creeping(at=9000), X), X)
    # Scores that are not those of the loadings are wrong all the same.
    wrong = changed(scores=lambda scores: scores + 0.01 * np.arange(6.0))
    assert "scores differ" in verdict(Creeping(), lambda one: wrong(one, X), X)


def test_refusals_are_those_of_the_twin():
    X = table()
    selector = GreedySelector(n_features_to_select=2)

    def refusing(kind):
        return lambda _: Answer.refusal(kind, "a sentence")

    assert "refused (a sentence) where the twin was fitted" in verdict(
        selector, refusing("constant"), X
    )
    assert verdict(selector, refusing("memory"), X, may_not_fit=True) == REFUSED
    assert "refused" in verdict(selector, refusing("memory"), X)
    X[0, 0] = np.nan
    assert verdict(selector, refusing("not finite"), X) == REFUSED
    assert "fitted where the twin was refused" in verdict(
        selector, lambda one: answer(one, table()), X
    )


def test_an_error_that_is_not_documented_is_raised():
    with pytest.raises(ValueError, match=r"bytes/strings|not numeric|text"):
        answer(GreedySelector(), np.array([["a", "b"], ["c", "d"]]))


def test_rounding_changes_numbers_by_their_rounding_and_constant_columns_not_at_all():
    X = table()
    X[:, 3] = 7.0
    X[:, 4] += 1e8
    other = rounded_otherwise(X, np.random.default_rng(0))
    np.testing.assert_array_equal(other[:, 3], X[:, 3])
    units = np.finfo(float).eps / 2
    most = 2 * units * np.abs(X) + 40 * units * np.abs(X - X.mean(axis=0))
    assert np.all(np.abs(other - X) <= most + units * np.abs(X))
    assert np.mean(other[:, :3] != X[:, :3]) > 0.9


def test_what_a_set_explains():
    X = table()
    assert explained(X, np.ones(6, bool)) == pytest.approx(1)
    assert explained(X, np.zeros(6, bool)) == 0
    model = GreedySelector(n_features_to_select=2).fit(X)
    assert explained(X, model.support_) == pytest.approx(model.selection_curve_[-1])


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "uint8", "bool"])
@pytest.mark.parametrize("name", [name for name in CONTAINERS if "repeated" in name])
def test_repeated_entries_add_up_to_the_table(name, dtype, tmp_path):
    X = np.round(table() * 3)
    X = np.abs(X).astype(dtype) if dtype == "uint8" else X.astype(dtype)
    held = CONTAINERS[name].make(X, tmp_path)
    assert held.nnz > np.count_nonzero(X)
    before = held.copy()
    np.testing.assert_array_equal(held.astype(np.float64).toarray(), X)
    assert same_content(before, held)
    held.sum_duplicates()
    assert held.format == "coo" or not same_content(before, held)


@pytest.mark.parametrize("dtype", ["float64", "float32", "object", "int16"])
def test_a_table_with_missing_values_is_what_it_was(dtype):
    before = np.round(table() * 3)
    if dtype != "int16":
        before[2, 1] = np.nan
    before = before.astype(dtype)
    after = copy.deepcopy(before)  # of Python objects too: a copied NaN is another object
    assert same_content(before, after)
    after[4, 3] += 1
    assert not same_content(before, after)
    if dtype != "int16":
        after = copy.deepcopy(before)
        after[2, 1] = 0.0
        assert not same_content(before, after)
    assert not same_content(before, before[:, :2])


def test_what_all_readings_in_blocks_have_in_common_can_be_wrong(monkeypatch):
    X = table(n=300)
    in_blocks = partial(as_stream, memory=9000)
    held = in_blocks(X)
    estimator = SPCAPSD(n_features_to_select=2)

    def outcome():
        return verdict(estimator, lambda one: answer(one, held), X, view=in_blocks)

    assert outcome() in (SAME, SAME_LIMIT)
    added = Sums.add
    # Rows are lost from every block, that of the twin that is read in blocks included.
    monkeypatch.setattr(Sums, "add", lambda self, block, start=0: added(self, block[1:], start))
    assert "beside the array in memory: " in outcome()


def test_a_mean_that_is_off_everywhere_is_a_fault(monkeypatch, tmp_path):
    X = table() + 1
    container = CONTAINERS["Fortran order"]

    def outcome():
        return estimators._outcome(SPCA(), container.make(X, tmp_path), container, X, None)

    assert outcome() in (SAME, SAME_LIMIT)
    right = moments.mean_of

    def off(source):
        count, mean = right(source)
        return count, mean * (1 + 1e-6)

    monkeypatch.setattr(moments, "mean_of", off)
    assert "the mean is not that of the table" in outcome()


def test_a_wrong_sign_in_the_products_of_sparse_samples_is_a_fault(monkeypatch, tmp_path):
    # Of methods that know XU only by XᵀXU it changes nothing: Xᵀ1 = 0.
    X = np.abs(table(n=12, p=30))
    X[np.random.default_rng(0).random(X.shape) < 0.4] = 0.0  # columns with zeros stay as they are
    held = CONTAINERS["csr array"].make(X, tmp_path)
    assert verdict(JSPCA(), lambda one: answer(one, held), X) in (SAME, SAME_LIMIT)

    def times(self, columns):
        return np.asarray(self.by_row @ columns + self.mean @ columns)

    monkeypatch.setattr(SparseSamples, "times", times)
    assert "differ" in verdict(JSPCA(), lambda one: answer(one, held), X)


def forget_the_weights(monkeypatch):
    checked = weighting.checked_weights
    monkeypatch.setattr(weighting, "checked_weights", lambda w, n: np.ones_like(checked(w, n)))


def sum_in_single_precision(monkeypatch):
    added = Sums.add
    rounded = lambda self, block, start=0: added(self, np.float32(block), start)  # noqa: E731
    monkeypatch.setattr(Sums, "add", rounded)


def divide_by_one_more(monkeypatch):
    complete = Sums.complete
    monkeypatch.setattr(Sums, "complete", lambda self: complete(self) * (1 - 1 / self.n))


def put_the_centre_elsewhere(monkeypatch):
    means = blocks._means
    monkeypatch.setattr(blocks, "_means", lambda block: means(block) * (1 + 1e-7))


def multiply_by_too_much(monkeypatch):
    times = blocks._times
    monkeypatch.setattr(blocks, "_times", lambda block, U: times(block, U) * (1 + 1e-7))


def forget_the_centre(monkeypatch):
    made = SparseSamples.__init__
    monkeypatch.setattr(SparseSamples, "__init__", lambda self, X, mean: made(self, X, 0 * mean))


# Faults of what a container has in common with its twin, and where each is to be found.
COMMON = {
    "weights": (forget_the_weights, "as it is"),
    "precision": (sum_in_single_precision, "Fortran order"),
    "unit": (divide_by_one_more, "npy in blocks"),
    "centre": (put_the_centre_elsewhere, "npy in blocks"),
    "product": (multiply_by_too_much, "as it is"),
    "sparse": (forget_the_centre, "csr array"),
}


@pytest.mark.parametrize("name", COMMON)
def test_what_is_wrong_in_the_twin_too_is_found_by_sums_in_long_double(name, monkeypatch, tmp_path):
    X = np.round(table(n=90) * 100) / 128 + 5  # whose means are larger than their spread
    X[np.random.default_rng(0).random(X.shape) < 0.4] = 0.0
    fault, container = COMMON[name]
    held = CONTAINERS[container].make(X, tmp_path)

    def found():
        return [f for seed in range(8) for f in wrong_sums(held, X, np.random.default_rng(seed))]

    assert found() == []
    fault(monkeypatch)
    assert found()


@pytest.mark.parametrize("name", [name for name in CONTAINERS if CONTAINERS[name].in_python])
def test_sums_over_every_container_are_those_of_its_numbers(name, tmp_path):
    container = CONTAINERS[name]
    if not container.installed:
        pytest.skip("its package is not installed")
    X = table(n=90) + 5
    X[np.random.default_rng(0).random(X.shape) < 0.4] = 0.0
    held = container.make(X, tmp_path)
    for seed in range(8):  # of which some draw weights, and some batches
        assert list(wrong_sums(held, container.values(X), np.random.default_rng(seed))) == []
    close(held)
