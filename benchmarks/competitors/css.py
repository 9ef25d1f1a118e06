"""CSS, column subset selection by exchange (github.com/AnavSood/CSS): one in, one out."""

import numpy as np

ENVIRONMENT = "css"
DISTRIBUTION = "pycss"


class Exchange:
    """Its defaults: one random start. It refuses sets larger than the samples determine."""

    name = "CSS, exchange"
    tasks = ("worth", "set")

    def set_objective(self, data, params):
        from pycss.CSS import CSS

        self.make, self.sizes = CSS, params["sizes"]
        self.parts = {key: data[key] for key in data if key.startswith("X")}

    def run(self):
        np.random.seed(0)  # noqa: NPY002 - its starts are drawn from the global generator
        self.sets = {}
        for h in self.sizes:
            for key, X in self.parts.items():
                model = self.make()
                model.select_subset_from_data(X, k=h, method="swap", show_progress=False)
                if model.S is not None:
                    self.sets[f"{key.replace('X', 'order')}_{h}"] = model.S

    def get_result(self):
        return self.sets


SOLVERS = (Exchange,)
