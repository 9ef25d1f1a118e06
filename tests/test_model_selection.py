import numpy as np
import pandas as pd
import pytest
from oracles import planted_problem
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from jointsparse import AWSPCA, CSPCA, SPCAPSD, Moments, regularization_path

FRAME = load_breast_cancer(as_frame=True).data
X = StandardScaler().fit_transform(FRAME)


def test_each_point_is_the_solution_for_its_penalty():
    path = regularization_path(SPCAPSD(tol=1e-6), X, n_points=6)
    assert np.all(np.diff(path.alphas) < 0)
    assert np.all(path.duality_gaps <= 1e-6)
    for alpha, objective, scores in zip(
        path.alphas, path.objectives, path.feature_scores, strict=True
    ):
        cold = SPCAPSD(alpha=alpha, tol=1e-6).fit(X)
        assert objective == pytest.approx(cold.objective_, rel=2e-6)
        np.testing.assert_allclose(scores, cold.feature_scores_, atol=5e-3)


def test_warm_starts_save_iterations():
    path = regularization_path(SPCAPSD(tol=1e-6), X, n_points=20)
    cold = sum(SPCAPSD(alpha=alpha, tol=1e-6).fit(X).n_iter_ for alpha in path.alphas)
    assert path.n_iter.sum() < cold


def test_the_support_grows():
    S, planted = planted_problem(20, 3)
    path = regularization_path(SPCAPSD(eta=0.05), Moments.from_scatter(S, n_samples=60))
    assert path.n_features[0] == 0
    assert path.n_features[-1] > planted.sum()
    assert any(np.array_equal(support, planted) for support in path.supports)


@pytest.mark.parametrize("model", [CSPCA(), CSPCA(psd=False), AWSPCA()])
def test_the_whole_family_has_a_path(model):
    path = regularization_path(model, X[:100, :8], alphas=[0.1, 0.9])
    assert path.alphas.tolist() == [0.9, 0.1]
    assert path.feature_scores.shape == (2, 8)
    assert np.all(path.duality_gaps <= 1e-4)


def test_the_scale_of_eta_is_kept_and_the_estimator_is_not_touched():
    model = SPCAPSD(eta=0.02, penalty_scale="trace")
    path = regularization_path(model, X, alphas=[0.2])
    assert model.get_params() == SPCAPSD(eta=0.02, penalty_scale="trace").get_params()
    reference = SPCAPSD(alpha=path.penalties[0], eta=0.02 * (X**2).sum(), penalty_scale="absolute")
    assert path.objectives[0] == pytest.approx(reference.fit(X).objective_, rel=1e-4)


def test_names():
    frame = pd.DataFrame(X, columns=FRAME.columns)
    path = regularization_path(SPCAPSD(), frame, alphas=[0.5])
    assert list(path.feature_names) == list(FRAME.columns)
    assert regularization_path(SPCAPSD(), X, alphas=[0.5]).feature_names is None


@pytest.mark.parametrize("alphas", [[], [0.0, 0.5], [1.0], [0.5, 2.0]])
def test_wrong_fractions_are_refused(alphas):
    with pytest.raises(ValueError, match="fractions between 0 and 1"):
        regularization_path(SPCAPSD(), X, alphas=alphas)
