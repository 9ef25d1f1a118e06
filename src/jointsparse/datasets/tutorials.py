"""Tables as people have them, made up, with the truth known: the files of the tutorials.

Real tables of genes, plants and spectra cannot be shipped; these have what makes those hard
(batches, dropouts, prices, baselines) and a known answer, so that a tutorial can say whether its
conclusion is right.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from jointsparse.arrays import FloatArray


def make_expression(
    n_samples: int = 120, n_genes: int = 1500, *, random_state: int | None = 0
) -> Bunch:
    """Gene expression in three tissues and two batches, as logarithms of normalised counts.

    Six groups of genes (pathways) rise and fall together; two of them differ between tissues. One
    gene in five also differs between the batches. Counts are negative binomial, so that genes with
    few counts are mostly noise.

    Parameters
    ----------
    n_samples : int, default=120
        Number of samples.
    n_genes : int, default=1500
        Number of genes.
    random_state : int or None, default=0
        Seed.

    Returns
    -------
    Bunch
        ``data`` (n_samples, n_genes), ``feature_names``, ``sample``, ``tissue``, ``batch``, and
        ``pathway``: for each gene 0, or the number of its group.

    Examples
    --------
    >>> from jointsparse.datasets import make_expression
    >>> made = make_expression()
    >>> made.data.shape, int((made.pathway > 0).sum())
    ((120, 1500), 210)
    """
    rng = np.random.default_rng(random_state)
    sizes = np.array([60, 50, 40, 30, 20, 10])
    tissue = np.arange(n_samples) % 3
    batch = (np.arange(n_samples) >= n_samples // 2).astype(int)
    activity = rng.standard_normal((n_samples, sizes.size))
    activity[:, 0] += 2.0 * (tissue == 1)
    activity[:, 1] += 2.0 * (tissue == 2)
    pathway = np.zeros(n_genes, dtype=int)
    pathway[: sizes.sum()] = np.repeat(np.arange(1, sizes.size + 1), sizes)
    pathway = rng.permutation(pathway)
    rate = rng.normal(3.5, 1.2, n_genes)  # logarithm of the mean count
    member = pathway > 0
    rate[member] += 1.0  # what is regulated is also expressed
    strength = rng.uniform(0.4, 0.8, n_genes) * rng.choice([-1, 1], n_genes, p=[0.2, 0.8])
    log_rate = np.tile(rate, (n_samples, 1))
    log_rate[:, member] += activity[:, pathway[member] - 1] * strength[member]
    shifted = rng.random(n_genes) < 0.2
    log_rate += batch[:, None] * np.where(shifted, rng.normal(0, 0.8, n_genes), 0.0)
    depth = rng.normal(0, 0.2, (n_samples, 1))  # how deep a sample was sequenced
    spread = rng.gamma(8.0, 1 / 8.0, (n_samples, n_genes))
    counts = rng.poisson(np.exp(log_rate + depth) * spread)
    return Bunch(
        data=np.round(np.log2(counts / np.exp(depth) + 1), 3),
        feature_names=np.array([f"G{j:04d}" for j in range(1, n_genes + 1)]),
        sample=np.array([f"S{i:03d}" for i in range(1, n_samples + 1)]),
        tissue=np.array(["liver", "kidney", "spleen"])[tissue],
        batch=np.array(["run1", "run2"])[batch],
        pathway=pathway,
    )


def make_process(n_samples: int = 1500, *, random_state: int | None = 0) -> Bunch:
    """Sixty sensors of a plant with seven states, prices, dropouts and a few wild readings.

    Sensors that measure the same state agree up to gain and noise; a few measure two states; nine
    measure nothing that others know. Two in a hundred readings are missing, one in two hundred is
    wild.

    Parameters
    ----------
    n_samples : int, default=1500
        Number of points in time.
    random_state : int or None, default=0
        Seed.

    Returns
    -------
    Bunch
        ``data`` (n_samples, 60) with NaN, ``feature_names``, ``time``, ``price`` of each sensor,
        ``state``: for each sensor 0, or the number of its state, and ``wild``, a mask.

    Examples
    --------
    >>> from jointsparse.datasets import make_process
    >>> made = make_process()
    >>> made.data.shape, bool(0.015 < made.wild.mean() * 4 < 0.025)
    ((1500, 60), True)
    """
    rng = np.random.default_rng(random_state)
    kinds = ["temp", "press", "flow", "level", "vib", "power", "conc"]
    sizes = [12, 10, 9, 7, 6, 4, 3]
    states = np.zeros((n_samples, len(kinds)))
    for i in range(1, n_samples):  # slow states, as plants have them
        states[i] = 0.95 * states[i - 1] + rng.standard_normal(len(kinds))
    states /= states.std(axis=0)
    state = np.repeat(np.arange(1, len(kinds) + 1), sizes)
    columns, names, price = [], [], []
    for j, which in enumerate(state):
        signal = states[:, which - 1]
        if j % 9 == 4:  # a pipe that passes two vessels
            signal = 0.8 * signal + 0.6 * states[:, which % len(kinds)]
        columns.append(signal + rng.uniform(0.2, 0.6) * rng.standard_normal(n_samples))
        names.append(f"{kinds[which - 1]}_{j + 1:02d}")
        price.append({"temp": 40, "press": 90, "flow": 250, "conc": 1200}.get(names[-1][:4], 120))
    for j in range(9):
        columns.append(rng.standard_normal(n_samples))
        names.append(f"aux_{j + 1:02d}")
        price.append(20)
    data: Any = np.column_stack(columns) * rng.uniform(0.5, 40.0, 60) + rng.uniform(0, 300, 60)
    wild = rng.random(data.shape) < 0.005
    size = data.std(axis=0) * rng.choice([-1, 1], data.shape) * rng.uniform(15, 60, data.shape)
    data = np.round(np.where(wild, data + size, data), 3)
    data[rng.random(data.shape) < 0.02] = np.nan
    return Bunch(
        data=data,
        feature_names=np.array(names),
        time=np.arange(n_samples) * 60,
        price=np.array(price, dtype=float),
        state=np.append(state, np.zeros(9, dtype=int)),
        wild=wild,
    )


def make_spectra(n_samples: int = 150, *, random_state: int | None = 0) -> Bunch:
    """Spectra of mixtures of four substances, on a drifting baseline.

    Each substance has two to four bands; the baseline is a slope and an offset of each sample, as
    scattering makes it.

    Parameters
    ----------
    n_samples : int, default=150
        Number of mixtures.
    random_state : int or None, default=0
        Seed.

    Returns
    -------
    Bunch
        ``data`` (n_samples, 500), ``feature_names`` (wavelengths), ``sample``, ``concentration``
        (n_samples, 4) and ``pure`` (4, 500), the spectra of the substances.

    Examples
    --------
    >>> from jointsparse.datasets import make_spectra
    >>> made = make_spectra()
    >>> made.data.shape, made.pure.shape
    ((150, 500), (4, 500))
    """
    rng = np.random.default_rng(random_state)
    wavelengths = np.linspace(900, 1700, 500)
    bands = [
        [(1050, 18, 1.0), (1420, 25, 0.6)],
        [(980, 12, 0.7), (1210, 20, 1.0), (1590, 22, 0.5)],
        [(1130, 15, 1.0), (1440, 18, 0.8)],
        [(1300, 14, 0.9), (1500, 16, 0.7), (1650, 20, 0.6), (1010, 10, 0.3)],
    ]
    pure = np.array(
        [
            sum(h * np.exp(-0.5 * ((wavelengths - at) / width) ** 2) for at, width, h in substance)
            for substance in bands
        ]
    )
    concentration = rng.dirichlet([2.0, 2.0, 1.5, 1.0], n_samples)
    slope = rng.normal(0, 0.05, (n_samples, 1)) * np.linspace(-1, 1, 500)
    offset = rng.normal(0.2, 0.05, (n_samples, 1))
    noise = 0.01 * rng.standard_normal((n_samples, 500))
    return Bunch(
        data=np.round(concentration @ pure + slope + offset + noise, 5),
        feature_names=np.array([f"{w:.1f}nm" for w in wavelengths]),
        sample=np.array([f"mix{i:03d}" for i in range(1, n_samples + 1)]),
        concentration=concentration,
        pure=pure,
    )


def write_example(name: str, folder: str | os.PathLike[str] = ".") -> list[Path]:
    """Write the files of a tutorial.

    Parameters
    ----------
    name : {"expression", "process", "spectra"}
        Which one.
    folder : path-like, default="."
        Where to.

    Returns
    -------
    list of Path
        The files.

    Examples
    --------
    >>> import tempfile
    >>> from jointsparse.datasets import write_example
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in write_example("process", folder)]
    ['process.csv', 'prices.csv']
    """
    writers: dict[str, Callable[[Path], list[Path]]] = {
        "expression": _write_expression,
        "process": _write_process,
        "spectra": _write_spectra,
    }
    if name not in writers:
        raise ValueError(f"{name!r} is not one of {', '.join(map(repr, writers))}")
    return writers[name](Path(folder))


def _write_expression(folder: Path) -> list[Path]:
    made = make_expression()
    beside = {"sample": made.sample, "tissue": made.tissue, "batch": made.batch}
    return [_write(folder / "expression.csv", beside, made.feature_names, made.data)]


def _write_process(folder: Path) -> list[Path]:
    made = make_process()
    table = _write(folder / "process.csv", {"time": made.time}, made.feature_names, made.data)
    beside = {"feature": made.feature_names}
    return [table, _write(folder / "prices.csv", beside, ["cost"], made.price[:, None])]


def _write_spectra(folder: Path) -> list[Path]:
    made = make_spectra()
    beside = {"sample": made.sample}
    return [_write(folder / "spectra.csv", beside, made.feature_names, made.data)]


def _write(
    path: Path, beside: dict[str, Sequence[Any]], names: Sequence[str], data: FloatArray
) -> Path:
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([*beside, *names])
        for i, row in enumerate(data):
            numbers = ["" if np.isnan(x) else f"{x:.6g}" for x in row]
            writer.writerow([*(column[i] for column in beside.values()), *numbers])
    return path
