"""Choosing without labels: paths, parameters, stability, methods side by side."""

from jointsparse.model_selection.comparison import Comparison, MethodResult, compare_methods
from jointsparse.model_selection.parameters import GridPoint, ParameterChoice, choose_parameters
from jointsparse.model_selection.path import RegularizationPath, regularization_path
from jointsparse.model_selection.stability import StabilitySelection, stability_selection

__all__ = [
    "Comparison",
    "GridPoint",
    "MethodResult",
    "ParameterChoice",
    "RegularizationPath",
    "StabilitySelection",
    "choose_parameters",
    "compare_methods",
    "regularization_path",
    "stability_selection",
]
