"""Tables whose scatter matrix does not fit: the features that share most take part."""

import json

import numpy as np
import pytest
from scipy import sparse
from test_cli import invoke

from jointsparse import Moments
from jointsparse.preparation import prepared
from jointsparse.sources import as_source
from jointsparse.sources.batch_sums import fold_batches
from jointsparse.sources.in_memory import ArraySource
from jointsparse.sources.screening import most_shared
from jointsparse.sources.sums import NotFiniteError, Sums

RNG = np.random.default_rng(4)
PLANTED = [3, 50, 51, 120, 199]


def planted(n=900, p=200):
    X = RNG.standard_normal((n, p)) * RNG.uniform(0.1, 100, p)
    X[:, PLANTED] += 2 * RNG.standard_normal((n, 1)) * X[:, PLANTED].std(axis=0)
    return X + 10


def test_shares_are_those_of_the_leading_eigenvectors():
    X = planted()
    found = most_shared(as_source(X), 5)
    assert found.columns.tolist() == PLANTED
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    values, vectors = np.linalg.eigh(Z.T @ Z)
    exact = (values[-1] * vectors[:, -1] ** 2) / len(X)  # of the one direction that stands out
    assert np.all(found.shares[PLANTED] >= exact[PLANTED] - 0.01)
    assert 0 < found.left_out < exact[PLANTED].min()


def test_sparse_samples_share_the_same():
    X = np.where(RNG.random((600, 60)) < 0.2, RNG.poisson(3, (600, 60)), 0).astype(float)
    X[:, 1] = X[:, 0] + (RNG.random(600) < 0.1)
    dense, stored = (most_shared(as_source(x), 2) for x in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(dense.shares, stored.shares, rtol=1e-8)
    assert dense.columns.tolist() == [0, 1]


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_what_is_shared_within_batches(make):
    X = np.where(RNG.random((600, 60)) < 0.2, RNG.poisson(3, (600, 60)), 0).astype(float)
    X[:, 1] = X[:, 0] + (RNG.random(600) < 0.1)
    batch = RNG.choice(["a", "b", "c"], 600)
    X[batch == "b", 5:15] += 7.0  # which tell batches apart and share nothing else
    within = prepared(as_source(X), batch=batch, missing="error").samples
    expected, found = most_shared(within, 2), most_shared(as_source(make(X)), 2, batch=batch)
    np.testing.assert_allclose(found.shares, expected.shares, rtol=1e-7, atol=1e-12)
    assert found.columns.tolist() == [0, 1]
    assert most_shared(as_source(X), 2).columns.tolist() != [0, 1]
    X[:, 30] = batch == "c"  # constant within each
    assert most_shared(as_source(make(X)), 2, batch=batch).shares[30] == 0
    X[7, 3] = np.nan
    with pytest.raises(NotFiniteError):
        most_shared(ArraySource(make(X)), 2, batch=batch)


def test_the_command_says_who_takes_part(tmp_path):
    np.save(tmp_path / "x.npy", planted(900, 200))
    options = ("--memory", "900kB", "--features", 3, "--include", "x008", "--exclude", "x052")
    result = invoke("select", tmp_path / "x.npy", *options, "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    said = " ".join(result.stderr.split())
    assert "scatter matrices of 200 features take 7.68 MB, more than the 900 kB allowed" in said
    assert any("take part, those that share most" in n for n in record["notes"])
    kept = {feature["name"] if isinstance(feature, dict) else feature for feature in record["kept"]}
    assert "x008" in kept
    assert "x052" not in kept
    assert kept - {"x008"} <= {f"x{j + 1:03d}" for j in PLANTED}


def test_batches_of_sparse_samples_are_summed_as_dense_ones():
    X = np.where(RNG.random((80, 9)) < 0.4, RNG.standard_normal((80, 9)) + 2, 0)
    X[3, np.flatnonzero(X[3])[0]] = np.nan
    codes, weights = RNG.integers(0, 3, 80), RNG.uniform(0.5, 2, 80)
    dense = fold_batches(None, X, 0, codes, weights, n_batches=3)
    stored = fold_batches(None, sparse.csr_array(X), 0, codes, weights, n_batches=3)
    for one, other in zip(dense, stored, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("density", [0.02, 0.3])
def test_sums_of_sparse_rows_however_many_are_stored(density):
    X = np.where(RNG.random((300, 40)) < density, RNG.standard_normal((300, 40)) + 5, 0)
    sums = Sums.empty(40)
    for part in (X[:100], X[100:]):
        sums.add(sparse.csr_array(part))
    np.testing.assert_allclose(sums.complete(), Moments.from_data(X).scatter, atol=1e-9)
