"""CVXPY with Clarabel and SCS, which solve the same convex problems on small data."""

import numpy as np

ENVIRONMENT = "here"
DISTRIBUTION = "cvxpy"
MOST_FEATURES, MOST_SAMPLES = 35, 200


class Clarabel:
    name = "CVXPY (Clarabel)"
    tasks = ("spca-psd", "cspca-psd", "aw-spca-psd")
    options = {"solver": "CLARABEL"}  # noqa: RUF012

    @staticmethod
    def refuses(data, params):
        n, p = data["X"].shape
        if p > MOST_FEATURES or (n > MOST_SAMPLES and params["model"] != "spca-psd"):
            return f"made for small problems; {n} × {p} takes too long or too much memory"
        return None

    def set_objective(self, data, params):
        import cvxpy as cp

        X, p, self.model = data["X"], data["X"].shape[1], params["model"]
        self.omega = cp.Variable((p, p), PSD=True)
        self.offset = cp.Variable((1, p)) if self.model == "aw-spca-psd" else np.zeros((1, p))
        if self.model == "spca-psd":
            values, vectors = np.linalg.eigh(X.T @ X)
            factor = (vectors * np.sqrt(np.clip(values, 0, None))).T
            loss = cp.sum_squares(factor - factor @ self.omega)
        else:
            rest = X - X @ self.omega.T - np.ones((len(X), 1)) @ self.offset
            loss = cp.sum(cp.norm(rest, 2, axis=1))
        sparsity = cp.sum(cp.norm(self.omega, 2, axis=0))
        penalty = params["lam"] * sparsity + params["eta"] * cp.trace(self.omega)
        self.problem = cp.Problem(cp.Minimize(loss + penalty))

    def run(self):
        self.problem.solve(**self.options)

    def get_result(self):
        offset = self.offset.value if self.model == "aw-spca-psd" else self.offset
        values, vectors = np.linalg.eigh((self.omega.value + self.omega.value.T) / 2)
        omega = (vectors * np.clip(values, 0, None)) @ vectors.T  # feasible, as all others
        return {"omega": omega, "offset": np.asarray(offset).ravel()}


class SCS(Clarabel):
    name = "CVXPY (SCS)"
    options = {"solver": "SCS", "max_iters": 20_000}  # noqa: RUF012


SOLVERS = (Clarabel, SCS)
