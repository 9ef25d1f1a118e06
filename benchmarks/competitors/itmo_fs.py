"""ITMO_FS: Laplacian score, UDFS."""

import numpy as np

ENVIRONMENT = "old"
DISTRIBUTION = "ITMO-FS"
MOST_SAMPLES = 500  # its graph is built sample by sample in Python


class LaplacianScore:
    name = "ITMO_FS Laplacian score"
    tasks = ("laplacian-score",)

    @staticmethod
    def refuses(data, params):
        n = len(data["X"])
        return f"{n} samples take hours" if n > MOST_SAMPLES else None

    def set_objective(self, data, params):
        from ITMO_FS.filters.univariate import laplacian_score

        self.X, self.score = data["X"], laplacian_score

    def run(self):
        self.scores = self.score(self.X, np.zeros(len(self.X)))

    def get_result(self):
        return {"scores": -np.asarray(self.scores)}


class UDFS:
    """It returns the features kept, no scores."""

    name = "ITMO_FS UDFS"
    tasks = ("udfs",)

    def set_objective(self, data, params):
        from ITMO_FS.filters.sparse import UDFS

        self.X, self.model = data["X"], UDFS(10, c=5, k=5)

    def run(self):
        self.kept = self.model.run(self.X)

    def get_result(self):
        return {}


class Import:
    name = "ITMO_FS"
    tasks = ("import",)

    def set_objective(self, data, params):
        import subprocess
        import sys

        code = "import ITMO_FS.filters.sparse"
        self.call = lambda: subprocess.run([sys.executable, "-c", code], check=True)

    def run(self):
        self.call()

    def get_result(self):
        return {}


SOLVERS = (LaplacianScore, UDFS, Import)
