"""The list of methods: the command line, the conformance tests and the docs read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from jointsparse.methods.aw_spca import AWSPCA
from jointsparse.methods.cspca import CSPCA
from jointsparse.methods.dictionary_spca import DictionarySPCA
from jointsparse.methods.jspca import JSPCA
from jointsparse.methods.robust_pca import RobustPCA
from jointsparse.methods.spca import SPCA
from jointsparse.methods.spca_psd import SPCAPSD


@dataclass(frozen=True)
class Method:
    """One method.

    Attributes
    ----------
    name : str
        Name on the command line.
    kind : {"selector", "components"}
        Whether ``transform`` keeps columns or projects.
    make : callable
        Builds an unfitted estimator from keyword parameters.
    summary, when, source : str
        What it does, when to use it, where it comes from; one sentence each.
    """

    name: str
    kind: Literal["selector", "components"]
    make: Callable[..., Any]
    summary: str
    when: str
    source: str


_METHODS = (
    Method(
        "spca-psd",
        "selector",
        SPCAPSD,
        summary="Convex sparse PCA with a positive semidefinite reconstruction matrix.",
        when="The first choice: any table, a proven optimum, exact zeros.",
        source="Zheng et al. 2023, arXiv:2309.06202",
    ),
    Method(
        "cspca-psd",
        "selector",
        CSPCA,
        summary="Convex sparse PCA with residuals that are not squared.",
        when="Some samples may be outliers.",
        source="Zheng et al. 2023, arXiv:2309.06202",
    ),
    Method(
        "cspca",
        "selector",
        partial(CSPCA, psd=False),
        summary="Robust convex sparse PCA over all reconstruction matrices.",
        when="To compare with the original CSPCA; one feature may stand in for others.",
        source="Chang et al. 2016, ACM TKDD 11(1)",
    ),
    Method(
        "aw-spca-psd",
        "selector",
        AWSPCA,
        summary="Robust convex sparse PCA that also finds a robust mean; no rank penalty.",
        when="Outlier samples pull the mean itself away.",
        source="Zheng et al. 2023, arXiv:2309.06202",
    ),
    Method(
        "aw-spca",
        "selector",
        partial(AWSPCA, psd=False),
        summary="Robust convex sparse PCA with a robust mean, over all reconstruction matrices.",
        when="To compare with the original AW-SPCA.",
        source="Yi et al. 2019, IEEE TNNLS",
    ),
    Method(
        "spca",
        "components",
        SPCA,
        summary="Sparse principal components by elastic net regression.",
        when="Sparse loadings, with a chosen number of nonzeros in each component.",
        source="Zou, Hastie, Tibshirani 2006, JCGS 15(2)",
    ),
    Method(
        "jspca",
        "components",
        JSPCA,
        summary="Joint sparse principal components: a feature is in all of them or in none.",
        when="Components that share few features; outlier samples do little harm.",
        source="Yi, Lai, He, Cheung, Liu 2017, Pattern Recognition 61",
    ),
    Method(
        "dictionary-spca",
        "components",
        DictionarySPCA,
        summary="Sparse principal components as a dictionary with sparse atoms.",
        when="Parts of images or spectra; the model of scikit-learn's SparsePCA, much faster.",
        source="Jenatton, Obozinski, Bach 2010, AISTATS",
    ),
    Method(
        "robust-pca",
        "components",
        RobustPCA,
        summary="Principal components of the low-rank part of a table with gross errors.",
        when="Single entries may be grossly wrong; which ones is part of the answer.",
        source="Candès, Li, Ma, Wright 2011, J. ACM 58(3)",
    ),
)


def methods() -> dict[str, Method]:
    """Return all methods by name.

    Examples
    --------
    >>> from jointsparse import registry
    >>> registry.methods()["spca-psd"].make(alpha=0.2)
    SPCAPSD(alpha=0.2)
    """
    return {method.name: method for method in _METHODS}
