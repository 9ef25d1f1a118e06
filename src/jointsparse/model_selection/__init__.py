"""Choosing without labels: paths, parameters, stability."""

from jointsparse.model_selection.parameters import GridPoint, ParameterChoice, choose_parameters
from jointsparse.model_selection.path import RegularizationPath, regularization_path
from jointsparse.model_selection.stability import StabilitySelection, stability_selection

__all__ = [
    "GridPoint",
    "ParameterChoice",
    "RegularizationPath",
    "StabilitySelection",
    "choose_parameters",
    "regularization_path",
    "stability_selection",
]
