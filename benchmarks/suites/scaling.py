"""Time and memory against samples, features and kept features; slopes on logarithmic scales."""

import numpy as np

from benchmarks.tasks import Bar, Problem, Task

OURS = ("jointsparse", "jointsparse, DictionarySPCA", "jointsparse, SPCA", "jointsparse, JSPCA")
OURS += ("jointsparse, GreedySelector",)


def grid(axis, sizes, quick_sizes):
    def problems(quick):
        chosen = quick_sizes if quick else sizes
        return [
            Problem("scaling", axis, f"{size} {axis}", size, parameters(axis, size))
            for size in chosen
        ]

    return problems


def parameters(axis, size):
    return {"axis": axis, "k": 5, "h": size if axis == "kept" else 50}


def table_of(problem):
    """Five directions on a quarter of the features, and noise.

    Many samples are a thousand, again and again: then the problem stays the same, and nothing but
    the cost of more samples is seen.
    """
    axis, size = problem.task, problem.dataset
    n, p = {"samples": (min(size, 1000), 64), "features": (100, size), "kept": (400, 400)}[axis]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    X[:, : p // 4] += 2 * rng.standard_normal((n, 5)) @ rng.standard_normal((5, p // 4))
    X -= X.mean(axis=0)
    return {"X": np.tile(X, (size // n, 1)) if axis == "samples" else X}


def size_of(problem):
    return float(problem.split()[0])


def count(data, params, result):
    return {"iterations": float(result["iterations"])} if "iterations" in result else {}


def slope(sizes, values):
    """Exponent of a power of the size, fitted on logarithmic scales; None below three sizes."""
    if len(sizes) < 3 or min(values) <= 0:
        return None
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def slopes(outcomes, sizes=size_of):
    """Return {competitor: (exponent of time, exponent of memory, how many sizes)}."""
    points = {}
    for problem, rows in outcomes.items():
        for outcome in rows:
            if outcome.good:
                place = points.setdefault(outcome.competitor, [])
                place.append((sizes(problem), outcome.median, max(outcome.memory or 0.0, 1e-3)))
    found = {}
    for name, rows in points.items():
        size, seconds, memory = map(list, zip(*rows, strict=True))
        found[name] = (slope(size, seconds), slope(size, memory), len(size))
    return found


def bars_of(promise, limit):
    def bars(outcomes):
        found = {
            name: exponents[0]
            for name, exponents in slopes(outcomes).items()
            if name in OURS and exponents[0] is not None
        }
        words = ", ".join(f"{name} {value:+.2f}" for name, value in found.items())
        met = all(value <= limit for value in found.values()) if found else None
        return [Bar(promise, words or "not measured", met)]

    return bars


def scaling(axis, title, sizes, quick_sizes, promise, limit):
    return Task(
        suite="scaling",
        name=axis,
        title=title,
        problems=grid(axis, sizes, quick_sizes),
        load=table_of,
        evaluate=count,
        bars=bars_of(promise, limit),
        sizes=size_of,
    )


TASKS = (
    scaling(
        "samples",
        "Time after the moments, against samples (64 features)",
        (1_000, 4_000, 16_000, 64_000),
        (1_000, 2_000, 4_000),
        "Time after moments is flat in n (exponent at most 0.1)",
        0.1,
    ),
    scaling(
        "features",
        "Time against features (100 samples)",
        (500, 1_000, 2_000, 4_000, 8_000),
        (150, 300, 600),
        "Forms for p ≫ n are at most linear in p (exponent at most 1.1)",
        1.1,
    ),
    scaling(
        "kept",
        "Time against kept features (400 × 400)",
        (10, 20, 40, 80, 160),
        (5, 10, 20),
        "Time is at most linear in the number of kept features (exponent at most 1.1)",
        1.1,
    ),
)
