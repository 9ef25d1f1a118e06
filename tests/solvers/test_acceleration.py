import numpy as np

from jointsparse.solvers.acceleration import Anderson


def iterate(g, x, accelerator, n):
    for _ in range(n):
        (x,) = accelerator.step((x,), (g(x) - x,))
    return x


def test_affine_map_is_solved_in_as_many_steps_as_dimensions():
    rng = np.random.default_rng(0)
    A = 0.9 * np.linalg.qr(rng.standard_normal((4, 4)))[0]
    b = rng.standard_normal(4)
    solution = np.linalg.solve(np.eye(4) - A, b)
    x = iterate(lambda x: A @ x + b, np.zeros(4), Anderson(5), 12)
    np.testing.assert_allclose(x, solution, rtol=1e-4)
    plain = iterate(lambda x: A @ x + b, np.zeros(4), Anderson(0), 12)
    assert np.linalg.norm(plain - solution) > 0.1


def test_a_step_that_makes_things_worse_is_taken_back():
    accelerator = Anderson(3)
    (first,) = accelerator.step((np.array([1.0]),), (np.array([-0.1]),))
    (bold,) = accelerator.step((first,), (np.array([-0.05]),))
    plain = first - 0.05
    assert not np.allclose(bold, plain)
    (back,) = accelerator.step((bold,), (np.array([100.0]),))  # a far larger residual than before
    np.testing.assert_allclose(back, plain)


def test_shape_is_kept():
    x = np.zeros((2, 3, 3))
    assert iterate(lambda x: 0.5 * x + 1, x, Anderson(2), 5).shape == (2, 3, 3)
