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
    "RegularizationPath": "jointsparse.model_selection",
    "regularization_path": "jointsparse.model_selection",
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
    "DictionarySPCA",
    "GreedySelector",
    "KernelFSSL",
    "LaplacianScore",
    "Moments",
    "RegularizationPath",
    "RobustPCA",
    "SelectFeatures",
    "__version__",
    "metrics",
    "open_source",
    "registry",
    "regularization_path",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
