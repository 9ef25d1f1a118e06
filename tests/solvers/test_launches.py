"""How much a greedy pick asks of a device: each operation is a launch, each number a wait.

Counted on tensors in memory, where the same operations run as on a GPU.
"""

from collections import Counter

import numpy as np
import pytest

from jointsparse.solvers.picking import greedy
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
    counts, original = Counter(), greedy.numbers

    def counted(*values):
        counts["waits"] += 1
        return original(*values)

    with monkeypatch.context() as patch, Launches() as found:
        patch.setattr(greedy, "numbers", counted)
        select_greedily(columns, **options)
    return np.array([found.launches, counts["waits"] + found.questions])


@pytest.mark.parametrize(
    ("options", "launches"),
    [({}, 29), (NOISE, 33), (FEW_PATTERNS, 29), ({"criterion": "residual"}, 22)],
    ids=["gain", "gain beside noise", "gain of few patterns", "residual"],
)
def test_a_pick_waits_once_and_launches_little(options, launches, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4)) @ rng.standard_normal((4, 40))
    X += rng.standard_normal((60, 40))
    columns = Columns(torch.asarray(X - X.mean(axis=0)))
    select_greedily(columns, n_picks=1, **options)  # the kernel, which is kept
    few, more = (asked(columns, monkeypatch, n_picks=n, **options) for n in (FEW, MORE))
    per_pick = (more - few) / (MORE - FEW)
    assert per_pick[1] == 1
    assert per_pick[0] <= launches + 0.5  # the basis grows once in a while


def test_given_features_wait_once_each(monkeypatch):
    X = np.random.default_rng(1).standard_normal((60, 40))
    columns = Columns(torch.asarray(X - X.mean(axis=0)))
    few, more = (
        asked(columns, monkeypatch, n_picks=n, given=range(n), criterion="residual")
        for n in (FEW, MORE)
    )
    assert (more - few)[1] == MORE - FEW
