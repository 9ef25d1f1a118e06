"""The ways of kernels: what they did on small problems, number by number, and what they do now.

What a search or an iteration finds is right whatever it does on the way, and is compared with
enumerations and other solvers elsewhere. A poor start, a bound that is looser than it was derived,
or a charge for rounding that has grown cost time and proofs without an answer being wrong. So the
way is compared with what it was, to six digits: the problems are such that the last digits of the
data decide nothing (``test_rounding_changes_no_way``). Where a change of a kernel makes it do less,
or rightly more, the numbers are to be changed with it: a file of such tests, run by Python itself
(``PYTHONPATH=tests python tests/solvers/test_subset_ways.py``), writes them.

Charges for rounding are too small to be seen beside a bound. In cases that are called *coarse* the
kernels are told that numbers have seven digits, and charge for that.
"""

import json
from pathlib import Path

import numpy as np
import pytest

SAME = 1e-6
COARSE = 1e-7


class Setting:
    """The constants that a case changes, and the noise in its data."""

    def __init__(self, monkeypatch, seed=None):
        self.patch = monkeypatch
        self.rng = None if seed is None else np.random.default_rng(seed)
        self.calls = 0

    def change(self, modules, constants, *, coarse=False):
        """Change constants wherever they are; coarse kernels believe in seven digits."""
        if coarse:
            constants = {"EPS": COARSE, "UNIT": COARSE / 2, **constants}
        for place, name in ((module, name) for module in modules for name in constants):
            if hasattr(place, name):
                self.patch.setattr(place, name, constants[name])

    def count(self, place, *names):
        """Count how often functions are called."""

        def counting(function):
            def call(*args, **kwargs):
                self.calls += 1
                return function(*args, **kwargs)

            return call

        for name in names:
            self.patch.setattr(place, name, counting(getattr(place, name)))

    def data(self, n, p, seed=0, rank=3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, p))
        if rank:  # else noise, in which nothing leaves soon
            X *= 1 + np.arange(p) / p
            X += rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
        if self.rng is not None:
            X = X * (1 + 1e-13 * self.rng.standard_normal(X.shape))
        return X - X.mean(axis=0)

    def matrix(self, n, p, seed=0, rank=3):
        X = self.data(n, p, seed, rank)
        S = X.T @ X
        return S * 2.0 ** -np.ceil(np.log2(np.max(S)))


def total(array):
    """Return the sum of what is finite."""
    return float(np.sum(array, where=np.isfinite(array)))


class Ways:
    """Cases, and the file of what is expected of each.

    Parameters
    ----------
    cases : dict
        {name: (function of a setting, its options)}; a function returns numbers.
    test : str
        The file of the test; the numbers stand beside it.
    """

    def __init__(self, cases, test):
        self.cases, self.path = cases, Path(test).with_suffix(".json")

    def compare(self, name, setting):
        """Compare the way of a case with what it was."""
        run, options = self.cases[name]
        expected = json.loads(self.path.read_text())[name]
        assert run(setting, **options) == pytest.approx(tuple(expected), rel=SAME, abs=1e-12)

    def accept(self):
        """Write what every case gives now."""
        lines = []
        for name, (run, options) in self.cases.items():
            with pytest.MonkeyPatch.context() as patch:
                numbers = [float(f"{x:.9g}") for x in run(Setting(patch), **options)]
            lines.append(f" {json.dumps(name)}: {json.dumps(numbers)}")
        self.path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
