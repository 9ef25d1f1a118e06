"""``jointsparse select --device``."""

import builtins
import json

import numpy as np
import pytest
import scipy.sparse
from typer.testing import CliRunner

from jointsparse.cli.main import app


def select(*arguments):
    return CliRunner().invoke(app, ["select", *map(str, arguments)], catch_exceptions=False)


def refused(result, *fragments):
    assert result.exit_code == 2
    assert result.stderr.startswith("jointsparse: ")
    assert result.stderr.count("\n") == 1
    assert all(fragment in result.stderr for fragment in fragments)


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")


def test_the_same_selection(torch):
    here = json.loads(select("--json", "--quiet").stdout)
    there = json.loads(select("--json", "--quiet", "--device", "cpu").stdout)
    names = [feature["feature"] for feature in here["ranking"]]
    assert [feature["feature"] for feature in there["ranking"]] == names
    scores = [[feature["score"] for feature in table["ranking"]] for table in (here, there)]
    np.testing.assert_allclose(*scores, atol=1e-8)


def test_a_device_that_is_not_there(torch):
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    refused(select("--device", "cuda"), "--device cuda", "PyTorch sees no GPU")


def test_a_gpu_of_a_higher_number_than_there_are(torch):
    refused(select("--device", "cuda:99"), "no such device")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "meta", "mps"])
def test_no_device(torch, name):
    refused(select("--device", name), "--device", name)


def test_a_sparse_table(torch, tmp_path):
    path = tmp_path / "table.npz"
    scipy.sparse.save_npz(path, scipy.sparse.random_array((20, 5), density=0.5, rng=0).tocsr())
    refused(select(path, "--device", "cpu"), "sparse")


def test_without_pytorch(monkeypatch):
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name == "torch":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    refused(select("--device", "cpu"), "needs PyTorch", "jointsparse[torch]")
