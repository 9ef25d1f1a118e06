"""Losses: how far samples are from what a matrix Ω makes of them, x ≈ Ωx.

A loss is a value without data; ``loss.on(moments)`` is the loss on some samples, of which a solver
asks ``value(omega)``, ``gradient(omega)`` and what else it names in its ``requires``.
"""

from jointsparse.losses.sample_norms import SampleNormLoss
from jointsparse.losses.squared import SquaredLoss

__all__ = ["SampleNormLoss", "SquaredLoss"]
