"""Chance: twenty random subsets, and components on random supports; all features beside them."""

import numpy as np

ENVIRONMENT = "here"
DISTRIBUTION = "numpy"
DRAWS = 20


class RandomSubsets:
    name = "random subsets"
    tasks = ("reconstruction", "clusters", "worth")

    def set_objective(self, data, params):
        self.parts = {key: data[key] for key in data if key.startswith("X")}
        self.h = params["h"]

    def run(self):
        rng = np.random.default_rng(0)
        self.orders = {}
        for key, X in self.parts.items():
            varying = np.flatnonzero(X.std(axis=0))
            count = min(self.h, varying.size)
            draws = [rng.choice(varying, count, replace=False) for _ in range(DRAWS)]
            self.orders[key.replace("X", "order")] = np.array(draws)

    def get_result(self):
        return self.orders


class PrincipalComponents:
    """As many principal components as features are kept: not a subset, the limit of all."""

    name = "PCA, h components (no subset)"
    tasks = ("reconstruction", "clusters")

    @staticmethod
    def refuses(data, params):
        return None if "X1" in data else "components are not features"

    def set_objective(self, data, params):
        self.parts = {key: data[key] for key in data if key.startswith("X")}
        self.h = params["h"]

    def run(self):
        from sklearn.decomposition import PCA

        for X in self.parts.values():
            PCA(min(self.h, *X.shape), random_state=0).fit(X)

    def get_result(self):
        return {"components": self.h}


class RandomSupports:
    """Principal components of random features, as many as the leader's have nonzeros."""

    name = "random supports"
    tasks = ("spca",)

    @staticmethod
    def refuses(data, params):
        return None if "counts" in params else "the leader did not finish"

    def set_objective(self, data, params):
        self.X, self.counts = data["X"], params["counts"]

    def run(self):
        rng, p = np.random.default_rng(0), self.X.shape[1]
        self.components = np.zeros((len(self.counts), p))
        for row, count in zip(self.components, self.counts, strict=True):
            kept = rng.choice(p, count, replace=False)
            if count:
                row[kept] = np.linalg.svd(self.X[:, kept], full_matrices=False)[2][0]

    def get_result(self):
        return {"components": self.components}


SOLVERS = (RandomSubsets, PrincipalComponents, RandomSupports)
