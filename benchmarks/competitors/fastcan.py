"""fastcan: forward selection by canonical correlation with the leading principal components."""

import numpy as np

ENVIRONMENT = "fastcan"
DISTRIBUTION = "fastcan"


class FastCan:
    """Without labels it is given principal components: as many as features are to be kept.

    Of all components every feature is a combination, and its criterion could not tell features
    apart: at most half as many as there are samples.
    """

    name = "fastcan"
    tasks = ("worth", "set")

    def set_objective(self, data, params):
        from fastcan import FastCan

        self.make, self.sizes = FastCan, params["sizes"]
        self.parts = {key: data[key] for key in data if key.startswith("X")}

    def run(self):
        self.sets = {}
        for key, X in self.parts.items():
            left, values, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
            scores = left * values
            for h in self.sizes:
                outcomes = scores[:, : min(h, len(X) // 2)]
                try:
                    model = self.make(n_features_to_select=h, verbose=0).fit(X, outcomes)
                except RuntimeError:  # it finds no further feature that is independent of its picks
                    continue
                self.sets[f"{key.replace('X', 'order')}_{h}"] = model.indices_

    def get_result(self):
        return self.sets


SOLVERS = (FastCan,)
