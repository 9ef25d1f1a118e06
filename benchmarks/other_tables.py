"""Tables that had no part in the choice of the rule: bundled, public and made up.

The public ones are CSV files without header whose last column is a class, in the folder that
JOINTSPARSE_OTHERS names (of the UCI repository: arrhythmia, libras, low-res-spect, musk-1, ozone,
three of plants, semeion, spambase, synthetic-control, sonar, ionosphere, oocytes, splice junctions,
dermatology). Without it they are left out.
"""

import os
from pathlib import Path

import numpy as np

SAMPLES, FEATURES, FACTORS = 300, 400, 12  # of the tables that are made up
SEED = 77


def gaussian(rng, shape):
    return rng.standard_normal(shape)


def student(rng, shape):
    return rng.standard_t(3, shape)


def in_blocks(rng, draw):
    """Every feature follows one of twelve factors."""
    factors = draw(rng, (SAMPLES, FACTORS))
    loadings = np.zeros((FACTORS, FEATURES))
    loadings[np.arange(FEATURES) % FACTORS, np.arange(FEATURES)] = rng.uniform(0.5, 1.5, FEATURES)
    return factors @ loadings


def heavy_tails(rng):
    return in_blocks(rng, student) + 0.6 * student(rng, (SAMPLES, FEATURES))


def counts(rng):
    rates = 0.7 * in_blocks(rng, gaussian) + rng.normal(0, 1, FEATURES)
    return rng.poisson(np.exp(rates)).astype(float)


def rare_counts(rng):
    rates = 0.8 * in_blocks(rng, gaussian) - 2 + rng.normal(0, 0.7, FEATURES)
    return rng.poisson(np.exp(rates)).astype(float)


def spiked(rng):
    return in_blocks(rng, gaussian) + gaussian(rng, (SAMPLES, FEATURES))


def rare_cells(rng):
    """A quarter of the columns is quiet but for three samples, each column its own."""
    X = in_blocks(rng, gaussian) + 0.5 * gaussian(rng, (SAMPLES, FEATURES))
    for j in range(0, FEATURES, 4):
        X[:, j] = 0.1 * rng.standard_normal(SAMPLES)
        X[rng.choice(SAMPLES, 3, replace=False), j] += rng.uniform(2, 8, 3)
    return X


def rare_groups(rng):
    """Twenty groups of six columns that four samples light up together."""
    X = in_blocks(rng, gaussian) + 0.5 * gaussian(rng, (SAMPLES, FEATURES))
    for _ in range(20):
        rows = rng.choice(SAMPLES, 4, replace=False)
        columns = rng.choice(FEATURES, 6, replace=False)
        X[np.ix_(rows, columns)] += rng.uniform(3, 8, (4, 1)) * rng.uniform(0.7, 1.3, 6)
    return X


def spectra(rng):
    place, width = rng.uniform(0, 1, 25), rng.uniform(0.01, 0.05, 25)
    lines = np.exp(-((np.linspace(0, 1, FEATURES) - place[:, None]) ** 2) / 2 / width[:, None] ** 2)
    heights = np.exp(rng.normal(0, 1, (SAMPLES, 25)))
    return heights @ lines + 0.02 * gaussian(rng, (SAMPLES, FEATURES))


MADE_UP = (heavy_tails, counts, rare_counts, spiked, rare_cells, rare_groups, spectra)


def patches():
    """Squares of 16 × 16 pixels of a photograph."""
    from sklearn.datasets import load_sample_images

    image = load_sample_images().images[0].mean(axis=2)
    rng = np.random.default_rng(0)
    corners = [[rng.integers(0, size - 16) for size in image.shape] for _ in range(400)]
    return np.array([image[i : i + 16, j : j + 16].ravel() for i, j in corners])


def public(path):
    return np.genfromtxt(path, delimiter=",", dtype=float)[:, :-1]


def other_tables():
    """Return {name: what makes the table}."""
    from sklearn.datasets import load_breast_cancer, load_digits, load_wine

    found = {
        "digits": lambda: load_digits().data,
        "breast cancer": lambda: load_breast_cancer().data,
        "wine": lambda: load_wine().data,
        "patches of a photograph": patches,
    }
    for make in MADE_UP:
        name = make.__name__.replace("_", " ") + " (made up)"
        found[name] = lambda make=make: make(np.random.default_rng(SEED))
    folder = os.environ.get("JOINTSPARSE_OTHERS")
    for path in sorted(Path(folder).glob("*.csv")) if folder else ():
        found[path.stem] = lambda path=path: public(path)
    return found
