import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris, make_circles
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from jointsparse import FSSL, KernelFSSL

CIRCLES, KINDS = make_circles(240, factor=0.4, noise=0.05, random_state=0)


@parametrize_with_checks([KernelFSSL()])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


def separated(scores, y):
    one, other = scores[y == 0], scores[y == 1]
    return one.max() < other.min() or other.max() < one.min()


def test_circles_that_no_line_separates():
    train = np.arange(len(CIRCLES)) % 2 == 0
    linear = FSSL(graph="lda").fit(CIRCLES[train], KINDS[train])
    assert not separated(linear.transform(CIRCLES)[:, 0], KINDS)
    model = KernelFSSL(graph="lda").fit(CIRCLES[train], KINDS[train])
    assert separated(model.transform(CIRCLES[~train])[:, 0], KINDS[~train])
    assert 0 < len(model.landmarks_) < 30
    assert model.duality_gap_ <= 1e-6
    np.testing.assert_array_equal(model.landmark_samples_, CIRCLES[train][model.landmarks_])


def test_scale_is_that_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    model = KernelFSSL().fit(X, y)
    assert model.gamma_ == SVC(gamma="scale").fit(X, y)._gamma  # 1 / (n_features * X.var())
    assert model.gamma_ == pytest.approx(0.0642, abs=1e-4)


def test_it_is_fssl_on_the_columns_of_the_kernel():
    model = KernelFSSL(gamma=2.0).fit(CIRCLES, KINDS)
    plain = FSSL().fit(rbf_kernel(CIRCLES, gamma=2.0), KINDS)
    np.testing.assert_array_equal(model.landmarks_, plain.get_support(indices=True))
    # Only the landmarks are compared with; the scores are those of all columns.
    expected = plain.transform(rbf_kernel(CIRCLES, gamma=2.0))
    np.testing.assert_allclose(model.transform(CIRCLES), expected, atol=1e-10)


def test_units_and_positions_do_not_matter():
    one = KernelFSSL().fit(CIRCLES, KINDS)
    other = KernelFSSL().fit(1e4 * CIRCLES - 300.0, KINDS)
    np.testing.assert_array_equal(one.landmarks_, other.landmarks_)


def test_several_classes_names_and_fewer_candidates():
    data = load_iris(as_frame=True)
    labels = data.target_names[data.target]
    model = KernelFSSL(n_candidates=40).set_output(transform="pandas").fit(data.data, labels)
    scores = model.transform(data.data)
    assert isinstance(scores, pd.DataFrame)
    assert list(scores.columns) == ["kernelfssl0", "kernelfssl1"]
    assert len(model.landmarks_) <= 40
    again = KernelFSSL(n_candidates=40).fit(data.data, labels)
    np.testing.assert_array_equal(again.landmarks_, model.landmarks_)


@pytest.mark.parametrize("graph", ["lpp", "pca"])
@pytest.mark.parametrize("kernel", ["poly", "linear", lambda a, b: float(a @ b)])
def test_without_classes_and_with_other_kernels(graph, kernel):
    X = load_iris().data
    model = KernelFSSL(graph=graph, kernel=kernel, n_components=2).fit(X[::3])
    assert model.transform(X).shape == (150, 2)
    assert np.all(np.isfinite(model.transform(X)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gamma": -1}, "gamma=-1"),
        ({"gamma": "wide"}, "gamma='wide'"),
        ({"n_candidates": 0}, "n_candidates=0"),
        ({"graph": "lda"}, "lda"),
    ],
)
def test_bad_parameters_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        KernelFSSL(**parameters).fit(CIRCLES)
