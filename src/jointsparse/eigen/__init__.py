"""Eigenpairs of large matrices, and what goes with them."""
