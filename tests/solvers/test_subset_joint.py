"""The joint bound: every iterate, and proofs from multipliers that nobody would choose."""

from dataclasses import replace
from itertools import combinations, pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_wine
from subset_cases import KINDS, problem_and_value, random_rules

from jointsparse.solvers.subset import joint_bound, joint_relaxation
from jointsparse.solvers.subset.constraints import Constraints, Rules
from jointsparse.solvers.subset.exchange import good_set
from jointsparse.solvers.subset.joint_bound import JointBound, alike
from jointsparse.solvers.subset.joint_certificate import Multipliers, certify, frame_of
from jointsparse.solvers.subset.joint_relaxation import Relaxation
from jointsparse.solvers.subset.problem import problem_of_scatter, set_value
from jointsparse.solvers.subset.search import SubsetSearch

seeds = st.integers(0, 2**32 - 1)


def case(seed, kind, constrained, largest=9):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, largest))
    size = int(rng.integers(1, p + 1))
    problem, referee = problem_and_value(rng, kind, p)
    rules = random_rules(rng, p, size) if constrained else Rules.none(p)
    return rng, problem, referee, size, rules


@given(seed=seeds, kind=st.sampled_from(KINDS), constrained=st.booleans(), single=st.booleans())
@settings(max_examples=120, deadline=None)
def test_every_iterate_is_a_proof(seed, kind, constrained, single):
    _, problem, referee, size, rules = case(seed, kind, constrained)
    frame = frame_of(problem, size, rules)
    if frame is None:
        return
    best, _ = referee.best(size, rules)
    with patch.object(joint_relaxation, "SINGLE", 2 if single else 100):
        relaxation = Relaxation(frame)
    for step in range(45):
        relaxation.step()
        assert certify(frame, relaxation.multipliers()).bound >= best
        if step % 15 == 14:
            relaxation.adapt()


@given(seed=seeds, kind=st.sampled_from(KINDS), constrained=st.booleans(), negative=st.booleans())
@settings(max_examples=100, deadline=None)
def test_any_multipliers_prove_something_about_every_set(seed, kind, constrained, negative):
    rng, problem, referee, size, rules = case(seed, kind, constrained, 7)
    frame = frame_of(problem, size, rules)
    if frame is None:
        return
    count = frame.features.size

    def positive(rows):
        root = rng.standard_normal((rows, int(rng.integers(1, rows + 1))))
        matrix = 10.0 ** rng.uniform(-6, 1) * root @ root.T
        return matrix - negative * 0.1 * np.trace(matrix) / count * np.eye(rows)

    multipliers = Multipliers(
        positive(2 * count),
        positive(2 * count),
        rng.standard_normal((count, count)),
        rng.standard_normal((count, count)),
        positive(count),
    )
    certificate = certify(frame, multipliers)
    missing = frame.size
    sizes = [missing] if frame.exactly else range(missing + 1)
    place = {feature: k for k, feature in enumerate(frame.features)}
    for count in sizes:
        for rest in combinations(frame.features.tolist(), count):
            chosen = [*rules.include, *rest]
            value = referee.value(chosen)
            bound = certificate.constant + sum(certificate.scores[place[j]] for j in rest)
            assert value <= bound
            assert value <= certificate.bound + 1e-13
            for j in rest:
                assert value <= certificate.bounds_with[place[j]] + 1e-13
            for j in set(frame.features.tolist()) - set(rest):
                assert value <= certificate.bounds_without[place[j]] + 1e-13


def test_values_of_the_prototype_are_reached():
    # Root bounds of proofs.md after 200 steps of an independent implementation.
    for data, size, expected in (
        (load_wine().data, 5, 0.7191),
        (load_breast_cancer().data, 5, 0.8119),
        (load_breast_cancer().data, 10, 0.9376),
    ):
        problem = problem_of_scatter(np.corrcoef(data, rowvar=False))
        joint = JointBound.at_root(problem, size, Rules.none(problem.n_features))
        best = SubsetSearch(problem, size, joint=False).best.value
        while not joint.finished and joint.steps < 210:
            joint.improve(best, lambda: False)
        assert best <= joint.best <= expected


def test_a_round_of_steps_can_be_interrupted():
    problem = problem_of_scatter(np.corrcoef(load_wine().data, rowvar=False))
    one, other = (JointBound.at_root(problem, 4, Rules.none(13)) for _ in range(2))
    one.improve(0.0, lambda: False)
    while other.steps < 15:
        other.improve(0.0, lambda: True)
    assert one.best == other.best


def test_there_is_no_joint_bound_for_dependent_columns():
    X = np.random.default_rng(0).standard_normal((30, 5))
    X = np.column_stack([X, X[:, 0]])
    problem = problem_of_scatter(X.T @ X)
    assert frame_of(problem, 2, Rules.none(6)) is None
    rules = Constraints(exclude=[5]).resolve(6)
    assert frame_of(problem, 2, rules) is not None
    nearly = X.copy()
    nearly[:, 5] += 1e-8 * np.random.default_rng(1).standard_normal(30)
    assert frame_of(problem_of_scatter(nearly.T @ nearly), 2, Rules.none(6)) is None


def test_features_that_are_proved_in_or_out_are():
    problem = problem_of_scatter(np.corrcoef(load_wine().data, rowvar=False))
    search = SubsetSearch(problem, 6)
    search.run()
    joint = JointBound.at_root(problem, 6, Rules.none(13))
    while not joint.finished:
        joint.improve(search.best.value, lambda: False)
    bounds_with, bounds_without = joint.feature_bounds()
    inside = np.isin(np.arange(13), search.best.features)
    assert np.all(bounds_with[inside] >= search.best.value)
    assert np.all(bounds_without[~inside] >= search.best.value)
    for feature in range(13):
        rules = Constraints(exclude=[feature]).resolve(13)
        without = SubsetSearch(problem, 6, rules)
        without.run()
        assert bounds_without[feature] >= without.best.value


def test_many_features_and_few_chosen_ones_begin_with_a_larger_penalty():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 160))
    problem = problem_of_scatter(X.T @ X)
    frame = frame_of(problem, 3, Rules.none(160))
    relaxation = Relaxation(frame)
    mean = np.trace(frame.target) / 160
    assert relaxation.penalty == pytest.approx(2 * (160 / 75) ** 2 * mean)
    relaxation.step()
    chosen = SubsetSearch(problem, 3, joint=False).best.features
    assert certify(frame, relaxation.multipliers()).bound >= set_value(problem, chosen)
    assert JointBound.at_root(problem, 3, Rules.none(160)) is not None


def test_the_matrix_of_pairs_makes_the_bound_smaller():
    problem = problem_of_scatter(np.corrcoef(load_breast_cancer().data, rowvar=False))
    frame = frame_of(problem, 10, Rules.none(30))
    relaxation = Relaxation(frame)
    for _ in range(240):
        relaxation.step()
    bound = certify(frame, relaxation.multipliers()).bound
    # Without zzᵀ ⪰ 0 the relaxation ends at 0.93730, after 1500 steps.
    assert 0.92229 <= bound < 0.9372


def test_steps_in_single_precision_end_where_those_in_double_precision_do():
    problem = problem_of_scatter(np.corrcoef(load_breast_cancer().data, rowvar=False))
    frame = frame_of(problem, 5, Rules.none(30))
    found = []
    for single in (10, 100):
        with patch.object(joint_relaxation, "SINGLE", single):
            relaxation = Relaxation(frame)
        for _ in range(150):
            relaxation.step()
        found.append(certify(frame, relaxation.multipliers()).bound)
    assert found[0] == pytest.approx(found[1], abs=2e-5)


def improved(problem, size, rules, rounds, enough=0.0):
    """Return the joint bound after some rounds, in which parts are split as soon as possible."""
    with patch.object(joint_bound, "STALLS", 0), patch.object(joint_bound, "STEPS_BETWEEN", 5):
        joint = JointBound.at_root(problem, size, rules)
        bounds = []
        for _ in range(rounds if joint is not None else 0):
            if joint.finished:
                break
            joint.improve(enough, lambda: False)
            bounds.append(joint.best)
    return joint, bounds


@given(seed=seeds, kind=st.sampled_from(KINDS), constrained=st.booleans(), single=st.booleans())
@settings(max_examples=60, deadline=None)
def test_no_set_exceeds_the_largest_bound_of_all_parts(seed, kind, constrained, single):
    rng, problem, referee, size, rules = case(seed, kind, constrained)
    size = min(size, int(rng.integers(1, 4)))
    best, _ = referee.best(size, rules)
    room = patch.object(joint_bound, "MOST_BYTES", int(rng.choice([0, 20_000, 2**27])))
    with room, patch.object(joint_relaxation, "SINGLE", 2 if single else 100):
        joint, bounds = improved(problem, size, rules, 20)
    assert all(bound >= best for bound in bounds)
    assert all(one >= other for one, other in pairwise(bounds))
    if joint is None or not bounds:
        return
    inside, outside = joint.feature_bounds()
    # Of sets that could have more members, only those with more are spoken of.
    for count in range(size + 1) if rules.coupled else (size,):
        for chosen in combinations(np.flatnonzero(problem.live).tolist(), count):
            if rules.allows(chosen):
                value = referee.value(chosen)
                kept = np.isin(np.arange(problem.n_features), chosen)
                assert np.all(inside[kept] >= value)
                assert np.all(outside[~kept] >= value)


def test_parts_are_below_the_bound_of_all():
    problem = problem_of_scatter(np.corrcoef(load_breast_cancer().data, rowvar=False))
    rules = Rules.none(30)
    with patch.object(joint_bound, "MOST_PARTS", 1):
        whole = JointBound.at_root(problem, 5, rules)
        while not whole.finished:
            whole.improve(0.0, lambda: False)
    joint = JointBound.at_root(problem, 5, rules)
    while joint.steps < whole.steps + 600:
        joint.improve(0.7822, lambda: False)
    assert whole.n_parts == 1
    assert joint.n_parts > 1
    # 2.6 % above the best set, and then 1.9 %.
    assert 0.78216 <= joint.best < whole.best - 0.004


def test_relaxations_of_parts_keep_to_their_room():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 20)) + rng.standard_normal((60, 20))
    problem = problem_of_scatter(X.T @ X)
    for room in (2**27, 200_000):
        joint = JointBound.at_root(problem, 3, Rules.none(20))
        for _ in range(25):
            with patch.object(joint_bound, "MOST_BYTES", room):
                joint.improve(0.0, lambda: False)
            kept = [part for part in joint._parts if part.relaxation is not None]
            taken = sum(part.size_in_bytes for part in kept)
            assert taken <= room
            assert joint.best >= good_set(problem, 3).value
        assert joint.n_parts > 4
        if room == 2**27:
            assert taken > 200_000  # more than there is room for the second time
    assert 1 < len(kept) < joint.n_parts


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_groups_are_of_features_that_resemble_each_other(count):
    rng = np.random.default_rng(count)
    columns = np.repeat(rng.standard_normal((40, count)), 6, axis=1)
    columns += 0.1 * rng.standard_normal(columns.shape)
    columns *= rng.choice([-1.0, 1.0], columns.shape[1])  # signs do not matter
    order = rng.permutation(6 * count)
    similar = np.corrcoef(columns[:, order], rowvar=False) ** 2
    labels = alike(similar, np.ones(len(order)), count)
    found = {frozenset(order[labels == group] // 6) for group in range(count)}
    assert found == {frozenset([group]) for group in range(count)}


def test_every_group_has_a_feature():
    similar = np.full((5, 5), 0.5) + 0.5 * np.eye(5)
    for weights in (np.ones(5), np.array([1.0, 1e-9, 1e-9, 1e-9, 1e-9])):
        assert sorted(alike(similar, weights, 5)) == list(range(5))


def test_steps_are_the_same_on_every_array_library(tensors):
    problem = problem_of_scatter(np.corrcoef(load_breast_cancer().data, rowvar=False))
    frame = frame_of(problem, 5, Rules.none(30))
    few = frame_of(problem, 5, Rules.none(30), without=np.arange(30) < 4)
    bounds = []
    for home in (None, tensors.array(np.zeros(0))):
        relaxation = Relaxation(frame, home)
        for _ in range(20):
            relaxation.step()
        relaxation.adapt()
        rest = relaxation.restricted(few)
        rest.step()
        steps = ((frame, relaxation), (few, rest))
        bounds.append([certify(where, one.multipliers()).bound for where, one in steps])
    assert bounds[0] == pytest.approx(bounds[1], abs=1e-9)


def test_steps_are_made_where_that_is_faster(tensors):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 20))
    problem = problem_of_scatter(X.T @ X)
    there = replace(problem, home=tensors.array(np.zeros(0)))
    rules = Rules.none(20)
    assert JointBound.at_root(there, 3, rules).n_parts == 1
    with patch.object(Relaxation, "__init__", side_effect=InterruptedError) as made:
        for fewest, expected in ((20, there.home), (21, None)):
            limit = patch.object(joint_bound, "FEWEST_THERE", fewest)
            with limit, pytest.raises(InterruptedError):
                JointBound.at_root(there, 3, rules).improve(0.0, lambda: False)
            assert made.call_args.args[-1] is expected
    with patch.object(joint_bound, "MOST_FEATURES", 19):
        assert JointBound.at_root(problem, 3, rules) is None
        assert JointBound.at_root(there, 3, rules) is not None


def test_a_search_on_a_device_finds_the_same(tensors):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 14)) + rng.standard_normal((60, 14))
    problem = problem_of_scatter(X.T @ X)
    found = []
    with (
        patch.object(joint_bound, "FEWEST_THERE", 1),
        patch.object(joint_bound, "PARTS_AFTER", 0.0),
    ):
        for home in (None, tensors.array(np.zeros(0))):
            search = SubsetSearch(replace(problem, home=home), 5)
            search.run()
            found.append(search)
    assert found[0].proved
    assert found[0].best.features.tolist() == found[1].best.features.tolist()
    assert found[0].bound == pytest.approx(found[1].bound, abs=1e-9)
    assert found[0].nodes == found[1].nodes


def factors(seed=0, n=60, p=20):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) @ rng.standard_normal((4, p)) + rng.standard_normal((n, p))
    return problem_of_scatter(X.T @ X)


def test_a_relaxation_of_fewer_features_goes_on_where_that_of_all_has_come():
    problem, rules = factors(p=12), Rules.none(12)
    whole = frame_of(problem, 3, rules)
    without = np.arange(12) % 5 == 0
    some = frame_of(problem, 3, rules, without=without)
    relaxation = Relaxation(whole)
    for _ in range(100):
        relaxation.step()
    # Its multipliers prove about as much of fewer features as of all.
    proved = certify(whole, relaxation.multipliers()).bound
    assert certify(some, relaxation.restricted(some).multipliers()).bound <= proved + 0.003
    bounds = []
    for start in (relaxation.restricted(some), Relaxation(some)):
        for _ in range(15):
            start.step()
        bounds.append(certify(some, start.multipliers()).bound)
        for _ in range(300):
            start.step()
        bounds.append(certify(some, start.multipliers()).bound)
    assert bounds[0] < bounds[2] - 0.005  # a start that is worth having
    assert bounds[1] == pytest.approx(bounds[3], abs=2e-4)  # the same optimum


def test_the_joint_bound_is_due_by_work_and_by_what_it_can_do():
    joint = JointBound.at_root(factors(), 3, Rules.none(20))
    first = joint_bound.FIRST * joint._root.step_work
    assert not joint.due(0.0, 1.0)
    for best, patience in ((0.5, 0.1), (1.0, 0.4)):  # ahead of the search, or behind it
        joint.best = best
        assert joint.due(1.01 * patience * first, 0.8)
        assert not joint.due(0.99 * patience * first, 0.8)
    joint.work = 1e6  # what was done here counts, too
    assert not joint.due(1.01 * 0.4 * first, 0.8)
    assert joint.due(1.01 * 0.4 * (first + 1e6), 0.8)
    joint.finished = True
    assert not joint.due(1e30, 0.8)


def test_parts_are_due_after_the_search_had_its_time():
    joint, _ = improved(factors(), 3, Rules.none(20), 10)
    assert joint.n_parts > 1
    assert not joint.due(0.99 * joint_bound.PARTS_AFTER, 1.0)
    joint.work = 2 * joint_bound.PARTS_AFTER
    assert not joint.due(1.1 * joint_bound.PARTS_AFTER, 1.0)
    assert joint.due(2.1 * joint_bound.PARTS_AFTER, 1.0)


def test_a_relaxation_ends_where_nothing_comes_of_it_or_after_its_steps():
    joint = JointBound.at_root(factors(), 3, Rules.none(20))
    part = joint._root
    assert not part.at_its_end
    part.begin(None)
    assert part.improve(0.0, lambda: False) == joint_bound.STEPS_BETWEEN
    assert not part.at_its_end
    with patch.object(joint_bound, "MOST_STEPS", joint_bound.STEPS_BETWEEN):
        assert part.at_its_end
    while not part.at_its_end:
        part.improve(0.0, lambda: False)
    assert part.stalled >= joint_bound.STALLS
    assert part.relaxation.steps < joint_bound.MOST_STEPS
    assert part.improve(0.0, lambda: True) == 1  # asked to stop


def test_the_work_of_a_step_grows_with_the_cube_of_the_features():
    few, many = (
        JointBound.at_root(factors(p=p, n=3 * p), 3, Rules.none(p))._root for p in (20, 60)
    )
    assert 9 < many.step_work / few.step_work < 27
    assert many.size_in_bytes == 9 * few.size_in_bytes
