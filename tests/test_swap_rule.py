"""``rule="swap"``: exchanges after the greedy rule, for the same target."""

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from jointsparse import CSPCA, SPCAPSD, LaplacianScore, Moments, SelectFeatures
from jointsparse.cli.main import app
from jointsparse.methods.spca import SPCA
from jointsparse.selection import choosing as selection
from jointsparse.selection.choosing import Rule, Wanted, choose_features

SELECTORS = [SPCAPSD(), CSPCA(), LaplacianScore(), SelectFeatures(SPCA(n_components=3))]


@pytest.fixture(scope="module", name="X")
def breast_cancer():
    return StandardScaler().fit_transform(load_breast_cancer().data)


def value_of(X, features, Y):
    """Share of Y that a regression on some features accounts for."""
    kept = X[:, list(features)]
    left = Y - kept @ np.linalg.lstsq(kept, Y, rcond=None)[0]
    return 1 - np.sum(left**2) / np.sum(Y**2)


def neighbours(features, candidates):
    """All sets that one exchange leads to."""
    for j in features:
        for other in set(candidates) - set(features):
            yield [*(set(features) - {j}), other]


def chosen(X, count, name, **more):
    moments = Moments.from_data(X)
    rule = Rule(name, **more)
    return choose_features(moments, np.ones(X.shape[1]), Wanted(count=count), rule)


@pytest.mark.parametrize("n_samples", [60, 9])  # more and fewer samples than features
@pytest.mark.parametrize("with_target", [False, True])
def test_no_exchange_is_left_to_make(n_samples, with_target):
    better = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n_samples, 4)) @ rng.standard_normal((4, 12))
        X += 0.5 * rng.standard_normal(X.shape)
        X -= X.mean(axis=0)
        loadings = rng.standard_normal((12, 2))
        more = {"target": selection.projection_target(loadings)} if with_target else {}
        Y = X @ loadings if with_target else X
        sets = [chosen(X, 4, name, **more) for name in ("greedy", "swap")]
        greedy, swap = (value_of(X, found.order[:4], Y) for found in sets)
        assert swap >= greedy - 1e-12
        better += swap > greedy + 1e-6
        kept = sets[1].order[:4].tolist()
        assert max(value_of(X, some, Y) for some in neighbours(kept, range(12))) <= swap + 1e-9
        assert sets[1].curve[-1] == pytest.approx(value_of(X, kept, X))
        assert sorted(sets[1].order) == list(range(12))
    assert better >= 3


def test_the_known_gain_on_breast_cancer(X):
    greedy, swap = (chosen(X, 5, name).curve[-1] for name in ("greedy", "swap"))
    assert greedy == pytest.approx(0.7529, abs=1e-4)
    assert swap > 0.78


def test_the_rest_is_ranked_by_what_it_would_add(X):
    found = chosen(X, 5, "swap")
    kept = found.order[:5].tolist()
    gains = [value_of(X, [*kept, j], X) for j in found.order[5:]]
    assert gains == sorted(gains, reverse=True)


def test_features_that_share_something_stay_first(X):
    significant = np.zeros(30, dtype=bool)
    significant[[1, 4, 9, 11, 14, 18, 21]] = True
    found = chosen(X, 3, "swap", significant=significant)
    kept = found.order[:3].tolist()
    assert significant[kept].all()
    among = np.flatnonzero(significant).tolist()
    best = max(value_of(X, some, X) for some in neighbours(kept, among))
    assert best <= value_of(X, kept, X) + 1e-9
    more = chosen(X, 9, "swap", significant=significant)
    assert significant[more.order[:7]].all()


def test_the_share_asked_for_is_not_lost(X):
    """Exchanges for a target may cost what was asked for of all features."""
    moments, scores = Moments.from_data(X), np.ones(30)
    kept = []
    for seed in range(20):
        loadings = np.random.default_rng(seed).standard_normal((30, 1))
        target = selection.projection_target(loadings)
        sets = [
            choose_features(moments, scores, Wanted(r2=0.6), Rule(name, target=target))
            for name in ("greedy", "swap")
        ]
        assert sets[1].curve[-1] >= 0.6
        assert sets[0].n_kept == sets[1].n_kept
        kept.append(set(sets[0].order[: sets[0].n_kept]) == set(sets[1].order[: sets[1].n_kept]))
    assert len(set(kept)) == 2


@pytest.mark.parametrize("selector", SELECTORS, ids=lambda model: type(model).__name__)
def test_every_selector_has_it_and_repeats_it_without_each_part(X, selector):
    model = clone(selector).set_params(rule="swap", n_features_to_select=4).fit(X)
    assert model.get_support().sum() == 4
    assert model.selection_report_.held_out
    # On the same samples the same set is found, not the greedy one.
    again = model._pick_on(Moments.from_data(X), np.arange(len(X)), y=None)
    assert set(again.order) == set(np.flatnonzero(model.get_support()))


def test_as_many_as_the_greedy_rule_finds_by_itself(X):
    counts = [SPCAPSD(rule=rule).fit(X).get_support().sum() for rule in ("greedy", "swap")]
    assert counts[0] == counts[1] > 0


def test_another_fit_begins_anew(X):
    model = SPCAPSD(rule="swap", n_features_to_select=2).fit(X)
    again = model.set_params(n_features_to_select="auto").fit(X).get_support()
    assert np.array_equal(again, SPCAPSD(rule="swap").fit(X).get_support())


def test_more_than_memory_is_refused(X, monkeypatch):
    monkeypatch.setattr(selection, "available_memory", lambda: 1000)
    with pytest.raises(ValueError, match="rule='swap' needs 30 features in memory at once"):
        SPCAPSD(rule="swap", n_features_to_select=4).fit(X)


def test_on_the_command_line():
    arguments = ["select", "--rule", "swap", "--features", "5", "--json"]
    record = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert record["parameters"]["rule"] == "swap"
    assert len(record["kept"]) == 5
