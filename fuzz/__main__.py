"""Run generated cases and count what happened."""

from __future__ import annotations

import argparse
import os
import sys

from fuzz.runner import run

SHORT = {"estimators": 300, "files": 300, "models": 100}  # where nothing is asked for


def main() -> int:
    """Run the cases; return 1 if any of them is a fault."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--estimators", type=int, default=0, help="number of fits")
    parser.add_argument("--files", type=int, default=0, help="number of mutated files")
    parser.add_argument("--models", type=int, default=0, help="number of mutated model files")
    parser.add_argument("--kills", type=int, default=0, help="number of programs to kill")
    parser.add_argument(
        "--signals", default="KILL", help="signals of --kills: KILL, INT, TERM, separated by commas"
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    arguments = parser.parse_args()
    failed = 0
    asked = {kind: getattr(arguments, kind) for kind in SHORT}
    if not arguments.kills and not any(asked.values()):
        asked = SHORT
    for kind, count in asked.items():
        if count:
            failed += run(kind, arguments.first, count, arguments.jobs)
    if arguments.kills:
        from fuzz import kills

        names = tuple(arguments.signals.split(","))
        failed += kills.run(arguments.kills, arguments.first, names)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
