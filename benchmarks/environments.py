"""Where rivals run: here, from a folder of packages, or in virtual environments of their own.

A rival that can be imported here runs here. So does one that lies unpacked in the folder that
``--site`` names, which goes on the path of the competitors' processes: for machines without a
network. For the others, whose pins conflict with ours, virtual environments are made when first
needed. They lie in a folder of the user's choice (``--environments``, by default a cache folder)
and are used again. A rival that cannot be installed is reported as "not installed".
"""

import json
import os
import re
import subprocess
import sys
import venv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = "here"  # the environment that runs the benchmark
OURSELVES = "jointsparse"  # runs from these sources, installed or not
BEFORE = "jointsparse, before"  # runs from the checkout that JOINTSPARSE_BEFORE names
# Newest versions with which each rival runs: ITMO_FS calls what NumPy 2 and SciPy 1.12 removed.
PACKAGES = {
    "skmatter": ("skmatter>=0.3",),
    "old": ("skfeature-chappers", "ITMO-FS", "numpy<2", "scipy<1.12", "scikit-learn<1.4"),
    "components": ("sparsepca", "abess"),
    "fastcan": ("fastcan>=0.6",),
    "scanpy": ("scanpy>=1.11",),
    "css": ("numpy<2", "scipy", "tqdm", "cython", "setuptools", "wheel"),
}
# Not on an index; the first is compiled with the NumPy and Cython of its environment. (What an
# index has by the name of pycss is another package.)
FROM_SOURCE = {
    "css": ("git+https://github.com/jcrudy/choldate", "git+https://github.com/AnavSood/CSS"),
}
VERSIONS = """
import json
from importlib.metadata import distributions
found = reversed(list(distributions()))  # the first on the path is the one that is imported
print(json.dumps({d.metadata["Name"].lower(): d.version for d in found}))
"""


def default_folder():
    """Where environments lie unless said otherwise."""
    cache_folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache_folder) / "jointsparse-benchmarks"


@dataclass(frozen=True)
class Environments:
    """Interpreters by name; ``make=False`` uses only what is there already."""

    folder: Path
    make: bool = True
    site: Path | None = None  # packages beside those of this interpreter

    def python(self, name):
        """Return the interpreter of an environment; None where there is none."""
        if name == HERE or self._here(name):
            return sys.executable
        python = self.folder / name / "bin" / "python"
        if not python.exists() and self.make:
            _make(self.folder / name, PACKAGES[name], FROM_SOURCE.get(name, ()))
        return str(python) if python.exists() else None

    def version(self, name, distribution):
        """Return the version of a distribution in an environment; None where it is absent."""
        python = self.python(name)
        if distribution == OURSELVES:
            from jointsparse import __version__

            return __version__
        if distribution == BEFORE:
            return _version_before()
        return None if python is None else installed(python, self.site).get(distribution.lower())

    def _here(self, name):
        """Whether this interpreter has a rival of that environment; with a folder, all it has."""
        if name in FROM_SOURCE:
            return False
        rivals = {
            re.split("[<>=!]", package)[0].lower()
            for package in PACKAGES[name]
            if "<" not in package
        }
        found = rivals & set(installed(sys.executable, self.site))
        return bool(found) if self.site is not None else found == rivals


def _version_before():
    """Return the version of the earlier checkout; "?" where there is none, and nothing is run."""
    path = Path(os.environ.get("JOINTSPARSE_BEFORE", ""), "src", "jointsparse", "__init__.py")
    found = re.search(r'__version__ = "(.+)"', path.read_text()) if path.exists() else None
    return found[1] if found else "?"


def _make(folder, packages, sources=()):
    print(f"making the environment {folder.name} with {', '.join(packages)}", flush=True)
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    for package in (" ".join(packages), *packages):  # all; where that fails, one by one
        command = [python, "-m", "pip", "install", "-q", *package.split()]
        if subprocess.run(command, capture_output=True).returncode == 0 and " " in package:
            break
    for source in sources:
        command = [python, "-m", "pip", "install", "-q", "--no-build-isolation", source]
        subprocess.run(command, capture_output=True)


@cache
def installed(python, site=None):
    """Return the versions of everything that an interpreter can import."""
    path = {} if site is None else {"PYTHONPATH": str(site)}
    run = subprocess.run(
        [python, "-c", VERSIONS], capture_output=True, text=True, env={**os.environ, **path}
    )
    return json.loads(run.stdout) if run.returncode == 0 else {}
