"""Made-up data for which the right answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from jointsparse.arrays import FloatArray, IntArray

NOISE_FEATURES = 7
# Standard deviations of the noise features, in units of those of the two informative ones: from
# hardly any noise to three quarters of the signal.
AMPLITUDES = np.linspace(0.1, 0.75, NOISE_FEATURES)


def make_two_moon(
    n_samples: int = 800, *, jitter: float = 0.05, random_state: int | None = 0
) -> tuple[FloatArray, IntArray]:
    """Two interleaved half circles in the first two of nine features; the others are noise.

    Parameters
    ----------
    n_samples : int, default=800
        Number of samples, divided evenly among the shapes.
    jitter : float, default=0.05
        Standard deviation of the noise on the shapes themselves.
    random_state : int or None, default=0
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, 9)
        Features 0 and 1 make the shape; 2 to 8 are Gaussian noise of rising amplitude.
    y : ndarray of shape (n_samples,)
        Which shape a sample belongs to.

    Examples
    --------
    >>> from jointsparse.datasets import make_two_moon
    >>> X, y = make_two_moon()
    >>> X.shape, int(y.max())
    ((800, 9), 1)
    """

    def moon(index: int, t: FloatArray) -> FloatArray:
        angle = np.pi * t
        if index == 0:
            return np.column_stack([np.cos(angle), np.sin(angle)])
        return np.column_stack([1 - np.cos(angle), 0.5 - np.sin(angle)])

    return _with_noise(n_samples, 2, moon, jitter, random_state)


def make_three_ring(
    n_samples: int = 900, *, jitter: float = 0.05, random_state: int | None = 0
) -> tuple[FloatArray, IntArray]:
    """Three concentric rings in the first two of nine features; the others are noise.

    Parameters
    ----------
    n_samples : int, default=900
        Number of samples, divided evenly among the rings.
    jitter : float, default=0.05
        Standard deviation of the noise on the rings themselves.
    random_state : int or None, default=0
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, 9)
        Features 0 and 1 make the rings; 2 to 8 are Gaussian noise of rising amplitude.
    y : ndarray of shape (n_samples,)
        Which ring a sample belongs to, from the inside out.

    Examples
    --------
    >>> from jointsparse.datasets import make_three_ring
    >>> X, y = make_three_ring()
    >>> X.shape, int(y.max())
    ((900, 9), 2)
    """

    def ring(index: int, t: FloatArray) -> FloatArray:
        angle, radius = 2 * np.pi * t, index + 1
        return radius * np.column_stack([np.cos(angle), np.sin(angle)])

    return _with_noise(n_samples, 3, ring, jitter, random_state)


def make_three_curve(
    n_samples: int = 900, *, jitter: float = 0.05, random_state: int | None = 0
) -> tuple[FloatArray, IntArray]:
    """Three waves, one above the other, in the first two of nine features; the others are noise.

    Parameters
    ----------
    n_samples : int, default=900
        Number of samples, divided evenly among the curves.
    jitter : float, default=0.05
        Standard deviation of the noise on the curves themselves.
    random_state : int or None, default=0
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, 9)
        Features 0 and 1 make the curves; 2 to 8 are Gaussian noise of rising amplitude.
    y : ndarray of shape (n_samples,)
        Which curve a sample belongs to, from below.

    Examples
    --------
    >>> from jointsparse.datasets import make_three_curve
    >>> X, y = make_three_curve()
    >>> X.shape, int(y.max())
    ((900, 9), 2)
    """

    def curve(index: int, t: FloatArray) -> FloatArray:
        across = 4 * t - 2
        return np.column_stack([across, 0.5 * np.sin(np.pi * across / 2) + 1.2 * (index - 1)])

    return _with_noise(n_samples, 3, curve, jitter, random_state)


def make_spiked(
    n_samples: int = 200,
    n_features: int = 500,
    *,
    n_components: int = 3,
    n_informative: int = 10,
    strength: float = 3.0,
    noise: float = 1.0,
    shared: bool = False,
    random_state: int | None = 0,
) -> tuple[FloatArray, FloatArray]:
    r"""Gaussian samples with a few sparse directions of larger variance.

    .. math:: x = \sum_{j=1}^k \sqrt{\theta_j}\,z_j v_j + \sigma\varepsilon ,

    z and ε standard normal, the :math:`v_j` orthonormal with few nonzeros, and
    :math:`\theta_j = \theta\,(k-j+1)\,\sigma^2` for the given strength θ (σ² = 1 if there is no
    noise).

    Parameters
    ----------
    n_samples : int, default=200
        Number of samples.
    n_features : int, default=500
        Number of features.
    n_components : int, default=3
        Number of directions k.
    n_informative : int, default=10
        Nonzeros of each direction; of all of them together where they are shared.
    strength : float, default=3
        θ.
    noise : float, default=1
        Standard deviation σ of the noise.
    shared : bool, default=False
        Whether all directions have the same nonzeros (joint sparsity), or each has its own.
    random_state : int or None, default=0
        Seed.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        The samples.
    directions : ndarray of shape (n_components, n_features)
        The :math:`v_j`, strongest first.

    Examples
    --------
    >>> from jointsparse.datasets import make_spiked
    >>> X, directions = make_spiked(n_components=2, n_informative=5)
    >>> X.shape, (directions != 0).sum(axis=1).tolist()
    ((200, 500), [5, 5])
    """
    needed = n_informative if shared else n_informative * n_components
    if needed > n_features:
        raise ValueError(f"{needed} informative features do not fit into n_features={n_features}")
    if shared and n_components > n_informative:
        raise ValueError(
            f"n_components={n_components} orthogonal directions need as many shared features; "
            f"n_informative={n_informative}"
        )
    rng = np.random.default_rng(random_state)
    features = rng.permutation(n_features)[:needed]
    directions = np.zeros((n_components, n_features))
    if shared:
        basis = np.linalg.qr(rng.standard_normal((n_informative, n_components)))[0]
        directions[:, features] = basis.T
    else:
        for direction, own in zip(directions, features.reshape(n_components, -1), strict=True):
            values = rng.choice([-1.0, 1.0], n_informative) * rng.uniform(0.5, 1, n_informative)
            direction[own] = values / np.linalg.norm(values)
    lengths = np.sqrt(strength * np.arange(n_components, 0, -1)) * (noise if noise > 0 else 1.0)
    X = (rng.standard_normal((n_samples, n_components)) * lengths) @ directions
    return X + noise * rng.standard_normal((n_samples, n_features)), directions


def _with_noise(
    n_samples: int, n_shapes: int, shape: Any, jitter: float, random_state: int | None
) -> tuple[FloatArray, IntArray]:
    if n_samples < n_shapes:
        raise ValueError(f"n_samples={n_samples} is too few for {n_shapes} shapes")
    rng = np.random.default_rng(random_state)
    y = np.sort(np.arange(n_samples) % n_shapes)
    plane = np.vstack([shape(i, rng.uniform(0, 1, int(np.sum(y == i)))) for i in range(n_shapes)])
    plane += jitter * rng.standard_normal(plane.shape)
    spread = float(plane.std(axis=0).min())
    noise = spread * AMPLITUDES * rng.standard_normal((n_samples, NOISE_FEATURES))
    return np.column_stack([plane, noise]), y
