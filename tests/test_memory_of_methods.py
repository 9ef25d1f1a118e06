"""What methods take at their peak, beside what they declare: every method of the registry.

A process of its own imports the library, and fits each method to a few samples; what Python and the
libraries take by themselves is no part of the figures. Then it forks for each of them, so that no
fit leaves memory to the next one.
"""

import json
import subprocess
import sys
from functools import cache

import pytest

from jointsparse.methods import registry
from jointsparse.methods.reading.plan import bytes_at_once
from jointsparse.sources.in_memory import ArraySource

SHAPES = {"tall": (2000, 300), "wide": (100, 12_000)}
# Iterations: enough for all earlier steps to be remembered, and for a certificate.
MOST_ITERATIONS = 7
NOISE = 4 << 20  # bytes that the process varies by

MEASURE = """
import json, os, sys, warnings
from pathlib import Path
import numpy as np
from jointsparse.io.budget import limited_to
from jointsparse.methods import registry

warnings.simplefilter("ignore")

def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))

def table(n, p):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 5)) @ rng.standard_normal((5, p)) + rng.standard_normal((n, p))

def made(name, most):
    method = registry.methods()[name].make()
    return method.set_params(max_iter=most) if "max_iter" in method.get_params() else method

def peak(name, X, most):
    received, sent = os.pipe()
    if os.fork() == 0:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
        before = status("VmRSS")
        made(name, most).fit(X)
        os.write(sent, str(status("VmHWM") - before).encode())
        os._exit(0)
    os.close(sent)
    os.wait()
    return int(os.read(received, 100))

shapes, most = json.loads(sys.argv[1])
for name in registry.methods():
    made(name, most).fit(table(40, 12))
    made(name, most).fit(table(12, 40))
found = {}
for kind, shape in shapes.items():
    X = table(*shape)
    found[kind] = {name: peak(name, X, most) for name in registry.methods()}
print(json.dumps(found))
"""


@cache
def peaks():
    told = json.dumps([SHAPES, MOST_ITERATIONS])
    found = subprocess.run(
        [sys.executable, "-c", MEASURE, told], check=True, capture_output=True, text=True
    )
    return json.loads(found.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("name", registry.methods())
def test_a_fit_takes_what_its_method_declares(name, kind):
    n, p = SHAPES[kind]
    samples = 8 * n * p
    declared = bytes_at_once(_Shape(n, p), n, registry.methods()[name].make()._needs())
    assert peaks()[kind][name] + samples <= 1.1 * declared + NOISE


class _Shape(ArraySource):
    """Samples of which only their numbers are asked for."""

    def __init__(self, n_samples, n_features):
        self.n_samples, self.n_features = n_samples, n_features
