"""The three norms of a coefficient matrix (one row for each feature), and what goes with them."""

from __future__ import annotations

import numpy as np

from jointsparse.arrays import FloatArray

NORMS = ("l21", "l11", "fro")


def norm_of(A: FloatArray, norm: str) -> float:
    """Return Σ‖a_i‖ over the rows ("l21"), Σ|a_ij| ("l11") or ‖A‖_F ("fro")."""
    if norm == "l21":
        return float(np.sum(np.linalg.norm(A, axis=1)))
    return float(np.sum(np.abs(A))) if norm == "l11" else float(np.linalg.norm(A))


def dual_norm_of(C: FloatArray, norm: str) -> float:
    """Return the dual norm: the largest row norm, the largest entry or ‖C‖_F."""
    if norm == "l21":
        return float(np.max(np.linalg.norm(C, axis=1)))
    return float(np.max(np.abs(C))) if norm == "l11" else float(np.linalg.norm(C))


def lengths_of(A: FloatArray, norm: str) -> FloatArray:
    """Return G⁻¹, what the norm is reweighted with: p × 1 (the same for all columns) or p × k."""
    if norm == "l21":
        return np.linalg.norm(A, axis=1, keepdims=True)
    return np.abs(A) if norm == "l11" else np.full((len(A), 1), np.linalg.norm(A))
