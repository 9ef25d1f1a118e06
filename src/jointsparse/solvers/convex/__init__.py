"""SPCA-PSD: the model, its solvers, screening and certificates."""
