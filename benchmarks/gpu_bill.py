"""Times on a device, and the bill of a fit: products and factorisations that it cannot avoid."""

import time
from collections import Counter
from contextlib import contextmanager

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

BILLED = {
    "mm": "product",
    "bmm": "product",
    "mv": "product",
    "_linalg_eigh": "eigh",
    "linalg_cholesky_ex": "Cholesky",
    "_linalg_svd": "SVD",
    "linalg_qr": "QR",
    "_linalg_solve_ex": "solve",
    "cholesky_inverse": "inverse",
    "cholesky_solve": "Cholesky solve",
    "linalg_solve_triangular": "triangular solve",
}
POSITIVE = ("_linalg_eigh", "linalg_cholesky_ex", "cholesky_inverse", "cholesky_solve",
            "linalg_solve_triangular")  # fmt: skip
LONG = 3.0  # seconds: such a run is not repeated


class Clock:
    """Times on one device."""

    def __init__(self, device):
        self.device = device

    def synchronise(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def once(self, function):
        self.synchronise()
        start = time.perf_counter()
        result = function()
        self.synchronise()
        return time.perf_counter() - start, result

    def best(self, function, repeats=5):
        """Return the shortest time after a warm-up, and the result."""
        shortest, result = self.once(function)
        if shortest < LONG:
            shortest = np.inf
        for _ in range(repeats if np.isinf(shortest) else 1):
            seconds, result = self.once(function)
            shortest = min(shortest, seconds)
            if seconds > LONG:
                break
        return shortest, result


class Bill(TorchDispatchMode):
    """Counts the products and factorisations of PyTorch, and the eigendecompositions of NumPy."""

    def __init__(self):
        super().__init__()
        self.counts, self.synchronisations = Counter(), 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.split("::")[1]
        if name in BILLED:
            shapes = tuple(
                (tuple(a.shape), tuple(a.stride()), a.dtype)
                for a in args
                if isinstance(a, torch.Tensor)
            )
            self.counts[name, shapes] += 1
        away = name == "_to_copy" and str((kwargs or {}).get("device")) == "cpu"
        self.synchronisations += away or name in ("_local_scalar_dense", "nonzero")
        return func(*args, **(kwargs or {}))

    @contextmanager
    def open(self):
        original = np.linalg.eigh

        def counted(matrix):
            self.counts["host", (matrix.shape, None, matrix.dtype)] += 1
            return original(matrix)

        np.linalg.eigh = counted
        try:
            with self:
                yield self
        finally:
            np.linalg.eigh = original

    def items(self, clock):
        """Return (what, count, seconds for one) of everything, the dearest first."""
        lines = [(*_one(key, clock), count) for key, count in self.counts.items()]
        lines = [(what, count, seconds) for what, seconds, count in lines]
        return sorted(lines, key=lambda line: -line[1] * line[2])


def _one(key, clock):
    """Time one operation of a bill by itself."""
    name, shapes = key
    if name == "host":
        size = shapes[0][0]
        matrix = np.random.default_rng(0).standard_normal((size, size))
        return f"eigh {size} on the host", clock.best(lambda: np.linalg.eigh(matrix + matrix.T))[0]
    arrays = [_like(*shape, clock.device) for shape in shapes]
    what = " by ".join("×".join(map(str, shape[0])) for shape in shapes)
    operation = getattr(torch.ops.aten, name)
    if name in ("mm", "bmm", "mv"):
        return f"product {what}", clock.best(lambda: operation(*arrays[:2]), 3)[0]
    if name == "cholesky_solve":
        arrays = arrays[::-1]  # the factor comes last there
    square = arrays[0]
    if name in POSITIVE:
        square = square @ square.mT + square.shape[-1] * torch.eye(
            square.shape[-1], dtype=square.dtype, device=square.device
        )
    call = {
        "_linalg_eigh": lambda: torch.linalg.eigh(square),
        "linalg_cholesky_ex": lambda: torch.linalg.cholesky(square),
        "_linalg_svd": lambda: torch.linalg.svd(square, full_matrices=False),
        "linalg_qr": lambda: torch.linalg.qr(square),
        "_linalg_solve_ex": lambda: torch.linalg.solve(square, arrays[1]),
        "cholesky_inverse": lambda: torch.cholesky_inverse(square),
        "cholesky_solve": lambda: torch.cholesky_solve(arrays[1], square),
        "linalg_solve_triangular": lambda: torch.linalg.solve_triangular(
            square, arrays[1], upper=False
        ),
    }[name]
    return f"{BILLED[name]} {'×'.join(map(str, shapes[0][0]))}", clock.best(call, 3)[0]


def _like(shape, stride, dtype, device):
    """Return random numbers of a shape, in the same order of memory."""
    if len(shape) == 2 and stride[0] < stride[1]:
        return torch.randn(shape[::-1], dtype=dtype, device=device).T
    return torch.randn(shape, dtype=dtype, device=device)


def planted(n, p, n_signal, rank, dtype, device):
    """Noise, and a signal of low rank on some features that carries half of the variance."""
    generator = torch.Generator(device=device).manual_seed(0)
    options = {"generator": generator, "dtype": dtype, "device": device}
    X = torch.randn((n, p), **options)
    signal = torch.randn((n, rank), **options) @ torch.randn((rank, n_signal), **options)
    X[:, :n_signal] += signal * (p / (n_signal * rank)) ** 0.5
    return X
