"""scikit-learn: PCA, SparsePCA, MiniBatchSparsePCA, MultiTaskLasso, VarianceThreshold's order."""

import numpy as np

ENVIRONMENT = "here"
DISTRIBUTION = "scikit-learn"


class SparsePCAByCD:
    name = "scikit-learn SparsePCA (cd)"
    tasks = ("dictionary", "features", "samples")
    method = "cd"

    def set_objective(self, data, params):
        from sklearn.decomposition import SparsePCA

        self.X = data["X"]
        lam = params.get("lam", 0.1 * np.linalg.norm(self.X, axis=0).max())
        self.model = SparsePCA(
            params.get("q", 5), alpha=lam, ridge_alpha=0, method=self.method, random_state=0
        )

    def run(self):
        self.model.fit(self.X)

    def get_result(self):
        return {"components": self.model.components_, "objective": self.model.error_[-1]}


class SparsePCAByLars(SparsePCAByCD):
    name = "scikit-learn SparsePCA (lars)"
    tasks = ("dictionary",)
    method = "lars"


class MiniBatchSparsePCA(SparsePCAByCD):
    name = "scikit-learn MiniBatchSparsePCA"
    tasks = ("dictionary",)

    def set_objective(self, data, params):
        from sklearn.decomposition import MiniBatchSparsePCA

        self.X = data["X"]
        self.model = MiniBatchSparsePCA(
            params["q"], alpha=params["lam"], ridge_alpha=0, random_state=0
        )

    def get_result(self):
        return {"components": self.model.components_}


class PCA:
    """All loadings nonzero: what sparse components are measured against."""

    name = "scikit-learn PCA (not sparse)"
    tasks = ("spca", "features", "samples")

    def set_objective(self, data, params):
        from sklearn.decomposition import PCA

        self.X, self.model = data["X"], PCA(params.get("k", 5), random_state=0)

    def run(self):
        self.model.fit(self.X)

    def get_result(self):
        return {"components": self.model.components_}


class MultiTaskLasso:
    """The problem of FSSL, at the loosest tolerance that reaches our objective."""

    name = "scikit-learn MultiTaskLasso"
    tasks = ("fssl",)

    @staticmethod
    def refuses(data, params):
        return None if "target" in params else "no objective to reach"

    def set_objective(self, data, params):
        from sklearn.linear_model import MultiTaskLasso

        self.X, self.Y = data["X"] - data["X"].mean(axis=0), np.array(params["targets"])
        mu = params["absolute_mu"]
        for tol in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8):
            self.model = MultiTaskLasso(
                1 / (2 * len(self.X) * mu), fit_intercept=False, tol=tol, max_iter=100_000
            )
            self.run()
            A = self.model.coef_.T
            value = np.linalg.norm(A, axis=1).sum() + mu * np.sum((self.X @ A - self.Y) ** 2)
            if value <= params["target"]:
                break

    def run(self):
        self.model.fit(self.X, self.Y)

    def get_result(self):
        return {"coefficients": self.model.coef_.T}


class LargestVariance:
    name = "largest variance"
    tasks = ("reconstruction", "clusters", "worth")

    def set_objective(self, data, params):
        # Of standardised features all variances are equal: those of the values as they came.
        self.parts = {key: data.get(f"raw_{key}", data[key]) for key in data if key[0] == "X"}
        self.h = params["h"]

    def run(self):
        from sklearn.feature_selection import VarianceThreshold

        self.orders = {
            key.replace("X", "order"): np.argsort(
                -VarianceThreshold().fit(X).variances_, kind="stable"
            )[: self.h]
            for key, X in self.parts.items()
        }

    def get_result(self):
        return self.orders


class Import:
    name = "scikit-learn"
    tasks = ("import",)

    def set_objective(self, data, params):
        import subprocess
        import sys

        code = "import sklearn.decomposition, sklearn.feature_selection"
        self.call = lambda: subprocess.run([sys.executable, "-c", code], check=True)

    def run(self):
        self.call()

    def get_result(self):
        return {}


SOLVERS = (
    SparsePCAByCD,
    SparsePCAByLars,
    MiniBatchSparsePCA,
    PCA,
    MultiTaskLasso,
    LargestVariance,
    Import,
)
