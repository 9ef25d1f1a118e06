"""Measures: what a model explains, how sparse and stable it is, what clusters it leaves."""

from jointsparse.metrics.clustering import (
    ClusteringScores,
    clustering_accuracy,
    clustering_scores,
    nearest_neighbour_accuracy,
)
from jointsparse.metrics.loadings import explained_variance, index_of_sparseness
from jointsparse.metrics.stability import selection_stability

__all__ = [
    "ClusteringScores",
    "clustering_accuracy",
    "clustering_scores",
    "explained_variance",
    "index_of_sparseness",
    "nearest_neighbour_accuracy",
    "selection_stability",
]
