"""The pitprops correlations, the classic example of sparse PCA."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NAMES = (
    "topdiam length moist testsg ovensg ringtop ringbut bowmax bowdist whorls clear knots diaknot"
)
BELOW_DIAGONAL = """
.954
.364 .297
.342 .284 .882
-.129 -.118 -.148 .220
.313 .291 .153 .381 .364
.496 .503 -.029 .174 .296 .813
.424 .419 -.054 -.059 .004 .090 .372
.592 .648 .125 .137 -.039 .211 .465 .482
.545 .569 -.081 -.014 .037 .274 .679 .557 .526
.084 .076 .162 .097 -.091 -.036 -.113 .061 .085 -.319
-.019 -.036 .220 .169 -.145 .024 -.232 -.357 -.127 -.368 .029
.134 .144 .126 .015 -.208 -.329 -.424 -.202 -.076 -.291 .007 .184
"""


def load_pitprops() -> tuple[NDArray[np.float64], list[str], int]:
    """Return the correlations of 13 measurements on 180 pit props (Jeffers 1967).

    Returns
    -------
    correlation : ndarray of shape (13, 13)
        Correlation matrix.
    names : list of str
        The measurements.
    n_samples : int
        180.

    Examples
    --------
    >>> from jointsparse import SPCA, Moments
    >>> from jointsparse.datasets import load_pitprops
    >>> correlation, names, n_samples = load_pitprops()
    >>> moments = Moments.from_scatter(correlation, n_samples, feature_names=names)
    >>> model = SPCA(n_components=1, n_nonzero=4, ridge="inf").fit_moments(moments)
    >>> [names[j] for j in model.get_support(indices=True)]
    ['topdiam', 'length', 'ringbut', 'whorls']
    """
    lower = np.zeros((13, 13))
    lower[np.tril_indices(13, -1)] = [float(entry) for entry in BELOW_DIAGONAL.split()]
    return lower + lower.T + np.eye(13), NAMES.split(), 180
