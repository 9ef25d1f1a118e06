"""The regularisation path of methods with components."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

from jointsparse import FSSL, JSPCA, SPCA, SPCAFS, Moments, regularization_path
from jointsparse.datasets import load_pitprops
from jointsparse.metrics import explained_variance

DATA = load_breast_cancer()
X = StandardScaler().fit_transform(DATA.data)
ALPHAS = np.geomspace(0.9, 0.02, 5)

METHODS = [
    SPCA(n_components=2),
    SPCA(n_components=2, ridge="inf"),
    JSPCA(n_components=2),
    JSPCA(n_components=2, loss="frobenius"),
    JSPCA(n_components=2, loss="features"),
]


def separate(n, p, seed=0):
    """Three directions of very different strength, on features of their own, and little noise."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((3, p))
    for j, strength in enumerate((6, 4, 2.5)):
        loadings[j, 5 * j : 5 * j + 5] = strength
    data = rng.standard_normal((n, 3)) @ loadings + 0.3 * rng.standard_normal((n, p))
    return data - data.mean(axis=0)


def cold_fits(model, data, alphas):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # strong penalties empty components
        return [clone(model).set_params(alpha=alpha).fit(data) for alpha in alphas]


@pytest.mark.parametrize("shape", [(200, 30), (40, 90)])
@pytest.mark.parametrize("model", METHODS)
def test_each_point_is_the_fit_with_its_penalty(model, shape):
    data, model = separate(*shape), clone(model).set_params(n_components=3, tol=1e-9)
    path = regularization_path(model, data, alphas=ALPHAS)
    assert np.all(np.isnan(path.duality_gaps))
    assert path.converged.all()
    for i, cold in enumerate(cold_fits(model, data, path.alphas)):
        assert path.objectives[i] == pytest.approx(cold.objective_, rel=1e-8)
        assert path.penalties[i] == pytest.approx(np.max(cold.alpha_), rel=1e-12)
        np.testing.assert_allclose(path.feature_scores[i], cold.feature_scores_, atol=1e-6)
        np.testing.assert_array_equal(path.n_nonzero[i], (cold.components_ != 0).sum(axis=1))
        adjusted = explained_variance(data, cold.components_, kind="adjusted")
        np.testing.assert_allclose(path.adjusted_variance[i], adjusted, atol=1e-6)


def test_a_correlation_matrix_has_a_path_no_worse_than_fits():
    correlations, names, n_samples = load_pitprops()
    moments = Moments.from_scatter(correlations, n_samples, feature_names=names)
    model = SPCA(n_components=4)
    path = regularization_path(model, moments, alphas=ALPHAS)
    assert list(path.feature_names) == list(names)
    assert path.n_nonzero.shape == path.adjusted_variance.shape == (5, 4)
    assert np.all(np.diff(path.n_nonzero.sum(axis=1)) > 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        cold = [clone(model).set_params(alpha=a).fit_moments(moments) for a in path.alphas]
    # Here a fit by itself ends in the same point or a worse one.
    for objective, fit in zip(path.objectives, cold, strict=True):
        assert objective <= fit.objective_ * (1 + 1e-6)
    assert path.n_iter.sum() < 1.2 * sum(fit.n_iter_ for fit in cold)


@pytest.mark.parametrize("model", METHODS[:3])
def test_starting_from_the_last_point_saves_iterations(model):
    path = regularization_path(model, X, n_points=12)
    cold = cold_fits(model, X, path.alphas)
    # JSPCA's warm start looks at the first answer to the cold one as well.
    trials = len(cold) if isinstance(model, JSPCA) else 0
    assert path.n_iter.sum() + trials < sum(fit.n_iter_ for fit in cold)


@pytest.mark.parametrize("model", METHODS[:4])  # the objective of "features" may rise
def test_a_fit_that_starts_from_itself_is_finished(model):
    model = clone(model).set_params(alpha=0.2, warm_start=True, tol=1e-6).fit(X)
    objective, components = model.objective_, model.components_.copy()
    model.fit(X)
    assert model.n_iter_ <= 2
    assert model.objective_ == pytest.approx(objective, rel=1e-9)
    np.testing.assert_allclose(model.components_, components, atol=1e-4)
    other = clone(model).fit(X[:, :20])
    np.testing.assert_array_equal(model.fit(X[:, :20]).components_, other.components_)


def test_components_that_were_empty_come_back():
    data = separate(200, 30)
    model = SPCA(n_components=3, penalty_scale="trace", warm_start=True, tol=1e-9)
    for alpha, left in ((0.5, 1), (0.01, 3)):
        fitted = cold_fits(model, data, [alpha])[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model.set_params(alpha=alpha).fit(data)
        assert np.count_nonzero(np.any(model.components_, axis=1)) == left
        np.testing.assert_allclose(model.components_, fitted.components_, atol=1e-6)


@pytest.mark.parametrize("model", [FSSL(), FSSL(graph="lpp", norm="l11"), FSSL(graph="pca")])
def test_the_path_of_fssl_is_certified(model):
    path = regularization_path(model, X, DATA.target, alphas=ALPHAS)
    assert np.all(path.duality_gaps <= 1e-6)
    for i, alpha in enumerate(path.alphas):
        cold = clone(model).set_params(mu=1 / alpha).fit(X, DATA.target)
        assert 1 / path.penalties[i] == pytest.approx(cold.mu_, rel=1e-12)
        assert path.objectives[i] == pytest.approx(cold.objective_, rel=1e-9)
        np.testing.assert_allclose(path.feature_scores[i], cold.feature_scores_, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SPCA(n_nonzero=3), "n_nonzero=3 stands in place of alpha"),
        (FSSL(constraint="equality", graph="pca"), "no path to follow"),
        (SPCA(n_components=0), "n_components=0"),
        (JSPCA(loss="none"), "loss='none'"),
    ],
)
def test_models_without_a_path_say_so(model, message):
    with pytest.raises(ValueError, match=message):
        regularization_path(model, X)


def test_a_method_that_no_penalty_empties_is_refused_by_name():
    with pytest.raises(TypeError, match="SPCAFS has no penalty that empties the model"):
        regularization_path(SPCAFS(), X)
