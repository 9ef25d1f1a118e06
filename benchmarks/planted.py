"""Three planted families of features that no test and no rule has seen, beside those of the tests.

``FAMILIES`` makes, from a random generator, a table and which of its features are signal.
"""

import numpy as np


def graded(rng):
    """Four groups of 25 whose loadings go from weak to strong."""
    X, signal = rng.standard_normal((150, 600)), np.arange(600) < 100
    for group in range(4):
        loadings = np.linspace(0.5, 1.6, 25) * rng.choice([-1, 1], 25)
        X[:, 25 * group : 25 * (group + 1)] += rng.standard_normal((150, 1)) * loadings
    return X, signal


def related(rng):
    """Four groups of 20 whose factors have a correlation of one half."""
    X, signal = rng.standard_normal((120, 800)), np.arange(800) < 80
    common = rng.standard_normal((120, 1))
    factors = np.sqrt(0.5) * (common + rng.standard_normal((120, 4)))
    X[:, :80] += np.repeat(factors, 20, axis=1) * rng.choice([-1, 1], 80)
    return X, signal


def sometimes(rng):
    """Two groups, of 12 and of 40, that are switched on in three of ten samples only."""
    X, signal = rng.standard_normal((200, 400)), np.arange(400) < 52
    for part in (slice(0, 12), slice(12, 52)):
        on = rng.random((200, 1)) < 0.3
        X[:, part] += 2.0 * on * rng.uniform(0.7, 1.3, X[:, part].shape[1])
    return X, signal


FAMILIES = {
    "graded, 4 × 25 of 600": graded,
    "related factors, 4 × 20 of 800": related,
    "in some samples, 52 of 400": sometimes,
}
