import numpy as np

from jointsparse.solvers.acceleration import Anderson


def iterate(g, x, accelerator, n):
    for _ in range(n):
        (x,) = accelerator.step((x,), (g(x),))
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
    x = np.array([1.0])
    for value in (0.9, 0.85, 0.8, 0.79):
        (x,) = accelerator.step((x,), (np.array([value]),))
    plain = np.array([0.79])
    (far,) = accelerator.step((x,), (x + 100.0,))  # residual 100 after a small one
    np.testing.assert_array_equal(far, plain)


def test_shape_is_kept():
    x = np.zeros((2, 3, 3))
    assert iterate(lambda x: 0.5 * x + 1, x, Anderson(2), 5).shape == (2, 3, 3)
