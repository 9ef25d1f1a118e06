"""Kernels: arrays in, :class:`~jointsparse.solvers.solution.Solution` out."""
