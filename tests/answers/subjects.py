"""The code under test: the only place of the answers that knows its classes and attributes.

To try a new implementation of one method, name it in ``SUBSTITUTES``; where its parameters or its
attributes have other names, say so in ``RENAMED`` and in the functions below.
"""

import warnings

import numpy as np
import scipy.sparse as sp

import jointsparse

SUBSTITUTES = {}  # {"SPCAPSD": jointsparse.methods.SPCAPSD}: instead of jointsparse.SPCAPSD
RENAMED = {}  # {"FSSL": {"constraint": "formulation"}}: recorded name of a parameter -> its name
CERTIFIED = {"SPCAPSD", "CSPCA", "AWSPCA", "FSSL", "KernelFSSL", "MCFS", "RobustPCA"}
SELECTORS = {
    *("SPCAPSD", "CSPCA", "AWSPCA", "SPCAFS", "LaplacianScore", "UDFS", "SOGFS", "RNE", "MCFS"),
    *("GreedySelector", "SubsetSelector"),
}
HOMES = {
    "array": np.asarray,
    "CSR": sp.csr_array,
    "float32": lambda X: np.asarray(X, dtype=np.float32),
}
# The verdict by the words that it begins with.
VERDICTS = {
    "No structure beyond noise": "noise",
    "Nothing is kept": "nothing kept",
    "All ": "all kept",
    "No better than random": "no better than random",
    "Little better than random": "little better than random",
    "Most features are unrelated": "most unrelated",
    "Features predict little": "most unrelated",
    "Good stand-ins for the rest": "good stand-ins",
    "Good stand-ins for features": "good stand-ins for some",
    "They carry what can": "all that can be predicted",
    "They carry part": "part of what can be predicted",
}


def estimator(name, **params):
    """Return an unfitted estimator: the new implementation where there is one."""
    kind = SUBSTITUTES.get(name) or getattr(jointsparse, name)
    renamed = RENAMED.get(name, {})
    return kind(**{renamed.get(key, key): value for key, value in params.items()})


def fit(name, params, X, *args, **kwargs):
    """Fit without warnings: what is warned of is not the subject here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator(name, **params).fit(X, *args, **kwargs)


def objective(fitted):
    """Return the objective that the estimator reports; of a kernel method, that of its model."""
    return float(getattr(fitted, "fssl_", fitted).objective_)


def gap(fitted):
    """Return the certified relative gap; None where the method has none."""
    found = getattr(fitted, "duality_gap_", None)
    return None if found is None else float(found)


def scores(fitted):
    """Return one score for each feature; exact zeros are features that are not used."""
    return np.asarray(getattr(fitted, "fssl_", fitted).feature_scores_, dtype=float)


def order(fitted):
    """Return the features, the best one first."""
    return np.argsort(getattr(fitted, "fssl_", fitted).ranking_, kind="stable")


def selected(fitted):
    """Return the selected features in the order of their numbers."""
    return np.flatnonzero(fitted.get_support())


def components(fitted):
    """Return the components, or None where the method has none."""
    found = getattr(getattr(fitted, "fssl_", fitted), "components_", None)
    return None if found is None else np.asarray(found)


def proof(fitted):
    """Return value, bound and whether the best set is proved, of a method that proves sets."""
    if hasattr(fitted, "set_bound_"):
        return float(fitted.set_value_), float(fitted.set_bound_), bool(fitted.proved_optimal_)
    if hasattr(fitted, "component_bounds_"):
        bound = float(fitted.component_bounds_[0])
        return bound / (1 + float(fitted.component_gaps_[0])), bound, bool(fitted.proved_optimal_)
    return None


def noise(X, fdr=0.03):
    """Return the number of patterns above noise, and which features are significant."""
    found = jointsparse.feature_significance(np.asarray(X), fdr=fdr)
    return int(found.n_significant), np.asarray(found.significant)


def verdict(fitted):
    """Return the class of the verdict on what the selected features are worth."""
    sentence = fitted.selection_report_.verdict
    return next(kind for words, kind in VERDICTS.items() if sentence.startswith(words))


def objective_by_definition(name, params, fitted, X):
    """Return the model's objective, computed anew from the solution; None where it cannot be."""
    norms = np.linalg.norm
    deviations = X - X.mean(axis=0)
    alpha = getattr(fitted, "alpha_", None)
    if name in ("SPCAPSD", "CSPCA", "AWSPCA") and params.get("psd", True):
        if name == "AWSPCA":
            deviations = X - fitted.mean_
        matrix = fitted.loadings_ @ fitted.loadings_.T
        residuals = norms(deviations - deviations @ matrix, axis=1)
        loss = (residuals**2 if name == "SPCAPSD" else residuals).sum()
        return loss + alpha * norms(matrix, axis=0).sum() + params.get("eta", 0) * np.trace(matrix)
    if name == "SPCAFS":
        W = fitted.loadings_
        rows = norms(W, axis=1)
        return norms(deviations - deviations @ W @ W.T) ** 2 + alpha * (rows ** params["p"]).sum()
    if name == "JSPCA":
        Q, residuals = fitted.projection_, deviations @ fitted.projection_ @ fitted.recovery_.T
        residuals = deviations - residuals
        losses = {
            "samples": lambda: norms(residuals, axis=1).sum(),
            "features": lambda: norms(residuals, axis=0).sum(),
            "frobenius": lambda: (residuals**2).sum(),
        }
        return losses[params["loss"]]() + alpha * norms(Q, axis=1).sum()
    if name == "FSSL":
        A = fitted.coefficients_
        size = {"l21": norms(A, axis=1).sum(), "l11": np.abs(A).sum(), "fro": norms(A)}
        if params.get("constraint") == "equality":
            return size[params["norm"]]
        return size[params["norm"]] + fitted.mu_ * norms(deviations @ A - fitted.targets_) ** 2
    if name == "RobustPCA":
        low_rank = fitted.low_rank_ - np.median(X, axis=0)
        return norms(low_rank, "nuc") + alpha * np.abs(fitted.sparse_).sum()
    if name == "SubsetSelector" and fitted.get_support().any():
        basis = np.linalg.svd(deviations[:, selected(fitted)], full_matrices=False)[0]
        return 1 - (norms(basis.T @ deviations) / norms(deviations)) ** 2
    return None
