"""Run the commands of the tutorials, and put what they print below them.

A block marked ``console`` holds lines ``$ jointsparse …``; the lines below each are its output.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
EXAMPLES = {"genes": "expression", "sensors": "process", "spectra": "spectra"}
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
# Times and searches against the clock differ from run to run.
CHANGING = re.compile(r", \d+ iterations?, [\d.]+ s\b|(?<=iterations), [\d.]+ s\b")


def output(command, folder):
    """Return what a command prints, without what differs from run to run."""
    words = [sys.executable, "-m", *command.split()]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONWARNINGS": "ignore"}
    run = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    printed = run.stdout if run.returncode == 0 else run.stderr
    lines = [CHANGING.sub("", line).rstrip() for line in printed.strip("\n").split("\n")]
    return "\n".join(lines)


def made(text, folder):
    """Return a page with what its commands print."""

    def rerun(block):
        commands = [line[2:] for line in block[1].split("\n") if line.startswith("$ ")]
        return "```console\n" + "".join(f"$ {c}\n{output(c, folder)}\n" for c in commands) + "```"

    return BLOCK.sub(rerun, text)


def page(name):
    """Return one tutorial, made again."""
    from jointsparse.datasets import write_example

    with tempfile.TemporaryDirectory() as folder:
        write_example(EXAMPLES[name], folder)
        return made((HERE / f"{name}.md").read_text(encoding="utf-8"), folder)


if __name__ == "__main__":
    for each in sys.argv[1:] or EXAMPLES:
        (HERE / f"{each}.md").write_text(page(each), encoding="utf-8")
