"""Short ways of samples in memory: what is known or there already is not made again."""

import numpy as np
import pytest

from jointsparse.operators.blocks import ColumnBlocks
from jointsparse.operators.dense import DenseSamples, scaled_columns

RNG = np.random.default_rng(0)
RAW = RNG.standard_normal((6, 9)) + 2
X = RAW - RAW.mean(axis=0)
U, V = RNG.standard_normal((9, 2)), RNG.standard_normal((6, 2))
WEIGHTS, FACTORS = RNG.uniform(0.5, 2, 6), RNG.uniform(0.5, 2, 9)


@pytest.fixture
def no_blocks(monkeypatch):
    """Refuse to go through the columns block by block."""

    def refuse(*_):
        raise AssertionError("a block of columns was made")

    for name in ("times", "transposed_times", "combined", "_gram", "dense"):
        monkeypatch.setattr(ColumnBlocks, name, refuse)


def test_centred_doubles_are_multiplied_as_they_are(no_blocks):
    samples = DenseSamples(X)
    assert samples.is_held
    assert samples.dense() is X
    np.testing.assert_array_equal(samples.times(U), X @ U)
    np.testing.assert_array_equal(samples.transposed_times(V), X.T @ V)
    np.testing.assert_array_equal(samples.combined(V.T), V.T @ X)
    np.testing.assert_array_equal(samples.gram(), X @ X.T)
    assert samples.gram() is samples.gram()


def test_features_in_another_unit_are_multiplied_in_their_own(no_blocks):
    samples = DenseSamples(X).scaled(FACTORS).scaled(FACTORS)
    assert not samples.is_held
    np.testing.assert_allclose(samples.times(U), X @ (U * FACTORS[:, None] ** 2))
    np.testing.assert_allclose(samples.transposed_times(V), (X * FACTORS**2).T @ V)


def test_weighted_samples_have_the_gram_matrix_of_the_plain_ones(no_blocks):
    mean = WEIGHTS @ X / WEIGHTS.sum()
    for centre in (None, mean):
        rows = np.sqrt(WEIGHTS)[:, None] * (X if centre is None else X - centre)
        samples = DenseSamples(X)
        np.testing.assert_allclose(samples.reweighted(WEIGHTS, centre).gram(), rows @ rows.T)


@pytest.mark.parametrize("mean", [None, RAW.mean(axis=0)])
def test_an_array_is_centred_at_once(no_blocks, mean):
    array = X if mean is None else RAW
    np.testing.assert_array_equal(DenseSamples(array, mean).dense(), X)


def test_squares_are_summed_once_for_each_unit(monkeypatch):
    calls, sums = [], ColumnBlocks.squared_lengths
    monkeypatch.setattr(
        ColumnBlocks, "squared_lengths", lambda self, *rows: calls.append(1) or sums(self, *rows)
    )
    samples = DenseSamples(X)
    for _ in range(3):
        np.testing.assert_allclose(samples.squared_lengths(), (X**2).sum(axis=0))
    assert len(calls) == 1
    samples.squared_lengths(V)
    assert len(calls) == 2
    np.testing.assert_allclose(
        samples.scaled(FACTORS).squared_lengths(), ((X * FACTORS) ** 2).sum(axis=0)
    )
    np.testing.assert_allclose(
        samples.reweighted(WEIGHTS).squared_lengths(), WEIGHTS @ X**2, rtol=1e-12
    )


def test_all_columns_are_the_samples_themselves():
    samples = DenseSamples(X)
    assert samples.columns(np.ones(9, dtype=bool)) is samples
    single = DenseSamples(X.astype(np.float32)).columns(np.arange(9) < 4)
    assert single.array.dtype == np.float32
    np.testing.assert_array_equal(single.array, X[:, :4].astype(np.float32))


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (1e-30, 1e30, np.float32),
        (0.9e-30, 1.0, np.float64),
        (1.0, 1.1e30, np.float64),
        (-1e-30, -1.0, np.float32),
    ],
)
def test_factors_of_single_precision_are_single_where_they_can_be(low, high, dtype):
    found = scaled_columns(np.ones((3, 2), np.float32), np.array([low, high]))
    assert found.dtype == dtype
    np.testing.assert_allclose(found[0], [low, high], rtol=1e-6)
    assert scaled_columns(np.ones((3, 2)), np.array([low, high])).dtype == np.float64
