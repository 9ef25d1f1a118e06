"""The list of methods: the package, the command line, the tests and the docs read it.

Nothing but text stands here, so that reading the list imports no method.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple


class Method(NamedTuple):
    """One method.

    Attributes
    ----------
    name : str
        Name on the command line.
    kind : {"selector", "components"}
        Whether ``transform`` keeps columns or projects.
    home : str
        File in ``methods/`` and class, as in ``"udfs.UDFS"``.
    summary, when, source : str
        What it does, when to use it, where it comes from; one sentence each.
    uses : {"moments", "graph"}
        What it sees of the samples: sums over them, or also which samples are near each other.
        On a graph each sample counts for itself, so samples that occur twice change the result.
    fixed : mapping
        Parameters that make this method out of a class that several share.
    """

    name: str
    kind: Literal["selector", "components"]
    home: str
    summary: str
    when: str
    source: str
    uses: Literal["moments", "graph"] = "moments"
    fixed: Mapping[str, Any] = MappingProxyType({})

    @property
    def module(self) -> str:
        """Full name of the module of the class."""
        return f"{__package__}.{self.home.partition('.')[0]}"

    @property
    def class_name(self) -> str:
        """Name of the class, also in the package itself."""
        return self.home.partition(".")[2]

    def make(self, **parameters: Any) -> Any:
        """Build an unfitted estimator."""
        kind = getattr(importlib.import_module(self.module), self.class_name)
        return kind(**{**self.fixed, **parameters})

    @property
    def scatter_only(self) -> bool:
        """Whether the scatter matrix is all it needs, so that samples need not fit in memory.

        With its default parameters; other ones (a loss, a graph) may be different.
        """
        return not self.make()._needs().samples


_METHODS = (
    Method(
        "spca-psd",
        "selector",
        "spca_psd.SPCAPSD",
        summary="Convex sparse PCA with a positive semidefinite reconstruction matrix.",
        when="The first choice: any table, a proven optimum, exact zeros.",
        source="Zheng et al. 2023, arXiv:2309.06202",
    ),
    Method(
        "cspca-psd",
        "selector",
        "cspca.CSPCA",
        summary="Convex sparse PCA with residuals that are not squared.",
        when="The published model with unsquared losses: mild outliers only.",
        source="Zheng et al. 2023, arXiv:2309.06202",
    ),
    Method(
        "cspca",
        "selector",
        "cspca.CSPCA",
        summary="Convex sparse PCA with unsquared residuals, over all reconstruction matrices.",
        when="To compare with the original CSPCA; one feature may stand in for others.",
        source="Chang et al. 2016, ACM TKDD 11(1)",
        fixed={"psd": False},
    ),
    Method(
        "aw-spca-psd",
        "selector",
        "aw_spca.AWSPCA",
        summary="Convex sparse PCA with unsquared residuals and its own mean; no rank penalty.",
        when="The published model whose mean is fitted too: mild outliers only.",
        source="Zheng et al. 2023, arXiv:2309.06202",
    ),
    Method(
        "aw-spca",
        "selector",
        "aw_spca.AWSPCA",
        summary="The same model with its own mean, over all reconstruction matrices.",
        when="To compare with the original AW-SPCA.",
        source="Yi et al. 2019, IEEE TNNLS",
        fixed={"psd": False},
    ),
    Method(
        "greedy",
        "selector",
        "greedy_selector.GreedySelector",
        summary="The features that stand in best for all others, picked one by one.",
        when="The smallest set for a share of the variance; no parameters, a few seconds at most.",
        source="Orthogonal least squares: Chen, Cowan, Grant 1991, IEEE TNN 2(2)",
    ),
    Method(
        "subset",
        "selector",
        "subset_selector.SubsetSelector",
        summary="The set of features that explains most, with a proven bound on any other set.",
        when="The best set of a given size, and how good a set is, also under constraints.",
        source="Column subset selection: Boutsidis, Mahoney, Drineas 2009, SODA",
    ),
    Method(
        "spca",
        "components",
        "spca.SPCA",
        summary="Sparse principal components by elastic net regression.",
        when="Sparse loadings, with a chosen number of nonzeros in each component.",
        source="Zou, Hastie, Tibshirani 2006, JCGS 15(2)",
    ),
    Method(
        "jspca",
        "components",
        "jspca.JSPCA",
        summary="Joint sparse principal components: a feature is in all of them or in none.",
        when="Components that share few features.",
        source="Yi, Lai, He, Cheung, Liu 2017, Pattern Recognition 61",
    ),
    Method(
        "dictionary-spca",
        "components",
        "dictionary_spca.DictionarySPCA",
        summary="Sparse principal components as a dictionary with sparse atoms.",
        when="Parts of images or spectra; the model of scikit-learn's SparsePCA, much faster.",
        source="Jenatton, Obozinski, Bach 2010, AISTATS",
    ),
    Method(
        "robust-pca",
        "components",
        "robust_pca.RobustPCA",
        summary="Principal components of the low-rank part of a table with gross errors.",
        when="Single entries may be grossly wrong; which ones is part of the answer.",
        source="Candès, Li, Ma, Wright 2011, J. ACM 58(3)",
    ),
    Method(
        "fssl",
        "components",
        "fssl.FSSL",
        summary="Few features that reproduce the embedding of a graph, proven optimum.",
        when="Classes, neighbourhoods or principal scores to keep with few features.",
        source="Gu, Li, Han 2011, IJCAI",
        uses="graph",
    ),
    Method(
        "spcafs",
        "selector",
        "spcafs.SPCAFS",
        summary="PCA with an orthonormal projection that has few nonzero rows.",
        when="To compare with the convex methods; few features for all components.",
        source="Li et al. 2021, IEEE TPAMI",
    ),
    Method(
        "laplacian-score",
        "selector",
        "laplacian_score.LaplacianScore",
        summary="Features that vary little between neighbours and much overall.",
        when="A quick ranking of features that respect clusters or manifolds.",
        source="He, Cai, Niyogi 2005, NIPS 18",
        uses="graph",
    ),
    Method(
        "mcfs",
        "selector",
        "mcfs.MCFS",
        summary="Few features that reproduce the spectral embedding of the neighbours, each alone.",
        when="Several clusters, and features wanted that matter for one of them.",
        source="Cai, Zhang, He 2010, KDD",
        uses="graph",
    ),
    Method(
        "udfs",
        "selector",
        "udfs.UDFS",
        summary="Local discriminant analysis with a row-sparse projection.",
        when="More samples than features, and clusters expected.",
        source="Yang et al. 2011, IJCAI",
        uses="graph",
    ),
    Method(
        "sogfs",
        "selector",
        "sogfs.SOGFS",
        summary="A graph with a given number of components, learned along with the features.",
        when="The number of clusters is known.",
        source="Nie, Zhu, Li 2016, AAAI",
        uses="graph",
    ),
    Method(
        "rne",
        "selector",
        "rne.RNE",
        summary="Features that neighbours reconstruct well, in closed form.",
        when="To compare with the published method; quick on any table.",
        source="Liu et al. 2020, Knowledge-Based Systems 193",
        uses="graph",
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


def method_of(estimator: Any) -> Method | None:
    """Return the method that an estimator belongs to; None where it is of another class.

    Examples
    --------
    >>> from jointsparse import CSPCA, registry
    >>> registry.method_of(CSPCA()).name, registry.method_of(CSPCA(psd=False)).name
    ('cspca-psd', 'cspca')
    """
    kind = type(estimator)
    found = [m for m in _METHODS if (m.module, m.class_name) == (kind.__module__, kind.__name__)]
    # The one that fixes parameters is asked before the one that leaves them free.
    for method in sorted(found, key=lambda method: -len(method.fixed)):
        if all(getattr(estimator, name) == value for name, value in method.fixed.items()):
            return method
    return None
