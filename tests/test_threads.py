"""The tests themselves: one thread each, so that tests side by side do not wait for each other."""

import pytest
import scipy.linalg
import sklearn.cluster
from threadpoolctl import threadpool_info


def test_fast_tests_use_one_thread(request):
    if request.config.option.markexpr != "not slow" and not hasattr(request.config, "workerinput"):
        pytest.skip("slow tests in one process may use all the threads there are")
    assert scipy.linalg and sklearn.cluster  # imported: each brings thread pools of its own
    assert {pool["prefix"]: pool["num_threads"] for pool in threadpool_info()} == {
        pool["prefix"]: 1 for pool in threadpool_info()
    }
