import numpy as np
import pytest
from oracles import planted_problem, spca_psd_objective, spca_psd_optimum

from jointsparse.eigen.davidson import DENSE_UP_TO
from jointsparse.linalg import Spectrum
from jointsparse.solvers.convex.model import factor_scores
from jointsparse.solvers.convex.published import (
    PublishedConstants,
    _Model,
    factor_of_scatter,
    published_constants,
    solve_published,
)
from jointsparse.solvers.convex.reweighted_step import Omega, Quadratic, _LowRankMinusDiagonal

MODELS = {
    "SPCA-PSD": {"loss": "squared", "psd": True},
    "CSPCA-PSD": {"loss": "samples", "psd": True},
    "CSPCA": {"loss": "samples", "psd": False},
    "AW-SPCA-PSD": {"loss": "samples+mean", "psd": True},
    "AW-SPCA": {"loss": "samples+mean", "psd": False},
}
SMALL = PublishedConstants(1e-5, 1e-6, 1e-6, absolute=True)


def samples(n, p, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) @ rng.standard_normal((4, p)) * rng.uniform(0.2, 1, p)
    X += 0.3 * rng.standard_normal((n, p))
    return X - X.mean(axis=0)


def printed_algorithm(X, lam, eta, loss, psd, start, constants, n_iter):
    """Each algorithm as printed, with dense diagonal matrices; returns Ω, v and the objective."""
    n, p = X.shape
    eps, ridge = constants.smoothing, constants.ridge_features * np.eye(p)
    omega, v = np.diag(start), np.zeros(p)
    D1, D2 = np.eye(n), np.eye(p)
    for iteration in range(n_iter):
        if loss != "samples+mean" or iteration > 0:
            residuals = X.T - omega @ X.T - v[:, None]
            if loss != "squared":
                D1 = np.diag(1 / (2 * np.sqrt((residuals**2).sum(axis=0) + eps)))
            D2 = np.diag(1 / (2 * np.sqrt((omega**2).sum(axis=0) + eps)))
        S = X.T @ D1 @ X
        left, right = S + lam * D2 + ridge, S - np.outer(v, X.T @ D1 @ np.ones(n))
        if psd and loss != "samples+mean":
            right = right - constants.eta_share * eta * np.eye(p)
        if not psd and loss == "samples":
            values, vectors = np.linalg.eigh(omega.T @ omega + eps * np.eye(p))
            left = left + eta * vectors @ np.diag(0.5 / np.sqrt(values)) @ vectors.T
        omega = right @ np.linalg.inv(left)
        if psd:
            values, vectors = np.linalg.eigh((omega + omega.T) / 2)
            omega = vectors @ np.diag(np.maximum(values, 0)) @ vectors.T
        if loss == "samples+mean":
            v = (X - X @ omega.T).T @ D1 @ np.ones(n) / np.trace(D1)
    norms = np.linalg.norm(X.T - omega @ X.T - v[:, None], axis=0)
    objective = (norms**2).sum() if loss == "squared" else norms.sum()
    objective += lam * np.linalg.norm(omega, axis=0).sum()
    if loss != "samples+mean":
        objective += eta * np.linalg.norm(omega, "nuc")
    return omega, v, objective


def omega_of(solution):
    basis = solution.state.basis
    return solution.loadings.T if basis is None else basis @ solution.loadings.T


def follows_the_printed_algorithm(model, X, lam, eta, constants=SMALL, n_iter=6, **options):
    start = np.random.default_rng(1).uniform(0.2, 1, X.shape[1])
    omega, v, objective = printed_algorithm(
        X, lam, eta, **MODELS[model], start=start, constants=constants, n_iter=n_iter
    )
    solution = solve_published(
        X,
        lam,
        eta,
        **MODELS[model],
        start=start,
        constants=constants,
        tol=0.0,
        max_iter=n_iter,
        **options,
    )
    np.testing.assert_allclose(omega_of(solution), omega, atol=1e-8)
    assert solution.objective == pytest.approx(objective, rel=1e-8)
    if solution.state.offset is not None:
        np.testing.assert_allclose(solution.state.offset, v, atol=1e-8 * np.abs(X).max())
    return solution, omega


@pytest.mark.parametrize("shape", [(60, 12), (12, 12), (12, 40)])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_follows_the_printed_algorithm(model, shape):
    solution, omega = follows_the_printed_algorithm(model, samples(*shape), 0.8, 0.5)
    psd = MODELS[model]["psd"]
    norms = (factor_scores if psd else lambda L: np.linalg.norm(L, axis=1))(solution.loadings)
    np.testing.assert_allclose(norms, np.linalg.norm(omega, axis=0), atol=1e-8)
    assert solution.n_iter == len(solution.history) == 6
    assert solution.gap is None
    assert solution.reason == "made the 6 iterations asked for"


@pytest.mark.parametrize("model", MODELS)
def test_both_forms_agree(model):
    """The form for p ≥ n on data with p < n: one algorithm, whatever the shape."""
    follows_the_printed_algorithm(model, samples(30, 12), 0.8, 0.5, n_samples=12)
    follows_the_printed_algorithm(model, samples(12, 20), 0.8, 0.5, n_samples=100)


@pytest.mark.parametrize("model", MODELS)
def test_wide_data_need_no_square_matrix(model):
    X = samples(20, DENSE_UP_TO + 60)
    solution, _ = follows_the_printed_algorithm(model, X, 2.0, 20.0, n_iter=4)
    assert solution.loadings.shape[1] <= 20


@pytest.mark.parametrize("model", ["SPCA-PSD", "CSPCA-PSD"])
def test_eta_zero_on_wide_data(model):
    follows_the_printed_algorithm(model, samples(10, 40), 0.8, 0.0)


def test_constants_are_those_of_the_authors_programs():
    squared = published_constants("authors", "squared", psd=True)
    assert squared == PublishedConstants(np.finfo(float).eps, 1e-3, 1e-2, True, 1e-5, 100, 0.5)
    for loss in ("samples", "samples+mean"):
        cone = published_constants("authors", loss, psd=True)
        assert cone == PublishedConstants(1e-3, 1e-3, 1e-3, True, 1e-5, 100, 1.0)
        free = published_constants("authors", loss, psd=False)
        assert free == PublishedConstants(1e-3, 1e-3, 1e-3, True, 1e-5, 1000, 1.0)
    paper = published_constants("paper", "squared", psd=True)
    assert (paper.absolute, paper.tol, paper.max_iter) == (False, None, None)
    assert max(paper.smoothing, paper.ridge_features, paper.ridge_samples) <= 1e-10


def test_authors_share_of_eta():
    """c = 1 in the authors' CSPCA-PSD is the step for 2η; c = ½ everywhere else."""
    assert published_constants("authors", "samples", psd=True).eta_share == 1
    assert published_constants("authors", "squared", psd=True).eta_share == 0.5
    assert published_constants("paper", "samples", psd=True).eta_share == 0.5
    share = PublishedConstants(1e-5, 1e-6, 1e-6, absolute=True, eta_share=1.0)
    follows_the_printed_algorithm("CSPCA-PSD", samples(12, 40), 0.8, 0.5, constants=share)
    follows_the_printed_algorithm("CSPCA-PSD", samples(60, 12), 0.8, 0.5, constants=share)


@pytest.mark.parametrize("eta", [0.1, 3.0, 60.0, 1e5])
def test_inertia_counts_the_eigenvalues(eta):
    X = samples(10, 50)
    rng = np.random.default_rng(2)
    operator = _LowRankMinusDiagonal(
        X, Quadratic(rng.uniform(0.5, 2, 10), rng.uniform(0.1, 9, 50), eta)
    )
    values = np.linalg.eigvalsh(operator.apply(np.eye(50)))
    for bound in (0.0, 1e-6, 0.1, 0.5):
        assert operator.count_above(bound) == (values > bound).sum()


def test_inertia_of_centred_samples_does_not_count_rounding():
    """Centred samples are dependent; at a small bound the row of rounding counted as one more."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((40, 900)) * np.exp(rng.standard_normal(900))
    data -= data.mean(axis=0)
    weights = Quadratic(np.ones(40), np.full(900, 1e11) * rng.uniform(1, 4, 900), 1e-4)
    operator = _LowRankMinusDiagonal(data, weights)
    pairs = operator.positive_pairs(None)
    assert pairs.values.shape[0] <= 39
    assert operator.count_above(0.1 * float(pairs.values[-1])) <= 39
    bound = 2e-10 * float(pairs.values[0])
    assert operator.count_above(bound) == np.sum(pairs.values > bound)


def test_a_scatter_matrix_is_enough_for_the_squared_loss():
    S, _ = planted_problem(12, 0)
    S = 50 * S
    F = factor_of_scatter(Spectrum.of(S))
    np.testing.assert_allclose(F.T @ F, S, atol=1e-12)
    solution = solve_published(F, 0.5, 0.3, n_samples=60, constants=SMALL, tol=0, max_iter=5)
    U = solution.loadings
    assert solution.objective == pytest.approx(spca_psd_objective(S, U @ U.T, 0.5, 0.3), rel=1e-10)


def test_the_offset_belongs_to_a_weighted_mean():
    X = samples(40, 6)
    solution = solve_published(X, 0.5, 0.0, loss="samples+mean", psd=False)
    mean = np.linalg.solve(np.eye(6) - omega_of(solution), solution.state.offset)
    # v = (I - Ω)m with m = Σ d_i x_i / Σ d_i, a point among the samples.
    assert np.all(mean > X.min(axis=0))
    assert np.all(mean < X.max(axis=0))


def test_stops_above_the_optimum_without_exact_zeros():
    """What the paper claims and does not hold: see the module docstring."""
    S, planted = planted_problem(20, 3)
    optimum, _ = spca_psd_optimum(S, 0.05, 0.05)
    F = factor_of_scatter(Spectrum.of(S))
    solution = solve_published(F, 0.05, 0.05, n_samples=60, constants="paper")
    assert solution.objective > 1.001 * optimum
    assert np.all(factor_scores(solution.loadings) > 0)
    assert not planted.all()


@pytest.mark.parametrize("shape", [(40, 15), (15, 40)])
@pytest.mark.parametrize("model", MODELS)
def test_paper_constants_do_not_depend_on_the_scale_of_the_data(model, shape):
    X = samples(*shape)
    unit = {"squared": 2}.get(MODELS[model]["loss"], 1)  # the loss is of this degree in X
    runs = [
        solve_published(c * X, c**unit * 0.9, c**unit * 0.5, **MODELS[model], constants="paper")
        for c in (1.0, 1e3)
    ]
    assert runs[0].n_iter == runs[1].n_iter
    np.testing.assert_allclose(*(np.abs(omega_of(r)) for r in runs), rtol=1e-5, atol=1e-7)


def test_an_empty_model():
    for p in (30, DENSE_UP_TO + 10):
        X = samples(10, p)
        solution = solve_published(X, 1.0, 1e6 * (X**2).sum(), max_iter=3)
        assert solution.loadings.shape == (p, 0)
        assert solution.objective == pytest.approx((X**2).sum())


def test_a_model_that_nobody_published():
    with pytest.raises(ValueError, match="squared loss without the constraint"):
        solve_published(samples(9, 3), 1, 1, loss="squared", psd=False)


@pytest.mark.slow
@pytest.mark.parametrize(("lam", "eta"), [(0.005, 0.05), (0.001, 0.005)])
@pytest.mark.parametrize("model", MODELS)
def test_real_wide_data(benchmark_data, model, lam, eta):
    X = benchmark_data("colon")[:, :1000]
    X = X - X.mean(axis=0)
    norms = np.linalg.norm(X, axis=1)
    total = (norms**2).sum() if model == "SPCA-PSD" else norms.sum() / 2
    constants = PublishedConstants(1e-3, 1e-3, 1e-3, absolute=True)
    follows_the_printed_algorithm(model, X, lam * total, eta * total, constants)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "objective", "iterations"),
    [("isolet", 8634.520, 15), ("pie", 5166.463, 18), ("usps", 4659.069, 13)],
)
def test_authors_constants_reproduce_their_runs(benchmark_data, name, objective, iterations):
    X = benchmark_data(name)
    solution = solve_published(X - X.mean(axis=0), 10, 10)
    assert solution.objective == pytest.approx(objective, rel=1e-6)
    assert solution.n_iter == iterations


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "name", "iterations"),
    [
        ("CSPCA-PSD", "isolet", 25),
        ("CSPCA-PSD", "pie", 20),
        ("AW-SPCA-PSD", "isolet", 46),
        pytest.param("AW-SPCA-PSD", "pie", 35, marks=pytest.mark.exhaustive),
        ("AW-SPCA", "isolet", 142),
        pytest.param("AW-SPCA", "pie", 181, marks=pytest.mark.exhaustive),
    ],
)
def test_iterations_of_table_three(benchmark_data, model, name, iterations):
    """Within two iterations of what is published.

    Not reproduced: CSPCA (ours 135 and 156, published 201 and 204), whose constants are not known,
    and USPS, whose published scaling is not known.
    """
    X = benchmark_data(name)
    start = np.random.default_rng(0).uniform(size=X.shape[1])
    solution = solve_published(X - X.mean(axis=0), 10, 10, **MODELS[model], start=start)
    assert solution.converged
    assert abs(solution.n_iter - iterations) <= 2


def test_relative_constants_are_in_the_units_of_the_data():
    X = np.array([[3.0, 0.0], [0.0, -5.0]])
    constants = PublishedConstants(1e-5, 1e-6, 1e-7, absolute=False)
    ridges = (constants.ridge_features, constants.ridge_samples)
    for wide in (False, True):
        common = {"psd": True, "wide": wide, "constants": constants}
        squared = _Model.of(X, 1.0, 1.0, "squared", **common)
        # tr S / p for the squared loss; for the others that of the scatter weighted by 1/(2‖x_i‖)
        assert squared.ridge == pytest.approx(ridges[wide] * 34 / 2)
        robust = _Model.of(X, 1.0, 1.0, "samples", **common)
        assert robust.ridge == pytest.approx(ridges[wide] * (3 + 5) / 2 / 2)
        assert robust.residual_smoothing == pytest.approx(constants.smoothing * 17)
        assert robust.first_weight == pytest.approx(1 / np.sqrt(17))
        assert (robust.smoothing, robust.eta) == (constants.smoothing, 1.0)
        assert _Model.of(X, 1.0, 1.0, "samples+mean", **common).eta == 0
    absolute = PublishedConstants(1e-5, 1e-6, 1e-7, absolute=True)
    plain = _Model.of(X, 1.0, 1.0, "squared", psd=True, wide=False, constants=absolute)
    assert (plain.ridge, plain.residual_smoothing, plain.first_weight) == (
        *(absolute.ridge_features, absolute.smoothing),
        1.0,
    )


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_norms_of_a_solution_in_every_form(unit):
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((9, 2))
    omega = unit * factor @ rng.standard_normal((2, 9))  # of rank 2, not symmetric
    expected = np.linalg.svd(omega, compute_uv=False)
    basis = np.linalg.qr(factor)[0]
    for found in (Omega(None, omega.T), Omega(basis, (basis.T @ omega).T)):
        assert found.nuclear_norm == pytest.approx(expected.sum(), rel=1e-7)
        np.testing.assert_allclose(found.column_norms, np.linalg.norm(omega, axis=0))
        values, vectors = found.singular
        right = vectors[:, np.argsort(-values)[:2]]
        np.testing.assert_allclose(omega @ right @ right.T, omega, atol=1e-9 * unit)
        assert np.sum(values > 1e-12 * unit) == 2  # rounding is taken as zero
    values = unit * np.array([3.0, 1.0])
    psd = Omega.from_eigenpairs(values, basis)
    assert psd.nuclear_norm == pytest.approx(4 * unit)
    np.testing.assert_allclose(psd.square_root @ psd.square_root.T, (basis * values) @ basis.T)


@pytest.mark.parametrize("loss", ["squared", "samples", "samples+mean"])
@pytest.mark.parametrize("shape", [(19, 40), (60, 40)])
def test_constant_features_are_no_part_of_it(loss, shape):
    rng = np.random.default_rng(0)
    X = 3 * rng.standard_normal(shape)
    X -= X.mean(axis=0)
    X[:, ::2] = 0.0
    for data in (X, np.linalg.qr(rng.standard_normal(shape[:1] * 2))[0] @ X):
        found = solve_published(data, 5.0, 0.1, loss=loss)
        rows = np.linalg.norm(found.loadings, axis=1)
        assert np.all(rows[::2] == 0)
        assert np.all(rows[1::2] > 0)
