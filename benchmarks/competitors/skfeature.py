"""skfeature-chappers: Laplacian score, UDFS, MCFS, SPEC."""

import numpy as np

ENVIRONMENT = "old"
DISTRIBUTION = "skfeature-chappers"
NEIGHBOURS = {
    "metric": "euclidean",
    "neighbor_mode": "knn",
    "weight_mode": "binary",
    "k": 5,
}


class _Score:
    """Scores of one table, or the best features of several."""

    def set_objective(self, data, params):
        self.parts = {key: data[key] for key in data if key.startswith("X")}
        self.h = params.get("h")
        self.results = {}
        self.find()

    def run(self):
        for key, X in self.parts.items():
            self.results[key] = np.asarray(self.scores(X))

    def get_result(self):
        if self.h is None:
            return {"scores": self.results["X"]}
        return {
            key.replace("X", "order"): np.argsort(-scores, kind="stable")[: self.h]
            for key, scores in self.results.items()
        }


class LaplacianScore(_Score):
    name = "skfeature Laplacian score"
    tasks = ("laplacian-score", "reconstruction", "clusters")

    def find(self):
        from skfeature.function.similarity_based.lap_score import lap_score
        from skfeature.utility.construct_W import construct_W

        self.lap_score, self.construct = lap_score, construct_W

    def scores(self, X):
        W = self.construct(X, **NEIGHBOURS)
        ranking = self.lap_score(X, mode="index", W=W)  # best first
        return -np.argsort(ranking)


class UDFS(_Score):
    name = "skfeature UDFS"
    tasks = ("udfs", "reconstruction", "clusters")

    @staticmethod
    def refuses(data, params):
        p = next(X for key, X in data.items() if key.startswith("X")).shape[1]
        return f"eigenvectors of {p} × {p} matrices at every pass" if p > 800 else None

    def find(self):
        from skfeature.function.sparse_learning_based.UDFS import udfs

        self.udfs = udfs

    def scores(self, X):
        return np.sum(np.asarray(self.udfs(X, mode="raw", n_clusters=5, k=5)) ** 2, axis=1)


class MCFS(_Score):
    name = "skfeature MCFS"
    tasks = ("reconstruction", "clusters")

    def find(self):
        from skfeature.function.sparse_learning_based.MCFS import mcfs
        from skfeature.utility.construct_W import construct_W

        self.mcfs, self.construct = mcfs, construct_W

    def scores(self, X):
        W = self.construct(X, **NEIGHBOURS)
        loadings = self.mcfs(X, n_selected_features=self.h, mode="raw", W=W, n_clusters=5)
        return np.abs(np.asarray(loadings)).max(axis=1)


class SPEC(_Score):
    name = "skfeature SPEC"
    tasks = ("reconstruction", "clusters")

    def find(self):
        from skfeature.function.similarity_based.SPEC import spec

        self.spec = spec

    def scores(self, X):
        return -np.argsort(self.spec(X, mode="index", style=0))


class Import:
    name = "skfeature"
    tasks = ("import",)

    def set_objective(self, data, params):
        import subprocess
        import sys

        code = "import skfeature.function.sparse_learning_based.UDFS"
        self.call = lambda: subprocess.run([sys.executable, "-c", code], check=True)

    def run(self):
        self.call()

    def get_result(self):
        return {}


SOLVERS = (LaplacianScore, UDFS, MCFS, SPEC, Import)
