import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import greedy_by_refit
from sklearn.linear_model import LinearRegression

from jointsparse import Moments
from jointsparse.operators.dense import DenseSamples
from jointsparse.operators.sparse import SparseSamples
from jointsparse.solvers.picking import residual
from jointsparse.solvers.picking.greedy import select_greedily
from jointsparse.solvers.picking.row_targets import Projection, row_axes
from jointsparse.solvers.products.columns import Columns, feature_columns, root_of_scatter

seeds = st.integers(0, 10_000)


def elsewhere(samples):
    """Samples that say they are in a file: whatever is asked of them is a pass."""
    samples.home = "file"
    return samples


def problem(seed, n=None, p=None, noise=0.3):
    rng = np.random.default_rng(seed)
    n, p = n or rng.integers(5, 30), p or rng.integers(3, 20)
    X = rng.standard_normal((n, 3)) @ rng.standard_normal((3, p))
    X += noise * rng.standard_normal((n, p))
    X *= 10 ** rng.uniform(-1, 1, p)
    return X - X.mean(axis=0)


def unexplained(X, features):
    kept = X[:, features]
    return X - LinearRegression().fit(kept, X).predict(kept) if len(features) else X


def r2_of(X, features):
    return 1 - (unexplained(X, features) ** 2).sum() / (X**2).sum()


@pytest.mark.parametrize("form", ["samples", "scatter"])
@pytest.mark.parametrize("seed", range(20))
def test_the_kernel_is_the_greedy_refit(seed, form):
    X = problem(seed)
    n, p = X.shape
    rng = np.random.default_rng(seed)
    A = np.eye(p) if seed % 2 else rng.standard_normal((rng.integers(1, p + 1), p))
    target = None if seed % 2 else (lambda rows: rows @ A.T)
    columns = Columns(X if form == "samples" else root_of_scatter(X.T @ X))
    path = select_greedily(columns, n_picks=min(n - 2, p), target=target)
    picks, left = greedy_by_refit(X, A, len(path.picks))
    assert path.picks.tolist() == picks
    np.testing.assert_allclose(1 - np.cumsum(path.gains), left, atol=1e-8)
    np.testing.assert_allclose(path.gains, -np.diff([1, *left]), rtol=1e-6, atol=1e-10)


@given(seed=seeds)
@settings(max_examples=25)
def test_no_other_feature_would_have_added_more(seed):
    X = problem(seed)
    path = select_greedily(Columns(X), n_picks=4)
    for h, pick in enumerate(path.picks):
        before = list(path.picks[:h])
        best = max(r2_of(X, [*before, j]) for j in range(X.shape[1]) if j not in before)
        assert r2_of(X, [*before, pick]) == pytest.approx(best, abs=1e-9)
        assert path.curve[h] == pytest.approx(best, abs=1e-9)
    np.testing.assert_allclose(path.curve, np.cumsum(path.gains), atol=1e-12)


def test_scores_keep_their_digits_down_to_the_end():
    """Singular values from 1 to 1e-4: the variance left falls to 1e-8 of what it was."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((k, 12)))[0] for k in (30, 40))
    X = left * np.geomspace(1, 1e-4, 12) @ right.T
    X -= X.mean(axis=0)
    path = select_greedily(Columns(X), n_picks=12)
    picks, left = greedy_by_refit(X, np.eye(40), 11)  # the twelfth: whatever completes the rank
    assert path.picks[:11].tolist() == picks
    np.testing.assert_allclose(path.gains[:11], -np.diff([1.0, *left]), rtol=1e-8)


@pytest.mark.parametrize("noise", [1e-2, 1e-3, 2e-4])
@pytest.mark.parametrize("seed", range(3))
def test_near_copies_keep_their_digits(seed, noise):
    """After the first of near-copies the others have next to no variance left."""
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.standard_normal((40, 3)), 5, axis=1)
    X += noise * rng.standard_normal(X.shape)
    X -= X.mean(axis=0)
    path = select_greedily(Columns(X), n_picks=14)
    picks, left = greedy_by_refit(X, np.eye(15), 14)
    assert path.picks.tolist() == picks
    np.testing.assert_allclose(path.gains, -np.diff([1.0, *left]), rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_exhaustion_of_the_rank_is_said(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, 4)) @ rng.standard_normal((4, 30))
    X -= X.mean(axis=0)
    for columns in (Columns(X), Columns(root_of_scatter(X.T @ X))):
        path = select_greedily(columns, n_picks=30)
        assert len(path.picks) == 4
        assert path.exhausted
        assert path.reason == "the first 4 picks determine every feature that may be picked"
        assert path.curve[-1] == pytest.approx(1)
        assert not path.left.any()


def test_a_target_that_is_reached_ends_the_run():
    X = problem(3, n=30, p=10)
    path = select_greedily(Columns(X), n_picks=10, target=lambda rows: rows[:, [7, 2]])
    assert set(path.picks[:2]) <= {2, 7}
    assert path.exhausted
    assert "explain the target completely" in path.reason
    on = select_greedily(Columns(X), n_picks=5, given=path.picks)
    assert on.picks[: len(path.picks)].tolist() == path.picks.tolist()
    assert len(on.picks) == 5


@given(seed=seeds, scale=st.sampled_from([1e-100, 1e-8, 3.0, 1e8, 1e100]))
@settings(max_examples=20)
def test_scale_and_order_do_not_matter(seed, scale):
    X = problem(seed)
    X = np.column_stack([X, X[:, :2], -X[:, 1]])  # exact ties
    order = np.random.default_rng(seed).permutation(X.shape[1])
    Z = scale * X[:, order]
    n_picks = min(9, len(X) - 2)  # the last dimension is completed by any feature
    a, b = (select_greedily(Columns(M), n_picks=n_picks) for M in (X, Z))
    np.testing.assert_allclose(b.curve, a.curve, atol=1e-12)
    np.testing.assert_allclose(np.abs(Z[:, b.picks] / scale), np.abs(X[:, a.picks]), rtol=1e-9)


def test_ties_go_to_the_first_feature():
    X = problem(1, n=20, p=5)
    X[:, 0] *= 0.01
    path = select_greedily(Columns(np.hstack([X[:, :1], X, X, 2 * X])), n_picks=6)
    assert np.all(path.picks < 6)
    # Nearly equal: rounding decides nothing.
    near = np.column_stack([X[:, 2] * (1 + 1e-13), X, X[:, 2]])
    assert select_greedily(Columns(near), n_picks=5).picks.min() == 0


@pytest.mark.parametrize("shape", [(8, 40), (40, 8)])
def test_all_forms_of_the_data_agree(shape):
    rng = np.random.default_rng(0)
    X = np.where(rng.random(shape) < 0.4, rng.standard_normal(shape) + 2, 0)
    X[:, 3] = 0
    X[:, 4] = 5
    expected = select_greedily(Columns(X - X.mean(axis=0)), n_picks=5)
    for data in (X, sp.csr_array(X), sp.csc_array(X)):
        path = select_greedily(feature_columns(Moments.from_data(data)), n_picks=5)
        assert path.picks.tolist() == expected.picks.tolist()
        np.testing.assert_allclose(path.curve, expected.curve, atol=1e-10)
        np.testing.assert_allclose(path.left, expected.left, atol=1e-10)
    single = select_greedily(feature_columns(Moments.from_data(X.astype(np.float32))), n_picks=5)
    np.testing.assert_allclose(single.curve, expected.curve, atol=1e-6)


def test_sparse_targets_and_rows_agree_with_dense():
    rng = np.random.default_rng(1)
    X = np.where(rng.random((7, 20)) < 0.5, rng.standard_normal((7, 20)), 0)
    B = rng.standard_normal((20, 3))
    moments = Moments.from_data(sp.csr_array(X))
    columns = feature_columns(moments)
    assert columns.samples.is_sparse
    path = select_greedily(columns, n_picks=4, target=lambda rows: rows @ B)
    dense = select_greedily(Columns(X - X.mean(0)), n_picks=4, target=lambda rows: rows @ B)
    assert path.picks.tolist() == dense.picks.tolist()
    np.testing.assert_allclose(path.gains, dense.gains, atol=1e-12)


def test_weights_candidates_and_a_target_r2():
    X = problem(5, n=40, p=12)
    candidates = np.arange(12) < 6
    path = select_greedily(Columns(X), n_picks=12, candidates=candidates)
    assert sorted(path.picks) == list(range(6))
    weights = np.where(np.arange(12) == 9, 1e6, 1.0)
    assert select_greedily(Columns(X), n_picks=1, weights=weights).picks.tolist() == [9]
    whole = select_greedily(Columns(X), n_picks=12)
    for r2 in (0.3, 0.8, 0.95):
        prefix = select_greedily(Columns(X), n_picks=12, r2=r2)
        size = len(prefix.picks)
        assert prefix.picks.tolist() == whole.picks[:size].tolist()
        assert r2_of(X, prefix.picks) >= r2
        assert size == 1 or r2_of(X, prefix.picks[:-1]) < r2


def test_the_residual_rule():
    X = problem(2, n=40, p=10)
    scores = np.random.default_rng(0).random(10)
    path = select_greedily(Columns(X), n_picks=4, criterion="residual", weights=scores)
    picks = []
    for _ in range(4):
        share = (unexplained(X, picks) ** 2).sum(axis=0) / (X**2).sum(axis=0)
        picks.append(int(np.argmax(np.where(np.isin(range(10), picks), -1, scores * share))))
    assert path.picks.tolist() == picks


def test_given_features_that_add_nothing_keep_their_place():
    X = problem(4, n=20, p=6)
    X = np.column_stack([X, X[:, 0], np.zeros(20)])
    path = select_greedily(Columns(X), n_picks=4, given=[0, 6, 7, 1], criterion="residual")
    assert path.picks.tolist() == [0, 6, 7, 1]
    assert path.curve[0] == path.curve[1] == path.curve[2] < path.curve[3]
    assert path.curve[3] == pytest.approx(r2_of(X, [0, 1]))


def test_a_constant_or_tiny_feature_among_large_ones():
    X = problem(0, n=30, p=6)
    X[:, 2] *= 1e-7
    for columns in (Columns(X), Columns(root_of_scatter(X.T @ X))):
        path = select_greedily(columns, n_picks=6)
        assert sorted(path.picks) == list(range(6))


@pytest.mark.parametrize("target", [False, True])
def test_gains_of_faint_features_keep_their_digits(target):
    # Orthogonal columns: what each adds is its own share, however much came before it.
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 4)))[0]
    lengths = np.array([1e-9, 1e-4, 1.0, 1e-6])
    path = select_greedily(
        Columns(axes * lengths), n_picks=4, target=axes * lengths if target else None
    )
    assert path.picks.tolist() == [2, 1, 3, 0]
    shares = np.sort(lengths**2)[::-1] / np.sum(lengths**2)
    np.testing.assert_allclose(path.gains, shares, rtol=1e-6)


def test_reaching_the_share_exactly_is_enough():
    X = np.eye(4)  # a quarter each, without rounding
    path = select_greedily(Columns(X), n_picks=2, r2=0.25)
    assert path.picks.tolist() == [0]
    assert path.reason == "the share of the variance asked for is reached"
    assert not path.exhausted
    both = select_greedily(Columns(X), n_picks=2)
    assert both.reason == "the number of features asked for is reached"


@pytest.mark.parametrize("criterion", ["gain", "residual"])
@pytest.mark.parametrize("seed", range(3))
def test_first_and_last_scores_are_those_of_the_refit(seed, criterion):
    X = problem(seed, n=25, p=9)
    X[:, 8] = 0.0
    rng = np.random.default_rng(seed)
    A, weights = rng.standard_normal((2, 9)), rng.uniform(0.5, 2, 9)
    candidates = np.arange(9) != 1
    path = select_greedily(
        Columns(X),
        n_picks=4,
        target=lambda rows: rows @ A.T,
        criterion=criterion,
        weights=weights,
        candidates=candidates,
        given=[3, 0],
    )
    assert path.picks[:2].tolist() == [3, 0]
    assert len(path.picks) == 4
    assert not path.exhausted
    for scores, picks in ((path.first, [3, 0]), (path.left, path.picks)):
        rest, target = unexplained(X, picks), unexplained(X, picks) @ A.T
        squares = np.sum(rest**2, axis=0)
        free = candidates & ~np.isin(range(9), picks) & (np.arange(9) != 8)
        share = np.sum((target.T @ rest) ** 2, axis=0) / np.where(free, squares, 1.0)
        share /= np.sum((X @ A.T) ** 2)
        if criterion == "residual":
            share = squares / np.where(free, np.sum(X**2, axis=0), 1.0)
        np.testing.assert_allclose(scores, np.where(free, weights * share, 0.0), atol=1e-12)
    if criterion == "residual":
        assert not path.gains.any()
    else:
        left = [
            np.sum((unexplained(X, path.picks[:k]) @ A.T) ** 2) / np.sum((X @ A.T) ** 2)
            for k in range(5)
        ]
        np.testing.assert_allclose(path.gains, -np.diff(left), atol=1e-12)
    curve = [r2_of(X, path.picks[: k + 1]) for k in range(4)]
    np.testing.assert_allclose(path.curve, curve, atol=1e-12)


def test_given_features_end_where_the_share_is_reached():
    X = np.eye(5)[:, :4] * [2.0, 1.0, 1.0, 1.0]
    path = select_greedily(Columns(X), n_picks=4, r2=5 / 7 - 1e-12, given=[0, 3, 1])
    assert path.picks.tolist() == [0, 3]
    assert path.reason == "the share of the variance asked for is reached"
    np.testing.assert_allclose(path.curve, [4 / 7, 5 / 7])
    np.testing.assert_allclose(path.first, path.left)
    nothing = select_greedily(Columns(X), n_picks=0)
    assert nothing.picks.size == nothing.curve.size == nothing.gains.size == 0
    np.testing.assert_allclose(nothing.left, np.array([4, 1, 1, 1]) / 7)


def test_a_run_for_the_same_target_begins_where_the_last_one_did():
    X = problem(6, n=20, p=8)
    columns, calls = Columns(X), []
    B = np.random.default_rng(0).standard_normal((8, 8))

    def target(rows):
        calls.append(len(rows))
        return rows @ B

    one = select_greedily(columns, n_picks=3, target=target)
    two = select_greedily(columns, n_picks=5, target=target)
    assert sum(calls) == 20  # the rows were mapped once
    assert two.picks[:3].tolist() == one.picks.tolist()
    np.testing.assert_allclose(two.gains[:3], one.gains, rtol=1e-12)
    np.testing.assert_allclose(two.first, one.first, rtol=1e-12)
    other = select_greedily(columns, n_picks=3, target=X[:, 5:])
    alone = select_greedily(Columns(X), n_picks=3, target=X[:, 5:])
    np.testing.assert_allclose(other.gains, alone.gains, rtol=1e-12)


def test_axes_of_the_rows_and_blocks_of_them(monkeypatch):
    X = problem(7, n=12, p=7)
    columns = Columns(X)
    Z = X / np.linalg.norm(X)
    np.testing.assert_allclose(residual.row_gram(columns), Z @ Z.T, atol=1e-14)
    values, axes = row_axes(columns, 1e-6)
    expected = np.linalg.eigvalsh(Z @ Z.T)[::-1]
    assert values.size == np.sum(expected > 1e-6 * expected[0])
    np.testing.assert_allclose(values, expected[: values.size])
    np.testing.assert_allclose(Z @ Z.T @ axes, axes * values, atol=1e-12)
    B = np.random.default_rng(0).standard_normal((7, 2))
    for entries in (1, 30, 2**21):  # one row at a time, four, all
        monkeypatch.setattr(residual, "BLOCK_ENTRIES", entries)
        np.testing.assert_allclose(residual.row_products(columns, lambda rows: rows @ B), Z @ B)
        path = select_greedily(Columns(X), n_picks=4)
        assert path.picks.tolist() == greedy_by_refit(X, np.eye(7), 4)[0]


def test_many_picks_outgrow_the_first_basis():
    X = problem(8, n=40, p=20, noise=1.0)
    path = select_greedily(Columns(X), n_picks=19)
    picks, left = greedy_by_refit(X, np.eye(20), 19)
    assert path.picks.tolist() == picks
    np.testing.assert_allclose(1 - path.curve, left, atol=1e-10)


@pytest.mark.parametrize("target", ["itself", "projection", "function"])
def test_columns_elsewhere_give_the_same_path(target):
    X = problem(3, n=12, p=18)
    B = np.random.default_rng(0).standard_normal((18, 4))
    targets = {"itself": None, "projection": Projection(B), "function": lambda rows: rows @ B}
    remote = Columns(elsewhere(DenseSamples(X)), np.sum(X**2, axis=0))
    for criterion in ("gain", "residual"):
        options = {"n_picks": 6, "target": targets[target], "criterion": criterion}
        found, expected = select_greedily(remote, **options), select_greedily(Columns(X), **options)
        assert found.picks.tolist() == expected.picks.tolist()
        for name in ("curve", "gains", "first", "left"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-10)


@pytest.mark.parametrize("target", [False, True])
def test_sparse_columns_keep_the_digits_of_faint_features(target):
    """What is left of the target falls to 1e-8 of it, and is computed anew on the way."""
    axes = np.linalg.qr(np.random.default_rng(0).standard_normal((12, 4)))[0]
    X = axes * [1e-9, 1e-4, 1.0, 1e-6]
    columns = Columns(SparseSamples(sp.csr_array(X), np.zeros(4)), np.sum(X**2, axis=0))
    path = select_greedily(columns, n_picks=4, target=X if target else None)
    assert path.picks.tolist() == [2, 1, 3, 0]
    sizes = np.array([1.0, 1e-8, 1e-12, 1e-18])
    np.testing.assert_allclose(path.gains, sizes / sizes.sum(), rtol=1e-6)


def test_shares_left_of_near_copies_keep_their_digits():
    rng = np.random.default_rng(1)
    X = np.repeat(rng.standard_normal((40, 2)), 3, axis=1) + 1e-4 * rng.standard_normal((40, 6))
    X -= X.mean(axis=0)
    path = select_greedily(Columns(X), n_picks=5, criterion="residual")
    picks = path.picks
    rest = X - X[:, picks] @ np.linalg.lstsq(X[:, picks], X, rcond=None)[0]
    last = [j for j in range(6) if j not in picks]
    share = np.sum(rest[:, last] ** 2) / np.sum(X[:, last] ** 2)
    np.testing.assert_allclose(path.left[last], share, rtol=1e-5)


def test_roots_of_scatter_matrices_of_another_library():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    S = np.zeros((6, 6))
    B = rng.standard_normal((3, 5)) * [1, 1e4, 1e-4, 1, 1]
    S[:5, :5] = B.T @ B
    root = root_of_scatter(torch.as_tensor(S)).numpy()
    assert root.shape == (3, 6)
    sizes = np.sqrt(np.outer(np.diag(S), np.diag(S)))
    assert np.all(np.abs(root.T @ root - S) <= 1e-11 * sizes)
    X = problem(4, n=20, p=7)
    moments = Moments.from_data(torch.as_tensor(X))
    path = select_greedily(feature_columns(moments), n_picks=4)
    assert path.picks.tolist() == greedy_by_refit(X, np.eye(7), 4)[0]
    dense = Moments.from_data(X)
    np.testing.assert_allclose(moments.variances, dense.variances)
    np.testing.assert_allclose(moments.scatter, dense.scatter, atol=1e-12)
    np.testing.assert_allclose(moments.centred_data, dense.centred_data, atol=1e-12)
    np.testing.assert_allclose(moments.spectrum.values, dense.spectrum.values, atol=1e-12)
    wide = Moments.from_data(torch.as_tensor(X.T.copy()))
    thin = Moments.from_data(X.T).thin_spectrum
    np.testing.assert_allclose(wide.thin_spectrum.values, thin.values, atol=1e-12)


def test_axes_of_rows_are_those_above_a_share_of_the_largest():
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.standard_normal((n, 6)))[0] for n in (8, 12))
    sizes = np.array([1.0, 0.9, 0.8, 0.7, 0.3, 0.1])
    X = (left * sizes**0.5) @ right.T
    for unit in (1e-3, 1.0, 1e3):
        columns = Columns(unit * X)
        for smallest, count in ((0.6, 4), (0.2, 5), (0.0, 6)):
            values, axes = row_axes(columns, smallest)
            values, axes = values[:6], axes[:, :6]  # the others are rounding
            assert values.size == count
            np.testing.assert_allclose(values / values[0], sizes[:count], rtol=1e-9)
            np.testing.assert_allclose(np.abs(axes.T @ left), np.eye(6)[:count], atol=1e-8)
