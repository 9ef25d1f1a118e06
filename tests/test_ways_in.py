"""Samples that are not in memory: who takes them, and what is made of them.

That the fit is the same in every container is the matter of ``test_twins``.
"""

import numpy as np
import pytest
from ways_in import ways_in

from jointsparse import (
    FSSL,
    JSPCA,
    RNE,
    SPCA,
    SPCAPSD,
    KernelFSSL,
    Moments,
    SelectFeatures,
    open_source,
)
from jointsparse.methods.registry import methods

METHODS = methods()


def samples(n=40, p=9):
    rng = np.random.default_rng(3)
    signal = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p))
    return (signal + 0.4 * rng.standard_normal((n, p))) * rng.uniform(0.5, 2, p) + 3


def test_which_methods_need_only_the_scatter():
    # An oracle of its own: what can be fitted to moments without samples.
    X = samples()
    whole = Moments.from_data(X)
    for name, method in METHODS.items():
        bare = Moments(whole.n_samples, whole.mean, whole.scatter)
        if method.scatter_only:
            assert method.make().fit_moments(bare).feature_scores_.any(), name
        else:
            with pytest.raises(ValueError, match="samples themselves"):
                method.make().fit_moments(bare)


@pytest.mark.parametrize(
    ("estimator", "needs"),
    [(JSPCA(loss="features"), False), (JSPCA(loss="samples"), True), (FSSL(graph="pca"), False)],
)
def test_what_is_needed_depends_on_parameters(estimator, needs):
    assert estimator._needs().samples == needs
    assert SelectFeatures(estimator)._needs().samples == needs


@ways_in("Parquet folder", "npy")
def test_methods_on_samples_read_what_fits(way_in, tmp_path):
    X = samples()
    expected = RNE(n_neighbors=4).fit(X)
    found = RNE(n_neighbors=4).fit(way_in(X, tmp_path))
    np.testing.assert_allclose(found.feature_scores_, expected.feature_scores_)
    assert found.selection_report_.held_out


@ways_in("npy")
def test_landmarks_of_a_source(way_in, tmp_path):
    X = samples()
    found = KernelFSSL(graph="pca", n_components=2).fit(way_in(X, tmp_path))
    expected = KernelFSSL(graph="pca", n_components=2).fit(X)
    np.testing.assert_array_equal(found.landmarks_, expected.landmarks_)


@ways_in("Parquet folder")
def test_methods_on_samples_refuse_what_does_not_fit(way_in, tmp_path):
    # Less than the samples and a centred copy take, more than the scatter matrices do.
    source = open_source(way_in(samples(200), tmp_path), memory=18_000)
    with pytest.raises(ValueError, match=r"RNE needs them all at once.*spca-psd, greedy"):
        RNE().fit(source)
    source = open_source(tmp_path / "parquet", memory=4000)
    # With the distances among them, and differences between neighbours.
    with pytest.raises(ValueError, match=r'allow more with memory="600kB", or read fewer columns'):
        RNE().fit(source)


def test_more_features_than_samples_are_read_as_a_whole(tmp_path):
    X = samples(12, 500)
    np.save(tmp_path / "x.npy", X)
    source = open_source(tmp_path / "x.npy", memory="1MB")  # a scatter matrix takes 2 MB
    found = SPCA(n_components=2).fit(source)
    expected = SPCA(n_components=2).fit(X)
    np.testing.assert_allclose(found.components_, expected.components_, atol=1e-8)


def test_too_many_features_are_refused_before_reading(tmp_path):
    X = samples(600, 500)
    np.save(tmp_path / "x.npy", X)
    source = open_source(tmp_path / "x.npy", memory="1MB")
    source.blocks = None  # must not be asked for
    with pytest.raises(ValueError, match=r"500 columns, whose scatter matrices need 26.4 MB"):
        SPCA().fit(source)


@ways_in("Parquet folder", "CSV folder", "Zarr")
def test_transform_stays_a_source(way_in, tmp_path):
    X = samples()
    place = way_in(X, tmp_path)
    selector = SPCAPSD(n_features_to_select=3).fit(place)
    kept = selector.transform(place)
    np.testing.assert_allclose(kept.read(), X[:, selector.get_support()])
    components = SPCA(n_components=2).fit(X)
    np.testing.assert_allclose(
        components.transform(place).read(), components.transform(X), atol=1e-12
    )


@ways_in("Parquet folder")
def test_selection_is_worth_as_much_as_in_memory(way_in, tmp_path):
    X = samples(400)
    place = way_in(X, tmp_path)
    streamed = SPCAPSD(n_features_to_select=3).fit(place)
    report = streamed.selection_report_
    in_memory = SPCAPSD(n_features_to_select=3).fit(X).selection_report_
    assert report.held_out
    assert report.r2 == pytest.approx(in_memory.r2, abs=1e-12)
    np.testing.assert_allclose(report.headline, in_memory.headline, atol=1e-10)
    again = streamed.selection_report(place)
    assert again.r2_held_out == report.r2_held_out


@ways_in("Parquet folder")
def test_select_features_reads_once(way_in, tmp_path, monkeypatch):
    X = samples()
    source = open_source(way_in(X, tmp_path))
    passes = []
    blocks = source.blocks
    monkeypatch.setattr(source, "blocks", lambda entries=None: passes.append(1) or blocks(entries))
    found = SelectFeatures(SPCA(n_components=2), n_features_to_select=4).fit(source)
    assert len(passes) == 1
    expected = SelectFeatures(SPCA(n_components=2), n_features_to_select=4).fit(X)
    np.testing.assert_array_equal(found.ranking_, expected.ranking_)
    assert found.selection_report_.held_out
    assert list(found.get_feature_names_out()) == [
        f"column {j}" for j in np.flatnonzero(expected.get_support())
    ]


def test_other_columns_than_those_of_fit_are_refused(tmp_path):
    X = samples()
    np.save(tmp_path / "x.npy", X[:, :4])
    with pytest.raises(ValueError, match="has 4 features, but SPCAPSD was fitted to 9"):
        SPCAPSD(n_features_to_select=2).fit(X).transform(tmp_path / "x.npy")
