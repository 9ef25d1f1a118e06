"""Every example of the gallery runs."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_draws(path):
    if "import dask" in path.read_text(encoding="utf-8"):
        pytest.importorskip("dask.array", reason="dask is not installed")
    plt.close("all")
    runpy.run_path(str(path))
    assert plt.get_fignums()
    plt.close("all")
