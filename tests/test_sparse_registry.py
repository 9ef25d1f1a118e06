"""Every method of the registry: sparse samples give what dense ones give, and stay sparse."""

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import sparse_text

from jointsparse import CSPCA, FSSL, SPCAPSD, Moments, RobustPCA, registry
from jointsparse.methods.reading import plan
from jointsparse.selection.choosing import whitened_target
from jointsparse.solvers.products import columns as columns_module
from jointsparse.solvers.samples import wide as samples_wide
from jointsparse.solvers.wide import convex as convex_wide
from jointsparse.solvers.wide import penalties as wide_penalties
from jointsparse.solvers.wide import scatter_access

N, P = 48, 700
METHODS = registry.methods()
SLOW = {"aw-spca-psd", "aw-spca", "sogfs"}  # on few samples with many features
# What makes no dense array of wide sparse samples, by default and in other variants.
SPARSE = [name for name, method in METHODS.items() if method.make()._needs().dense_bytes(N, P) == 0]
MAKE = {
    **{name: METHODS[name].make for name in METHODS},
    "cspca-psd": lambda: CSPCA(eta=0.3, alpha=0.3),  # more directions take longer
    "fssl, pca": lambda: FSSL(graph="pca"),
    "fssl, l11": lambda: FSSL(norm="l11"),
}


def text_like(seed=0):
    """Words of documents, a column that is constant but not 0, and one without any zero."""
    rng = np.random.default_rng(seed)
    matrix = sparse_text.text_like(rng, N, P)
    matrix[:, 8] = 3
    matrix[:, 9] = rng.uniform(5, 6, N)
    return matrix.tocsr()


@pytest.fixture
def never_dense(monkeypatch):
    sparse_text.refuse_dense(monkeypatch, N * P / 2)
    monkeypatch.setattr("jointsparse.solvers.picking.pairs.ENTRIES_AT_ONCE", P * P // 10)


def fitted(name, X):
    model = MAKE[name]()
    if hasattr(model, "n_features_to_select"):
        model.set_params(n_features_to_select=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few samples do not do for some
        return model.fit(X)


def assert_same(found, expected, atol=1e-8):
    for key in ("feature_scores_", "components_", "objective_", "explained_variance_ratio_"):
        if hasattr(expected, key):
            value = np.asarray(getattr(expected, key))
            np.testing.assert_allclose(
                getattr(found, key), value, rtol=0, atol=atol * max(1, np.abs(value).max())
            )
    np.testing.assert_array_equal(found.get_support(), expected.get_support())
    kept = expected.get_support()  # of the others, rounding may order some that are alike
    if hasattr(expected, "n_features_to_select"):
        np.testing.assert_array_equal(found.ranking_[kept], expected.ranking_[kept])


def marked(names):
    return [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in names]


def test_what_stays_sparse_and_what_does_not():
    assert set(METHODS) - set(SPARSE) == {
        "cspca",
        "aw-spca-psd",
        "aw-spca",
        "robust-pca",
        "udfs",
        "sogfs",
        "subset",
    }


@pytest.mark.parametrize("name", [*SPARSE, "fssl, pca", "fssl, l11"])
def test_wide_samples_stay_sparse(name, never_dense, monkeypatch):
    # Small ones may be dense, and so may be what belongs to a few features.
    monkeypatch.setattr("jointsparse.methods.spcafs.DENSE_UP_TO", 0)
    monkeypatch.setattr("jointsparse.solvers.graph.leverage_newton.MOST", 100)
    monkeypatch.setattr("jointsparse.solvers.graph.stationary_rows.MOST_ROWS", 100)
    matrix = text_like()
    dense = np.array([matrix[[i]].toarray()[0] for i in range(N)])
    kind = (sp.csr_array, sp.csc_matrix)[len(name) % 2]
    assert_same(fitted(name, kind(matrix)), fitted(name, dense))


@pytest.mark.parametrize("name", marked(sorted(set(METHODS) - set(SPARSE))))
def test_wide_samples_that_become_dense_give_the_same(name):
    # AW-SPCA on the cone stops at a gap of 1e-4 after hundreds of passes, which rounding moves.
    atol = 1e-6 if name == "aw-spca-psd" else 1e-8
    assert_same(fitted(name, text_like()), fitted(name, text_like().toarray()), atol)


@pytest.mark.parametrize("name", marked(METHODS))
def test_tall_samples(name):
    matrix = sp.csr_array(text_like()[:, 7:27])
    assert_same(fitted(name, matrix), fitted(name, matrix.toarray()))


@pytest.mark.parametrize("name", sorted(set(METHODS) - set(SPARSE)))
def test_dense_copies_that_do_not_fit_are_refused_at_once(name, monkeypatch, never_dense):
    monkeypatch.setattr(plan, "default_budget", lambda: 10**5)
    with pytest.raises(ValueError, match=r"dense arrays.*48 × 700.* MB .*spca-psd, cspca-psd"):
        fitted(name, text_like())


def test_what_fits_is_not_refused():
    assert RobustPCA(max_iter=5)._needs().dense_bytes(10, 10) < 10**5
    assert FSSL()._needs().dense_bytes(N, P) == 0 < FSSL(norm="fro")._needs().dense_bytes(N, P)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "spca-psd",
        "robust-pca",
        *(
            pytest.param(n, marks=pytest.mark.exhaustive)
            for n in ("cspca-psd", "spcafs", "fssl-pca")
        ),
    ],
)
def test_text_of_20_000_documents_and_50_000_words(name):
    """The dense samples would take 8 GB; no process takes a sixth of it."""
    command = [sys.executable, "-m", "benchmarks.sparse", "--child", name]
    run = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1]
    )
    found = json.loads(run.stdout)
    assert 0.0045 < found["filled"] < 0.0055
    assert found["peak"] < 1.3e9
    if name == "robust-pca":
        assert "need about 160 GB" in found["refused"]
        assert found["seconds"] < 30
    else:
        assert found["planted"] == found["kept"]


@pytest.mark.parametrize("name", ["spca", "fssl"])
def test_scores_and_shares_of_new_samples(name, never_dense):
    model, new = fitted(name, text_like()), text_like(1)
    dense = np.array([new[[i]].toarray()[0] for i in range(N)])
    np.testing.assert_allclose(model.transform(new), model.transform(dense), atol=1e-12)
    assert model.score(new) == pytest.approx(model.score(dense), abs=1e-10)


def test_more_directions_than_there_is_room_for_are_refused_with_an_eta(monkeypatch, never_dense):
    for module in (convex_wide, scatter_access, wide_penalties, samples_wide):
        monkeypatch.setattr(module, "LARGEST_GRAM", 20)  # as with very many samples
    monkeypatch.setattr(convex_wide, "bytes_to_use", lambda data: 30 * 128 * P)
    model = SPCAPSD(eta=1e-3, alpha=0.3, n_features_to_select=5)
    with pytest.raises(ValueError, match="directions matter") as refusal:
        model.fit(text_like())
    eta = float(re.search(r"use eta=(\S+) or more", str(refusal.value))[1])
    assert 1e-3 < eta < 0.5
    assert model.set_params(eta=eta).fit(text_like()).duality_gap_ <= 1e-4


def test_whitening_by_lanczos_is_that_by_eigenvectors(monkeypatch, never_dense):
    moments = Moments.from_data(text_like())
    loadings = np.random.default_rng(0).standard_normal((P, 3))
    expected = whitened_target(loadings, moments)
    monkeypatch.setattr(columns_module, "LARGEST_GRAM", 10)
    found = whitened_target(loadings, Moments.from_data(text_like()))
    np.testing.assert_allclose(found, expected, atol=1e-9)
