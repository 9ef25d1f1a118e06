import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import jointsparse

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(jointsparse.__path__, "jointsparse.")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_some_docstring_has_an_example():
    modules = map(importlib.import_module, MODULES)
    found = [test for module in modules for test in doctest.DocTestFinder().find(module)]
    assert sum(len(test.examples) for test in found) > 5


@pytest.mark.parametrize(
    "statement", ["import jointsparse", "from jointsparse import SPCAPSD, Moments, registry"]
)
def test_import_stays_light(statement):
    heavy = "{'matplotlib', 'dask', 'torch', 'polars', 'typer'}"
    code = f"{statement}\nimport sys\nprint(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_public_names():
    for name in jointsparse.__all__:
        assert getattr(jointsparse, name) is not None
    assert set(jointsparse.__all__) <= set(dir(jointsparse))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        jointsparse.nothing
