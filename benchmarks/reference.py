"""The published SPCA-PSD algorithm, transcribed plainly: one eigh and one solve per iteration."""

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
