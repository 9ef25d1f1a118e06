"""Pictures of fitted estimators, with scikit-learn's display conventions.

Importing this package does not import matplotlib; drawing does.
"""

from jointsparse.plotting.biplot import BiplotDisplay
from jointsparse.plotting.comparison import ComparisonDisplay
from jointsparse.plotting.convergence import ConvergenceDisplay
from jointsparse.plotting.feature_map import FeatureMapDisplay
from jointsparse.plotting.feature_scores import FeatureScoresDisplay
from jointsparse.plotting.loadings import LoadingsDisplay
from jointsparse.plotting.path import PathDisplay
from jointsparse.plotting.selection_curve import SelectionCurveDisplay

__all__ = [
    "BiplotDisplay",
    "ComparisonDisplay",
    "ConvergenceDisplay",
    "FeatureMapDisplay",
    "FeatureScoresDisplay",
    "LoadingsDisplay",
    "PathDisplay",
    "SelectionCurveDisplay",
]
