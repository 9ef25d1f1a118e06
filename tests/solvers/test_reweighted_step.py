"""The reweighted step on matrices that rounding has spoiled."""

import numpy as np
import pytest

from jointsparse.solvers import reweighted_step


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
