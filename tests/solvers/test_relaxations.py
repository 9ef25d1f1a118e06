"""The relaxations behind proofs converge to their optimum, which another program finds, too."""

import cvxpy as cp
import numpy as np
import pytest

from jointsparse.solvers.sparse_component.bound_admm import Relaxation
from jointsparse.solvers.sparse_component.joint.bound import JointRelaxation
from jointsparse.solvers.subset.constraints import Constraints
from jointsparse.solvers.subset.joint_certificate import certify, frame_of
from jointsparse.solvers.subset.joint_relaxation import Relaxation as SetRelaxation
from jointsparse.solvers.subset.problem import problem_of_columns, set_value


def scatter(p, seed):
    X = np.random.default_rng(seed).standard_normal((8, p))
    S = X.T @ X
    return S / 2 ** np.ceil(np.log2(np.max(np.abs(S))))


def as_mask(included, p):
    mask = np.zeros(p, dtype=bool)
    mask[list(included)] = True
    return mask


def one_component(S, k, included, nonnegative):
    """Return the optimum of the relaxation for one component."""
    p = len(S)
    Y, A = cp.Variable((p, p), PSD=True), cp.Variable((p, p), nonneg=True)
    rules = [cp.trace(Y) == 1, cp.diag(A) == 0]
    for i in range(p):
        rules.append(cp.sum(A[i]) == (k - 1) * Y[i, i])
        for j in range(p):
            if i != j:
                rules.append(A[i, j] <= Y[i, i])
                if j in included:
                    rules.append(A[i, j] == Y[i, i])
            if i < j:
                rules.append(
                    cp.norm(cp.hstack([2 * Y[i, j], A[i, j] - A[j, i]])) <= A[i, j] + A[j, i]
                )
    if nonnegative:
        rules.append(Y >= 0)
    return cp.Problem(cp.Maximize(cp.trace(S @ Y)), rules).solve(solver="CLARABEL")


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize(("k", "included"), [(2, ()), (3, ()), (3, (1,))])
def test_the_bound_for_one_component_converges(k, included, nonnegative):
    S = scatter(5, seed=4)
    relaxation = Relaxation(S, k, as_mask(included, 5), nonnegative=nonnegative)
    relaxation.advance(500)
    best = one_component(S, k, included, nonnegative)
    assert relaxation.certificate().value == pytest.approx(best, rel=1e-5)
    assert relaxation.chances().sum() == pytest.approx(k, rel=1e-3)
    assert np.all(relaxation.chances()[list(included)] > 0.99)


@pytest.mark.parametrize(("k", "r", "included"), [(2, 1, ()), (3, 2, ()), (4, 2, (0,)), (4, 3, ())])
def test_the_bound_for_several_components_converges(k, r, included):
    S, p = scatter(6, seed=2), 6
    relaxation = JointRelaxation(S, k, r, as_mask(included, p))
    relaxation.advance(300)
    P, z = cp.Variable((p, p), PSD=True), cp.Variable(p)
    rules = [cp.diag(z) - P >> 0, cp.trace(P) == r, z >= 0, z <= 1, cp.sum(z) == k]
    rules += [z[j] == 1 for j in included]
    best = cp.Problem(cp.Maximize(cp.trace(S @ P)), rules).solve(solver="CLARABEL")
    assert relaxation.certificate().value == pytest.approx(best, rel=1e-5)
    assert relaxation.z.sum() == pytest.approx(k, rel=1e-3)


def joint_set(frame):
    """Return the optimum of the joint relaxation of projections and sets."""
    c = len(frame.target)
    P, z = cp.Variable((c, c), symmetric=True), cp.Variable(c)
    both = cp.Variable((c, c), symmetric=True)
    ones = np.ones((c, 1))
    neither = ones @ ones.T - z[:, None] @ ones.T - ones @ z[None, :] + both
    outside = neither - cp.diag(cp.diag(neither)) + cp.diag(1 - z)
    rules = [
        cp.bmat([[P, frame.columns @ cp.diag(z)],
                 [cp.diag(z) @ frame.columns.T, cp.multiply(frame.inner, both)]]) >> 0,
        cp.bmat([[np.eye(c) - P, frame.duals @ cp.diag(1 - z)],
                 [cp.diag(1 - z) @ frame.duals.T, cp.multiply(frame.dual_inner, outside)]]) >> 0,
        both >> 0, both >= 0, neither >= 0, both <= z[:, None] @ ones.T, cp.diag(both) == z,
        cp.trace(P) == frame.size, cp.sum(z) == frame.size,
    ]  # fmt: skip
    if frame.exactly and frame.size > 1:
        rules.append(cp.sum(both, axis=1) == frame.size * z)
    return cp.Problem(cp.Maximize(cp.trace(frame.target @ P)), rules).solve(solver="CLARABEL")


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize(("size", "include"), [(2, []), (3, []), (3, [1])])
def test_the_joint_bound_of_sets_converges(size, include):
    X = np.random.default_rng(7).standard_normal((12, 2)) @ np.ones((2, 5))
    X = X + np.random.default_rng(8).standard_normal((12, 5))
    problem = problem_of_columns(X - X.mean(axis=0))
    frame = frame_of(problem, size, Constraints(include=include).resolve(5))
    assert frame.size == size - len(include)
    assert frame.base == pytest.approx(set_value(problem, include), abs=1e-9)
    relaxation = SetRelaxation(frame)
    for step in range(1, 601):
        relaxation.step()
        if step % 20 == 0 and step < 300:
            relaxation.adapt()
    bound = certify(frame, relaxation.multipliers()).bound
    assert bound == pytest.approx(frame.base + joint_set(frame), rel=1e-4)
    assert relaxation.weights.sum() == pytest.approx(frame.size, rel=1e-3)
