"""The published algorithms, transcribed plainly: dense, as printed, with no trick."""

import numpy as np


def reference_step(S, omega, lam, eta, smoothing=2.0**-52, ridge=1e-3):
    """One iteration of Algorithm 1 of source 004 with the authors' constants."""
    p = len(S)
    weights = 1 / (2 * np.sqrt((omega**2).sum(axis=0) + smoothing))
    left = S + np.diag(lam * weights + ridge)
    omega = np.linalg.solve(left, S - eta / 2 * np.eye(p)).T
    values, vectors = np.linalg.eigh((omega + omega.T) / 2)
    positive = values > 0
    return (vectors[:, positive] * values[positive]) @ vectors[:, positive].T


def objective(S, omega, lam, eta):
    product = S @ omega
    return (
        np.trace(S)
        - 2 * np.trace(product)
        + np.sum(product * omega)
        + lam * np.linalg.norm(omega, axis=0).sum()
        + eta * np.trace(omega)
    )


def reference(S, lam, eta, *, max_iter=100, tol=1e-5):
    """The whole algorithm with the authors' stopping rule; returns Ω and the objectives."""
    omega, history = np.eye(len(S)), []
    for _ in range(max_iter):
        omega = reference_step(S, omega, lam, eta)
        history.append(objective(S, omega, lam, eta))
        if len(history) > 1 and abs(history[-1] - history[-2]) < tol:
            break
    return omega, history


def cspca_psd_reference(X, lam, eta, *, max_iter=100, tol=1e-5, smoothing=1e-3, ridge=1e-3):
    """CSPCA-PSD of source 004: samples and features reweighted, then the projection.

    The authors' constants; eta/2 where the derivative has it (their code has eta).
    """
    p = X.shape[1]
    omega, history = np.eye(p), []
    for _ in range(max_iter):
        residuals = X - X @ omega.T
        samples = 1 / (2 * np.sqrt((residuals**2).sum(axis=1) + smoothing))
        features = 1 / (2 * np.sqrt((omega**2).sum(axis=0) + smoothing))
        S = X.T @ (samples[:, None] * X)
        left = S + np.diag(lam * features + ridge)
        omega = _projected(np.linalg.solve(left, S - eta / 2 * np.eye(p)).T)
        history.append(sample_objective(X, omega, np.zeros(p), lam, eta))
        if len(history) > 1 and abs(history[-1] - history[-2]) < tol:
            break
    return omega, history


def aw_spca_psd_reference(X, lam, *, max_iter=100, tol=1e-5, smoothing=1e-3, ridge=1e-3):
    """AW-SPCA-PSD of source 004: the same with a mean of its own, found in turn with Ω."""
    p = X.shape[1]
    omega, mean, history = np.eye(p), np.zeros(p), []
    samples, features = np.ones(len(X)), np.ones(p)
    for _ in range(max_iter):
        weighted = samples[:, None] * X
        S, total = X.T @ weighted, weighted.sum(axis=0)
        left = S + np.diag(lam * features + ridge)
        omega = _projected(np.linalg.solve(left, (S - np.outer(mean, total)).T).T)
        mean = (total - omega @ total) / samples.sum()
        residuals = X - X @ omega.T - mean
        samples = 1 / (2 * np.sqrt((residuals**2).sum(axis=1) + smoothing))
        features = 1 / (2 * np.sqrt((omega**2).sum(axis=0) + smoothing))
        history.append(sample_objective(X, omega, mean, lam, 0.0))
        if len(history) > 1 and abs(history[-1] - history[-2]) < tol:
            break
    return omega, mean, history


def sample_objective(X, omega, mean, lam, eta):
    """Objective of CSPCA-PSD (mean 0) and of AW-SPCA-PSD (eta 0)."""
    residuals = X - X @ omega.T - mean
    return (
        np.linalg.norm(residuals, axis=1).sum()
        + lam * np.linalg.norm(omega, axis=0).sum()
        + eta * np.trace(omega)
    )


def _projected(omega):
    values, vectors = np.linalg.eigh((omega + omega.T) / 2)
    positive = values > 0
    return (vectors[:, positive] * values[positive]) @ vectors[:, positive].T


def dictionary_reference(X, q, lam, *, max_iter=1000, tol=1e-8):
    """Source 003: block coordinate descent on Y and D, residuals formed anew for every column."""
    left, values, right = np.linalg.svd(X, full_matrices=False)
    Y, D = left[:, :q], right[:q].T * values[:q]
    history = []
    for _ in range(max_iter):
        for k in range(q):
            rest = X - Y @ D.T + np.outer(Y[:, k], D[:, k])
            size = Y[:, k] @ Y[:, k]
            if size > 0:
                image = rest.T @ Y[:, k] / size
                D[:, k] = np.sign(image) * np.clip(np.abs(image) - lam / size, 0, None)
        for k in range(q):
            size = D[:, k] @ D[:, k]
            if size > 0:
                rest = X - Y @ D.T + np.outer(Y[:, k], D[:, k])
                Y[:, k] = rest @ D[:, k] / size
                Y[:, k] /= max(1, np.linalg.norm(Y[:, k]))
        history.append(0.5 * np.sum((X - Y @ D.T) ** 2) + lam * np.abs(D).sum())
        if len(history) > 1 and history[-2] - history[-1] < tol * history[-1]:
            break
    return D, history


def fssl_objective(X, Y, A, mu):
    """Problem of Algorithm 2 of source 002."""
    return np.linalg.norm(A, axis=1).sum() + mu * np.sum((X @ A - Y) ** 2)


def fssl_reference(X, Y, mu, target, *, max_iter=5000):
    """Algorithm 2 of source 002, reweighting, until the objective is at most the target."""
    lengths = np.ones(X.shape[1])
    for passes in range(1, max_iter + 1):  # noqa: B007 - returned
        scaled = lengths[:, None] * X.T
        A = scaled @ np.linalg.solve(X @ scaled + np.eye(len(X)) / (2 * mu), Y)
        lengths = np.linalg.norm(A, axis=1)
        if fssl_objective(X, Y, A, mu) <= target:
            break
    return A, passes


def spca_reference(X, k, l1, ridge, *, max_iter=200, tol=1e-5):
    """Source 001: an elastic net for each component, then the rotation, in turn."""
    from sklearn.linear_model import ElasticNet

    n = len(X)
    A = np.linalg.svd(X, full_matrices=False)[2][:k].T
    net = ElasticNet(
        (l1 / 2 + ridge) / n,
        l1_ratio=l1 / (l1 + 2 * ridge),
        fit_intercept=False,
        tol=1e-6,
        max_iter=10_000,
    )
    B = A.copy()
    for _ in range(max_iter):
        before = B
        B = np.column_stack([net.fit(X, X @ a).coef_ for a in A.T])
        left, _, right = np.linalg.svd(X.T @ (X @ B), full_matrices=False)
        A = left @ right
        if np.linalg.norm(B - before) <= tol * np.linalg.norm(B):
            break
    return B
