"""What it costs to have the package: start-up time and size.

    python -m benchmarks.footprint

Times are medians of processes that were started one after the other, in turn with a bare
interpreter. The wheel is built from this checkout in a temporary folder.
"""

import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPEATS = 7
COMMANDS = {
    "bare interpreter": "pass",
    "import jointsparse": "import jointsparse",
    "from jointsparse import SPCAPSD": "from jointsparse import SPCAPSD",
    "import sklearn": "import sklearn",
    "jointsparse --help": "import sys; sys.argv = ['jointsparse', '--help']; "
    "from jointsparse.cli.main import main; main()",
}


def seconds(code):
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main():
    times = {name: [] for name in COMMANDS}
    for _ in range(REPEATS):
        for name, code in COMMANDS.items():
            times[name].append(seconds(code))
    bare = statistics.median(times["bare interpreter"])
    for name, found in times.items():
        print(
            f"{name:34}{statistics.median(found):7.3f} s  (+{statistics.median(found) - bare:.3f})"
        )
    with tempfile.TemporaryDirectory() as folder:
        build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, str(ROOT)]
        subprocess.run(build, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            unpacked = sum(entry.file_size for entry in archive.infolist())
            count = len(archive.infolist())
        size = wheel.stat().st_size
        print(f"wheel: {size / 1e6:.2f} MB, {count} files, {unpacked / 1e6:.2f} MB unpacked")


if __name__ == "__main__":
    main()
