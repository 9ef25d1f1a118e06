import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA

from jointsparse import Moments
from jointsparse.metrics import explained_variance, index_of_sparseness
from jointsparse.metrics import loadings as metrics
from jointsparse.metrics.loadings import sequential_variance
from jointsparse.solvers.products.gram import gram_of

KINDS = ["reconstruction", "adjusted", "span"]
each_kind = pytest.mark.parametrize("kind", KINDS)
seeds = st.integers(0, 10_000)


def data(seed, n=30, p=6):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)) @ rng.standard_normal((p, p)) + 5


@each_kind
def test_equals_pca(kind):
    X = data(0)
    pca = PCA().fit(X)
    ratio = explained_variance(X, 7 * pca.components_, kind=kind)
    np.testing.assert_allclose(ratio, pca.explained_variance_ratio_, atol=1e-12)


@each_kind
@given(seed=seeds)
@settings(max_examples=30)
def test_at_most_one_and_one_at_full_rank(kind, seed):
    rng = np.random.default_rng(seed)
    X = data(seed)
    components = rng.standard_normal((6, 6)) * (rng.random((6, 6)) < 0.5)
    ratio = explained_variance(X, components, kind=kind)
    assert np.all(ratio >= -1e-12)
    assert ratio.sum() <= 1 + 1e-10
    if kind != "adjusted" and np.linalg.cond(components) < 1e4:
        assert ratio.sum() == pytest.approx(1)
    every = explained_variance(X, np.eye(6), kind="span")
    assert every.sum() == pytest.approx(1)


def test_reconstruction_is_the_regression_on_the_scores():
    X, components = data(1), np.random.default_rng(1).standard_normal((3, 6))
    centred = X - X.mean(axis=0)
    for j in (1, 2, 3):
        scores = centred @ components[:j].T
        rest = centred - scores @ np.linalg.lstsq(scores, centred, rcond=None)[0]
        share = 1 - np.sum(rest**2) / np.sum(centred**2)
        assert explained_variance(X, components)[:j].sum() == pytest.approx(share)
    turned = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0] @ components
    assert explained_variance(X, turned).sum() == pytest.approx(share)


def test_adjusted_is_the_qr_of_the_scores_and_never_more():
    X, components = data(1), np.random.default_rng(1).standard_normal((3, 6))
    components /= np.linalg.norm(components, axis=1, keepdims=True)
    centred = X - X.mean(axis=0)
    R = np.linalg.qr(centred @ components.T)[1]
    adjusted = explained_variance(X, components, kind="adjusted")
    np.testing.assert_allclose(adjusted, np.diag(R) ** 2 / np.sum(centred**2))
    assert np.all(adjusted <= explained_variance(X, components) + 1e-12)


@each_kind
def test_is_never_the_plain_sum(kind):
    # Two nearly equal components: their score variances add up to almost twice the share.
    X = data(3)
    X += 20 * np.random.default_rng(3).standard_normal((30, 1))
    first = PCA(1).fit(X).components_[0]
    pair = np.vstack([first, first + 1e-3])
    plain = 2 * explained_variance(X, pair[:1], kind=kind)[0]
    assert plain > 1
    assert explained_variance(X, pair, kind=kind).sum() <= 1
    twice = explained_variance(X, np.vstack([first, first, 0 * first]), kind=kind)
    assert twice[1:].tolist() == [0, 0]


@each_kind
def test_moments_wide_sparse_and_scaled_data(kind):
    X = data(4, n=8, p=20)
    components = np.random.default_rng(4).standard_normal((3, 20))
    ratio = explained_variance(X, components, kind=kind)
    scatter = Moments.from_scatter(Moments.from_data(X).scatter, n_samples=8)
    for other in (scatter, sp.csr_array(X), 1e100 * X, 1e-100 * X):
        np.testing.assert_allclose(explained_variance(other, components, kind=kind), ratio)
    np.testing.assert_allclose(explained_variance(X, 1e-200 * components, kind=kind), ratio)


def test_index_of_sparseness():
    X = data(5)
    pca = PCA(2).fit(X)
    assert index_of_sparseness(X, pca.components_) == 0
    assert index_of_sparseness(X, np.zeros((2, 6))) == 0
    sparse = np.where(np.abs(pca.components_) > 0.3, pca.components_, 0)
    expected = pca.explained_variance_ratio_.sum() * explained_variance(X, sparse).sum()
    assert index_of_sparseness(X, sparse) == pytest.approx(expected * np.mean(sparse == 0))


@pytest.mark.parametrize(
    ("X", "components", "kind", "message"),
    [
        (data(0), np.eye(6), "sum", "kind='sum' is not one of 'reconstruction'"),
        (data(0), np.eye(5), "span", "components have 5 features, the data 6"),
        (np.ones((4, 6)), np.eye(6), "span", "every feature is constant"),
    ],
)
def test_wrong_input_is_named(X, components, kind, message):
    with pytest.raises(ValueError, match=message):
        explained_variance(X, components, kind=kind)


@pytest.mark.parametrize("worn", [1e-4, 1.0])
@pytest.mark.parametrize("greedy", [False, True])
def test_components_in_the_order_of_what_they_add(greedy, worn, monkeypatch):
    monkeypatch.setattr(metrics, "WORN", worn)  # 1: by the scores themselves in any case
    X, components = data(6), np.random.default_rng(6).standard_normal((5, 6))
    components[[0, 3]] *= 0.01  # no unit length is assumed
    components[4] = components[0] + components[1] if greedy is False else 0
    X = (X - X.mean(axis=0)) / np.linalg.norm(X - X.mean(axis=0))
    B, moments = components.T, Moments.from_data(X)
    adjusted, reconstruction, order = sequential_variance(
        gram_of(moments), B, moments, greedy=greedy
    )

    def explained(taken):
        scores = X @ B[:, taken]
        rest = X - scores @ np.linalg.lstsq(scores, X, rcond=None)[0]
        return 1 - np.sum(rest**2)

    taken = []
    for step in range(5):
        gains = {j: explained([*taken, j]) for j in range(5) if j not in taken}
        assert order[step] == (max(gains, key=gains.get) if greedy else step)
        taken.append(order[step])
        assert reconstruction[: step + 1].sum() == pytest.approx(explained(taken))
    R = np.linalg.qr(X @ B[:, order[:4]])[1]
    np.testing.assert_allclose(adjusted[:4], np.diag(R) ** 2, rtol=1e-9)
    assert adjusted[4] == reconstruction[4] == 0


@pytest.mark.parametrize("kind", ["reconstruction", "adjusted"])
def test_components_that_are_nearly_one(kind):
    X, rng = data(8, n=40), np.random.default_rng(8)
    common, others = rng.standard_normal(6), rng.standard_normal((5, 6))
    near = np.vstack([common, common + 1e-4 * others])  # which span all features
    ratio = explained_variance(X, near, kind=kind)
    centred = (X - X.mean(axis=0)).astype(np.longdouble)
    scores = centred @ (near / np.linalg.norm(near, axis=1)[:, None]).T
    expected, total = [], np.sum(centred**2)
    for j in range(6):  # by Gram and Schmidt, with digits to spare
        left = scores[:, j]
        for _ in range(2):
            for done in range(j):
                other = scores[:, done]
                left = left - other * (other @ left)
        length = np.sqrt(left @ left)
        scores[:, j] = left / length
        part = scores[:, j] @ centred
        expected.append(part @ part if kind == "reconstruction" else length**2)
    np.testing.assert_allclose(ratio, np.array(expected) / total, rtol=1e-9)
    if kind == "reconstruction":
        assert ratio.sum() == pytest.approx(1.0, abs=1e-12)
        alone = Moments.from_scatter(np.asarray(centred.T @ centred, float), 40)
        assert explained_variance(alone, near).sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("worn", [1e-4, 1.0])
@pytest.mark.parametrize("greedy", [False, True])
def test_a_component_that_differs_by_a_billionth_adds_nothing(greedy, worn, monkeypatch):
    monkeypatch.setattr(metrics, "WORN", worn)  # 1: by the scores themselves in any case
    moments = Moments.from_data(data(7))
    components = np.eye(6)[[0, 0, 1]]
    components[1, 5] = 1e-9
    gram = gram_of(moments)
    adjusted, reconstruction, _ = sequential_variance(gram, components.T, moments, greedy=greedy)
    same = 2 if greedy else 1  # when the second of those that are one is taken
    assert adjusted[same] == reconstruction[same] == 0
    alone = sequential_variance(gram, components[[0, 2]].T, moments)[1]
    assert reconstruction.sum() == pytest.approx(alone.sum(), abs=1e-8)


def test_components_of_no_scale_and_of_any_span():
    X = data(7)
    components = np.array(
        [[0.0] * 6, [1, 0, 0, 0, 0, 0], [1, 1e-9, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]
    )
    centred = X - X.mean(axis=0)
    variances = np.sum(centred**2, axis=0) / np.sum(centred**2)
    span = explained_variance(X, components, kind="span")
    np.testing.assert_allclose(span, [0, variances[0], variances[1], 0], atol=1e-9)
    np.testing.assert_allclose(
        explained_variance(X, [[-1e-300, 0, 0, 0, 0, 0]], kind="span"), variances[:1]
    )
