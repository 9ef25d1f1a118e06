"""Passes over samples that come in blocks agree with those over an array."""

import numpy as np
import pytest

from jointsparse import AWSPCA, CSPCA, JSPCA
from jointsparse.solvers.samples.geometric_median import geometric_median
from jointsparse.solvers.samples.model import emptying_data
from jointsparse.solvers.samples.source import SourceSamples, median_by_passes, slope_by_passes
from jointsparse.solvers.samples.weighted_pass import LinearFit, RowPasses
from jointsparse.sources import open_source


@pytest.fixture(scope="module", name="X")
def samples():
    generator = np.random.default_rng(0)
    signal = generator.standard_normal((3000, 3)) @ generator.standard_normal((3, 20))
    values = 4 + signal + generator.uniform(0.5, 1.5, 20) * generator.standard_normal((3000, 20))
    values[:50] += 20 * generator.standard_normal((50, 20))
    values[:, 7] = 1e6  # constant
    return values


@pytest.fixture(name="streamed")
def of_small_blocks(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    return open_source(tmp_path / "X.npy", memory="100kB")


def test_a_pass_is_that_over_the_array(X, streamed):
    mean = X.mean(axis=0)
    centred = X - mean
    centred[:, 7] = 0
    assert len(list(streamed.blocks())) > 3
    blocks = SourceSamples(streamed, mean, X.std(axis=0) > 1e-6, 3000, 1.0)
    generator = np.random.default_rng(1)
    thin = generator.standard_normal((20, 2)) / 5
    for second in (None, (thin, np.eye(2))):
        fit = LinearFit(thin, thin, mean=thin[:, 0], smoothing=0.1, second=second)
        for scatter in (True, False):
            found = blocks.weighted_pass(fit, scatter=scatter)
            expected = RowPasses(centred).weighted_pass(fit, scatter=scatter)
            for key, value in vars(expected).items():
                if value is None:
                    assert getattr(found, key) is None
                else:
                    np.testing.assert_allclose(getattr(found, key), value, rtol=1e-9, atol=1e-9)


def test_median_and_slope_are_those_of_the_array(X, streamed):
    mean = X.mean(axis=0)
    centred = X - mean
    centred[:, 7] = 0
    blocks = SourceSamples(streamed, mean, X.std(axis=0) > 1e-6, 3000, 5.0)
    median = median_by_passes(blocks)
    np.testing.assert_allclose(median, geometric_median(centred), atol=1e-7)
    for centre, free_mean in ((np.zeros(20), False), (geometric_median(centred), True)):
        root = emptying_data(centred, free_mean=free_mean)
        np.testing.assert_allclose(slope_by_passes(blocks, centre, 5.0), root.T @ root, atol=1e-6)


def test_the_median_stops_when_it_stands_still():
    class Counted(RowPasses):
        centre, scale, passes = np.zeros(3), 1.0, 0

        def weighted_pass(self, fit, *, scatter=True):
            self.passes += 1
            assert not scatter
            return super().weighted_pass(fit, scatter=scatter)

    points = np.random.default_rng(0).standard_normal((200, 3))
    samples = Counted(np.vstack([points, -points]))
    np.testing.assert_allclose(median_by_passes(samples), 0, atol=1e-12)
    assert samples.passes == 1  # the centre is the median already
    samples = Counted(points + 5)
    np.testing.assert_allclose(median_by_passes(samples), geometric_median(points + 5), atol=1e-7)
    assert 3 < samples.passes < 60


@pytest.mark.parametrize("method", [CSPCA, AWSPCA])
def test_methods_on_samples_beyond_memory_reach_the_same_optimum(X, streamed, method):
    streamed.memory = 300_000
    # Penalties that leave few directions: where all count alike, rounding would make the picks.
    parameters = {"alpha": 0.3, "n_features_to_select": 4, "tol": 1e-6, "max_iter": 20_000}
    if method is CSPCA:
        parameters["eta"] = 0.3
    far, near = (method(**parameters).fit(samples) for samples in (streamed, X))
    assert far.duality_gap_ <= 1e-6
    assert far.alpha_ == pytest.approx(near.alpha_, rel=1e-8)
    assert far.objective_ == pytest.approx(near.objective_, rel=2e-6)
    np.testing.assert_array_equal(far.support_, near.support_)
    if method is AWSPCA:
        np.testing.assert_allclose(far.mean_, near.mean_, atol=0.02)


def test_jspca_beyond_memory_agrees_with_the_array(X, streamed):
    streamed.memory = 300_000
    far, near = (JSPCA(n_components=3).fit(samples) for samples in (streamed, X))
    assert far.n_iter_ > 2
    for key in ("components_", "reconstruction_", "mean_", "alpha_", "objective_"):
        expected = getattr(near, key)
        np.testing.assert_allclose(getattr(far, key), expected, rtol=1e-8, atol=1e-8, err_msg=key)
