"""The score: the share of the faults that a test noticed, with and without the reviewed ones."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path

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


def report(root: Path, store: Store, files: list[str], review: Path) -> float:
    """Print the score of every file with its survivors; return that of all after the review.

    Files have samples of different shares, so the score of all of them is the mean of theirs,
    weighted by the number of possible faults.
    """
    reasons = reviewed(review)
    raw_sum = after_sum = weight = 0.0
    tried_all = timeouts = set_aside = 0
    print("file                              possible tried noticed  raw  after review")
    lines = []
    kinds: dict[str, Counter[str]] = {}
    for file in files:
        every = {mutant.number: mutant for mutant in mutants(file, (root / file).read_text())}
        possible = len(every)
        by_number = store.results(file)
        results = list(by_number.values())
        tried = [row for row in results if row[0] != "error"]
        if not tried:
            continue
        noticed = sum(row[0] in NOTICED for row in tried)
        for number, row in by_number.items():
            if number in every and row[0] != "error":
                counts = kinds.setdefault(every[number].kind, Counter())
                seen = row[0] in NOTICED
                known = (file, row[2], row[3]) in reasons
                counts["noticed" if seen else "reviewed" if known else "missed"] += 1
        left = [row for row in tried if row[0] not in NOTICED]
        unjudged = [row for row in left if (file, row[2], row[3]) not in reasons]
        equivalent = len(left) - len(unjudged)
        raw = noticed / len(tried)
        after = noticed / (len(tried) - equivalent) if len(tried) > equivalent else 1.0
        print(
            f"{file.removeprefix('src/jointsparse/'):34}{possible:8}{len(tried):6}{noticed:8}"
            f"{raw:6.0%}{after:8.0%}"
        )
        raw_sum, after_sum, weight = (
            raw_sum + possible * raw, after_sum + possible * after, weight + possible
        )  # fmt: skip
        tried_all, set_aside = tried_all + len(tried), set_aside + equivalent
        timeouts += sum(row[0] == "timeout" for row in tried)
        for outcome, line, before, changed, _, run, reaching in sorted(
            unjudged, key=lambda r: r[1]
        ):
            part = f" ({run} of {reaching} tests)" if run < reaching else ""
            lines.append(f"{outcome}{part} {file}:{line}\n    {before}\n    {changed}")
    print("\n".join(lines))
    print("\nkind of fault                      tried noticed reviewed as without effect")
    for kind, counts in sorted(kinds.items(), key=lambda item: -item[1].total()):
        print(f"{kind:34}{counts.total():6}{counts['noticed']:8}{counts['reviewed']:9}")
    if not weight:
        print("nothing tried yet")
        return 0.0
    print(
        f"{tried_all} faults tried, {timeouts} of them noticed as endless, {set_aside} reviewed "
        f"as without effect: score {raw_sum / weight:.1%} raw, "
        f"{after_sum / weight:.1%} after review"
    )
    return after_sum / weight
