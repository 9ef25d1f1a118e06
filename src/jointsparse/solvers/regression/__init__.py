"""Regressions with sparse coefficients, single or in groups."""
