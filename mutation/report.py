"""The score: the share of the faults that a test noticed, with and without the reviewed ones."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mutation.operators import mutants
from mutation.store import Store

NOTICED = ("killed", "timeout")


def reviewed(path: Path) -> dict[tuple[str, str, str], str]:
    """Return the reason why no test can notice a fault, by file, line before and line after."""
    entries = tomllib.loads(path.read_text()).get("equivalent", []) if path.exists() else []
    return {
        (entry["file"], entry["before"], after): entry["reason"]
        for entry in entries
        for after in ([entry["after"]] if isinstance(entry["after"], str) else entry["after"])
    }


@dataclass
class FileScore:
    """What became of the faults of one file."""

    possible: int
    tried: int = 0
    noticed: int = 0
    endless: int = 0  # of those noticed
    set_aside: int = 0  # not noticed, and reviewed as without effect
    missed: list[str] = field(default_factory=list)  # the others, as the report shows them

    @property
    def raw(self) -> float:
        """Share of the faults that a test noticed."""
        return self.noticed / self.tried

    @property
    def after(self) -> float:
        """Share of those that a test can notice."""
        left = self.tried - self.set_aside
        return self.noticed / left if left else 1.0


@dataclass
class Score:
    """What became of the faults of all files, and of each kind of fault.

    Files have samples of different shares, so the score of all of them is the mean of theirs,
    weighted by the number of possible faults.
    """

    files: dict[str, FileScore]
    kinds: dict[str, Counter[str]]

    def _mean(self, which: str) -> float:
        weight = sum(one.possible for one in self.files.values())
        total = sum(one.possible * getattr(one, which) for one in self.files.values())
        return total / weight if weight else 0.0

    @property
    def raw(self) -> float:
        """Share of the faults that a test noticed."""
        return self._mean("raw")

    @property
    def after(self) -> float:
        """Share of those that a test can notice."""
        return self._mean("after")

    def total(self, which: str) -> int:
        """Return the sum of one count over the files."""
        return sum(getattr(one, which) for one in self.files.values())

    def as_json(self) -> dict[str, Any]:
        """Return what pages quote."""
        counts = ("possible", "tried", "noticed", "set_aside")
        return {
            "tried": self.total("tried"),
            "raw": round(self.raw, 4),
            "after_review": round(self.after, 4),
            "kinds": {
                kind: {count: found[count] for count in ("noticed", "reviewed", "missed")}
                for kind, found in sorted(self.kinds.items())
            },
            "files": {
                file: {count: getattr(one, count) for count in counts}
                for file, one in sorted(self.files.items())
            },
        }


def score_of(root: Path, store: Store, files: list[str], review: Path) -> Score:
    """Return what is known about the faults of some files."""
    reasons = reviewed(review)
    score = Score({}, {})
    for file in files:
        every = {mutant.number: mutant for mutant in mutants(file, (root / file).read_text())}
        one = FileScore(len(every))
        rows = sorted(store.results(file).items(), key=lambda item: item[1][1])
        for number, (outcome, line, before, changed, _, run, reaching) in rows:
            if outcome == "error" or number not in every:
                continue
            one.tried += 1
            kind = score.kinds.setdefault(every[number].kind, Counter())
            if outcome in NOTICED:
                one.noticed += 1
                one.endless += outcome == "timeout"
                kind["noticed"] += 1
            elif (file, before, changed) in reasons:
                one.set_aside += 1
                kind["reviewed"] += 1
            else:
                part = f" ({run} of {reaching} tests)" if run < reaching else ""
                one.missed.append(f"{outcome}{part} {file}:{line}\n    {before}\n    {changed}")
                kind["missed"] += 1
        if one.tried:
            score.files[file] = one
    return score


def report(score: Score) -> None:
    """Print the score of every file, what no test noticed, and the score of all."""
    print("file                              possible tried noticed  raw  after review")
    for file, one in score.files.items():
        print(
            f"{file.removeprefix('src/jointsparse/'):34}{one.possible:8}{one.tried:6}"
            f"{one.noticed:8}{one.raw:6.0%}{one.after:8.0%}"
        )
    for one in score.files.values():
        print("\n".join(one.missed), end="\n" if one.missed else "")
    print("\nkind of fault                      tried noticed reviewed as without effect")
    for kind, counts in sorted(score.kinds.items(), key=lambda item: -item[1].total()):
        print(f"{kind:34}{counts.total():6}{counts['noticed']:8}{counts['reviewed']:9}")
    if not score.files:
        print("nothing tried yet")
        return
    print(
        f"{score.total('tried')} faults tried, {score.total('endless')} of them noticed as "
        f"endless, {score.total('set_aside')} reviewed as without effect: score {score.raw:.1%} "
        f"raw, {score.after:.1%} after review"
    )


def keep(score: Score, path: Path, **sample: int) -> None:
    """Write the score of a sample to a file, from which pages quote it."""
    path.write_text(json.dumps({**sample, **score.as_json()}, indent=1) + "\n", encoding="utf-8")
