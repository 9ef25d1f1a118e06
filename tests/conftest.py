import os
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from threadpoolctl import threadpool_limits

matplotlib.use("Agg")

# Machines differ in speed: an example is never failed for being slow.
settings.register_profile(
    "jointsparse", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("jointsparse")


def pytest_configure(config):
    # The fast tests are thousands of small problems: threads would only wait for each other.
    if config.option.markexpr == "not slow":
        threadpool_limits(1)


@pytest.fixture(scope="session")
def benchmark_data():
    """Load a benchmark dataset by name (pixels divided by 255); skip where there are none."""
    folder = os.environ.get("JOINTSPARSE_DATA")

    def load(name):
        path = Path(folder or "") / f"{name}.npz"
        if folder is None or not path.exists():
            pytest.skip(f"dataset {name!r} not found: set JOINTSPARSE_DATA to its folder")
        X = np.load(path, allow_pickle=False)["X"]
        return X / 255.0 if X.dtype == np.uint8 else X.astype(float)

    return load
