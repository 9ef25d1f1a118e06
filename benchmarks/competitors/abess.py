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
        if 0 in params.get("counts", [0]):
            return "the leader did not finish, or has an empty component"
        return None

    def set_objective(self, data, params):
        from abess.decomposition import SparsePCA

        self.X, self.k = data["X"], params["k"]
        # Its way to say how many nonzeros each component shall have; one number for several
        # components ends in std::bad_alloc.
        sizes = np.zeros((max(params["counts"]), self.k), dtype=int)
        sizes[np.array(params["counts"]) - 1, np.arange(self.k)] = 1
        self.model = SparsePCA(support_size=sizes, thread=1)

    def run(self):
        self.model.fit(self.X, number=self.k)

    def get_result(self):
        return {"components": np.asarray(self.model.coef_).reshape(self.X.shape[1], -1).T}


SOLVERS = (SparsePCA,)
