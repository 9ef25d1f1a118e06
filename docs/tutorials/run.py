"""Run the commands of the tutorials and of the tasks, and put what they print below them.

A block marked ``console`` holds lines ``$ jointsparse …``; the lines below each are its output.
Blocks marked ``python`` are run first: they write the tables that the commands read.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parents[1]
# The tables of each page: names of ``write_example``.
EXAMPLES = {
    "tutorials/genes": ["expression"],
    "tutorials/sensors": ["process"],
    "tutorials/spectra": ["spectra"],
    "tasks/panel": ["expression"],
    "tasks/leave-out": ["process"],
    "tasks/how-many": [],
    "tasks/wishes": ["process"],
    "tasks/anything": [],
    "tasks/compare": [],
    "tasks/prove": [],
    "tasks/large": [],
    "tasks/outliers": [],
    "tasks/missing": [],
    "tasks/batches": ["expression"],
    "tasks/again": [],
    "tasks/pipeline": [],
}
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
SETTING_UP = re.compile(r"```python\n(.*?)```", re.DOTALL)
# Times and searches against the clock differ from run to run.
CHANGING = re.compile(r", \d+ iterations?, [\d.]+ s\b|(?<=iterations), [\d.]+ s\b")


def run(words, folder):
    """Return what a program prints, and whether it ended well."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    return done.stdout if done.returncode == 0 else done.stderr, done.returncode == 0


def output(command, folder):
    """Return what a command prints, without what differs from run to run."""
    printed, _ = run(["-m", *shlex.split(command)], folder)
    lines = [CHANGING.sub("", line).rstrip() for line in printed.strip("\n").split("\n")]
    return "\n".join(lines)


def made(text, folder):
    """Return a page with what its commands print."""
    for code in SETTING_UP.findall(text):
        said, well = run(["-c", code], folder)
        assert well, said

    def rerun(block):
        commands = [line[2:] for line in block[1].split("\n") if line.startswith("$ ")]
        return "```console\n" + "".join(f"$ {c}\n{output(c, folder)}\n" for c in commands) + "```"

    return BLOCK.sub(rerun, text)


def page(name):
    """Return one page, made again."""
    from jointsparse.datasets import write_example

    with tempfile.TemporaryDirectory() as folder:
        for example in EXAMPLES[name]:
            write_example(example, folder)
        return made((DOCS / f"{name}.md").read_text(encoding="utf-8"), folder)


if __name__ == "__main__":
    for each in sys.argv[1:] or EXAMPLES:
        (DOCS / f"{each}.md").write_text(page(each), encoding="utf-8")
