"""The command line as a program of its own, so that it can be limited, ended and measured."""

import os
import subprocess
import sys

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
sys.argv = {arguments!r}
from jointsparse.cli.start import main
main()
"""


def environment(**more):
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **more}


def jointsparse(*arguments, folder, largest_file=None, seconds=120):
    """Run the command; ``largest_file`` makes the disk full after that many bytes of a file."""
    command = [sys.executable, "-m", "jointsparse", *map(str, arguments)]
    if largest_file is not None:
        words = ["jointsparse", *map(str, arguments)]
        command[1:] = ["-c", LIMITED.format(size=largest_file, arguments=words)]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def python(code, *, folder, seconds=300, **more):
    """Run some Python; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def one_sentence(errors):
    """Whether the last thing on stderr is one sentence, and no traceback is anywhere."""
    lines = errors.strip().splitlines()
    return "Traceback" not in errors and bool(lines) and lines[-1].startswith("jointsparse: ")
