"""The stopping rule that the kernels share, and the sums that they take over samples."""

import logging

import numpy as np
import pytest

from jointsparse import Moments
from jointsparse.losses import SquaredLoss
from jointsparse.penalties import L21
from jointsparse.penalties import Trace as TracePenalty
from jointsparse.solvers import Exact, Factored, Published, Splitting
from jointsparse.solvers.choice import _rounding
from jointsparse.solvers.regression.subspace_norms import dual_norm_of, lengths_of, norm_of
from jointsparse.solvers.samples import weighted_pass
from jointsparse.solvers.samples.geometric_median import geometric_median
from jointsparse.solvers.samples.weighted_pass import LinearFit, RowPasses, block_sums, summed
from jointsparse.solvers.solution import Rounding, Solution, Trace, closed_form, continued

RNG = np.random.default_rng(0)


def test_a_run_stops_at_its_tolerance_and_says_so():
    trace = Trace(1e-3, 10, "relative gap")
    assert not trace.record(1, 5.0, gap=0.5, measure=0.5)
    assert not trace.record(2, 4.0, gap=0.0011, measure=0.0011)
    assert trace.record(3, 3.5, gap=1e-3, measure=1e-3)  # reached, not only passed
    found = trace.solution(np.ones((2, 1)), 3.5, None, {})
    assert (found.converged, found.n_iter, found.gap) == (True, 3, None)
    assert found.history == [5.0, 4.0, 3.5]
    assert found.gap_history == [0.5, 0.0011, 1e-3]
    assert found.reason == "relative gap 1.0e-03 reached the tolerance 1.0e-03"


def test_iterations_without_an_evaluation_keep_the_last_one():
    trace = Trace(1e-3, 10, "change", known=9.0)
    trace.record(3, 5.0, gap=0.25, measure=1.0)
    trace.record(5, 4.0, gap=0.125, measure=1.0)
    assert trace.history == [9.0, 9.0, 5.0, 5.0, 4.0]
    assert trace.gap_history == [1.0, 1.0, 0.25, 0.25, 0.125]
    late = trace.solution(np.ones((2, 1)), 4.0, 0.0005, {"step": 2.0}, state="kept")
    assert late.converged  # by the gap known at the end
    assert (late.n_iter, late.state, late.diagnostics) == (5, "kept", {"step": 2.0})


def test_a_run_cut_short_says_what_was_missing():
    trace = Trace(1e-3, 2, "change")
    assert not trace.record(1, 5.0, measure=2.0)
    assert not trace.record(2, 5.0, measure=0.25)
    found = trace.solution(np.ones((2, 1)), 5.0, None, {})
    assert not found.converged
    assert found.gap_history == []
    assert found.reason == (
        "stopped at the iteration limit (2) with change 2.5e-01 above the tolerance 1.0e-03"
    )


def test_without_a_tolerance_all_iterations_are_made(caplog):
    trace = Trace(0.0, 2, "change")
    with caplog.at_level(logging.INFO, logger="jointsparse.solvers"):
        assert not trace.record(1, 5.0, measure=0.0)
        assert trace.record(2, 4.0, gap=0.5, measure=0.0)
    assert trace.reason == "made the 2 iterations asked for"
    assert caplog.messages[1] == "iteration 2: objective 4, change 0.00e+00"
    last = caplog.records[1]
    assert (last.iteration, last.max_iter, last.objective) == (2, 2, 4.0)
    assert (last.gap, last.tol) == (0.5, 0.0)


def test_a_closed_form_is_one_iteration():
    found = closed_form(np.ones((2, 1)), 3.0, "scores")
    assert (found.objective, found.history, found.n_iter) == (3.0, [3.0], 1)
    assert found.converged
    assert (found.gap, found.gap_history) == (None, [])
    assert (found.reason, found.state) == ("closed form", "scores")


@pytest.mark.parametrize("blocks", [1, 3])
def test_weighted_sums_are_those_of_the_rows(blocks, monkeypatch):
    X = RNG.standard_normal((10, 4)) + 1
    Q, P = RNG.standard_normal((2, 4, 2))
    B, R = np.linalg.qr(RNG.standard_normal((4, 3)))[0], RNG.standard_normal((3, 3))
    mean = X.mean(axis=0) + 0.1
    if blocks > 1:
        monkeypatch.setattr(weighted_pass, "BLOCK_ENTRIES", 4 * 4 * 4)
    for fit, residuals, second in (
        (LinearFit(smoothing=0.2), X, None),
        (LinearFit(mean=mean), X - mean, None),
        (LinearFit(Q, P, mean, 0.3, (B, R)), (X - mean) @ (np.eye(4) - Q @ P.T), B @ R @ B.T),
    ):
        sums = RowPasses(X).weighted_pass(fit)
        norms = np.sqrt(np.sum(residuals**2, axis=1) + fit.smoothing**2)
        np.testing.assert_allclose(sums.norms, norms)
        assert sums.weight == pytest.approx(np.sum(1 / norms))
        np.testing.assert_allclose(sums.first, np.sum(X / norms[:, None], axis=0))
        np.testing.assert_allclose(sums.scatter, X.T @ np.diag(1 / norms) @ X)
        if second is None:
            assert sums.second_norms is None
        else:
            expected = np.linalg.norm((X - mean) @ (np.eye(4) - second), axis=1)
            np.testing.assert_allclose(sums.second_norms, expected)
        without = RowPasses(X).weighted_pass(fit, scatter=False)
        np.testing.assert_allclose(without.first, sums.first)


def test_sums_of_blocks_leave_the_blocks_rows_alone():
    X = RNG.standard_normal((6, 3))
    before = X.copy()
    parts = [block_sums(X[:2], LinearFit()), block_sums(X[2:], LinearFit())]
    whole = block_sums(X, LinearFit())
    np.testing.assert_allclose(summed(parts).scatter, whole.scatter)
    np.testing.assert_array_equal(X, before)
    assert block_sums(X, LinearFit(), scatter=False).scatter is None


def test_the_geometric_median():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [50.0, 50.0], [-3.0, 2.0]])
    centre = geometric_median(points)
    gaps = points - centre
    pulls = gaps / np.linalg.norm(gaps, axis=1)[:, None]
    # Unit pulls cancel, except at one of the points, where the others pull less than its own.
    near = np.linalg.norm(gaps, axis=1) < 1e-6
    assert np.linalg.norm(pulls[~near].sum(axis=0)) <= near.sum() + 1e-6
    spread = RNG.standard_normal((9, 3))
    inside = spread - geometric_median(spread)
    assert np.linalg.norm((inside / np.linalg.norm(inside, axis=1)[:, None]).sum(axis=0)) < 1e-6
    np.testing.assert_allclose(
        geometric_median(spread, spread[0]), geometric_median(spread), atol=1e-8
    )
    np.testing.assert_array_equal(geometric_median(np.ones((4, 2))), [1, 1])
    # one step of Weiszfeld's iteration from the origin
    step = geometric_median(np.array([[2.0], [4.0], [8.0]]), np.zeros(1), max_iter=1)
    np.testing.assert_allclose(step, 3 / (1 / 2 + 1 / 4 + 1 / 8))


def test_norms_and_their_duals():
    A = np.array([[3.0, -4.0], [0.0, 0.0], [1.0, 0.0]])
    assert norm_of(A, "l21") == 6
    assert norm_of(A, "l11") == 8
    assert norm_of(A, "fro") == pytest.approx(np.sqrt(26))
    assert dual_norm_of(A, "l21") == 5
    assert dual_norm_of(A, "l11") == 4
    assert dual_norm_of(A, "fro") == pytest.approx(np.sqrt(26))
    assert lengths_of(A, "l21").tolist() == [[5], [0], [1]]
    assert lengths_of(A, "l11").tolist() == np.abs(A).tolist()
    np.testing.assert_allclose(lengths_of(A, "fro"), np.full((3, 1), np.sqrt(26)))


def test_solutions_in_other_units():
    trace = Trace(1e-3, 5, "change")
    trace.record(1, 4.0, measure=1.0)
    trace.record(2, 3.0, measure=1e-4)
    solution = trace.solution(np.zeros((2, 1)), 3.0, None, {}).in_unit(2.0)
    assert solution.objective == 6.0
    assert solution.history == [8.0, 6.0]
    assert solution.n_iter == 2
    assert solution.converged
    plain = closed_form(np.zeros((2, 0)), 1.5, "state")
    assert (plain.objective, plain.history, plain.n_iter) == (1.5, [1.5], 1)
    assert plain.converged
    assert plain.state == "state"


def proved(objective, gap, reason="stopped"):
    loadings = np.full((2, 1), objective)
    histories = ([12.0, objective], [0.9, gap])
    return Solution(loadings, objective, gap, *histories, 2, False, reason)


def test_two_kernels_one_after_the_other_prove_more_than_each():
    """The first has the better bound, 9.9, the second the better objective, 10."""
    found = continued(proved(11.0, 0.1), proved(10.0, 0.5, "gave up"), 0.02)
    assert found.objective == 10.0
    assert found.gap == pytest.approx(0.01)
    assert found.converged
    assert found.reason == "duality gap 1.0e-02 reached the tolerance 2.0e-02"
    assert found.n_iter == len(found.history) == len(found.gap_history) == 4
    np.testing.assert_allclose(found.history, [12, 11, 11, 10])
    np.testing.assert_allclose(found.gap_history, [0.9, 0.1, 0.1, 0.01])
    other = continued(proved(10.0, 0.5), proved(11.0, 0.1, "gave up"), 1e-3)
    assert other.objective == 10.0
    assert other.gap == pytest.approx(0.01)
    assert not other.converged
    assert other.reason == "gave up"


def test_solvers_by_their_names_have_the_tolerances_of_the_methods():
    for kind in (Splitting, Factored, Exact, Published):
        solver = kind()
        assert (solver.tol, solver.max_iter) == (1e-4, 1000)
    assert Published().constants == "authors"


@pytest.mark.parametrize(("strengths", "each"), [((0.25, 0.25), 2.0), ((0.0, 0.0), 1e3)])
def test_rounding_is_seen_in_the_unit_of_the_penalties(strengths, each):
    X = np.random.default_rng(0).standard_normal((20, 4))
    loss = SquaredLoss().on(Moments.from_data(X))
    found = _rounding(loss, (L21(strengths[0]), TracePenalty(strengths[1])))
    assert found == Rounding(80, loss.empty, each * (loss.empty if sum(strengths) else 1.0))
