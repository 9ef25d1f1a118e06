"""A Dask cluster that goes away in the middle of a fit: what happened and what to do, in words."""

import threading
import time

import numpy as np
import pytest

from jointsparse import CSPCA, SPCAPSD
from jointsparse.solvers.samples.source import SourceSamples
from jointsparse.sources import as_source
from jointsparse.sources.dask.graph import ClusterError

da = pytest.importorskip("dask.array", reason="dask is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")

X = np.random.default_rng(0).standard_normal((3000, 6)) * np.arange(1, 7)
LOST = r"cluster was closed, or the connection to it was lost.*connect to a cluster again"


@pytest.fixture
def cluster():
    with distributed.LocalCluster(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    client = distributed.Client(cluster)
    yield client
    if client.status != "closed":  # closed twice, it would stay Dask's scheduler
        client.close()


BEGUN = threading.Event()


def endless(block):
    BEGUN.set()
    time.sleep(0.5)
    return block


@pytest.mark.parametrize("method", [CSPCA, SPCAPSD])
def test_closed_while_a_block_is_read(client, method):
    BEGUN.clear()
    samples = da.from_array(X, chunks=(3000, 6)).map_blocks(endless, dtype=float, meta=X[:0])

    def close():
        BEGUN.wait(30)
        client.close()

    closing = threading.Thread(target=close)
    closing.start()
    with pytest.raises(ClusterError, match=LOST):
        method().fit(samples)
    closing.join()


def test_closed_between_two_passes(client, monkeypatch):
    """What the workers kept is gone, and is not looked for here."""
    usual, passes = SourceSamples.weighted_pass, []

    def weighted_pass(self, *arguments, **options):
        passes.append(1)
        if len(passes) == 2:
            client.close()
        return usual(self, *arguments, **options)

    monkeypatch.setattr(SourceSamples, "weighted_pass", weighted_pass)
    with pytest.raises(ClusterError, match=LOST):
        CSPCA().fit(da.from_array(X, chunks=(500, 6)))
    assert len(passes) == 2


def test_closed_between_two_products(client):
    wide = as_source(da.from_array(X[:5], chunks=(5, 2))).operator()
    client.close()
    with pytest.raises(ClusterError, match=LOST):
        wide.gram()


def test_workers_that_die_again_and_again(monkeypatch):
    from distributed.scheduler import KilledWorker

    def compute(*collections):
        raise KilledWorker("_apply-0123", None, 3)

    monkeypatch.setattr("dask.compute", compute)
    with pytest.raises(ClusterError, match=r"several workers.*smaller chunks"):
        SPCAPSD().fit(da.from_array(X, chunks=(500, 6)))


def test_errors_of_the_samples_pass_as_they_are(client):
    def broken(block):
        raise OSError("the disk is gone")

    samples = da.from_array(X, chunks=(500, 6)).map_blocks(broken, dtype=float, meta=X[:0])
    with pytest.raises(OSError, match="the disk is gone"):
        SPCAPSD().fit(samples)
