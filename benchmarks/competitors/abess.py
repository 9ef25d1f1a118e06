"""abess: best subset selection for sparse principal components; it aborts where p ≥ n."""

import numpy as np

ENVIRONMENT = "components"
DISTRIBUTION = "abess"


class SparsePCA:
    name = "abess SparsePCA"
    tasks = ("spca",)

    @staticmethod
    def refuses(data, params):
        n, p = data["X"].shape
        if p >= n:
            return "p ≥ n"
        return None if "counts" in params else "the leader did not finish"

    def set_objective(self, data, params):
        from abess.decomposition import SparsePCA

        self.X, self.k = data["X"], params["k"]
        # One size for all components: at least as many nonzeros as the leader has in all.
        size = int(np.ceil(np.mean(params["counts"])))
        self.model = SparsePCA(support_size=size, thread=1)

    def run(self):
        self.model.fit(self.X, number=self.k)

    def get_result(self):
        return {"components": np.asarray(self.model.coef_).reshape(self.X.shape[1], -1).T}


SOLVERS = (SparsePCA,)
