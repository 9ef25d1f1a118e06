"""Every estimator takes Dask arrays and DataFrames, on threads and on clusters of processes."""

import os
import sys
import threading
import time
import warnings
from collections import Counter

import numpy as np
import pytest
from clusters import Cluster

from jointsparse import KernelFSSL, Moments, SelectFeatures, registry, regularization_path
from jointsparse.methods.spca import SPCA
from jointsparse.methods.spca_psd import SPCAPSD
from jointsparse.solvers.samples.source import SourceSamples

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas", reason="pandas is not installed")

NAMES = [f"f{j}" for j in range(30)]
METHODS = registry.methods()
SCATTER_ONLY = [name for name, method in METHODS.items() if method.scatter_only]


@pytest.fixture(scope="module", name="X")
def samples():
    # No two features are alike: rounding must not decide on a tie.
    generator = np.random.default_rng(0)
    signal = generator.standard_normal((400, 4)) @ generator.standard_normal((4, 30))
    return 5 + signal + generator.uniform(0.5, 1.5, 30) * generator.standard_normal((400, 30))


def array(X):
    return da.from_array(X, chunks=(90, 12))


def unknown(X):
    """Return an array in blocks whose lengths Dask does not know, so that they stay as they are."""
    whole = array(X)
    return whole[whole[:, 0] > -np.inf]


def frame(X):
    return dd.from_pandas(pd.DataFrame(X, columns=NAMES), npartitions=3)


def fitted(name, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on so few samples some methods say what they lack
        return METHODS[name].make().fit(X)


# What sums of the samples say about noise assumes samples of equal noise level; the samples tell.
ABOUT_NOISE = {"noise_edge_", "n_significant_", "feature_shares_", "feature_pvalues_"}
ABOUT_NOISE |= {"significant_"}


def fitted_without_noise(name, X):
    """Fit with parameters of its own in place of those that the noise would choose."""
    model = METHODS[name].make()
    known = {"eta": 0.03, "alpha": 0.1, "n_features_to_select": 4, "rule": "norm"}
    if name in ("greedy", "subset"):
        known = {"target": "reconstruction" if name == "greedy" else "features"}
        known["n_features_to_select"] = 4
    elif name not in ("spca-psd", "cspca-psd", "aw-spca-psd"):
        known = {key: known[key] for key in ("n_features_to_select", "rule")}
    model.set_params(**{key: known[key] for key in known if key in model.get_params()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X)


def assert_same(one, other, tol=1e-8, without=frozenset()):
    """Compare all that two fitted methods found, numbers to ``tol`` of their size."""
    found = {key for key in vars(other) if key.endswith("_") and not key.startswith("_")} - without
    # How the solver ran, and the names that only a data frame has.
    ran = {"history_", "gap_history_", "diagnostics_", "search_seconds_"}
    for key in sorted(found - ran - {"feature_names_in_"}):
        value = getattr(other, key)
        if isinstance(value, np.ndarray | float) and np.asarray(value).dtype.kind in "fiub":
            scale = max(1.0, float(np.max(np.abs(np.asarray(value, dtype=float)), initial=0)))
            np.testing.assert_allclose(
                np.asarray(getattr(one, key), dtype=float),
                np.asarray(value, dtype=float),
                rtol=0,
                atol=tol * scale,
                err_msg=key,
            )


@pytest.mark.parametrize("name", [name for name in METHODS if name != "sogfs"])
def test_fits_and_lazy_transforms_agree_with_those_of_an_array(X, name):
    expected = fitted(name, X)
    scores = expected.transform(X)
    back = expected.inverse_transform(scores)
    # Medians within the loop are as accurate as its objective needs: rounding in another order
    # leads to other ones, 1.5e-8 away where the gap allowed is 1e-4.
    tol = 1e-7 if name == "aw-spca-psd" else 1e-8
    for make in (array, frame):
        samples = make(X)
        model = fitted(name, samples)
        assert_same(model, expected, tol)
        lazy = model.transform(samples)
        assert type(lazy) is type(samples)
        assert lazy.shape[1] == scores.shape[1]
        np.testing.assert_allclose(np.asarray(lazy.compute()), scores, rtol=0, atol=tol)
        full = model.inverse_transform(lazy)
        assert type(full) is type(samples)
        np.testing.assert_allclose(np.asarray(full.compute()), back, rtol=0, atol=tol)
        if hasattr(expected, "score"):
            assert model.score(samples) == pytest.approx(expected.score(X), abs=1e-8)
    # The last one was the data frame: names, in and out.
    assert model.feature_names_in_.tolist() == NAMES
    assert list(lazy.columns) == model.get_feature_names_out().tolist()
    assert list(full.columns) == NAMES
    dd.utils.assert_eq(lazy, pd.DataFrame(scores, columns=lazy.columns), check_dtype=False)
    assert lazy.dtypes.equals(lazy.compute().dtypes)


def test_unknown_lengths_and_float32(X):
    single = X.astype(np.float32)
    samples = unknown(single)
    model = SPCA(n_components=3).fit(samples)
    assert_same(model, SPCA(n_components=3).fit(single), tol=1e-7)
    scores = model.transform(samples)
    assert scores.dtype == np.float32 == scores.compute().dtype
    assert model.inverse_transform(scores).compute().dtype == np.float32


def test_what_is_built_on_methods_takes_them_too(X):
    selector = SelectFeatures(SPCA(n_components=3), n_features_to_select=5).fit(frame(X))
    expected = SelectFeatures(SPCA(n_components=3), n_features_to_select=5).fit(X)
    np.testing.assert_array_equal(selector.support_, expected.support_)
    assert selector.transform(frame(X)).shape[1] == 5
    path = regularization_path(SPCAPSD(), array(X), n_points=3)
    np.testing.assert_allclose(
        path.feature_scores, regularization_path(SPCAPSD(), X, n_points=3).feature_scores, atol=1e-8
    )
    kernel, plain = KernelFSSL(n_components=2).fit(frame(X)), KernelFSSL(n_components=2).fit(X)
    lazy = kernel.transform(frame(X))
    np.testing.assert_allclose(lazy.compute(), plain.transform(X), atol=1e-8)
    assert list(lazy.columns) == ["kernelfssl0", "kernelfssl1"]
    halves = Moments.from_data(array(X)).halves
    assert sum(half.n_samples for half in halves) == len(X)
    report = SPCAPSD(n_features_to_select=5).fit(array(X)).selection_report_
    assert report.held_out


def test_missing_values_and_other_features_are_named(X):
    broken = X.copy()
    broken[123, 7] = np.nan
    with pytest.raises(ValueError, match="missing value in column f7, data row 124"):
        SPCAPSD().fit(frame(broken))
    with pytest.raises(ValueError, match="missing value in column number 8, data row 124"):
        SPCAPSD().fit(array(broken))
    broken[123, 7] = np.inf
    with pytest.raises(ValueError, match="infinite value inf in column f7, data row 124"):
        METHODS["laplacian-score"].make().fit(frame(broken))
    model = SPCAPSD().fit(frame(X))
    with pytest.raises(ValueError, match="29 features"):
        model.transform(frame(X)[NAMES[1:]])
    with pytest.raises(ValueError, match="column 'f1' where SPCAPSD was fitted to 'f0'"):
        model.transform(frame(X)[[*NAMES[1:], "f0"]])
    with pytest.raises(ValueError, match="30 columns"):
        model.inverse_transform(frame(X))
    with pytest.raises(ValueError, match="one row"):
        model.fit(array(X[:1]))


@pytest.mark.parametrize("name", ["spca-psd", "spca"])
@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_lazy_transforms_refuse_missing_values_by_name(X, name, value):
    model = fitted(name, X)
    kept = int(model.get_support(indices=True)[0])
    broken = X.copy()
    broken[123, kept] = value
    what = "missing value" if np.isnan(value) else "infinite value -inf"
    for make, column in ((array, f"number {kept + 1}"), (frame, f"'f{kept}'"), (unknown, "number")):
        lazy = model.transform(make(broken))  # nothing is computed, so nothing is found
        with pytest.raises(ValueError, match=f"{what} in column {column}"):
            lazy.compute()
    scores = np.asarray(model.transform(X)).copy()
    scores[7, 0] = value
    with pytest.raises(ValueError, match="value"):
        model.inverse_transform(array(scores)).compute()


def test_a_missing_value_in_a_dropped_column_is_not_even_read(X):
    model = fitted("spca-psd", X)
    dropped = int(np.flatnonzero(~model.get_support())[0])
    broken = X.copy()
    broken[123, dropped] = np.nan
    expected = X[:, model.get_support()]
    np.testing.assert_array_equal(model.transform(array(broken)).compute(), expected)


@pytest.fixture(scope="module", params=[1, 4])
def client(request, tmp_path_factory):
    """Connect to a cluster of real processes."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with (
        Cluster(tmp_path_factory.mktemp("cluster"), request.param) as cluster,
        distributed.Client(cluster.address) as client,
    ):
        yield client


@pytest.mark.slow
@pytest.mark.parametrize("name", SCATTER_ONLY)
def test_on_a_cluster_every_scatter_only_method_agrees_with_an_array(X, client, name):
    expected = fitted_without_noise(name, X)
    for make in (array, unknown, frame):
        samples = make(X)
        model = fitted_without_noise(name, samples)
        assert_same(model, expected, without=ABOUT_NOISE)
        scores = np.asarray(model.transform(samples).compute())
        np.testing.assert_allclose(scores, expected.transform(X), rtol=0, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cspca-psd", "aw-spca-psd", "jspca"])
def test_losses_over_samples_pass_over_the_blocks_on_a_cluster(client, name, monkeypatch):
    generator = np.random.default_rng(1)
    signal = generator.standard_normal((2000, 3)) @ generator.standard_normal((3, 20))
    X = 2 + signal + generator.uniform(0.5, 1.5, 20) * generator.standard_normal((2000, 20))
    samples = da.from_array(X, chunks=(300, 9))
    expected = fitted_without_noise(name, X)
    # nothing is collected
    monkeypatch.setattr("jointsparse.sources.dask.source.DaskSource.read", None)
    model = fitted_without_noise(name, samples[samples[:, 0] > -np.inf])
    if name == "aw-spca-psd":  # another solver for data in memory: both are certified
        assert max(model.duality_gap_, expected.duality_gap_) <= 1e-4
        assert model.objective_ == pytest.approx(expected.objective_, rel=1e-4)
    else:
        assert_same(model, expected, without=ABOUT_NOISE)


LOAD = """
import os
import time

import numpy as np

def load(start, rows, features, seconds, notes):
    with open(notes, "a") as file:
        file.write(f"{os.getpid()}\\n")
    time.sleep(seconds)
    generator = np.random.default_rng(start)
    signal = generator.standard_normal((rows, 3)) @ np.random.default_rng(1).random((3, features))
    return signal + 0.1 * generator.standard_normal((rows, features))
"""


def slow_samples(notes, blocks=24, rows=8000, features=40, seconds=0.2):
    """Return samples that take time to load, each block noted when it is."""
    import slow_blocks

    parts = [
        da.from_delayed(
            dask.delayed(slow_blocks.load)(start * rows, rows, features, seconds, str(notes)),
            (rows, features),
            dtype=float,
        )
        for start in range(blocks)
    ]
    return da.concatenate(parts)


@pytest.fixture
def slow_blocks(tmp_path, monkeypatch):
    """Make samples that take time to load; each loading is noted with the process that does it."""
    (tmp_path / "slow_blocks.py").write_text(LOAD)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("slow_blocks", None)
    return slow_samples


def kill_busiest(cluster, notes):
    """Kill the worker that has loaded most."""
    busiest, _ = Counter(map(int, notes.read_text().split())).most_common(1)[0]
    cluster.kill_worker([worker.pid for worker in cluster.workers].index(busiest))


def assert_equal_but_for_rounding(model, quiet):
    """Blocks are added in one order; only the threads of a product may differ between processes."""
    for key in ("feature_scores_", "ranking_", "objective_"):
        found, expected = getattr(model, key), getattr(quiet, key)
        np.testing.assert_allclose(found, expected, rtol=1e-13, err_msg=key)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="kill -9 is for POSIX systems")
def test_a_worker_killed_in_the_middle_of_a_fit_changes_nothing(tmp_path, slow_blocks):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with dask.config.set(scheduler="threads"):
        quiet = fitted("spca-psd", slow_blocks(tmp_path / "quiet", seconds=0))
    notes = tmp_path / "notes"
    with Cluster(tmp_path, 3) as cluster, distributed.Client(cluster.address):

        def kill():
            while not notes.exists() or len(notes.read_text().split()) < 12:
                time.sleep(0.01)
            kill_busiest(cluster, notes)

        killer = threading.Thread(target=kill)
        killer.start()
        model = fitted("spca-psd", slow_blocks(notes))
        killer.join()
    loaded = len(notes.read_text().split())
    assert 24 < loaded < 48, "some blocks were lost, and only they were loaded again"
    assert_equal_but_for_rounding(model, quiet)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="kill -9 is for POSIX systems")
@pytest.mark.parametrize("name", ["cspca-psd"])
def test_passes_over_blocks_that_a_killed_worker_held(tmp_path, slow_blocks, monkeypatch, name):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    passes, killers, usual = [], [], SourceSamples.weighted_pass
    notes = tmp_path / "notes"

    def weighted_pass(self, fit, *, scatter=True):
        passes.append(len(notes.read_text().split()))
        if len(passes) == 4 and killers == []:
            killers.append(threading.Timer(0.02, kill_busiest, (cluster, notes)))
            killers[0].start()
        return usual(self, fit, scatter=scatter)

    monkeypatch.setattr(SourceSamples, "weighted_pass", weighted_pass)
    with Cluster(tmp_path, 3) as cluster, distributed.Client(cluster.address):
        model = fitted(name, slow_blocks(notes, blocks=12, seconds=0.01))
        killers[0].join()
        assert set(passes[:4]) == {12}, "the blocks are loaded once and kept"
        assert 12 < passes[-1] < 24, "only those of the killed worker are loaded again"
        quiet = fitted(name, slow_blocks(tmp_path / "quiet", blocks=12, seconds=0))
    assert_equal_but_for_rounding(model, quiet)
    assert model.duality_gap_ <= model.tol


def test_collections_without_columns_are_refused():
    bare = pd.DataFrame(index=range(5))
    for nothing in (da.ones((5, 0)), dd.from_pandas(bare, npartitions=2)):
        with pytest.raises(ValueError, match="has no columns; at least one is needed"):
            SPCAPSD().fit(nothing)
