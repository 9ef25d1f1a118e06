"""What methods take at their peak, beside what they declare: every method of the registry.

A process of its own imports the library, and fits each method to a few samples; what Python and the
libraries take by themselves is no part of the figures. Then it forks for each of them, so that no
fit leaves memory to the next one.
"""

import json
import re
import subprocess
import sys
from functools import cache

import numpy as np
import pytest

from jointsparse import AWSPCA, CSPCA, SPCAPSD, open_source
from jointsparse.methods import registry
from jointsparse.methods.reading.needs import Needs
from jointsparse.methods.reading.plan import (
    DoesNotFitError,
    Reading,
    bytes_at_once,
    bytes_in_blocks,
    plan,
)
from jointsparse.solvers.convex.splitting import MATRICES
from jointsparse.sources.in_memory import ArraySource

SHAPES = {"tall": (2000, 350), "wide": (80, 10_000)}
# Iterations: enough for all earlier steps to be remembered, and for a certificate.
MOST_ITERATIONS = 7
SECONDS = 3  # of the processor; by then, what takes longer has come to its peak
NOISE = 4 << 20  # bytes that the process varies by

MEASURE = """
import json, os, signal, sys, warnings
from contextlib import suppress
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

def peak(name, X, most, allowed):
    received, sent = os.pipe()
    if os.fork() == 0:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
        before = status("VmRSS")

        def tell(*_):
            os.write(sent, str(status("VmHWM") - before).encode())
            os._exit(0)

        signal.signal(signal.SIGPROF, tell)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        with limited_to(allowed), suppress(ValueError):  # of wide samples, some refuse later
            made(name, most).fit(X)
        tell()
    os.close(sent)
    os.wait()
    return int(os.read(received, 100))

shapes, most, seconds, declared = json.loads(sys.argv[1])
for name in registry.methods():
    made(name, most).fit(table(40, 12))
    made(name, most).fit(table(12, 40))
found = {}
for kind, shape in shapes.items():
    X = table(*shape)
    found[kind] = {name: peak(name, X, most, given) for name, given in declared[kind].items()}
print(json.dumps(found))
"""


@cache
def peaks():
    declared = {
        kind: {name: declared_by(name, *shape) for name in registry.methods()}
        for kind, shape in SHAPES.items()
    }
    told = json.dumps([SHAPES, MOST_ITERATIONS, SECONDS, declared])
    found = subprocess.run(
        [sys.executable, "-c", MEASURE, told], check=True, capture_output=True, text=True
    )
    return json.loads(found.stdout)


@pytest.mark.exhaustive  # six minutes of a core
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("name", registry.methods())
def test_a_fit_takes_what_its_method_declares(name, kind):
    n, p = SHAPES[kind]
    assert peaks()[kind][name] + 8 * n * p <= 1.1 * declared_by(name, n, p) + NOISE


def declared_by(name, n, p):
    return bytes_at_once(_Shape(n, p), n, registry.methods()[name].make()._needs())


# Half of the features are noise alone, and the penalties leave many directions: no small basis
# holds the optimum, so that the model is split.
SPLIT = """
import json, sys, warnings
from pathlib import Path
import numpy as np
from jointsparse import SPCAPSD, open_source
from jointsparse.solvers.convex import exact

warnings.simplefilter("ignore")
split, usual = [], exact.solve_splitting
exact.solve_splitting = lambda *a, **k: split.append(1) or usual(*a, **k)

def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))

path, memory = sys.argv[1:]
little = np.random.default_rng(0).standard_normal((50, 8))
SPCAPSD(n_features_to_select=3).fit(little)
before, _ = status("VmHWM"), split.clear()
model = SPCAPSD(n_features_to_select=3, alpha=0.3, eta=0.3, tol=1e-6)
model.fit(open_source(path, memory=int(memory)))
print(json.dumps([status("VmHWM") - before, len(split), model.duality_gap_]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
def test_a_model_that_is_split_stays_within_the_memory(tmp_path):
    p, rng = 600, np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.standard_normal((40_000, p)))
    allowed = 34 * 8 * p**2  # where 43 matrices were held before they were counted
    command = [sys.executable, "-c", SPLIT, str(tmp_path / "x.npy"), str(allowed)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    peak, split, gap = json.loads(found.stdout)
    assert split == 1
    assert gap <= 1e-6
    assert peak <= allowed
    source = open_source(tmp_path / "x.npy", memory=MATRICES * 8 * p**2 - 1)
    with pytest.raises(DoesNotFitError, match="scatter matrices need") as refused:
        SPCAPSD().fit(source)
    would_do = re.search(r'memory="(\w+)"', str(refused.value))[1]
    assert plan(open_source(tmp_path / "x.npy", memory=would_do), SPCAPSD()._needs())


# Noise as strong as the patterns: the models between two passes are split.
PASSED = """
import json, sys, warnings
from pathlib import Path
import numpy as np
import jointsparse
from jointsparse import open_source

warnings.simplefilter("ignore")
method = getattr(jointsparse, sys.argv[1])

def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))

method(n_features_to_select=3).fit(np.random.default_rng(0).standard_normal((50, 8)))
before = status("VmHWM")
model = method(n_features_to_select=3).fit(open_source(sys.argv[2], memory=int(sys.argv[3])))
print(json.dumps([status("VmHWM") - before, model.duality_gap_]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
@pytest.mark.parametrize("method", [AWSPCA, CSPCA])
def test_samples_that_are_passed_over_stay_within_the_memory(tmp_path, method):
    p, rng = 300, np.random.default_rng(0)
    X = rng.standard_normal((8000, 5)) @ rng.standard_normal((5, p))
    np.save(tmp_path / "x.npy", X + rng.standard_normal(X.shape))
    needs = Needs.of(method())
    allowed = bytes_in_blocks(open_source(tmp_path / "x.npy", memory="1MB"), needs)
    source = open_source(tmp_path / "x.npy", memory=allowed)
    assert plan(source, needs) is Reading.PASSES
    command = [sys.executable, "-c", PASSED, method.__name__, source.name, str(allowed)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    peak, gap = json.loads(found.stdout)
    assert gap <= 1e-4
    assert peak <= allowed + NOISE  # AWSPCA took 58 MB of 35 before all its matrices were counted


# A file that is fitted by a process of its own, once it has imported all that fits of files import.
WITHIN = """
import json, os, signal, sys, warnings
from pathlib import Path
import numpy as np
from jointsparse import open_source
from jointsparse.methods import registry

warnings.simplefilter("ignore")
path, memory, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])

def status(key):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))

def fitted(name, path, memory):
    method = registry.methods()[name].make()
    if "n_features_to_select" in method.get_params():
        method.set_params(n_features_to_select=5)
    try:
        method.fit(open_source(path, memory=memory))
    except ValueError as error:
        return str(error)
    return "fitted"

rng, folder = np.random.default_rng(0), Path(path).parent
for shape, little in (((40_000, 12), "1MB"), ((20, 4000), "1MB"), ((60, 12), "1GB")):
    np.save(folder / "little.npy", rng.standard_normal(shape))
    for name in registry.methods():
        fitted(name, folder / "little.npy", little)
found = {}
for name in registry.methods():
    received, sent = os.pipe()
    if os.fork() == 0:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
        before = status("VmRSS")

        def tell(*_, how="cut off"):
            os.write(sent, json.dumps([status("VmHWM") - before, how]).encode())
            os._exit(0)

        signal.signal(signal.SIGPROF, tell)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        tell(how=fitted(name, path, memory))
    os.close(sent)
    os.wait()
    found[name] = json.loads(os.read(received, 4000))
    os.close(received)
print(json.dumps(found))
"""
ALLOCATOR = 8 << 20  # bytes that fits of whole files vary by: what was freed and not given back


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
@pytest.mark.parametrize("times", [3, 6])
@pytest.mark.parametrize("shape", [(100_000, 180), (400, 45_000)], ids=["tall", "wide"])
def test_every_method_on_a_file_larger_than_its_memory(tmp_path, shape, times):
    rng, (n, p) = np.random.default_rng(0), shape
    X = rng.standard_normal((n, 5)) @ rng.standard_normal((5, p)) + rng.standard_normal((n, p))
    np.save(tmp_path / "x.npy", X)
    allowed = 8 * n * p // times  # 48 and 24 MB
    command = [sys.executable, "-c", WITHIN, str(tmp_path / "x.npy"), str(allowed), "12"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert set(found) == set(registry.methods())
    for name, (peak, how) in found.items():
        assert peak <= allowed + ALLOCATOR, (name, peak, how)
        # What is refused says which memory would do.
        assert how in ("fitted", "cut off") or re.search(r'memory="|allow so much', how), (
            name,
            how,
        )


def test_wide_samples_without_a_rank_penalty_are_refused_before_the_fit(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((20, 1600)))
    source = open_source(tmp_path / "x.npy", memory="10MB")  # 40 copies of the samples
    with pytest.raises(DoesNotFitError, match=r"samples need 1.+MB") as refused:
        plan(source, AWSPCA()._needs())
    would_do = re.search(r'memory="(\w+)"', str(refused.value))[1]
    source = open_source(tmp_path / "x.npy", memory=would_do)
    assert AWSPCA(max_iter=2).fit(source).n_iter_ == 2


class _Shape(ArraySource):
    """Samples of which only their numbers are asked for."""

    def __init__(self, n_samples, n_features):
        self.n_samples, self.n_features = n_samples, n_features
