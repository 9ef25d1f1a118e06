"""Extreme tables: a finite result or a documented refusal, for every method of the registry."""

import logging
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kept import one_kept
from sklearn.base import clone
from typer.testing import CliRunner

from fuzz import inputs
from fuzz.estimators import case
from fuzz.refusals import ABOUT_DATA, is_documented
from fuzz.twins import as_stream
from jointsparse import AWSPCA, CSPCA, SPCAPSD, UDFS, Moments, registry
from jointsparse.cli.main import app
from jointsparse.linalg import (
    by_cholesky,
    inverse_by_eigenpairs,
    lowest_eigenpairs,
    solve_positive,
    without_offsets,
)
from jointsparse.numerics.projections import polar
from jointsparse.sources.sums import rounding

METHODS = registry.methods()
SCALING = [name for name in METHODS if "scale" in METHODS[name].make().get_params()]
each_method = pytest.mark.parametrize("name", list(METHODS))
KEPT_SCALE = [name for name in inputs.CHANGES if name not in ("subnormal", "perhaps not finite")]


@st.composite
def tables(draw, changes=tuple(inputs.CHANGES), dtypes=tuple(sorted(set(inputs.DTYPES)))):
    """Draw a table of the fuzz, part by part, so that a failing one is made simpler."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, p = draw(st.integers(1, 60)), draw(st.integers(1, 60))
    rank = draw(st.integers(1, min(n, p)))
    X = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    X += draw(st.sampled_from([0.0, 1e-12, 0.1, 1.0])) * rng.standard_normal((n, p))
    for change in draw(st.lists(st.sampled_from(changes), unique=True, max_size=3)):
        X = inputs.CHANGES[change](X, rng)
    X = inputs._as_type(X, draw(st.sampled_from(dtypes)))
    return draw(st.sampled_from([np.asarray, np.asfortranarray, sp.csr_array, sp.csc_array]))(X)


def fitted(estimator, X):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return estimator.fit(X)


def finite_or_refused(name, X):
    estimator = METHODS[name].make()
    try:
        fitted(estimator, X)
    except ValueError as error:
        if not is_documented(error, estimator):
            raise
        return
    assert np.all(np.isfinite(estimator.feature_scores_))
    assert np.all(estimator.feature_scores_ >= 0)
    assert sorted(estimator.ranking_) == list(range(1, X.shape[1] + 1))
    assert np.isfinite(estimator.objective_)
    assert getattr(estimator, "duality_gap_", 1.0) > 0
    assert np.all(np.isfinite(list(estimator.diagnostics_.values())))
    first = estimator.feature_scores_
    np.testing.assert_array_equal(fitted(METHODS[name].make(), X).feature_scores_, first)


@each_method
@given(X=tables())
@settings(max_examples=4)
def test_a_finite_result_or_a_documented_refusal(name, X):
    finite_or_refused(name, X)


@pytest.mark.slow
@each_method
@given(X=tables())
@settings(max_examples=40)
def test_a_finite_result_or_a_documented_refusal_often(name, X):
    finite_or_refused(name, X)


@pytest.mark.parametrize(
    "number",
    [
        1007,
        8064,
        20166,
        22893,
        1107672,
        1205952,
        1307704,
        1402269,
        1403072,
        1408015,
        1509445,
        1600536,
        1606413,
        1606881,
    ],
)
def test_cases_that_were_faults(number):
    assert case(number) in ("fitted", "same limit", "tied", "refused")


@pytest.mark.slow
@given(number=st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_the_fuzz_finds_nothing(number):
    assert case(number) in ("fitted", "same limit", "tied", "refused")


@each_method
@pytest.mark.parametrize("exponent", [-450, 450])
def test_a_power_of_two_changes_no_digit(name, exponent):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 25))
    X += 0.3 * rng.standard_normal(X.shape)
    one = fitted(one_kept(METHODS[name].make()), X).feature_scores_
    other = fitted(one_kept(METHODS[name].make()), X * 2.0**exponent).feature_scores_
    np.testing.assert_allclose(other, one, rtol=0, atol=1e-9 * one.max())


@each_method
@pytest.mark.parametrize("shape", [(25, 8), (8, 25)])
def test_sparse_columns_with_large_offsets_are_those_of_the_dense_table(name, shape):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    X += 0.3 * rng.standard_normal(shape) + 1e8 * rng.standard_normal(shape[1])
    X[:, 1] = np.arange(shape[0]) == 0  # one column that is sparse
    dense = fitted(one_kept(METHODS[name].make()), X).feature_scores_
    for matrix in (sp.csr_array(X), sp.csc_array(X)):
        scores = fitted(one_kept(METHODS[name].make()), matrix).feature_scores_
        np.testing.assert_allclose(scores, dense, rtol=0, atol=1e-5 * dense.max())


def test_offsets_leave_full_columns_only():
    X = np.array([[5.0, 0.0, 1.0], [7.0, 3.0, 1.0]])
    shifted, mean = without_offsets(sp.csr_array(X), X.mean(axis=0))
    np.testing.assert_array_equal(shifted.toarray(), [[-1, 0, 0], [1, 3, 0]])
    np.testing.assert_array_equal(mean, [0, 1.5, 0])
    twice = sp.csc_array(([1.0, 2.0, 4.0], [0, 0, 1], [0, 3]), shape=(2, 1))  # 3 in two parts
    shifted, mean = without_offsets(twice, np.array([3.5]))
    np.testing.assert_array_equal(shifted.toarray(), [[-0.5], [0.5]])
    assert twice.nnz == 3


def test_sparse_single_precision_is_added_up_in_double():
    X = np.full((48, 1), -3.0461433e-15, dtype=np.float32)
    assert Moments.from_data(sp.csr_array(X)).variances == 0


@pytest.mark.parametrize("factor", [1e-310, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_data_that_vary_are_not_called_constant(factor, storage):
    X = storage(np.random.default_rng(0).standard_normal((20, 4)) * factor)
    words = "too small" if factor < 1 else "too large"
    for method in METHODS.values():
        with pytest.raises(ValueError, match=f"{words} for double precision, near"):
            fitted(method.make(), X)


@pytest.mark.parametrize("name", SCALING)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, as_stream])
def test_a_column_whose_squares_are_infinite_is_not_left_out_by_standardising(name, make):
    X = np.random.default_rng(0).standard_normal((30, 5))
    X -= X.mean(axis=0)  # no mean gives it away
    X[:, 2] *= 1e160
    estimator = METHODS[name].make(scale="standard", n_features_to_select=2)
    with pytest.raises(ValueError, match="too large for double precision, and the squares"):
        fitted(estimator, make(X))


@pytest.mark.parametrize("memory", [[], ["--memory", "10kB"]])
@pytest.mark.parametrize("scale", ["standard", "none"])
@pytest.mark.parametrize(("factor", "words"), [(1e200, "too large"), (1e-200, "too small")])
def test_the_command_line_says_what_is_wrong_with_the_size_of_numbers(
    factor, words, scale, memory, tmp_path
):
    X = factor * np.random.default_rng(0).standard_normal((400, 4))
    np.save(tmp_path / "x.npy", X)
    asked = ["select", str(tmp_path / "x.npy"), "--scale", scale, "--quiet", *memory]
    told = CliRunner().invoke(app, asked)
    assert told.exit_code == 2
    assert f"{words} for double precision" in " ".join(told.stderr.split())


@pytest.mark.parametrize("make", [SPCAPSD, CSPCA])
@pytest.mark.parametrize("psd", [True, False])
@pytest.mark.parametrize("shape", [(20, 6), (6, 20), (6, 300)])
def test_an_absolute_penalty_beyond_all_data_empties_the_model_with_a_proof(make, psd, shape):
    X = np.random.default_rng(0).standard_normal(shape)
    options = {} if make is SPCAPSD else {"psd": psd}
    if make is CSPCA and shape[1] == 300:
        X = X[:, :40]
    model = make(alpha=1e250, eta=1e250, penalty_scale="absolute", **options)
    fitted(model, X)
    assert not model.feature_scores_.any()
    assert model.duality_gap_ <= model.tol
    centred = X - X.mean(axis=0)
    lengths = np.linalg.norm(centred, axis=1)
    assert model.objective_ == pytest.approx(np.sum(lengths ** (2 if make is SPCAPSD else 1)))


@pytest.mark.parametrize("shape", [(9, 4), (9, 30)])
@pytest.mark.parametrize("psd", [True, False])
@pytest.mark.parametrize("make", [CSPCA, AWSPCA])
def test_most_samples_may_be_the_same(make, psd, shape):
    X = np.zeros(shape)
    X[-2:] = np.random.default_rng(0).standard_normal(shape[1]) * [[1], [-1]]
    model = fitted(make(psd=psd, alpha=0.2), X)
    assert model.duality_gap_ <= model.tol
    largest = model.alpha_ / 0.2  # as in the dense formula, whichever way it is computed
    norm = np.linalg.norm(X[-1])
    slope = 2 * np.outer(X[-1], X[-1]) / norm  # both samples pull alike
    if make is CSPCA:
        slope = slope - model.eta_ * np.outer(X[-1], X[-1]) / norm**2
    assert largest == pytest.approx(np.linalg.norm(slope, axis=0).max(), rel=1e-6)


def test_penalties_that_rounding_swallows_are_refused():
    X = np.random.default_rng(0).standard_normal((20, 6)) * 1e60
    with pytest.raises(ValueError, match="lost in rounding"):
        CSPCA(alpha=1.0, eta=0.0, penalty_scale="absolute").fit(X)
    with pytest.raises(ValueError, match=r"ridge=1.0 is .* lost in rounding"):
        UDFS(penalty_scale="absolute").fit(X)
    with pytest.raises(ValueError, match=r"eta=0\.9 alone empties the model"):
        CSPCA(eta=0.9, penalty_scale="trace").fit(1e10 * X / 1e60)


def test_tied_eigenvalues_fall_back_to_all_of_them_and_say_so(monkeypatch, caplog):
    matrix = 0.5 * np.ones((18, 18)) + 0.04 * np.eye(18)

    def fails(*_, **options):
        assert "subset_by_index" in options
        raise np.linalg.LinAlgError("Internal Error.")

    monkeypatch.setattr(scipy.linalg, "eigh", fails)
    with caplog.at_level(logging.INFO, "jointsparse.linalg"):
        values, vectors = lowest_eigenpairs(matrix, 5)
    assert "now all of them" in caplog.text
    np.testing.assert_allclose(vectors * values @ vectors.T, matrix, atol=1e-12)


def test_an_inverse_in_spite_of_rounding(caplog):
    matrix = np.diag([2.0, 1.0, -1e-17])
    with caplog.at_level(logging.INFO, "jointsparse.linalg"):
        inverse = inverse_by_eigenpairs(matrix)
    assert "not positive definite" in caplog.text
    np.testing.assert_allclose(np.diag(inverse)[:2], [0.5, 1.0])
    assert np.linalg.eigvalsh(inverse)[0] > 0
    assert np.isfinite(inverse).all()


def test_a_singular_system_gets_a_jitter_and_then_eigenpairs(caplog):
    matrix = np.ones((3, 3))
    with caplog.at_level(logging.INFO, "jointsparse.linalg"):
        solved = solve_positive(matrix, matrix[:, 0])
    assert "with a jitter" in caplog.text
    np.testing.assert_allclose(matrix @ solved, matrix[:, 0])
    basis = np.linalg.qr(np.arange(9.0).reshape(3, 3) ** 2)[0]
    indefinite = (basis * [1.0, 0.5, -1e-12]) @ basis.T
    with caplog.at_level(logging.INFO, "jointsparse.linalg"):
        solved = solve_positive(indefinite, basis @ [1.0, 1.0, 0.0], by_cholesky)
    assert "its eigenpairs serve" in caplog.text
    np.testing.assert_allclose(indefinite @ solved, basis @ [1.0, 1.0, 0.0], atol=1e-10)
    with pytest.raises(ValueError, match="mismatch"):
        solve_positive(matrix, np.ones(2))


def test_the_refusals_of_the_fuzz_are_those_of_the_documentation():
    page = Path(__file__).parents[1].joinpath("docs", "numerics.md").read_text("utf-8")
    for words in ABOUT_DATA:
        assert f"`{words}`" in page


@pytest.mark.parametrize("container", ["array", "tensor"])
def test_small_tables_of_single_precision_are_solved_as_in_double(container):
    # Centred in single precision, the parts of such a table took some forty times as long.
    rng = np.random.default_rng(1)
    data = rng.standard_normal((20, 4)) @ rng.standard_normal((4, 26)) * 30 + 1e8 * rng.random(26)
    data = data.astype(np.float32)
    model = CSPCA(eta=0.01, n_clusters=2, n_features_to_select=4)
    double = clone(model).fit(data.astype(np.float64))
    if container == "tensor":
        data = pytest.importorskip("torch").from_numpy(data)
    single = clone(model).fit(data)
    assert single.n_iter_ == double.n_iter_
    assert single.objective_ == pytest.approx(double.objective_, rel=1e-9)
    np.testing.assert_allclose(single.feature_scores_, double.feature_scores_, atol=1e-7)


def test_the_polar_factor_of_no_columns_is_none_and_lapack_is_silent(capfd):
    assert polar(np.zeros((3, 0))).shape == (3, 0)
    assert capfd.readouterr() == ("", "")


def test_infinite_squares_are_not_those_of_a_constant():
    # Whether they come out infinite or undefined depends on the processor.
    limits = rounding(np.array([1e200, -1e300, 1.0]), 400)
    assert np.isfinite(limits).all()
    assert not (np.full(3, np.inf) <= limits).any()
