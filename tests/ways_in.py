"""Containers of the twin tests, by name, for tests that look at one thing in some of them."""

import pytest

from fuzz.containers import CONTAINERS, arrow_table

table_of = arrow_table
# What a source is made of: arrays as they are, files and Dask collections.
STORED = [
    *("Fortran order", "memmap", "csr array", "csc array"),
    *(name for name, way in CONTAINERS.items() if way.write and way.in_python),
    *(name for name, way in CONTAINERS.items() if way.package == "dask"),
]
WAYS_IN = {name: CONTAINERS[name].make for name in STORED}
parquet_folder = WAYS_IN["Parquet folder"]


def ways_in(*names):
    """Parametrise a test over the ways in; skip those whose package is not installed."""
    return pytest.mark.parametrize(
        "way_in",
        [
            pytest.param(
                WAYS_IN[name],
                id=name,
                marks=pytest.mark.skipif(
                    not CONTAINERS[name].installed,
                    reason=f"{CONTAINERS[name].package} is not installed",
                ),
            )
            for name in names or WAYS_IN
        ],
    )
