import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from jointsparse import AWSPCA, CSPCA, SPCAPSD, Moments
from jointsparse.solvers.wide.convex import TooManyDirectionsError


def wild_samples(seed, amplitude=8):
    """Eight features carry a rank-2 signal; ten samples of 200 are wild in the others."""
    rng = np.random.default_rng(seed)
    X = 0.3 * rng.standard_normal((200, 30))
    X[:, :8] += rng.standard_normal((200, 2)) @ rng.standard_normal((2, 8))
    X[:10, 8:] += amplitude * rng.standard_normal((10, 22))
    return X


@pytest.mark.parametrize("seed", range(3))
def test_outlier_samples_do_not_choose_the_features(seed):
    X = wild_samples(seed)
    # By the scores of the models alone: the other rules leave out what samples of noise suggest.
    wanted = {"n_features_to_select": 8, "rule": "norm"}
    kept = {
        name: np.flatnonzero(selector.set_params(**wanted).fit(X).support_)
        for name, selector in {
            "squared": SPCAPSD(alpha=0.3, eta=0.3),
            "cspca": CSPCA(alpha=0.3, eta=0.3),
            "aw-spca": AWSPCA(alpha=0.3),
        }.items()
    }
    assert np.isin(kept["cspca"], range(8)).sum() == 8
    assert np.isin(kept["aw-spca"], range(8)).sum() == 8
    assert np.isin(kept["squared"], range(8)).sum() < 4


@pytest.mark.parametrize("psd", [True, False])
@pytest.mark.parametrize("solver", ["exact", "published"])
def test_the_mean_of_aw_spca_is_not_pulled_away(psd, solver):
    X = wild_samples(0)
    X[:5] += 500.0
    selector = AWSPCA(alpha=0.3, psd=psd, solver=solver, max_iter=300).fit(X)
    assert np.abs(X.mean(axis=0)).max() > 10
    assert np.abs(selector.mean_).max() < 2


@pytest.mark.parametrize("make", [CSPCA, AWSPCA])
@pytest.mark.parametrize("psd", [True, False])
def test_only_the_exact_solver_reaches_the_optimum(make, psd):
    X = wild_samples(1, amplitude=1)
    exact = make(psd=psd, alpha=0.2).fit(X)
    published = make(psd=psd, alpha=0.2, solver="published", constants="paper").fit(X)
    assert exact.objective_ < published.objective_ * (1 + 1e-6)
    assert exact.duality_gap_ <= 1e-4
    assert not hasattr(published, "duality_gap_")


def test_losses_over_samples_need_the_samples():
    moments = Moments.from_scatter(np.eye(3), n_samples=5)
    with pytest.raises(ValueError, match="needs the samples themselves"):
        CSPCA().fit_moments(moments)


@pytest.mark.parametrize("make", [CSPCA, AWSPCA])
def test_count(make):
    X = wild_samples(2, amplitude=0)
    selector = make(alpha="count", n_features_to_select=7, tol=1e-5).fit(X)
    assert np.count_nonzero(selector.feature_scores_) == 7


def test_alpha_zero_is_refused():
    with pytest.raises(ValueError, match="alpha must be positive"):
        AWSPCA(alpha=0).fit(wild_samples(0))
    with pytest.raises(ValueError, match="alpha and eta cannot both be 0"):
        CSPCA(alpha=0, eta=0).fit(wild_samples(0))


@pytest.mark.parametrize(("n", "p"), [(300, 120), (40, 900)])
def test_the_solver_for_the_shape_equals_splitting(n, p):
    """Where p × p matrices are small enough to compare with."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    X[:, :12] += 6 * rng.standard_normal((n, 2)) @ rng.standard_normal((2, 12))
    settings = {"alpha": 0.3, "eta": 0.2, "n_features_to_select": "support"}
    exact = CSPCA(**settings).fit(X)
    assert exact.duality_gap_ <= 1e-4
    assert exact.n_iter_ <= 20
    part = X[:, :120]  # splitting 900 features takes minutes
    if p > 120:
        settings.update(alpha=exact.alpha_, eta=exact.eta_, penalty_scale="absolute")
        assert exact.support_.sum() == 12
        exact = CSPCA(**settings).fit(part)
    split = CSPCA(solver="splitting", **settings).fit(part)
    assert split.objective_ == pytest.approx(exact.objective_, rel=2e-4)
    np.testing.assert_array_equal(exact.support_, split.support_)


@pytest.mark.parametrize("form", [np.asarray, lambda X: X.astype(np.float32), sp.csr_array])
def test_wide_tables_of_any_form(form, monkeypatch):
    rng = np.random.default_rng(1)
    X = np.where(rng.uniform(size=(30, 1500)) < 0.05, rng.standard_normal((30, 1500)), 0.0)
    X[:, :20] += 5 * rng.standard_normal((30, 2)) @ rng.standard_normal((2, 20))
    monkeypatch.setattr(Moments, "scatter", property(lambda _: pytest.fail("p × p")))
    selector = CSPCA(alpha=0.2, eta=0.2, n_features_to_select="support").fit(form(X))
    assert selector.duality_gap_ <= 1e-4
    np.testing.assert_array_equal(np.flatnonzero(selector.support_), range(20))


def test_an_eta_that_needs_too_much_memory_is_refused_with_one_that_does_not(monkeypatch):
    X = np.random.default_rng(2).standard_normal((60, 900))
    monkeypatch.setattr("jointsparse.solvers.wide.convex.bytes_to_use", lambda data: 4 * 10**6)
    with pytest.raises(ValueError, match=r"eta=0.001 lets .* at 900 features: use eta="):
        CSPCA(alpha=0.01, eta=0.001).fit(X)


@pytest.mark.parametrize("seed", [0, 3])
def test_columns_of_very_different_size_do_not_stop_the_solver(seed):
    """Splitting ended at gaps of 5e-4 and 3e-4 after 1000 iterations."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((30, 8)) @ rng.standard_normal((8, 40))
    X = X * 10.0 ** rng.uniform(-12, 12, 40)
    X[:, rng.random(40) < 0.5] = 0.1
    found = AWSPCA(n_clusters=3, rule="norm", n_features_to_select=3).fit(X)
    assert found.converged_
    assert found.duality_gap_ <= 1e-4
    assert len(found.history_) == len(found.gap_history_) == found.n_iter_ < 400
    assert np.all(np.diff(found.history_) <= 0)


ONE_OF_SIXTEEN = np.array(
    [
        *(-2.79562521, 2.84408188, 0.770176828, 1.03051174, 0.537619352, 1.54690039, -0.544183612),
        *(0.080438517, -0.485365152, 0.416676015, 0.289690644, 477871.875, -0.44523263),
        *(0.749476373, 0.199768633, -1.69875133),
    ]
)


def test_one_sample_that_outweighs_all_others():
    """The accelerated steps left for 3e4, from where no step size led back."""
    found = AWSPCA(alpha=0.9, psd=False, rule="norm").fit(ONE_OF_SIXTEEN[:, None])
    assert found.converged_
    assert found.duality_gap_ <= 1e-4
    assert found.objective_ == pytest.approx(430100, rel=2e-4)


@pytest.mark.parametrize("psd", [True, False])
@pytest.mark.parametrize("outlier", [1.0, 1e6])
def test_single_precision_is_solved_as_well_as_double(psd, outlier):
    """Without the cone, float32 with an outlier ended at a gap of 12 %."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((34, 22)) @ rng.standard_normal((22, 56))
    X[5] *= outlier
    X = X.astype(np.float32)
    model = CSPCA(psd=psd, n_features_to_select=3, rule="norm")
    found, twin = clone(model).fit(X), clone(model).fit(X.astype(np.float64))
    assert found.converged_
    assert abs(found.objective_ - twin.objective_) <= 2e-4 * twin.objective_


def test_features_that_explain_the_same_tie_in_single_precision_too():
    """Of multiples of each other, centring in float32 leaves multiples to 6e-8."""
    X = np.zeros((3, 13))
    X[2, [2, 3, 5]] = [6252128.0, -3177905.75, -2483745.0]
    for values in (X, X.astype(np.float32)):
        found = CSPCA(eta=0.01, n_features_to_select="r2>=0.5").fit(values)
        assert found.ranking_[[2, 3, 5]].tolist() == [1, 2, 3]
        assert np.flatnonzero(found.support_).tolist() == [2]


def test_too_many_directions_are_refused_without_a_word_of_a_penalty_that_it_has_not(monkeypatch):
    def refusing(*given, **options):
        raise TooManyDirectionsError(60, 0.009, 1.0)

    monkeypatch.setattr("jointsparse.methods.aw_spca.solve_samples_on_cone", refusing)
    X = np.random.default_rng(1).standard_normal((20, 120))
    sentence = (
        "60 directions matter, which need 9MB of memory at 120 features: allow so much, or use "
        "fewer features"
    )
    with pytest.raises(ValueError, match=re.escape(sentence)) as raised:
        AWSPCA(n_features_to_select=3).fit(X)
    assert type(raised.value) is ValueError
