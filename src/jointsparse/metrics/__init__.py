"""Measures of what a model explains and of how sparse it is."""

from jointsparse.metrics.loadings import explained_variance, index_of_sparseness

__all__ = ["explained_variance", "index_of_sparseness"]
