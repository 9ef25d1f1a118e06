"""Many more features than samples, in blocks of columns that stay where Dask has them."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from clusters import Cluster

from jointsparse import SPCAPSD
from jointsparse.operators.blocks import on_centred
from jointsparse.operators.dense import DenseSamples
from jointsparse.sources import as_source
from jointsparse.sources.dask.samples import DaskSamples

da = pytest.importorskip("dask.array", reason="dask is not installed")


@pytest.fixture(scope="module", name="X")
def samples():
    generator = np.random.default_rng(0)
    loadings = np.zeros((4, 3000))
    loadings[:, :100] = generator.standard_normal((4, 100))
    noise = 0.4 * generator.standard_normal((80, 3000))
    values = 3 + generator.standard_normal((80, 4)) @ loadings + noise
    values[:, 2000] = 1e5  # a constant feature, far from zero
    return values


def remote(X, memory):
    return DaskSamples.of(da.from_array(X, chunks=(33, 700)), memory=memory)


@pytest.mark.parametrize("memory", [0, 10**9])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_are_those_of_the_array(X, memory, dtype):
    values = X.astype(dtype)
    mean = values.mean(axis=0, dtype=np.float64)
    expected, found = DenseSamples(values, mean), remote(values, memory)
    generator = np.random.default_rng(1)
    thin, rows = generator.standard_normal((3000, 3)), generator.standard_normal((80, 3))
    chosen = generator.random(3000) < 0.1
    for wide, here in ((found, expected), (found.columns(chosen), expected.columns(chosen))):
        u = thin if wide is found else thin[chosen]
        close = {"rtol": 1e-10, "atol": 1e-7 if dtype == np.float64 else 1e-2}
        assert wide.shape == here.shape
        assert wide.empty.dtype == here.empty.dtype
        np.testing.assert_allclose(wide.times(u), here.times(u), **close)
        np.testing.assert_allclose(
            wide.transposed_times(rows), here.transposed_times(rows), **close
        )
        np.testing.assert_allclose(wide.gram(), here.gram(), **close)
        np.testing.assert_allclose(wide.squared_lengths(), here.squared_lengths(), **close)
        np.testing.assert_allclose(wide.squared_lengths(rows), here.squared_lengths(rows), **close)
        np.testing.assert_allclose(wide.row_squares(), here.row_squares(), **close)
        weights = rows[:, 0] ** 2
        np.testing.assert_allclose(
            wide.weighted_squares(weights), here.weighted_squares(weights), **close
        )
        np.testing.assert_allclose(wide.dense(), here.dense(), rtol=1e-5, atol=1e-5)
    assert isinstance(found.columns(chosen), DaskSamples if memory == 0 else DenseSamples)


def test_features_are_scaled_where_they_are(X):
    factors = np.random.default_rng(2).uniform(1, 2, X.shape[1])
    centred = (X - X.mean(axis=0)) * factors
    rows = np.eye(80)[:, :3]
    scaled = remote(X, 0).scaled(factors)
    np.testing.assert_allclose(scaled.transposed_times(rows), centred.T @ rows, atol=1e-9)
    chosen = factors > 1.9
    np.testing.assert_allclose(scaled.columns(chosen).dense(), centred[:, chosen], atol=1e-9)


def test_sparse_blocks_are_centred_and_scaled(X):
    stored = np.where(X > 4, X, 0.0).astype(np.float32)
    factors = np.random.default_rng(2).uniform(1, 2, X.shape[1])
    mean = stored.mean(axis=0, dtype=np.float64)
    found = on_centred(sp.csr_array(stored), mean, factors, function=np.asarray)
    np.testing.assert_allclose(found, (stored - mean) * factors, rtol=1e-12)


def fits(X, collection, **parameters):
    """Fit an array, and a Dask array that does not fit into the memory that it may take."""
    source = as_source(collection)
    source.memory = 200_000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [SPCAPSD(**{"eta": 0.3, **parameters}).fit(samples) for samples in (X, source)]


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_features_to_select": 10},
        {"n_features_to_select": "r2>=0.2"},
        {"n_features_to_select": 10, "rule": "residual"},
        {"n_features_to_select": "support"},
        {"n_features_to_select": 10, "n_clusters": 4, "eta": "auto"},
    ],
    ids=str,
)
def test_spca_psd_beyond_memory_agrees_with_the_array(X, parameters):
    model, far = fits(X, da.from_array(X, chunks=(33, 700)), **parameters)
    assert far.duality_gap_ <= far.tol
    np.testing.assert_allclose(far.feature_scores_, model.feature_scores_, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(far.support_, model.support_)
    np.testing.assert_array_equal(far.proved_zero_, model.proved_zero_)
    if "support" not in parameters.values():
        np.testing.assert_allclose(far.selection_curve_, model.selection_curve_, atol=1e-8)


def test_a_missing_value_is_named(X):
    broken = X.copy()
    broken[17, 1234] = np.nan
    with pytest.raises(ValueError, match="missing value in column number 1235, data row 18"):
        fits(X, da.from_array(broken, chunks=(33, 700)))


@pytest.mark.slow
def test_on_a_cluster(X, tmp_path):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with Cluster(tmp_path, 2) as cluster, distributed.Client(cluster.address):
        model, far = fits(X, da.from_array(X, chunks=(33, 700)), n_features_to_select=10)
    np.testing.assert_allclose(far.feature_scores_, model.feature_scores_, rtol=0, atol=1e-8)
    np.testing.assert_array_equal(far.support_, model.support_)
