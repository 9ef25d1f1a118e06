"""SPCA with a proof: each component is the best on what the earlier ones left."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_wine

from jointsparse import SPCA, Moments, load_model, save_model, sparse_component
from jointsparse.datasets import load_pitprops

CORRELATIONS, NAMES, N_SAMPLES = load_pitprops()
PITPROPS = Moments.from_scatter(CORRELATIONS, N_SAMPLES, feature_names=NAMES)


SPCA_PROOF = ("component_bounds_", "component_gaps_", "proved_optimal_", "orthogonality_gap_")


def deflated(S, v):
    P = np.eye(len(S)) - np.outer(v, v)
    return P @ S @ P


def best_value(S, k):
    supports = itertools.combinations(range(len(S)), k)
    return max(np.linalg.eigvalsh(S[np.ix_(H, H)])[-1] for H in supports)


def test_every_component_is_the_best_of_what_is_left():
    model = SPCA(n_components=3, n_nonzero=4, certify=True).fit_moments(PITPROPS)
    assert model.proved_optimal_
    assert np.all(model.component_gaps_ <= 1e-6)
    S = CORRELATIONS
    for v, bound in zip(model.components_, model.component_bounds_, strict=True):
        best = best_value(S, 4)
        assert v @ S @ v == pytest.approx(best, rel=1e-6)
        assert bound >= best
        assert np.count_nonzero(v) == 4
        S = deflated(S, v)
    assert model.objective_ == pytest.approx(np.trace(S))
    assert np.all(np.diff(model.history_) <= 0)
    assert "proved" in model.stopping_reason_
    cosines = np.abs(model.components_ @ model.components_.T)
    np.fill_diagonal(cosines, 0)
    assert model.orthogonality_gap_ == pytest.approx(cosines.max())


def test_the_first_component_is_that_of_the_function():
    found = sparse_component(PITPROPS, 5)
    model = SPCA(n_components=1, n_nonzero=5, certify=10.0).fit_moments(PITPROPS)
    assert np.allclose(model.components_[0], found.vector)
    assert model.component_bounds_[0] == pytest.approx(found.bound)


def test_counts_of_each_component_and_the_rest_of_a_fit():
    X = load_wine().data
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = SPCA(n_components=2, n_nonzero=[2, 6], certify=True).fit(X)
    assert np.count_nonzero(model.components_, axis=1).tolist() == [2, 6]
    assert model.transform(X).shape == (178, 2)
    assert model.score(X) > 0.2
    assert model.inverse_transform(model.transform(X)).shape == X.shape


def test_an_uncertified_fit_leaves_no_proof_behind():
    model = SPCA(n_components=1, n_nonzero=3, certify=True).fit_moments(PITPROPS)
    plain = clone(model).set_params(certify=False).fit_moments(PITPROPS)
    model.set_params(certify=False).fit_moments(PITPROPS)
    for name in SPCA_PROOF:
        assert not hasattr(model, name)
    assert np.array_equal(model.components_, plain.components_)


def test_what_is_not_proved_is_said(monkeypatch):
    monkeypatch.setattr("jointsparse.solvers.sparse_component.part.CHUNKS", (2,))
    X = np.random.default_rng(0).standard_normal((80, 60))
    with pytest.warns(UserWarning, match="not proved to be the best"):
        model = SPCA(n_components=1, n_nonzero=12, certify=1e-9).fit(X)
    assert not model.proved_optimal_
    assert model.component_gaps_[0] > 1e-6


@pytest.mark.parametrize("sparse", [False, True])
def test_many_features_go_through_the_samples(sparse, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 50))
    X[:, :3] += 4 * rng.standard_normal((30, 1))
    X[:, 3:6] += 3 * rng.standard_normal((30, 1))
    model = SPCA(n_components=2, n_nonzero=3, certify=True)
    expected = clone(model).fit(X)
    for module in ("jointsparse.methods.spca", "jointsparse.solvers.sparse_component.solve"):
        monkeypatch.setattr(f"{module}.MOST_DENSE", 10)
    model.fit(sp.csr_array(X) if sparse else X)
    assert model.proved_optimal_
    assert np.allclose(model.components_, expected.components_)
    assert model.component_bounds_ == pytest.approx(expected.component_bounds_)


def test_no_component_is_made_of_rounding():
    X = np.zeros((6, 4))
    X[:, 0] = [1, -1, 2, -2, 0, 0]
    X[:, 1] = [0, 0, 0, 0, 1e-9, -1e-9]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SPCA(n_components=2, n_nonzero=1, certify=True).fit(X)
    assert model.components_.shape[0] == 1


@pytest.mark.parametrize("certify", ["yes", 0.0, -1, None])
def test_other_values_of_certify_are_refused(certify):
    with pytest.raises(ValueError, match="certify="):
        SPCA(n_nonzero=2, certify=certify).fit_moments(PITPROPS)


def test_a_proof_needs_a_number_of_nonzeros():
    with pytest.raises(ValueError, match="certify needs n_nonzero"):
        SPCA(certify=True).fit_moments(PITPROPS)


def test_a_certified_model_is_saved_with_its_proof(tmp_path):
    model = SPCA(n_components=1, n_nonzero=3, certify=True).fit_moments(PITPROPS)
    path = tmp_path / "model.skops"
    save_model(model, path)
    loaded = load_model(path)
    assert loaded.proved_optimal_
    assert np.array_equal(loaded.component_bounds_, model.component_bounds_)
