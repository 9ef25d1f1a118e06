"""Which few original features matter: sparse PCA and feature selection with certified optima."""

from __future__ import annotations

import importlib
from typing import Any

from jointsparse.methods import registry

__version__ = "0.2.0"

# Loaded when first used, so that importing the package costs next to nothing.
_HOMES = {method.class_name: method.module for method in registry.methods().values()} | {
    "KernelFSSL": "jointsparse.methods.kernel_fssl",
    "SelectFeatures": "jointsparse.methods.select_features",
    "FeatureSignificance": "jointsparse.significance",
    "feature_significance": "jointsparse.significance",
    "JointComponents": "jointsparse.methods.sets.joint_components",
    "joint_components": "jointsparse.methods.sets.joint_components",
    "SparseComponent": "jointsparse.methods.sets.sparse_component",
    "sparse_component": "jointsparse.methods.sets.sparse_component",
    "Constraints": "jointsparse.solvers.subset.constraints",
    "ConstraintPrice": "jointsparse.methods.sets.constraint_prices",
    "constraint_prices": "jointsparse.methods.sets.constraint_prices",
    "SetCertificate": "jointsparse.methods.sets.set_certificate",
    "certify_set": "jointsparse.methods.sets.set_certificate",
    "Moments": "jointsparse.moments",
    "SpatialSign": "jointsparse.methods.robust_steps",
    "Wrap": "jointsparse.methods.robust_steps",
    "Solution": "jointsparse.solvers.solution",
    "solve": "jointsparse.solvers.composing",
    "open_source": "jointsparse.sources",
    "Comparison": "jointsparse.model_selection",
    "ParameterChoice": "jointsparse.model_selection",
    "RegularizationPath": "jointsparse.model_selection",
    "StabilitySelection": "jointsparse.model_selection",
    "choose_parameters": "jointsparse.model_selection",
    "compare_methods": "jointsparse.model_selection",
    "regularization_path": "jointsparse.model_selection",
    "stability_selection": "jointsparse.model_selection",
    "Report": "jointsparse.report",
    "load_model": "jointsparse.persistence",
    "save_model": "jointsparse.persistence",
}

_ROOMS = ("losses", "metrics", "penalties", "solvers")

__all__ = [*_HOMES, *_ROOMS, "__version__", "registry"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"jointsparse.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
