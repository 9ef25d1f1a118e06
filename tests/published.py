"""The methods on graphs, transcribed from their papers: dense matrices, loops, nothing clever.

They share no code with the library. Where a paper leaves a choice (ties of eigenvalues) the mean
over all choices is taken, as in the library.
"""

import numpy as np


def distances(X):
    return np.array([[np.sum((a - b) ** 2) for b in X] for a in X])


def neighbours(X, k):
    D = distances(X)
    np.fill_diagonal(D, np.inf)
    return np.argsort(D, axis=1, kind="stable")[:, :k]


def binary_graph(X, k):
    G = np.zeros((len(X), len(X)))
    for i, row in enumerate(neighbours(X, k)):
        G[i, row] = 1
    return np.maximum(G, G.T)


def laplacian_scores(X, G):
    D = np.diag(G.sum(axis=1))
    L = D - G
    one = np.ones(len(X))
    scores = []
    for f in X.T:
        f = f - (f @ D @ one) / (one @ D @ one) * one
        scores.append((f @ L @ f) / (f @ D @ f))
    return np.array(scores)


def projector(M, m, tie):
    values, vectors = np.linalg.eigh(M)
    below, tied = values < values[m - 1] - tie, np.abs(values - values[m - 1]) <= tie
    weights = below + (m - below.sum()) / tied.sum() * tied
    return (vectors * weights) @ vectors.T


def reweighted(A, g, m, p, passes, smoothing, tol=0.0, authors=False):
    """Stop at a change ``tol`` of a score, or (authors) 1e-6 of tr(W'AW) + g Σ‖w_j‖."""
    q = np.ones(len(A))
    r = np.zeros(len(A))
    P, value = None, np.inf
    for number in range(passes):
        M = A + g * np.diag(q)
        size = len(A) * np.abs(A).max()
        if number:
            values = np.linalg.eigvalsh(M)
            size = max(abs(values[0]), abs(values[min(m, len(A) - 1)]))
        P = projector(M, m, 1e-9 * size)
        before, r = r, np.diag(P)
        old, value = value, np.sum(P * A) + g * np.sqrt(r).sum()
        if number and (abs(value - old) < 1e-6 if authors else np.abs(r - before).max() <= tol):
            break
        q = p / 2 * (r + smoothing) ** ((p - 2) / 2)
    return r, P


def udfs_matrix(X, k, lam):
    n = len(X)
    L = np.zeros((n, n))
    H = np.eye(k + 1) - 1 / (k + 1)
    for i, row in enumerate(neighbours(X, k)):
        S = np.zeros((n, k + 1))
        S[np.r_[i, row], np.arange(k + 1)] = 1
        Z = H @ S.T @ X
        L += S @ H @ np.linalg.inv(Z @ Z.T + lam * np.eye(k + 1)) @ H @ S.T
    return L


def simplex(v):
    # bisection: Σ max(v - t, 0) falls with t
    low, high = v.min() - 1, v.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(v - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(v - high, 0)


def sogfs(X, k, c, m, g, p, smoothing=1e-10, tol=1e-9, authors=False):
    n = len(X)
    X = X - X.mean(axis=0)
    X = X / np.sqrt((X**2).sum(axis=0))
    D = distances(X)
    np.fill_diagonal(D, np.inf)
    order = np.argsort(D, axis=1, kind="stable")
    near = np.take_along_axis(D, order[:, : k + 1], axis=1)
    gap = k * near[:, k] - near[:, :k].sum(axis=1)
    S = np.zeros((n, n))
    for i in range(n):
        S[i, order[i, :k]] = (near[i, k] - near[i, :k]) / gap[i]
    alpha = lam = gap.mean() / 2
    first = S.copy()

    def laplacian(S):
        G = (S + S.T) / 2
        return np.diag(G.sum(axis=1)) - G

    def embed(S):
        return reweighted(X.T @ laplacian(S) @ X, g, m, p, 100, smoothing, tol, authors)

    F = np.linalg.eigh(laplacian(S))[1][:, :c]
    r, P = embed(S)
    for t in range(1, 51):
        if t > 5:
            Q = np.array([[(a - b) @ P @ (a - b) for b in X] for a in X])
            np.fill_diagonal(Q, np.inf)
            order = np.argsort(Q, axis=1, kind="stable")
        S = np.zeros((n, n))
        for i in range(n):
            rows = order[i, :k]
            cost = [
                (X[i] - X[j]) @ P @ (X[i] - X[j]) + lam * np.sum((F[i] - F[j]) ** 2) for j in rows
            ]
            S[i, rows] = simplex(-np.array(cost) / (2 * alpha))
        r, P = embed(S)
        values, vectors = np.linalg.eigh(laplacian(S))
        if values[:c].sum() > 1e-9:
            lam, F = 2 * lam, vectors[:, :c]
        elif values[: c + 1].sum() < 1e-11:
            lam /= 2
        elif t > 1:
            break
        else:
            F = vectors[:, :c]
    return r, {"alpha": alpha, "lam": lam, "outer": t, "S": S, "first": first}


def lle(X, k, rho):
    W = np.zeros((len(X), len(X)))
    for i, row in enumerate(neighbours(X, k)):
        Z = X[row] - X[i]
        C = Z @ Z.T
        u = np.linalg.solve(C + rho * np.trace(C) * np.eye(k), np.ones(k))
        W[i, row] = u / u.sum()
    return W


def rne(A, H, a=1e3, b=10.0, mu=1.1, outer=50, inner=30):
    eps = np.finfo(float).eps
    M, Y = A @ H, np.zeros((len(A), H.shape[1]))
    G = A.T @ A
    plus, minus = np.maximum(G, 0), np.maximum(-G, 0)
    for _ in range(outer):
        P, R = A.T @ M, A.T @ Y
        for _ in range(inner):
            H = H / np.sqrt((H**2).sum(axis=0) + eps)
            up = a * H + b * np.maximum(P, 0) + b * minus @ H + np.maximum(R, 0)
            down = a * H @ H.T @ H + b * np.maximum(-P, 0) + b * plus @ H + np.maximum(-R, 0) + eps
            H = H * np.sqrt(up / down)
        T = A @ H - Y / b
        M = np.sign(T) * np.maximum(np.abs(T) - 1 / b, 0)
        Y = Y + b * (M - A @ H)
        b = min(mu * b, 1e10)
    objective = np.abs(A @ H).sum() + a / 4 * np.sum((H.T @ H - np.eye(H.shape[1])) ** 2)
    return (H**2).sum(axis=1), objective
