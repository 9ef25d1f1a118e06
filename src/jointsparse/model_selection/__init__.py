"""Choosing parameters without labels: the regularisation path."""

from jointsparse.model_selection.path import RegularizationPath, regularization_path

__all__ = ["RegularizationPath", "regularization_path"]
