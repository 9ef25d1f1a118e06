"""How much a greedy pick asks of a device: each operation is a launch, each number a wait.

Of few features the host follows what is left of each, of more the device. Counted on tensors in
memory, where the same operations run as on a GPU.
"""

from collections import Counter

import numpy as np
import pytest

from jointsparse.solvers.picking import greedy, residual
from jointsparse.solvers.picking.greedy import select_greedily
from jointsparse.solvers.products.columns import Columns

torch = pytest.importorskip("torch")
dispatch = pytest.importorskip("torch.utils._python_dispatch")

FEW, MORE = 3, 11  # picks of two runs, whose difference is what a pick takes
# What a feature adds to few patterns may fall to next to nothing, which is nothing to ask about.
LOADINGS = torch.asarray(np.random.default_rng(3).standard_normal((40, 2)))
FEW_PATTERNS = {"target": lambda rows: rows @ LOADINGS}
NOISE = {"noise": np.full(40, 1e-4), "near": 0.05}


class Launches(dispatch.TorchDispatchMode):
    """Counts the operations on tensors that are no mere views, and the numbers asked for."""

    def __init__(self):
        super().__init__()
        self.launches = self.questions = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        ways = [value.alias_info for value in function._schema.returns]
        self.launches += not any(way is not None and not way.is_write for way in ways)
        self.questions += "_local_scalar_dense" in str(function)
        return function(*args, **(kwargs or {}))


def asked(columns, monkeypatch, **options):
    """Return the launches and the waits of a run."""
    counts, numbers, to_host = Counter(), greedy.numbers, residual.to_host

    def counted(*values):
        counts["waits"] += any(isinstance(value, torch.Tensor) for value in values)
        return numbers(*values)

    def brought(array):
        counts["waits"] += 1
        return to_host(array)

    with monkeypatch.context() as patch, Launches() as found:
        patch.setattr(greedy, "numbers", counted)
        patch.setattr(residual, "to_host", brought)
        select_greedily(columns, **options)
    return np.array([found.launches, counts["waits"] + found.questions])


BY_HOST, BY_DEVICE = residual.FEW, 0  # features up to which the host follows what is left of each


@pytest.mark.parametrize(
    ("options", "few", "launches", "waits"),
    [
        ({}, BY_HOST, 16, 2),  # the second is for a number that is there by then
        (NOISE, BY_HOST, 16, 2),
        (FEW_PATTERNS, BY_HOST, 16, 2),
        ({"criterion": "residual"}, BY_HOST, 9, 1),
        ({}, BY_DEVICE, 29, 1),
        (NOISE, BY_DEVICE, 33, 1),
        (FEW_PATTERNS, BY_DEVICE, 29, 1),
        ({"criterion": "residual"}, BY_DEVICE, 22, 1),
    ],
)
def test_a_pick_launches_little_and_hardly_waits(options, few, launches, waits, monkeypatch):
    monkeypatch.setattr(residual, "FEW", few)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 40))
    X += rng.standard_normal((60, 40))
    columns = Columns(torch.asarray(X - X.mean(axis=0)))
    select_greedily(columns, n_picks=1, **options)  # the kernel, which is kept
    few, more = (asked(columns, monkeypatch, n_picks=n, **options) for n in (FEW, MORE))
    per_pick = (more - few) / (MORE - FEW)
    assert per_pick[1] == waits
    assert per_pick[0] <= launches + 0.5  # the basis grows once in a while


@pytest.mark.parametrize("few", [BY_HOST, BY_DEVICE])
def test_given_features_wait_once_each(few, monkeypatch):
    monkeypatch.setattr(residual, "FEW", few)
    X = np.random.default_rng(1).standard_normal((60, 40))
    columns = Columns(torch.asarray(X - X.mean(axis=0)))
    few, more = (
        asked(columns, monkeypatch, n_picks=n, given=range(n), criterion="residual")
        for n in (FEW, MORE)
    )
    assert (more - few)[1] == MORE - FEW
