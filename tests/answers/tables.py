"""The tables of the answers, by name: bundled, synthetic, cut from the benchmark data, planted.

A table is a function without arguments that returns an (n_samples, n_features) float64 array, the
same at every call. Its name says whether its columns are standardised. Tables of ``FROM_FOLDER``
need the folder JOINTSPARSE_DATA. Those under "Guards" are tables on which a first writing of some
part failed, or would have failed without the special case that the comment names.
"""

import os
from functools import cache
from pathlib import Path

import numpy as np
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

TABLES = {}
FROM_FOLDER = {}  # those of TABLES that need JOINTSPARSE_DATA, and the file that each needs
LABELS = {}  # of tables with classes: for FSSL with graph="lda"


def standardised(X):
    """Return columns of mean 0 and variance 1; constant columns as zeros."""
    deviations = X - X.mean(axis=0)
    spread = X.std(axis=0)
    return deviations / np.where(spread > 1e-12 * np.abs(X).max(axis=0), spread, 1.0)


def table(name):
    """Return a table, computed once a process; do not write to it."""
    made = _made(name)
    made.setflags(write=False)
    return made


@cache
def _made(name):
    return np.ascontiguousarray(TABLES[name](), dtype=np.float64)


def add(function):
    """Add a table that is named after its function: ``planted_tall`` is "planted tall"."""
    TABLES[function.__name__.replace("_", " ")] = function
    return function


# ------------------------------------------------------------------------------- bundled tables


def _bundled(name, load, rows=None, **options):
    def raw():
        return load(**options).data[:rows]

    TABLES[f"{name} raw"] = raw
    TABLES[f"{name} std"] = lambda: standardised(raw())
    for kind in ("raw", "std"):
        LABELS[f"{name} {kind}"] = lambda: load(**options).target[:rows]


_bundled("breast", load_breast_cancer)
_bundled("wine", load_wine)
_bundled("diabetes", load_diabetes, scaled=False)
_bundled("digits", load_digits, rows=400)


# ------------------------------------------------------------- cuts of the benchmark data's tables


def _cut(name, n, p, kind="raw", source=None):
    file = f"{source or name}.npz"

    def cut():
        samples = np.load(Path(os.environ["JOINTSPARSE_DATA"]) / file, allow_pickle=False)["X"]
        rng = np.random.default_rng(0)
        rows = np.sort(rng.permutation(samples.shape[0])[:n])
        columns = np.sort(rng.permutation(samples.shape[1])[:p])
        X = samples[np.ix_(rows, columns)] / (255.0 if samples.dtype == np.uint8 else 1.0)
        return standardised(X) if kind == "std" else X

    TABLES[f"{name} {kind}"] = cut
    FROM_FOLDER[f"{name} {kind}"] = file


_cut("usps", 300, 256)  # n a little above p
_cut("isolet", 300, 200)
_cut("isolet wide", 80, 250, source="isolet")
_cut("mnist", 300, 250)  # constant columns, columns with a single stroke
_cut("coil20", 300, 200)
_cut("pie", 200, 200)
_cut("imm40", 120, 200)
_cut("yale", 100, 300)
_cut("orlraws10p", 80, 400)
_cut("warppie10p", 100, 300)
_cut("colon", 62, 600)
_cut("glioma", 50, 600)
_cut("allaml", 60, 800)
_cut("tox171", 100, 400)  # a few loud columns carry most of the variance
_cut("tox171", 100, 400, "std")


def absent(name):
    """Return why a table cannot be made here; nothing if it can."""
    file = FROM_FOLDER.get(name)
    folder = os.environ.get("JOINTSPARSE_DATA")
    if file is None or (folder and (Path(folder) / file).exists()):
        return ""
    return f"{name!r} is cut from {file}: set JOINTSPARSE_DATA to the folder that has it"


# ------------------------------------------------------------------------------ synthetic tables


def blocks(rng, n, p, sizes, load, overlap=0.0):
    """Return factors Z (n × k) and loadings B (p × k) that are blocks of the first columns."""
    factors, loadings, first = rng.standard_normal((n, len(sizes))), np.zeros((p, len(sizes))), 0
    for k, size in enumerate(sizes):
        loadings[first : first + size, k] = load[k] if np.ndim(load) else load
        first += int(size * (1 - overlap))
    return factors, loadings


def planted(seed, n, p, sizes, load):
    """Return blocks of features that share a factor each, beside features of noise."""
    rng = np.random.default_rng(seed)
    factors, loadings = blocks(rng, n, p, sizes, load)
    return factors @ loadings.T + rng.standard_normal((n, p))


@add
def planted_tall():
    return planted(1, 200, 60, [6, 6, 6], 1.0)


@add
def planted_wide():
    return planted(2, 60, 500, [20, 20, 20, 20], 1.2)


@add
def noise_tall():
    return np.random.default_rng(3).standard_normal((200, 40))


@add
def noise_wide():
    return np.random.default_rng(4).standard_normal((60, 300))


@add
def noise_twice():
    return np.repeat(np.random.default_rng(19).standard_normal((60, 40)), 2, axis=0)


@add
def noise_in_time():
    rng = np.random.default_rng(20)
    X = rng.standard_normal((120, 30))
    for i in range(1, 120):
        X[i] += 0.5 * X[i - 1]
    return X


@add
def counts():
    rng = np.random.default_rng(5)
    factors, loadings = blocks(rng, 120, 80, [10, 10], 0.7)
    return rng.poisson(rng.lognormal(0, 1.0, 80) * np.exp(factors @ loadings.T)).astype(float)


@add
def sparse_wide():
    rng = np.random.default_rng(6)
    factors, loadings = blocks(rng, 100, 300, [20, 20, 20], 1.0)
    return rng.poisson(0.08 * np.exp(factors @ loadings.T)).astype(float)


# ------------------------------------------------------------------------------------- Guards


@add
def near_singular():
    # Rank 5 up to 1e-7: residuals vanish, weights 1/‖residual‖ explode, and what a bound takes off
    # for rounding must not follow tr S.
    rng = np.random.default_rng(7)
    X = rng.standard_normal((80, 5)) @ rng.standard_normal((5, 20))
    return X + 1e-7 * rng.standard_normal((80, 20))


@add
def means_of_1e8():
    # Deviations before sums: a scatter matrix from raw products has no digit left.
    X = planted(8, 150, 30, [5, 5], 1.2)
    return X + 1e8 * np.sign(np.random.default_rng(8).standard_normal(30))


@add
def near_constant():
    # Columns that vary by 1e-6 of the others, and two constant ones.
    X = planted(9, 120, 30, [5, 5, 5], 1.2)
    X[:, 15:20] *= 1e-6
    X[:, 20:22] = 7.0
    return X


@add
def duplicated_columns():
    # Equal features share: JSPCA("features") gave one 0.35 and its copy 0.
    X = planted(10, 100, 20, [4, 4], 1.2)
    return np.hstack([X, X])


@add
def nearly_equal():
    # x₂ = x₁ + 1e-5 z: the pair is the best one (R² .9141), which "determined at 1e-9" denies.
    rng = np.random.default_rng(11)
    x, z = rng.standard_normal((2, 60, 1))
    follow = x @ rng.standard_normal((1, 6)) + z @ rng.standard_normal((1, 6))
    return np.hstack([x, x + 1e-5 * z, follow + 0.4 * rng.standard_normal((60, 6))])


@add
def uneven_rows():
    # Rows of different noise level: without weights in the test, 24 patterns instead of 3.
    rng = np.random.default_rng(12)
    factors, loadings = blocks(rng, 150, 60, [8, 8, 8], 1.5)
    rows = np.exp(rng.standard_normal((150, 1)))
    return (factors @ loadings.T + rng.standard_normal((150, 60))) * rows


@add
def uneven_noise():
    # Noise whose rows differ in level is no structure.
    rng = np.random.default_rng(13)
    return rng.standard_normal((100, 60)) * np.exp(0.7 * rng.standard_normal((100, 1)))


@add
def pairs():
    # Two features that go together among many are no pattern: only a test of pairs sees them.
    return standardised(planted(14, 200, 200, [2] * 8, 3.0))


@add
def loud_and_weak():
    # A strong block hides weak ones; raw and standardised looks differ.
    return planted(15, 100, 200, [30, 12, 12], [3.0, 1.2, 1.2]) * np.repeat([1.0, 4.0], 100)


@add
def fifteen_factors():
    # n = 300, 600 features, 15 factors on all: AWSPCA took 31 s and was not certified while the
    # dual point was not the one computed.
    rng = np.random.default_rng(16)
    X = rng.standard_normal((150, 10)) @ rng.standard_normal((10, 300))
    return X + rng.standard_normal((150, 300))


@add
def gross_errors():
    # Low rank and 5 % of entries wrong: RobustPCA finds both parts.
    rng = np.random.default_rng(17)
    X = rng.standard_normal((80, 4)) @ rng.standard_normal((4, 40))
    return X + 10 * rng.standard_normal((80, 40)) * (rng.random((80, 40)) < 0.05)


@add
def equal_distances():
    # Points of a grid: neighbours tie, and ties go by more than rounding.
    rng = np.random.default_rng(18)
    return rng.integers(0, 3, (90, 12)).astype(float)


# --------------------------------------------------------- planted families, for the noise stage

# (samples, features, sizes of blocks, loads, noise); those whose name ends in "std" standardised.
FAMILIES = {
    "wide15 raw": (100, 3000, None, None, "normal"),
    "wide15 std": (100, 3000, None, None, "normal"),
    "tall std": (600, 120, [8] * 4, 0.8, "normal"),
    "tall raw": (600, 120, [8] * 4, 0.8, "features .5"),
    "weak12 std": (100, 1500, [25] * 12, 0.75, "normal"),
    "strong+weak raw": (100, 1200, [100, 40, 40, 40], [3.0, 0.9, 0.9, 0.9], "normal"),
    "sizes std": (80, 1200, [10, 20, 40, 80, 160], 1.2, "normal"),
    "pairs std": (200, 400, [2] * 15, 3.0, "normal"),
    "overlap raw": (150, 800, [40] * 6, 1.0, "normal"),
    "uneven features raw": (150, 1000, [30] * 5, 1.0, "features .7"),
    "uneven rows raw": (150, 1000, [30] * 4, 1.2, "rows"),
    "t3 std": (150, 1000, [30] * 3, 1.0, "t3"),
    "counts raw": (200, 1000, [40] * 5, 0.8, "counts"),
    "counts std": (200, 1000, [40] * 5, 0.8, "counts"),
    "mostly noise std": (200, 3000, [25], 1.0, "normal"),
}


def family(name, seed):
    """Return a planted table, which features share something, and which of them can be found.

    Those can be found that an F test on the true factors finds at a false-discovery rate of 5 %.
    """
    n, p, sizes, load, noise = FAMILIES[name]
    rng = np.random.default_rng(seed)
    if sizes is None:  # fifteen factors, each on all of the first fifty features
        factors, loadings = rng.standard_normal((n, 15)), np.zeros((p, 15))
        loadings[:50] = 2 * rng.standard_normal((50, 15))
    else:
        overlap = 0.5 if name == "overlap raw" else 0.0
        factors, loadings = blocks(rng, n, p, sizes, load, overlap)
    signal = factors @ loadings.T
    if noise == "counts":
        rate = rng.lognormal(0, 1.0, p)
        X = rng.poisson(rate * np.exp(signal - 0.5 * (loadings**2).sum(axis=1))).astype(float)
    elif noise == "t3":
        X = signal + rng.standard_t(3, (n, p)) / 3**0.5
    else:
        X = rng.standard_normal((n, p))
        X = signal + (X * rng.lognormal(0, 0.5, (n, 1)) if noise == "rows" else X)
        if noise.startswith("features"):
            X *= rng.lognormal(0, float(noise.split()[1]), p)
    varies = X.std(axis=0) > 0
    X, true = X[:, varies], (loadings != 0).any(axis=1)[varies]
    if name.endswith("std"):
        X = standardised(X)
    return X, true, true & _found_with_factors(X, factors)


def _found_with_factors(X, factors):
    deviations, k, n = X - X.mean(axis=0), factors.shape[1], X.shape[0]
    basis = np.linalg.qr(factors - factors.mean(axis=0))[0]
    shares = ((basis.T @ deviations) ** 2).sum(axis=0) / (deviations**2).sum(axis=0)
    pvalues = stats.f.sf(shares / k / ((1 - shares) / (n - 1 - k)), k, n - 1 - k)
    return stats.false_discovery_control(pvalues) <= 0.05
