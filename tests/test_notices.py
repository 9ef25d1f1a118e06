"""Warnings point at the line of the caller."""

import warnings

import numpy as np
from sklearn.decomposition import PCA

from jointsparse import SPCAPSD, Moments, SelectFeatures

NOISE = np.random.default_rng(0).standard_normal((40, 6))


def test_warnings_are_attributed_to_the_caller():
    moments = Moments.from_data(NOISE)
    calls = [
        lambda: SPCAPSD().fit(NOISE),
        lambda: SPCAPSD().fit_moments(moments),
        lambda: SPCAPSD(max_iter=1, tol=1e-12).fit(NOISE),
        lambda: SPCAPSD().fit_transform(NOISE),
        lambda: SelectFeatures(PCA(2)).fit(NOISE),
    ]
    for call in calls:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        ours = [w for w in caught if "SPCAPSD" in str(w.message) or "Select" in str(w.message)]
        assert ours
        for warning in ours:
            assert "jointsparse/src" not in warning.filename
            assert "src/jointsparse" not in warning.filename
