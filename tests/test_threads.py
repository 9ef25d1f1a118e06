"""Tests use one thread each; NumPy and SciPy share the cores while a method is fitted."""

import importlib
import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from jointsparse.running.cores import Sharing, is_small, shared
from jointsparse.running.threads import in_parts


def test_one_thread_each(request):
    if not request.config.option.markexpr.startswith("not slow") and not hasattr(
        request.config, "workerinput"
    ):
        pytest.skip("slow tests in one process may use all the threads there are")
    for module in ("numpy.linalg", "scipy.linalg", "sklearn.cluster"):
        importlib.import_module(module)  # each brings thread pools of its own
    pools = {
        pool["filepath"]: pool["num_threads"]
        for pool in threadpool_info()
        if pool["user_api"] in ("blas", "openmp")
    }
    assert pools
    assert set(pools.values()) == {1}, pools


class Pool:
    """A pool of threads that notes how many it was ever given."""

    def __init__(self, filepath, num_threads):
        self.filepath, self.num_threads, self.most = filepath, num_threads, 0

    def set_num_threads(self, num_threads):
        self.num_threads = num_threads
        self.most = max(self.most, num_threads)


@given(numpy=st.integers(1, 300), scipy=st.integers(1, 300), cores=st.integers(1, 256))
def test_pools_that_share_the_cores_leave_none_to_wait_for(numpy, scipy, cores):
    now = shared([numpy, scipy], cores)
    assert sum(now) - 1 <= max(cores, 1)  # the calling thread belongs to both
    assert all(1 <= after <= before for after, before in zip(now, (numpy, scipy), strict=True))
    if numpy + scipy - 1 <= cores:
        assert now == [numpy, scipy]  # what the user has limited already stays


def test_threads_of_python_are_those_of_numpy_shared_by_all_who_compute():
    pools = [Pool("numpy.libs/a.so", 16), Pool("scipy.libs/a.so", 16)]
    sharing = Sharing(pools, 16)
    assert sharing.threads() == 8
    for expected in (8, 6, 4):  # of 13
        sharing.begin()
        assert sharing.threads() == expected
    assert Sharing([Pool("numpy.libs/a.so", 1), Pool("scipy.libs/a.so", 1)], 16).threads() == 1
    assert Sharing([], 16).threads() == 1


def test_no_more_threads_work_on_parts_than_are_asked_for():
    used = set()

    def work(part):
        used.add(threading.get_ident())
        return part

    assert in_parts(work, 10, part=4, workers=1) == [slice(0, 4), slice(4, 8), slice(8, 10)]
    assert used == {threading.get_ident()}
    used.clear()
    in_parts(work, 10, part=1, workers=2)
    assert threading.get_ident() not in used
    assert len(used) <= 2


@pytest.mark.parametrize("threads", [[16], [16, 16, 16], []])
def test_one_pool_for_both_is_left_alone(threads):
    assert shared(threads, 16) == threads


def test_the_last_to_compute_gives_the_threads_back():
    pools = [Pool("numpy.libs/a.so", 16), Pool("scipy.libs/a.so", 16)]
    sharing = Sharing(pools, 16)
    began, go_on = threading.Event(), threading.Event()

    def elsewhere():
        sharing.begin()
        began.set()
        go_on.wait(10)
        sharing.end()

    sharing.begin()
    other = threading.Thread(target=elsewhere)
    other.start()
    began.wait(10)
    sharing.end()  # the first to begin ends first: the other still computes
    assert [pool.num_threads for pool in pools] == [13, 4]
    go_on.set()
    other.join()
    assert [pool.num_threads for pool in pools] == [16, 16]


def test_small_tables_have_one_thread_unless_a_large_one_is_computed():
    pools = [Pool("numpy.libs/a.so", 16), Pool("scipy.libs/a.so", 16)]
    sharing = Sharing(pools, 16)

    def now():
        return [pool.num_threads for pool in pools]

    sharing.begin(small=True)
    assert now() == [1, 1]
    sharing.begin()
    assert now() == [13, 4]
    sharing.begin(small=True)
    assert now() == [13, 4]
    sharing.end()  # of the large one
    assert now() == [1, 1]
    sharing.end(small=True)
    sharing.end(small=True)
    assert now() == [16, 16]


@pytest.mark.parametrize("shape", [(), (3,), (float("nan"), 5), (object(), 5), None, (2, 3, 4)])
def test_a_table_of_unknown_shape_is_not_small(shape):
    assert not is_small(shape)


def test_a_fit_shares_the_cores_and_gives_them_back_even_after_an_error():
    code = """
import numpy as np, scipy.linalg, joblib
from threadpoolctl import threadpool_info
import jointsparse as js
from jointsparse.running import cores

def threads():
    found = {cores.owner(one["filepath"]): one["num_threads"] for one in threadpool_info()
             if one["internal_api"] == "openblas"}
    return [found[name] for name in ("numpy", "scipy") if name in found]

class Looks(js.GreedySelector):
    def _fit(self, moments):
        global seen
        seen = threads()
        if self.n_features_to_select == 1:
            raise RuntimeError("on purpose")
        return super()._fit(moments)

before = threads()
for size, wanted in ((6, [1] * len(before)), (500, cores.shared(before, joblib.cpu_count()))):
    X = np.random.default_rng(0).standard_normal((size, size))
    for count in (2, 1):
        try:
            Looks(n_features_to_select=count).fit(X)
        except RuntimeError:
            pass
        assert threads() == before, (before, threads())
        assert seen == wanted, (before, seen)
print(before, seen)
"""
    own = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    env = {name: value for name, value in os.environ.items() if name not in own}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
