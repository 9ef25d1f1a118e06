"""Which few original features matter: sparse PCA and feature selection with certified optima."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0.dev0"

# Loaded when first used, so that importing the package costs next to nothing.
_HOMES = {
    "AWSPCA": "jointsparse.methods.aw_spca",
    "CSPCA": "jointsparse.methods.cspca",
    "FSSL": "jointsparse.methods.fssl",
    "JSPCA": "jointsparse.methods.jspca",
    "DictionarySPCA": "jointsparse.methods.dictionary_spca",
    "GreedySelector": "jointsparse.methods.greedy_selector",
    "Moments": "jointsparse.moments",
    "open_source": "jointsparse.sources",
    "RobustPCA": "jointsparse.methods.robust_pca",
    "KernelFSSL": "jointsparse.methods.kernel_fssl",
    "LaplacianScore": "jointsparse.methods.laplacian_score",
    "RNE": "jointsparse.methods.rne",
    "SOGFS": "jointsparse.methods.sogfs",
    "SPCA": "jointsparse.methods.spca",
    "SPCAFS": "jointsparse.methods.spcafs",
    "SPCAPSD": "jointsparse.methods.spca_psd",
    "UDFS": "jointsparse.methods.udfs",
    "SelectFeatures": "jointsparse.methods.select_features",
    "Comparison": "jointsparse.model_selection",
    "ParameterChoice": "jointsparse.model_selection",
    "RegularizationPath": "jointsparse.model_selection",
    "Report": "jointsparse.report",
    "StabilitySelection": "jointsparse.model_selection",
    "choose_parameters": "jointsparse.model_selection",
    "compare_methods": "jointsparse.model_selection",
    "stability_selection": "jointsparse.model_selection",
    "regularization_path": "jointsparse.model_selection",
    "load_model": "jointsparse.persistence",
    "save_model": "jointsparse.persistence",
}
_MODULES = {"metrics": "jointsparse.metrics", "registry": "jointsparse.methods.registry"}

__all__ = [
    "AWSPCA",
    "CSPCA",
    "FSSL",
    "JSPCA",
    "RNE",
    "SOGFS",
    "SPCA",
    "SPCAFS",
    "SPCAPSD",
    "UDFS",
    "Comparison",
    "DictionarySPCA",
    "GreedySelector",
    "KernelFSSL",
    "LaplacianScore",
    "Moments",
    "ParameterChoice",
    "RegularizationPath",
    "Report",
    "RobustPCA",
    "SelectFeatures",
    "StabilitySelection",
    "__version__",
    "choose_parameters",
    "compare_methods",
    "load_model",
    "metrics",
    "open_source",
    "registry",
    "regularization_path",
    "save_model",
    "stability_selection",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
