"""The reweighted step on matrices that rounding has spoiled."""

import numpy as np
import pytest

from jointsparse.solvers.convex import reweighted_step


def test_a_matrix_that_rounding_makes_indefinite_has_a_root_all_the_same():
    # I + aaᵀ with |a|² of 1e20: the 1 of every other direction is far below rounding.
    rows = np.random.default_rng(0).standard_normal((6, 1)) * 1e10
    weighted = rows @ np.random.default_rng(1).standard_normal((1, 9))
    inner = np.eye(6) + weighted @ weighted.T
    inner -= 1e-14 * np.linalg.norm(inner) * np.eye(6)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(inner)
    root = reweighted_step._root_of_rest(inner, weighted)
    # Wᵀ(I + WWᵀ)⁻¹W is the projector on the row space, but for 1e-20.
    line = weighted[0] / np.linalg.norm(weighted[0])
    np.testing.assert_allclose(root.T @ root, np.outer(line, line), atol=1e-4)


def step(seed, n, p, *, shift=0.0, offset=False, nuclear=False):
    """Data, weights, and the minimiser by the formula with p × p matrices."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    d, diagonal = rng.uniform(0.5, 2, n), rng.uniform(1, 3, p)
    E = np.diag(diagonal)
    vectors = less = None
    if nuclear:
        vectors, less = np.linalg.qr(rng.standard_normal((p, 2)))[0], np.array([0.4, 0.2])
        E = E - (vectors * less) @ vectors.T
    v = rng.standard_normal(p) if offset else None
    S = X.T @ (d[:, None] * X)
    left = S - shift * np.eye(p)
    if offset:
        left = left - np.outer(v, X.T @ d)
    quadratic = reweighted_step.Quadratic(d, diagonal, shift, v, vectors, less)
    return X, quadratic, left @ np.linalg.inv(S + E)


def matrix(omega):
    basis = np.eye(len(omega.loadings)) if omega.basis is None else omega.basis
    return basis @ omega.loadings.T


def cone(A):
    values, vectors = np.linalg.eigh((A + A.T) / 2)
    return (vectors * np.maximum(values, 0)) @ vectors.T


@pytest.mark.parametrize("nuclear", [False, True])
@pytest.mark.parametrize("offset", [False, True])
def test_minimisers_are_those_of_the_formula(offset, nuclear):
    X, quadratic, expected = step(0, 12, 6, shift=0.3, offset=offset, nuclear=nuclear)
    form = reweighted_step.FeatureForm(X, fixed_weights=False)
    found = form.minimiser(quadratic)
    np.testing.assert_allclose(matrix(found), expected, atol=1e-10)
    rows = np.random.default_rng(1).standard_normal((3, 6))
    np.testing.assert_allclose(found.of_rows(rows), rows @ expected.T, atol=1e-10)
    np.testing.assert_allclose(found.column_norms, np.linalg.norm(expected, axis=0))
    assert found.nuclear_norm == pytest.approx(np.linalg.norm(expected, "nuc"))
    X, quadratic, expected = step(1, 5, 9, offset=offset, nuclear=nuclear)
    found = reweighted_step.SampleForm(X).minimiser(quadratic)
    np.testing.assert_allclose(matrix(found), expected, atol=1e-10)
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(5), atol=1e-12)
    rows = np.random.default_rng(1).standard_normal((3, 9))
    np.testing.assert_allclose(found.of_rows(rows), rows @ expected.T, atol=1e-10)
    np.testing.assert_allclose(found.column_norms, np.linalg.norm(expected, axis=0))
    assert found.nuclear_norm == pytest.approx(np.linalg.norm(expected, "nuc"))
    values, right = found.singular
    np.testing.assert_allclose((right * values**2) @ right.T, expected.T @ expected, atol=1e-10)


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_projections_onto_the_cone(shift):
    X, quadratic, expected = step(2, 12, 6, shift=shift)
    forms = [(reweighted_step.FeatureForm(X, fixed_weights=False), quadratic, expected)]
    X, quadratic, expected = step(3, 5, 9, shift=shift)
    forms.append((reweighted_step.SampleForm(X), quadratic, expected))
    for form, weights, minimiser in forms:
        for _ in range(2):  # the second starts from the eigenvectors of the first
            found = form.projected(weights)
            np.testing.assert_allclose(matrix(found), cone(minimiser), atol=1e-9)
            root = found.square_root
            np.testing.assert_allclose(root @ root.T, cone(minimiser), atol=1e-9)
            assert found.nuclear_norm == pytest.approx(np.trace(cone(minimiser)))
            values = found.eigenpairs[0]
            assert np.all(np.diff(values) <= 0)
    ones = reweighted_step.Quadratic(np.ones(5), quadratic.diagonal, shift)
    fixed = reweighted_step.FeatureForm(X, fixed_weights=True).projected(ones)
    free = reweighted_step.FeatureForm(X, fixed_weights=False).projected(ones)
    np.testing.assert_allclose(matrix(fixed), matrix(free), atol=1e-12)


def test_eigenvalues_are_counted_without_the_matrix():
    X, quadratic, minimiser = step(4, 6, 14, shift=0.2)
    operator = reweighted_step._LowRankMinusDiagonal(X, quadratic)
    M = (minimiser + minimiser.T) / 2
    block = np.random.default_rng(0).standard_normal((14, 3))
    np.testing.assert_allclose(operator.apply(block), M @ block, atol=1e-10)
    values = np.linalg.eigvalsh(M)
    for bound in (0.0, *((values[-4:-1] + values[-3:]) / 2), values[-1] + 0.1):
        assert operator.count_above(bound) == np.sum(values > bound)
    pairs = operator.positive_pairs(None)
    np.testing.assert_allclose(np.sort(pairs.values), values[values > 0], atol=1e-9)


def test_roots_of_the_rest():
    rng = np.random.default_rng(5)
    W = 0.5 * rng.standard_normal((4, 7))
    inner = np.eye(4) + W @ W.T
    expected = W.T @ np.linalg.inv(inner) @ W
    root = reweighted_step._root_of_rest(inner, W)
    np.testing.assert_allclose(root.T @ root, expected, atol=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reweighted_step, "unless_singular", lambda *args: None)
        root = reweighted_step._root_of_rest(inner, W)
    np.testing.assert_allclose(root.T @ root, expected, atol=1e-12)
