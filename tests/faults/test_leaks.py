"""A thousand fits leave nothing behind: no memory, descriptors, threads, files or warnings."""

import json
import sys

import pytest
from programs import python

FITS = """
import gc, json, os, sys, tempfile, threading, warnings
from pathlib import Path
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from jointsparse import SelectFeatures
from jointsparse.methods.registry import methods

tempfile.tempdir = {folder!r}
warnings.simplefilter("error")
# Eight iterations are not many: that a solver says so is not what is looked for here.
warnings.simplefilter("ignore", ConvergenceWarning)
# Some of these tables have no structure, and some penalties leave less than was asked for.
warnings.simplefilter("ignore", UserWarning)
rng = np.random.default_rng(0)
tables = [rng.standard_normal((20, 6)) + 2 * rng.standard_normal((20, 1)) for _ in range(7)]

def fit(number, names):
    method = methods()[names[number % len(names)]]
    estimator = method.make()
    if "max_iter" in estimator.get_params():
        estimator.set_params(max_iter=8)
    if method.kind == "components":
        estimator = SelectFeatures(estimator, n_features_to_select=2)
    estimator.fit(tables[number % len(tables)]).transform(tables[0])

def state():
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {{
        "memory": pages * os.sysconf("SC_PAGE_SIZE"),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "tasks": len(os.listdir("/proc/self/task")),
        "children": Path(f"/proc/self/task/{{os.getpid()}}/children").read_text().split(),
        "files": sorted(os.listdir({folder!r})),
    }}

names = sorted(methods())
for number in range(3 * len(names)):
    fit(number, names)  # what is loaded once, and kept
before = state()
for number in range({fits}):
    fit(number, names)
print(json.dumps([before, state()]))
"""


def growth(tmp_path, fits):
    folder = tmp_path / "temporary"
    folder.mkdir()
    printed = python(FITS.format(folder=str(folder), fits=fits), folder=tmp_path, seconds=1200)
    before, after = json.loads(printed)
    memory = after.pop("memory") - before.pop("memory")
    assert after == before
    return memory


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="descriptors and threads are counted in /proc")
def test_a_thousand_fits_leave_nothing_behind(tmp_path):
    memory = growth(tmp_path, 1000)
    print(f"1000 fits: {memory / 1e6:.1f} MB more")  # noqa: T201 - seen with -s
    assert memory < 20 * 10**6


THREADS = """
import numpy as np, os, time
from threadpoolctl import threadpool_info
import sklearn.cluster
from jointsparse import SPCAPSD
X = np.random.default_rng(0).standard_normal((400, 300))
start, used = time.perf_counter(), time.process_time()
SPCAPSD(max_iter=50).fit(X)
share = (time.process_time() - used) / (time.perf_counter() - start)
pools = {pool["filepath"]: pool["num_threads"] for pool in threadpool_info()}
assert pools and set(pools.values()) == {1}, pools
assert share < 1.2, share
"""


@pytest.mark.slow
def test_threads_stay_within_the_environment(tmp_path):
    """One thread asked for is one thread, also measured by the time that the processor spends."""
    python(THREADS, folder=tmp_path, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
