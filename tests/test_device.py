"""A tensor in: the fit happens where it is, and the answer is NumPy's."""

import traceback
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from jointsparse import (
    AWSPCA,
    CSPCA,
    FSSL,
    JSPCA,
    MCFS,
    RNE,
    SPCA,
    SPCAPSD,
    DictionarySPCA,
    GreedySelector,
    KernelFSSL,
    LaplacianScore,
    Moments,
    SelectFeatures,
    SubsetSelector,
    linalg,
    registry,
    regularization_path,
)
from jointsparse.device import checked_samples, like, to_host
from jointsparse.linalg import Spectrum, eigh
from jointsparse.operators.device_moments import DeviceMoments
from jointsparse.solvers.products.columns import root_of_scatter

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")

METHODS = registry.methods()
ALLOWED = {np.float64: 1e-6, np.float32: 1e-3}
TALL, WIDE = (40, 14), (14, 40)

each_dtype = pytest.mark.parametrize("dtype", list(ALLOWED))


def samples(shape, dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    n, p = shape
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p))
    X = X + 0.3 * rng.standard_normal((n, p))
    X[:, 4] = 2.5  # a constant feature
    return X.astype(dtype)


def fitted(estimator, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (ConvergenceWarning, UserWarning))
        return estimator.fit(X)


def few(estimator):
    """Keep a number of features: "auto" would repeat every fit in parts of the samples."""
    automatic = estimator.get_params().get("n_features_to_select") == "auto"
    return estimator.set_params(n_features_to_select=4) if automatic else estimator


def same(one, other, allowed):
    one, other = to_host(one), to_host(other)
    np.testing.assert_allclose(one, other, rtol=0, atol=allowed * max(np.abs(one).max(), 1e-300))


@each_dtype
@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_gives_the_answer_of_numpy(name, dtype, tensors):
    X = samples(TALL, dtype)
    tensor = tensors.array(X)
    known, moved = fitted(METHODS[name].make(), X), fitted(METHODS[name].make(), tensor)
    same(known.feature_scores_, moved.feature_scores_, ALLOWED[dtype])
    same(known.history_[-1:], moved.history_[-1:], ALLOWED[dtype])
    assert moved.n_features_in_ == X.shape[1]
    assert not any(map(tensors.owns, _public(moved).values()))
    scores = moved.transform(tensor)
    assert tensors.owns(scores)
    assert scores.dtype == tensor.dtype
    same(known.transform(X), scores, ALLOWED[dtype])
    back = moved.inverse_transform(scores)
    assert tensors.owns(back)
    same(known.inverse_transform(known.transform(X)), back, ALLOWED[dtype])
    np.testing.assert_array_equal(to_host(tensor), X)


def _public(estimator):
    return {k: v for k, v in vars(estimator).items() if k.endswith("_") and not k.startswith("_")}


@each_dtype
@pytest.mark.parametrize(
    "estimator",
    [
        SPCAPSD(),
        SPCAPSD(solver="factored"),
        SPCAPSD(solver="published"),
        SPCAPSD(rule="residual", n_clusters=3),
        CSPCA(),
        CSPCA(psd=False),
        CSPCA(solver="published"),
        AWSPCA(),
        AWSPCA(psd=False),
        GreedySelector(),
        GreedySelector(target="clusters", n_clusters=3),
        SPCA(),
        SPCA(n_nonzero=5),
        SPCA(ridge=0.1),
        JSPCA(),
        JSPCA(loss="features"),
        JSPCA(loss="frobenius", warm_start=True),
        DictionarySPCA(),
        FSSL(),
        FSSL(graph="pca", n_components=2),
        FSSL(norm="fro"),
        LaplacianScore(weights="heat"),
        LaplacianScore(weights="cosine"),
        MCFS(),
        RNE(),
        SelectFeatures(SPCA()),
        SelectFeatures(PCA(2)),
        SelectFeatures(make_pipeline(StandardScaler(), PCA(2))),
    ],
    ids=str,
)
def test_wide_samples_and_other_parameters(estimator, dtype, tensors):
    X = samples(WIDE, dtype)
    known = fitted(few(clone(estimator)), X)
    moved = fitted(few(clone(estimator)), tensors.array(X))
    same(known.feature_scores_, moved.feature_scores_, ALLOWED[dtype])
    if dtype is np.float64:
        np.testing.assert_array_equal(known.ranking_, moved.ranking_)


@pytest.mark.parametrize("shape", [(300, 160), (60, 420)])  # low rank, and the wide solver
def test_larger_problems(shape):
    X = samples(shape)
    known, moved = fitted(SPCAPSD(), X), fitted(SPCAPSD(), torch.as_tensor(X))
    same(known.feature_scores_, moved.feature_scores_, 1e-6)
    np.testing.assert_array_equal(known.proved_zero_, moved.proved_zero_)
    assert moved.duality_gap_ <= 1e-4


@pytest.fixture
def elsewhere(monkeypatch):
    """Tensors of the processor behave like those of a GPU.

    Arrays made without naming a device land on one that cannot be computed with, and NumPy cannot
    take a tensor that was not moved to the host.
    """
    convert = torch.Tensor.__array__

    def only_on_the_host(tensor, *arguments, **options):
        callers = [frame.name for frame in traceback.extract_stack(limit=6)]
        if "to_host" not in callers:
            raise TypeError("a tensor on a device was given to NumPy")
        return convert(tensor, *arguments, **options)

    monkeypatch.setattr(torch.Tensor, "__array__", only_on_the_host)
    torch.set_default_device("meta")
    yield
    torch.set_default_device("cpu")


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_on_another_device(name, elsewhere):
    tensor = torch.as_tensor(samples(TALL), device="cpu")
    with pytest.raises(TypeError, match="given to NumPy"):
        np.sqrt(tensor)
    with pytest.raises((RuntimeError, NotImplementedError)):
        float(tensor[0, 0] + torch.zeros(1))
    estimator = fitted(few(METHODS[name].make()), tensor)
    back = estimator.inverse_transform(estimator.transform(tensor))
    assert tuple(back.shape) == TALL


@pytest.mark.parametrize("shape", [TALL, WIDE])
@pytest.mark.parametrize(
    "estimator",
    [
        SPCAPSD(),
        SPCAPSD(solver="factored"),
        SPCAPSD(solver="splitting"),
        SPCAPSD(alpha="count", n_features_to_select=4),
        CSPCA(),
        CSPCA(psd=False),
        AWSPCA(),
        GreedySelector(),
        LaplacianScore(),
        MCFS(),
        RNE(),
    ],
    ids=str,
)
def test_everything_is_made_on_the_device_of_the_samples(estimator, shape, elsewhere):
    tensor = torch.as_tensor(samples(shape), device="cpu")
    assert 0 < fitted(few(estimator), tensor).selection_report_.r2 <= 1


@pytest.mark.parametrize("shape", [(300, 160), (60, 420)])
def test_larger_problems_are_solved_on_the_device_of_the_samples(shape, elsewhere):
    tensor = torch.as_tensor(samples(shape), device="cpu")
    assert fitted(SPCAPSD(), tensor).duality_gap_ <= 1e-4


@each_dtype
def test_moments_of_a_tensor(dtype, monkeypatch):
    monkeypatch.setattr("jointsparse.operators.device_moments.BLOCK_ENTRIES", 100)  # several blocks
    X = (samples((50, 12)) + 1000 * np.arange(12)).astype(dtype)
    exact = X.astype(np.longdouble)
    exact = exact - exact.mean(axis=0)
    moments = DeviceMoments(torch.as_tensor(X))
    scatter = to_host(moments.scatter)
    assert moments.scatter.dtype == moments.mean.dtype == torch.float64
    np.testing.assert_allclose(scatter, (exact.T @ exact).astype(float), atol=1e-9)
    assert not scatter[4].any()
    assert not scatter[:, 4].any()
    np.testing.assert_allclose(to_host(moments.variances), np.diagonal(scatter))
    np.testing.assert_allclose(
        to_host(DeviceMoments(torch.as_tensor(X)).variances), np.diagonal(scatter), atol=1e-9
    )
    centred = moments.centred_data
    assert str(centred.dtype) == f"torch.{np.dtype(dtype)}"
    same(exact.astype(float), centred, 1e-6 if dtype is np.float32 else 1e-12)


@pytest.mark.parametrize("shape", [TALL, WIDE])
def test_spectra_of_float32_are_those_of_float64(shape):
    X = samples(shape, np.float32)
    moments = Moments.from_data(torch.as_tensor(X))
    assert moments.native.thin_spectrum.values.dtype == torch.float64
    exact = np.linalg.svd(X - X.mean(axis=0, dtype=float), compute_uv=False) ** 2
    values = moments.thin_spectrum.values[::-1] * moments.thin_spectrum.trace
    np.testing.assert_allclose(values[:8], exact[:8], rtol=1e-5)
    assert isinstance(moments.thin_spectrum.vectors, np.ndarray)


def test_integers_are_samples_too():
    X = np.random.default_rng(0).integers(0, 9, (30, 6))
    moments = Moments.from_data(torch.as_tensor(X))
    np.testing.assert_allclose(moments.scatter, Moments.from_data(X).scatter)
    assert moments.centred_data.dtype == np.float64


def test_moments_of_tensors_add_up():
    X = torch.as_tensor(samples(TALL))
    whole, parts = Moments.from_data(X), Moments.from_data(X[:10]) + Moments.from_data(X[10:])
    np.testing.assert_allclose(whole.scatter, parts.scatter, atol=1e-10)
    grown = Moments.from_data(X[:10]).partial_fit(X[10:])
    np.testing.assert_allclose(whole.scatter, grown.scatter, atol=1e-10)
    assert grown.native is grown
    assert not grown.has_samples


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (torch.zeros(5), "two dimensions"),
        (torch.zeros((1, 5)), r"1 sample\(s\)"),
        (torch.zeros((5, 0)), r"0 feature\(s\)"),
        (torch.zeros((5, 2), dtype=torch.complex64), "real numbers"),
        (torch.tensor([[1.0, 2.0], [3.0, float("nan")]]), "row 1, column 1"),
        (torch.tensor([[float("inf"), 2.0], [3.0, 4.0]]), "row 0, column 0"),
        (torch.ones((5, 3)), "constant"),
    ],
)
def test_bad_tensors_are_refused_in_a_sentence(X, message):
    with pytest.raises(ValueError, match=message):
        SPCAPSD().fit(X)


def test_sums_that_overflow_are_no_missing_values():
    X = torch.full((3, 2), 1.7e308, dtype=torch.float64)
    assert checked_samples(X) is X


def test_other_columns_than_in_fit_are_refused():
    X = torch.as_tensor(samples(TALL))
    for estimator in (fitted(SPCAPSD(), X), fitted(SPCA(), X)):
        with pytest.raises(ValueError, match="3 features, but 14"):
            estimator.transform(X[:, :3])
    with pytest.raises(ValueError, match="3 columns"):
        fitted(SPCA(n_components=2), X).inverse_transform(X[:, :3])


def test_gradients_are_left_alone():
    X = torch.as_tensor(samples(TALL), dtype=torch.float64).requires_grad_()
    estimator = fitted(SPCAPSD(), X)
    assert not estimator.transform(X).requires_grad


def test_names_of_an_earlier_fit_are_forgotten():
    pandas = pytest.importorskip("pandas")
    X = samples(TALL)
    frame = pandas.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    estimator = fitted(fitted(GreedySelector(), frame), torch.as_tensor(X))
    assert not hasattr(estimator, "feature_names_in_")


def test_nothing_kept_gives_an_empty_tensor():
    X = torch.as_tensor(samples(TALL))
    empty = fitted(SPCAPSD(alpha=0.999, n_features_to_select="support"), X)
    with pytest.warns(UserWarning, match="no feature was kept"):
        assert tuple(empty.transform(X).shape) == (TALL[0], 0)


@pytest.mark.parametrize("shape", [TALL, WIDE])
def test_the_report_of_a_selection(shape):
    X = samples(shape)
    known = fitted(GreedySelector(n_features_to_select=5), X)
    moved = fitted(GreedySelector(n_features_to_select=5), torch.as_tensor(X))
    one, other = known.selection_report_, moved.selection_report_
    np.testing.assert_allclose(one.headline, other.headline, atol=1e-9)
    assert one.ceiling == pytest.approx(other.ceiling, abs=1e-9)
    np.testing.assert_allclose(one.pca_curve, other.pca_curve)
    np.testing.assert_array_equal(one.stand_ins.kept, other.stand_ins.kept)
    np.testing.assert_allclose(one.stand_ins.r2, other.stand_ins.r2, atol=1e-9)
    assert known.selection_report(X).r2 == pytest.approx(
        moved.selection_report(torch.as_tensor(X)).r2
    )


def test_tensors_are_remembered_as_they_were_unless_they_are_large(monkeypatch):
    X = torch.as_tensor(samples(TALL))
    estimator = fitted(GreedySelector(n_features_to_select=4), X)
    expected = estimator.selection_report(X)
    X[:] = 0
    assert estimator.selection_report_.r2 == pytest.approx(expected.r2)
    monkeypatch.setattr("jointsparse.methods.bases.worth.REMEMBERED_ENTRIES", 10)
    estimator = fitted(GreedySelector(n_features_to_select=4), torch.as_tensor(samples(TALL)))
    with pytest.raises(AttributeError, match="no longer at hand"):
        estimator.selection_report_


def test_the_score_of_components():
    X = samples(TALL)
    tensor = torch.as_tensor(X)
    assert fitted(SPCA(), tensor).score(tensor) == pytest.approx(fitted(SPCA(), X).score(X))


def test_classes_may_be_a_tensor_too():
    X, y = samples(TALL), np.arange(TALL[0]) % 3
    known = FSSL(graph="lda").fit(X, y)
    moved = FSSL(graph="lda").fit(torch.as_tensor(X), torch.as_tensor(y))
    same(known.feature_scores_, moved.feature_scores_, 1e-8)
    kernel = KernelFSSL(graph="pca", n_components=2).fit(torch.as_tensor(X))
    assert isinstance(kernel.transform(torch.as_tensor(X)), torch.Tensor)
    same(KernelFSSL(graph="pca", n_components=2).fit_transform(X),
         kernel.transform(torch.as_tensor(X)), 1e-8)  # fmt: skip


def test_a_path_of_penalties():
    X = samples(TALL)
    known = regularization_path(SPCAPSD(), X, alphas=[0.5, 0.2])
    moved = regularization_path(SPCAPSD(), torch.as_tensor(X), alphas=[0.5, 0.2])
    same(known.feature_scores, moved.feature_scores, 1e-8)


def test_a_second_fit_starts_from_the_first():
    X = torch.as_tensor(samples((60, 160)))
    estimator = fitted(SPCAPSD(warm_start=True), X)
    first = estimator.n_iter_
    assert fitted(estimator, X).n_iter_ <= first


def test_small_eigenproblems_of_an_accelerator_are_solved_on_the_host(monkeypatch):
    calls = []
    monkeypatch.setattr(linalg, "on_accelerator", lambda array: calls.append(array) or True)
    monkeypatch.setattr(torch.linalg, "eigh", lambda array: pytest.fail("not on the host"))
    matrix = torch.as_tensor(samples((20, 14)))
    values, vectors = eigh(matrix.T @ matrix)
    assert isinstance(vectors, torch.Tensor)
    assert calls
    same(matrix.T @ matrix, (vectors * values) @ vectors.T, 1e-12)


def test_the_root_of_a_scatter_matrix_on_a_device():
    X = samples((10, 14))
    X = (X - X.mean(axis=0)) * np.logspace(0, 6, 14)
    X[:, 4] = 0.0
    S = X.T @ X
    root = to_host(root_of_scatter(torch.as_tensor(S)))
    assert root.shape[0] == 9  # the rank of centred samples
    lengths = np.sqrt(np.where(np.diagonal(S) > 0, np.diagonal(S), 1.0))
    np.testing.assert_allclose(root.T @ root / lengths / lengths[:, None],
                               S / lengths / lengths[:, None], atol=1e-12)  # fmt: skip


def test_numpy_stays_numpy():
    X = samples(TALL)
    assert to_host(X) is X
    assert like(X, X) is X
    moments = Moments.from_data(X)
    assert moments.native is moments
    spectrum = Spectrum.of(moments.scatter)
    assert spectrum.on_host().vectors is spectrum.vectors


@pytest.mark.parametrize("name", sorted(METHODS))
def test_what_runs_on_the_host_is_said_once(name, monkeypatch):
    """PyTorch's processor tensors stand for those on a GPU."""
    import jointsparse.methods.bases.estimator as module

    monkeypatch.setattr(module, "on_accelerator", lambda data: True)
    stays = name in {
        *("spca-psd", "cspca-psd", "cspca", "aw-spca-psd", "aw-spca", "greedy"),
        *("spca", "jspca", "dictionary-spca", "fssl", "spcafs", "laplacian-score", "mcfs", "rne"),
        *("robust-pca", "udfs", "sogfs"),
    }
    X = torch.as_tensor(samples(TALL))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        few(METHODS[name].make()).fit(X, np.arange(40) % 2)
    told = [w for w in caught if "on the host" in str(w.message)]
    assert len(told) == (0 if stays else 1)
    assert all(w.filename == __file__ for w in told)


@pytest.mark.parametrize("shape", [TALL, WIDE])
def test_sets_and_their_proofs_are_those_of_numpy(shape):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((shape[0], 3)) @ rng.standard_normal((3, shape[1]))
    X += 0.3 * rng.standard_normal(shape)
    for search in ("greedy", "swap", "exact"):
        limits = {"time_limit": None, "max_nodes": 20}
        one, other = (
            SubsetSelector(n_features_to_select=4, search=search, **limits).fit(samples)
            for samples in (X, torch.as_tensor(X))
        )
        np.testing.assert_array_equal(one.support_, other.support_)
        assert one.set_value_ == pytest.approx(other.set_value_, abs=1e-12)
        assert one.set_bound_ == pytest.approx(other.set_bound_, abs=1e-9)


def test_a_device_sorts_scores_as_the_host_does(monkeypatch):
    torch = pytest.importorskip("torch")
    from jointsparse.selection import choosing

    monkeypatch.setattr(choosing, "on_accelerator", lambda data: True)
    rng = np.random.default_rng(0)
    for ties in (1, 2, 8):  # digits: few leave many equal scores and equal variances
        scores, variances = rng.random(500).round(ties), rng.random(500).round(ties)
        scores[::3] *= 1 + 1e-15  # rounding tells nothing apart
        there = choosing.by_score(scores, variances, torch.zeros(1, dtype=torch.float64))
        steps = [
            np.unique(-values.round(12), return_inverse=True)[1] for values in (variances, scores)
        ]
        np.testing.assert_array_equal(there, np.lexsort(steps))
