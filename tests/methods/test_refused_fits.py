"""After a fit that failed every estimator is as it was before: nothing of two fits is mixed."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from jointsparse import SPCA, KernelFSSL, Moments, SelectFeatures, registry
from jointsparse.methods.bases.estimator import MomentsEstimator

N, P = 30, 6
RNG = np.random.default_rng(3)
GOOD = pd.DataFrame(RNG.standard_normal((N, P)), columns=list("abcdef"))
OTHER = RNG.standard_normal((N, P + 2))  # other columns, without names
CLASSES = np.arange(N) % 3
MAKE = {name: method.make for name, method in registry.methods().items()} | {
    "KernelFSSL": lambda: KernelFSSL(n_components=1),
    "SelectFeatures": lambda: SelectFeatures(SPCA(n_components=2), n_features_to_select=2),
}


def fitted(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so small a table is not for every method
        return MAKE[name]().fit(GOOD, CLASSES)


def assert_refused(model, error, fit, *arguments):
    """Assert that a fit fails and that the very same objects are there as before."""
    before = dict(vars(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error):
            fit(*arguments)
    after = vars(model)
    assert list(after) == list(before)
    changed = [key for key in before if after[key] is not before[key]]
    assert not changed
    fresh = clone(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error):
            getattr(fresh, fit.__name__)(*arguments)
    with pytest.raises(NotFittedError):
        check_is_fitted(fresh)
    assert not hasattr(fresh, "n_features_in_")


def holes():
    X = OTHER.copy()
    X[4, 1] = np.nan
    return X


BAD_DATA = {
    "a missing value": holes,
    "a masked value": lambda: np.ma.masked_array(OTHER, OTHER[2, 2] == OTHER),
    "one sample": lambda: OTHER[:1],
    "constant features": lambda: np.ones((N, P + 2)),
    "text": lambda: pd.DataFrame(OTHER).astype(str),
    "damage": lambda: damaged_matrix(),
}


def damaged_matrix():
    matrix = sp.csr_array(OTHER)
    matrix.indices[0] = 1000
    return matrix


@pytest.mark.parametrize("name", MAKE)
def test_refused_data(name):
    model = fitted(name)
    for what, make in BAD_DATA.items():
        if (name, what) == ("KernelFSSL", "constant features"):
            continue  # its features are kernel values
        assert_refused(model, (ValueError, TypeError), model.fit, make(), CLASSES)
    model.transform(GOOD)  # still fits together
    assert list(model.feature_names_in_) == list(GOOD.columns)


@pytest.mark.parametrize("name", MAKE)
def test_refused_parameters(name):
    model = fitted(name)
    wrong = {"n_features_to_select": "nonsense", "n_components": 0, "kernel": "nonsense"}
    for parameter, value in wrong.items():
        if parameter in model.get_params():
            before = model.get_params()[parameter]
            model.set_params(**{parameter: value})
            assert_refused(model, (ValueError, TypeError), model.fit, OTHER, CLASSES)
            model.set_params(**{parameter: before})


@pytest.mark.parametrize("stage", ["_solve", "_record", "_rank", "_make_set", "_remember", "_gram"])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_solvers_that_fail_or_are_interrupted(stage, error, monkeypatch):
    reached = []
    for name in MAKE:
        model = fitted(name)
        inner = model.estimator if name == "SelectFeatures" else model
        kind = next((k for k in (type(model), type(inner)) if hasattr(k, stage)), None)
        if kind is None:
            continue
        original = getattr(kind, stage)

        def fails(self, *arguments, original=original, **named):
            original(self, *arguments, **named)  # with all that it sets
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(kind, stage, fails)
            before = dict(vars(model))
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.fit(OTHER, CLASSES)
            except error:
                reached.append(name)
                assert list(vars(model)) == list(before)
                assert all(vars(model)[key] is before[key] for key in before)
    assert len(reached) >= 3, reached


@pytest.mark.parametrize("name", [name for name in MAKE if hasattr(MAKE[name](), "fit_moments")])
def test_refused_moments(name):
    model = fitted(name)
    flat = Moments.from_data(np.ones((N, P + 2)))
    assert_refused(model, ValueError, model.fit_moments, flat)
    if isinstance(model, MomentsEstimator) and model._needs().samples:
        bare = Moments.from_scatter(np.eye(P + 2), N)
        assert_refused(model, ValueError, model.fit_moments, bare)


@pytest.mark.parametrize("name", [name for name in MAKE if hasattr(MAKE[name](), "moments_of")])
def test_looking_at_samples_changes_nothing(name):
    model = fitted(name)
    before = dict(vars(model))
    moments = model.moments_of(OTHER, CLASSES)
    assert moments.n_features == P + 2
    assert list(vars(model)) == list(before)
    assert all(vars(model)[key] is before[key] for key in before)


def test_a_file_that_cannot_be_read_to_its_end(tmp_path):
    np.save(tmp_path / "holes.npy", holes())
    for name in ("spca-psd", "jspca", "greedy", "SelectFeatures"):
        model = fitted(name)
        assert_refused(model, ValueError, model.fit, tmp_path / "holes.npy")


def test_moments_that_could_not_take_more_samples_are_as_they_were():
    for known in (Moments.from_data(OTHER), Moments.from_scatter(np.eye(P + 2), N)):
        scatter = known.scatter.copy()
        for more in (holes(), OTHER[:, :3], "nowhere.npy"):
            with pytest.raises(ValueError):  # noqa: PT011 - of many kinds
                known.partial_fit(more)
            assert known.n_samples == N
            np.testing.assert_array_equal(known.scatter, scatter)
            np.testing.assert_array_equal(known.variances, np.diagonal(scatter))
