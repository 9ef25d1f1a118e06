"""sparsepca: alternating manifold proximal gradient (A-ManPG); it leads with its nonzeros."""

import numpy as np

ENVIRONMENT = "components"
DISTRIBUTION = "sparsepca"


class AManPG:
    name = "sparsepca A-ManPG"
    tasks = ("spca",)

    def set_objective(self, data, params):
        from sparsepca import spca

        self.X, self.spca, self.params = data["X"], spca, params
        self.l1 = np.full((params["k"], 1), params["l1"])
        wide = self.X.shape[1] > len(self.X)
        self.ridge = np.inf if wide else 1e-3 * np.linalg.norm(self.X, 2) ** 2

    def run(self):
        self.found = self.spca(
            self.X, self.l1, self.ridge, k=self.params["k"], normalize=False, tol=1e-5
        )

    def get_result(self):
        return {"components": np.asarray(self.found["loadings"]).T}


SOLVERS = (AManPG,)
