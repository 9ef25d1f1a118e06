import os
import signal
from pathlib import Path

import pytest
from backends import installed
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

os.environ["MPLBACKEND"] = "Agg"

# Machines differ in speed: an example is never failed for being slow.
settings.register_profile(
    "jointsparse", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("jointsparse")


# A shell has processes in the background ignore Ctrl-C, and their children inherit it; the tests
# of interrupted commands send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    # The fast tests are thousands of small problems: threads would only wait for each other, as
    # those of tests side by side would. NumPy and SciPy each bring a BLAS of their own, loaded when
    # it is first needed: the environment tells those to come, the limit those already there.
    if config.option.markexpr.startswith("not slow") or "PYTEST_XDIST_WORKER" in os.environ:
        os.environ.update(dict.fromkeys(THREADS, "1"))
        threadpool_limits(1)


BACKENDS = {backend.name: backend for backend in installed()}
# One that skips where there is none: a test without parameters would not be reported at all.
TENSORS = [name for name in BACKENDS if name != "numpy"] or [None]


@pytest.fixture(params=list(BACKENDS))
def backend(request):
    """One array library after the other, NumPy among them."""
    return BACKENDS[request.param]


@pytest.fixture(params=TENSORS)
def tensors(request):
    """One array library after the other, but for NumPy."""
    if request.param is None:
        pytest.skip("neither PyTorch nor CuPy is installed: pip install '.[torch]'")
    return BACKENDS[request.param]


@pytest.fixture(scope="session")
def benchmark_data():
    """Load a benchmark dataset by name (pixels divided by 255); skip where there are none."""
    folder = os.environ.get("JOINTSPARSE_DATA")

    def load(name):
        import numpy as np

        path = Path(folder or "") / f"{name}.npz"
        if folder is None or not path.exists():
            pytest.skip(f"dataset {name!r} not found: set JOINTSPARSE_DATA to its folder")
        X = np.load(path, allow_pickle=False)["X"]
        return X / 255.0 if X.dtype == np.uint8 else X.astype(float)

    return load
