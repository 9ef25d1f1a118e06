"""What a GPU gives: ``python -m benchmarks --suite gpu [--device cuda] [--quick] [SECTION ...]``.

Every fit is timed beside its *bill*: all matrix products and factorisations that it makes, each
timed by itself on the same device and with the same shapes. No rewriting of the Python between them
can beat the bill, so the ratio of the two is what the library loses. Times are the best of a few
runs after a warm-up, with the device synchronised. PIE and isolet are read from the folder that
JOINTSPARSE_DATA names. The page benchmarks/gpu.md is written (and the tables are printed as they
come); a section that fails says so there, and the others go on.
"""

import argparse
import os
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import torch

from benchmarks import gpu_goals
from benchmarks.common import verdict
from benchmarks.gpu_bill import Bill, Clock, planted
from jointsparse import SPCAPSD, Moments, registry
from jointsparse.device import to_host
from jointsparse.linalg import HOST_EIGH

warnings.simplefilter("ignore")

PAGE = Path(__file__).with_suffix(".md")


class Page:
    """The report: printed and kept."""

    def __init__(self):
        self.lines = []

    def say(self, *lines):
        self.lines += lines
        print(*lines, sep="\n", flush=True)

    def table(self, header, rows):
        self.say("", "| " + " | ".join(header) + " |", "|" + "---|" * len(header))
        self.say(*("| " + " | ".join(map(str, row)) + " |" for row in rows), "")


def seconds(value):
    return f"{value:.4f} s" if value < 0.1 else f"{value:.2f} s"


FIT_HEADER = (
    "problem", "features", "fit", "iterations", "gap", "rank", "dearest primitive",
    "all primitives", "fit / primitives", "waits for the device",
)  # fmt: skip


def fit_row(name, make, X, clock, repeats=3):
    """Time a fit, and everything on its bill."""
    spent, fitted = clock.best(lambda: make().fit(X), repeats)
    with Bill().open() as bill:
        make().fit(X)
    items = bill.items(clock)
    total = sum(count * one for _, count, one in items)
    what, count, one = items[0]
    return (
        name, X.shape[1], seconds(spent), fitted.n_iter_, f"{fitted.duality_gap_:.1e}",
        int(fitted.diagnostics_["rank"]), f"{what}: {count} × {1e3 * one:.2f} ms", seconds(total),
        f"{spent / total:.1f}", bill.synchronisations,
    ), fitted  # fmt: skip


def load(name, device):
    path = Path(os.environ.get("JOINTSPARSE_DATA", "")) / f"{name}.npz"
    X = np.load(path, allow_pickle=False)["X"]
    X = X / 255.0 if X.dtype == np.uint8 else X.astype(float)
    return torch.as_tensor(X, device=device)


def named(name):
    def section(page, clock, quick):
        X = load(name, clock.device)
        if quick:
            X = X[:, ::8]

        def make(**more):
            return SPCAPSD(
                alpha=10.0, eta=10.0, penalty_scale="absolute", tol=1e-4,
                n_features_to_select="support", **more,
            )  # fmt: skip

        rows = [
            fit_row(f"{name}, λ = η = 10", make, X, clock)[0],
            fit_row("… p × p splitting", lambda: make(solver="splitting"), X, clock)[0],
            fit_row("… and 50 features", lambda: make().set_params(n_features_to_select=50), X,
                    clock)[0],
        ]  # fmt: skip
        page.table(FIT_HEADER, rows)
        values = to_host(X)
        spent, _ = clock.best(lambda: make().fit(values), 3)
        page.say(f"The first of these with NumPy on the host: {seconds(spent)}.")

    return section


def made_up(size):
    def section(page, clock, quick):
        p = size // 32 if quick else size
        X = planted(2 * p, p, p // 8, 20, torch.float64, clock.device)

        def make(**more):
            return SPCAPSD(n_features_to_select="support", **more)

        rows = [
            fit_row(f"made up, {2 * p} samples", make, X, clock)[0],
            fit_row("… p × p splitting", lambda: make(solver="splitting"), X, clock, 1)[0],
        ]
        page.table(FIT_HEADER, rows)
        page.say(
            "The default penalties are at the edge of the noise: hundreds of its directions lie "
            "just below, and a small basis gains little."
        )

    return section


def scatter(page, clock, quick):
    n, p = (10_000, 128) if quick else (1_000_000, 1024)
    X = torch.randn((n, p), dtype=torch.float32, device=clock.device)
    ours, S = clock.best(lambda: Moments.from_data(X).native.scatter)
    single, plain = clock.best(lambda: X.T @ X)
    rows = max(1, 2**24 // p)

    def products():
        return sum(block.double().T @ block.double() for block in X.split(rows))

    double, _ = clock.best(products)
    centred = X - X.mean(dim=0)
    error = float((centred.T @ centred - S).abs().max() / S.abs().max())
    page.table(
        ("what", "time"),
        [
            (f"mean and scatter matrix of {n} × {p} float32, in float64", seconds(ours)),
            ("XᵀX alone in float64, by blocks", seconds(double)),
            ("XᵀX alone in float32", seconds(single)),
            ("ours / float64 products", f"{ours / double:.1f}"),
        ],
    )
    page.say(f"The float32 product is wrong by {error:.1e} of the largest entry.")
    del plain


def million(page, clock, quick):
    n, p, n_signal = (100, 4000, 40) if quick else (1000, 1_000_000, 2000)
    X = planted(n, p, n_signal, 10, torch.float32, clock.device)

    def make(**more):
        return SPCAPSD(**{"tol": 1e-3, "n_features_to_select": "support", **more})

    row, fitted = fit_row(f"{n} × {p} float32", make, X, clock, 2)
    many = lambda: make(n_features_to_select=100 if not quick else 20)  # noqa: E731
    more, selected = fit_row("… and the greedy choice", many, X, clock, 1)
    page.table(FIT_HEADER, [row, more])
    found = int(np.count_nonzero(fitted.feature_scores_[:n_signal]))
    false = int(np.count_nonzero(fitted.feature_scores_[n_signal:]))
    page.say(
        f"Planted features found: {found} of {n_signal}; others: {false}; rank "
        f"{int(fitted.diagnostics_['rank'])}; {int(selected.support_[:n_signal].sum())} of the "
        f"{int(selected.support_.sum())} chosen ones are planted."
    )
    moments = Moments.from_data(X)
    parts = [
        ("mean and check", clock.once(lambda: Moments.from_data(X))[0]),
        ("centred copy", clock.once(lambda: moments.native.centred_data)[0]),
        ("thin spectrum", clock.once(lambda: moments.native.thin_spectrum)[0]),
    ]
    U = torch.randn((p, 20), dtype=torch.float32, device=clock.device)
    parts.append(("for comparison: one Xᵀ(XU), k = 20", clock.best(lambda: X.T @ (X @ U))[0]))
    page.table(("part of it", "time"), [(what, seconds(spent)) for what, spent in parts])
    if clock.device.type == "cuda":
        page.say(f"Most memory in use: {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB.")


def primitives(page, clock, quick):
    def symmetric(size):
        matrix = torch.randn((size, size), dtype=torch.float64, device=clock.device)
        return matrix + matrix.T

    rows = []
    for size in (32, 64) if quick else (1024, 4096, 8192):
        matrix = symmetric(size)
        eigh, _ = clock.best(lambda m=matrix: torch.linalg.eigh(m), 3)
        product, _ = clock.best(lambda m=matrix: m @ m, 3)
        rate = 2 * size**3 / product / 1e12
        rows.append((size, seconds(eigh), seconds(product), f"{rate:.1f}"))
    page.table(("size, float64", "eigh", "product", "TFLOP/s"), rows)
    rows = []
    for size in (16, 32, 64) if quick else (16, 32, 64, 96, 128, 192, 256, 384, 512):
        matrix = symmetric(size)
        there, _ = clock.best(lambda m=matrix: torch.linalg.eigh(m))

        def here(m=matrix):
            values, vectors = np.linalg.eigh(to_host(m))
            return [torch.as_tensor(a, device=m.device) for a in (values, vectors)]

        back, _ = clock.best(here)
        rows.append((size, f"{1e3 * there:.2f} ms", f"{1e3 * back:.2f} ms"))
    page.table(("size", "eigh on the device", "eigh on the host, with both transfers"), rows)
    page.say(f"Up to {HOST_EIGH} rows the library uses the host (`linalg.HOST_EIGH`).")


def agreement(page, clock, quick):
    """Every method of the registry on the device and with NumPy."""
    libraries = {"PyTorch": lambda X: torch.as_tensor(X, device=clock.device)}
    if clock.device.type == "cuda":
        try:
            import cupy

            libraries["CuPy"] = cupy.asarray
        except ImportError:
            page.say("CuPy is not installed; only PyTorch is compared.")
    rng = np.random.default_rng(0)
    rows = []
    shapes = [(60, 20), (20, 60)]
    for library, move in libraries.items():
        for name, method in registry.methods().items():
            row = [library, name]
            for dtype, allowed in ((np.float64, 1e-6), (np.float32, 1e-3)):
                worst = 0.0
                more = [(300, 180), (100, 450)] if name == "spca-psd" else []
                for n, p in shapes + more:
                    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p))
                    X = (X + 0.3 * rng.standard_normal((n, p))).astype(dtype)
                    X[:, 1] = 2.0
                    try:
                        known = method.make().fit(X)
                        moved = method.make().fit(move(X))
                        scores = to_host(moved.feature_scores_)
                        apart = np.max(np.abs(scores - known.feature_scores_))
                        worst = max(worst, float(apart / known.feature_scores_.max()))
                        image = to_host(moved.transform(move(X)))
                        expected = known.transform(X)
                        away = float(np.max(np.abs(image - expected)) / np.max(np.abs(expected)))
                        worst = max(worst, away)
                    except Exception as error:
                        traceback.print_exc(limit=-4)
                        page.say(f"{library}, {name}, {n} × {p} {dtype.__name__}: {error!r}")
                        worst = np.inf
                row.append(f"{worst:.0e} {verdict(worst <= allowed)}")
            rows.append(row)
    header = ("library", "method", "float64: apart (1e-6 allowed)", "float32 (1e-3 allowed)")
    page.table(header, rows)


SECTIONS = {
    "goals": ("Every method, with its goal", gpu_goals.section),
    "primitives": ("What the device can do", primitives),
    "pie": ("PIE", named("pie")),
    "isolet": ("isolet", named("isolet")),
    "scatter": ("A scatter matrix of a million samples", scatter),
    "million": ("A million features", million),
    "4096": ("4096 features", made_up(4096)),
    "8192": ("8192 features", made_up(8192)),
    "agreement": ("The same answers as NumPy", agreement),
}

INTRODUCTION = """# On a GPU

Made by `python -m benchmarks --suite gpu`. *fit* is the whole call (checks, moments, spectrum for
the relative penalties, solver, certificate), the best of a few after a warm-up. *All primitives*
are the products and factorisations of that fit, each timed by itself on the same device with the
same shapes; *dearest primitive* is the one that costs most of it. *Waits for the device* counts the
numbers that Python has asked for on the way."""


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help=f"of: {', '.join(SECTIONS)}; all by default")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    parser.add_argument("--stored", action="store_true", help="show the goals as last measured")
    parser.add_argument("--output", type=Path, default=PAGE, help="where the page goes")
    options = parser.parse_args(words)
    if options.stored:
        gpu_goals.show(Page(), gpu_goals.load())
        return
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"unknown sections: {', '.join(unknown)}")
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        sys.exit("PyTorch sees no GPU; --device cpu --quick shows that the script runs")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "the processor"
    page, clock, failed = Page(), Clock(device), []
    page.say(INTRODUCTION, "", f"Device: {name}; PyTorch {torch.__version__}.")
    for key in options.sections or SECTIONS:
        title, section = SECTIONS[key]
        page.say("", f"## {title}")
        start = time.perf_counter()
        try:
            section(page, clock, options.quick)
        except Exception as error:
            traceback.print_exc()
            failed.append(key)
            page.say(f"This section failed: {type(error).__name__}: {error}")
        print(f"[{key}: {time.perf_counter() - start:.0f} s]", flush=True)
        if device.type == "cuda":
            torch.cuda.empty_cache()
        options.output.write_text("\n".join(page.lines) + "\n", encoding="utf-8")
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
