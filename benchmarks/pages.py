"""Tables that pages take from stored results: ``python -m benchmarks.pages`` writes them anew.

A table stands between two marks of a page, ``<!-- NAME -->`` and ``<!-- end of NAME -->``, and is
made by a script from what it stored in benchmarks/results. A test fails where a page has another.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Table:
    """One table of a page; ``lines`` makes it from what is stored, in Markdown."""

    page: str
    name: str
    lines: Callable[[], str]

    def put(self, text):
        """Return the text of the page with this table."""
        begin, end = f"<!-- {self.name} -->", f"<!-- end of {self.name} -->"
        if begin not in text or end not in text:
            raise LookupError(f"{self.page} has no place for {self.name}")
        body = f"{begin}\n{self.lines()}\n{end}"
        pattern = f"{re.escape(begin)}.*?{re.escape(end)}"
        return re.sub(pattern, lambda _: body, text, flags=re.DOTALL)

    def write(self):
        """Write it into its page."""
        path = ROOT / self.page
        path.write_text(self.put(path.read_text(encoding="utf-8")), encoding="utf-8")


def tables():
    """Return all of them."""
    from benchmarks import (
        beyond_memory,
        bounds,
        components,
        cores,
        fssl,
        gpu_goals,
        gpu_joint,
        l0,
        million,
        missing,
        sparse,
        streaming,
    )

    large = (beyond_memory.TABLE, million.TABLE, sparse.TABLE, streaming.TABLE)
    proofs = (bounds.TABLE, l0.TABLE, l0.JOINT_TABLE)
    methods = (*components.TABLES, *fssl.TABLES)
    fast = (cores.TABLE, *gpu_joint.TABLES, gpu_goals.TABLE)
    return (*large, *methods, *missing.TABLES, *fast, *proofs)


def grid(head, rows):
    """Return a table in Markdown."""
    lines = [" | ".join(cells) for cells in (head, *rows)]
    return "\n".join(
        [f"| {lines[0]} |", "|" + "---|" * len(head), *(f"| {x} |" for x in lines[1:])]
    )


def scientific(value):
    """Return a number such as 3·10⁻⁵."""
    digit, power = f"{value:.0e}".split("e")
    return f"{digit}·10{str(int(power)).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


if __name__ == "__main__":
    for table in tables():
        table.write()
