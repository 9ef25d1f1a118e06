import numpy as np
import pytest

from jointsparse.solvers.convex import acceleration
from jointsparse.solvers.convex.acceleration import Anderson, AndersonOfOne


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


def test_the_unit_of_the_data_does_not_matter():
    rng = np.random.default_rng(1)
    A = 0.95 * np.linalg.qr(rng.standard_normal((6, 6)))[0]
    b = rng.standard_normal(6)
    for unit in (1e-8, 1.0, 1e8):
        scaled = unit * b
        x = iterate(lambda x, b=scaled: A @ x + b, np.zeros(6), Anderson(3), 9)
        if unit == 1e-8:
            first = x / unit
        np.testing.assert_allclose(x / unit, first, rtol=1e-6)


def test_the_combination_has_the_smallest_residual():
    rng = np.random.default_rng(2)
    accelerator, memory = Anderson(2), 2
    xs, fs = [], []
    for _ in range(5):
        x, f = rng.standard_normal((2, 4))
        # Never larger than before, so that no step is taken back.
        f /= np.linalg.norm(f) * (1 + len(fs))
        xs.append(x)
        fs.append(f)
        (found,) = accelerator.step((x,), (f,))
        depth = min(memory, len(fs) - 1)
        dF = np.array([fs[-k] - fs[-k - 1] for k in range(1, depth + 1)])
        gs = [x + f for x, f in zip(xs, fs, strict=True)]
        dG = np.array([gs[-k] - gs[-k - 1] for k in range(1, depth + 1)])
        weights = np.linalg.lstsq(dF.T, f, rcond=None)[0] if depth else np.zeros(0)
        expected = gs[-1] - (weights @ dG if depth else 0)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_after_a_step_back_the_memory_is_empty():
    accelerator = Anderson(3)
    x = np.array([1.0, 0.0])
    for f in ([-0.1, 0.0], [-0.05, 0.01]):
        (x,) = accelerator.step((x,), (np.array(f),))
    accelerator.step((x,), (np.array([50.0, 0.0]),))
    (plain,) = accelerator.step((x,), (np.array([0.3, 0.2]),))
    np.testing.assert_allclose(plain, x + np.array([0.3, 0.2]))
    # twice the residual is still allowed: a combination, not the plain step of before
    (x,) = accelerator.step((x,), (np.array([0.1, 0.0]),))
    residual = 2 * 0.1
    (bold,) = accelerator.step((x,), (np.array([0.0, residual]),))
    assert not np.allclose(bold, x + np.array([0.0, residual]))
    assert np.all(np.isfinite(bold))


@pytest.mark.parametrize(("growth", "back"), [(1.9, False), (2.1, True)])
def test_how_much_worse_is_too_much(growth, back):
    accelerator = Anderson(3)
    x = np.array([1.0, 0.0])
    for f in ([-0.1, 0.0], [-0.05, 0.01]):
        before = x
        (x,) = accelerator.step((x,), (np.array(f),))
    plain = before + np.array([-0.05, 0.01])
    size = growth * np.linalg.norm([-0.05, 0.01])
    (found,) = accelerator.step((x,), (np.array([0.0, size]),))
    assert np.allclose(found, plain) == back


def test_one_array_is_accelerated_as_a_tuple_of_one():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((12, 12))
    M = 0.95 * M @ M.T / np.linalg.norm(M @ M.T, 2)
    offset = rng.standard_normal((12, 1))
    x = y = np.zeros((12, 1))
    general, one = Anderson(4), AndersonOfOne(4)
    for _ in range(12):
        x = general.step((x,), (M @ x + offset - x,))[0]
        y = one.step((y,), (M @ y + offset - y,))[0]
        np.testing.assert_allclose(y, x, rtol=1e-5, atol=1e-6 * np.abs(x).max())
    solution = np.linalg.solve(np.eye(12) - M, offset)
    plain = np.zeros((12, 1))
    for _ in range(12):
        plain = M @ plain + offset
    assert np.linalg.norm(y - solution) < 0.01 * np.linalg.norm(plain - solution)


@pytest.mark.parametrize("kind", [Anderson, AndersonOfOne])
def test_steps_that_are_all_alike_are_not_followed_out_of_all_proportion(kind):
    """Far from the optimum of |x| every step is the same but for rounding."""
    accelerator = kind(5)
    rng = np.random.default_rng(0)
    x = (np.array([1000.0]),)
    for _ in range(50):
        step = (-np.sign(x[0]) * (1 + 1e-14 * rng.standard_normal(1)),)
        x = accelerator.step(x, step)
        assert abs(x[0][0]) <= 2001
    assert abs(x[0][0]) < 1000


@pytest.mark.parametrize("small", [0, acceleration.SMALL])
def test_tensors_are_accelerated_as_arrays(monkeypatch, small):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(acceleration, "SMALL", small)
    rng = np.random.default_rng(6)
    maps = [0.3 * rng.standard_normal((4, 4)) for _ in range(2)]
    x = y = tuple(rng.standard_normal((2, 4, 3)))
    y = tuple(torch.from_numpy(part.copy()) for part in y)
    one, other = Anderson(3), Anderson(3)
    for _ in range(8):
        x = one.step(x, tuple(A @ part - part for A, part in zip(maps, x, strict=True)))
        tensors = [torch.from_numpy(A) for A in maps]
        y = other.step(y, tuple(A @ part - part for A, part in zip(tensors, y, strict=True)))
        for part, tensor in zip(x, y, strict=True):
            np.testing.assert_allclose(tensor.numpy(), part, rtol=1e-6, atol=1e-9)
