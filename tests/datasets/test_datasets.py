import numpy as np
import pytest

from jointsparse import SPCAPSD
from jointsparse.datasets import (
    available_datasets,
    load_dataset,
    make_expression,
    make_process,
    make_spectra,
    make_spiked,
    make_three_curve,
    make_three_ring,
    make_two_moon,
    write_example,
)

SHAPES = [(make_two_moon, 2), (make_three_ring, 3), (make_three_curve, 3)]


@pytest.mark.parametrize(("make", "count"), SHAPES)
def test_shapes_are_in_two_features_and_the_rest_is_noise(make, count):
    X, y = make()
    assert X.shape == (800 if count == 2 else 900, 9)
    assert np.bincount(y).tolist() == [len(y) // count] * count
    assert np.all(np.diff(X[:, 2:].std(axis=0)) > 0)
    assert X[:, 8].std() < X[:, :2].std(axis=0).min()
    correlation = np.corrcoef(X.T)[2:]
    assert np.abs(correlation[:, :2]).max() < 0.15
    np.testing.assert_array_equal(X, make()[0])
    assert not np.array_equal(X, make(random_state=1)[0])


@pytest.mark.parametrize(("make", "count"), SHAPES)
@pytest.mark.parametrize("seed", range(5))
def test_spca_psd_finds_the_two_features_of_the_shape(make, count, seed):
    # Figure 3 of source 004.
    X, _ = make(random_state=seed)
    scores = SPCAPSD(n_features_to_select=2).fit(X).feature_scores_
    assert set(np.argsort(-scores)[:2]) == {0, 1}


@pytest.mark.parametrize("shared", [False, True])
def test_spiked_data_have_their_directions(shared):
    X, directions = make_spiked(
        5000, 40, n_components=2, n_informative=6, strength=5, shared=shared
    )
    np.testing.assert_allclose(directions @ directions.T, np.eye(2), atol=1e-12)
    used = directions.any(axis=0).sum()
    assert used == (6 if shared else 12)
    covariance = np.cov(X.T)
    variances = np.einsum("ij,jk,ik->i", directions, covariance, directions)
    np.testing.assert_allclose(variances, [11, 6], rtol=0.1)


def test_spiked_data_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="30 informative features do not fit"):
        make_spiked(10, 20)
    with pytest.raises(ValueError, match="n_informative=2"):
        make_spiked(10, 20, n_informative=2, shared=True)
    with pytest.raises(ValueError, match="too few for 3 shapes"):
        make_three_ring(2)


def test_a_folder_of_files_and_the_bundled_sets(tmp_path, monkeypatch):
    pixels = np.array([[0, 255], [51, 102], [255, 0]], dtype=np.uint8)
    np.savez(tmp_path / "faces.npz", X=pixels, y=np.array([0, 1, 1]))
    np.savez(tmp_path / "genes.npz", X=np.ones((2, 3), dtype=np.float32), y=np.array([0, 1]))
    X, y = load_dataset("faces", tmp_path)
    np.testing.assert_allclose(X, pixels / 255)
    assert y.tolist() == [0, 1, 1]
    assert load_dataset("genes", tmp_path)[0].dtype == np.float64
    assert available_datasets(tmp_path) == ["faces", "genes"]
    monkeypatch.setenv("JOINTSPARSE_DATA", str(tmp_path))
    assert load_dataset("faces")[0].shape == (3, 2)
    assert load_dataset("breast-cancer")[0].shape == (569, 30)
    X, y = load_dataset("breast-cancer-31")
    np.testing.assert_array_equal(X[:, 30], y)
    assert "digits" in available_datasets()
    monkeypatch.delenv("JOINTSPARSE_DATA")
    assert available_datasets() == ["breast-cancer", "breast-cancer-31", "digits"]


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("JOINTSPARSE_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"no dataset 'isolet'.*JOINTSPARSE_DATA"):
        load_dataset("isolet")
    with pytest.raises(FileNotFoundError, match="no NPZ file at all"):
        load_dataset("isolet", tmp_path)
    np.savez(tmp_path / "half.npz", X=np.ones((2, 2)))
    with pytest.raises(ValueError, match="no array named y"):
        load_dataset("half", tmp_path)
    np.savez(tmp_path / "odd.npz", X=np.ones((2, 2)), y=np.ones(3))
    with pytest.raises(ValueError, match="do not fit"):
        load_dataset("odd", tmp_path)


def test_the_tables_of_the_tutorials_have_the_structure_they_claim():
    made = make_expression(random_state=1)
    Z = (made.data - made.data.mean(0)) / made.data.std(0)
    correlations = np.abs(Z.T @ Z / len(Z))
    of_one = np.ix_(made.pathway == 1, made.pathway == 1)
    noise = np.ix_(made.pathway == 0, made.pathway == 0)
    assert np.median(correlations[of_one]) > 0.5 > 0.2 > np.median(correlations[noise])
    plant = make_process(random_state=1)
    assert 0.015 < np.isnan(plant.data).mean() < 0.025
    assert plant.price.shape == plant.state.shape == plant.feature_names.shape == (60,)
    spectra = make_spectra(random_state=1)
    values = np.linalg.svd(spectra.data - spectra.data.mean(0), compute_uv=False)
    assert values[4] > 3 * values[5]  # three free concentrations, a slope and an offset


def test_no_other_example():
    with pytest.raises(ValueError, match="'genes' is not one of 'expression'"):
        write_example("genes")
