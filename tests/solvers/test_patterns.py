"""The spectrum of a table is that of the explicit matrix, wherever the samples are."""

import numpy as np
import pytest
import scipy.sparse as sp

from jointsparse import Moments, open_source
from jointsparse.methods.reading.from_source import moments_of_products
from jointsparse.solvers.picking import patterns as module
from jointsparse.solvers.picking.noise_edge import sequential_edge
from jointsparse.solvers.picking.patterns import patterns_of
from jointsparse.sources import as_source

TALL, WIDE = (60, 9), (14, 40)


def table(shape, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.poisson(1.5, shape) * rng.lognormal(0, 1, shape[1]) * (rng.random(shape) < 0.7)
    X[:, 2] = 3.0
    X[:, 4] += 1e3  # no zero is left, and the offset is large
    return X


def dense(X, folder):
    return Moments.from_data(X)


def sparse(X, folder):
    return Moments.from_data(sp.csr_array(X))


def tensor(X, folder):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    return Moments.from_data(torch.tensor(X))


def in_a_file(X, folder):
    np.save(folder / "x.npy", X)
    source = open_source(folder / "x.npy")
    return moments_of_products(source, source.operator())


def on_a_cluster(X, folder):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    source = as_source(da.from_array(X, chunks=(5, 11)))
    return moments_of_products(source, source.operator())


def sums_alone(X, folder):
    known = Moments.from_data(X)
    return Moments(known.n_samples, known.mean, known.scatter)


HOMES = [dense, sparse, tensor, in_a_file, on_a_cluster, sums_alone]
each_home = pytest.mark.parametrize("home", HOMES, ids=lambda home: home.__name__)
each_shape = pytest.mark.parametrize("shape", [TALL, WIDE], ids=["tall", "wide"])


def explicit(X, standardised, levels):
    """Return Y as the module's docstring has it."""
    Y = X - X.mean(axis=0)
    if levels is not None:
        root = 1 / np.sqrt(levels)
        unit = root / np.linalg.norm(root)
        Y = root[:, None] * Y
        Y = Y - np.outer(unit, unit @ Y)
    if standardised:
        lengths = np.sqrt(np.mean(Y**2, axis=0))
        Y = Y / np.where(lengths > 1e-6, lengths, np.inf)
    return Y


@each_shape
@each_home
@pytest.mark.parametrize("standardised", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_it_is_the_spectrum_of_the_explicit_table(home, shape, standardised, weighted, tmp_path):
    if home is sums_alone and weighted:
        pytest.skip("nothing to weigh")
    X = table(shape)
    levels = np.random.default_rng(1).uniform(0.2, 3, shape[0]) if weighted else None
    found = patterns_of(home(X, tmp_path), standardised=standardised, levels=levels)
    Y = explicit(X, standardised, levels)
    U, roots, Vt = np.linalg.svd(Y, full_matrices=False)
    rank = int(np.sum(roots > 1e-9 * roots[0]))
    close = {"rtol": 1e-8, "atol": 1e-8 * roots[0] ** 2}
    assert found.n_samples == shape[0]
    assert found.n_features == shape[1] - 1
    assert found.others == (0, 0.0)
    np.testing.assert_allclose(found.values, roots[:rank] ** 2, **close)
    np.testing.assert_allclose(found.squares, np.sum(Y**2, axis=0), **close)
    for count in (0, 3, 2, 4):  # more than were known, and fewer
        inside = (Y.T @ U[:, :count]) ** 2
        np.testing.assert_allclose(found.images(count), inside, **close)
        left = Y - (U[:, :count] * roots[:count]) @ Vt[:count]
        np.testing.assert_allclose(found.residual_squares(count), np.sum(left**2, axis=0), **close)
        rows = found.residual_rows(count)
        if home is sums_alone:
            assert rows is None
        else:
            np.testing.assert_allclose(rows, np.sum(left**2, axis=1), **close)


@each_home
def test_the_variance_of_rows_is_that_of_independent_entries(home, tmp_path):
    X = table((400, 30))
    found = patterns_of(home(X, tmp_path), standardised=True).row_variance
    Y = explicit(X, True, None)[:, np.arange(30) != 2]
    if home is sums_alone:
        assert np.isnan(found)
    else:
        assert found == pytest.approx((np.mean(Y**4) - 1) / 29, rel=1e-9)


@each_shape
@pytest.mark.parametrize("home", [dense, sparse, sums_alone], ids=lambda home: home.__name__)
@pytest.mark.parametrize("weighted", [True, False])
def test_leading_pairs_are_those_of_the_whole(home, shape, weighted, tmp_path, monkeypatch):
    X = table(shape)
    levels = np.random.default_rng(1).uniform(0.2, 3, shape[0]) if weighted else None
    moments = home(X, tmp_path)
    whole = patterns_of(moments, standardised=True, levels=levels)
    monkeypatch.setattr(module, "LARGEST_GRAM", 5)
    part = patterns_of(moments, standardised=True, levels=levels, pairs=4)
    assert part.values.size == 4
    np.testing.assert_allclose(part.values, whole.values[:4], rtol=1e-9)
    np.testing.assert_allclose(part.images(3), whole.images(3), rtol=1e-6, atol=1e-9)
    count, mean = part.others
    assert count == whole.values.size - 4
    assert mean == pytest.approx(whole.values[4:].mean())


def test_directions_taken_out_of_all_samples_are_no_directions():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 300))
    group = np.arange(60) // 6
    for one in range(10):
        X[group == one] -= X[group == one].mean(axis=0)
    assert patterns_of(Moments.from_data(X), standardised=True).n_directions == 50
    twice = np.repeat(rng.standard_normal((30, 300)), 2, axis=0)
    found = patterns_of(Moments.from_data(twice), standardised=True)
    assert found.n_directions == 29
    assert sequential_edge(found).n_patterns == 0


def test_a_table_of_low_rank_is_structure():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3)) @ rng.standard_normal((3, 200))
    found = patterns_of(Moments.from_data(X), standardised=True)
    assert found.n_directions == 49
    edge = sequential_edge(found)
    assert edge.n_patterns == 3
    assert edge.levels.tolist() == [1.0]  # of what rounding leaves, nothing is concluded


def test_equally_long_features_use_the_spectrum_that_solvers_use():
    X = table(TALL)
    moments = Moments.from_data(X).standardised()
    spectrum = moments.spectrum
    moments.__dict__["spectrum"] = type(spectrum)(
        2 * spectrum.values, spectrum.vectors, spectrum.trace
    )
    found = patterns_of(moments, standardised=True)
    np.testing.assert_allclose(found.values.sum(), 2 * 60 * 8)


def test_a_feature_that_varies_in_weightless_samples_alone_is_constant():
    X = np.random.default_rng(0).standard_normal((30, 5))
    X[:, 0] = 0.0
    X[0, 0] = 1.0
    levels = np.ones(30)
    levels[0] = 1e15
    found = patterns_of(Moments.from_data(X), standardised=True, levels=levels)
    assert found.squares.tolist() == [30.0] * 5 or found.squares[0] == 0.0
    assert np.isfinite(found.values).all()


def test_images_of_any_number_of_directions_are_the_first_of_all():
    X = np.random.default_rng(6).standard_normal((30, 9))
    whole = patterns_of(Moments.from_data(X), standardised=True).images(7)
    assert whole.shape == (9, 7)
    found = patterns_of(Moments.from_data(X), standardised=True)
    for count in (2, 5, 3, 1, 7, 4, 2):  # more than before, and fewer
        np.testing.assert_allclose(found.images(count), whole[:, :count], atol=1e-9)
        left = found.squares - whole[:, :count].sum(axis=1)
        np.testing.assert_allclose(found.residual_squares(count), left, atol=1e-9)
