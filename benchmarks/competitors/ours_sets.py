"""jointsparse's own searches for the set that explains most: greedy, exchange, with a proof."""

import time

import numpy as np

ENVIRONMENT = "here"
DISTRIBUTION = "jointsparse"
SECONDS = 10.0  # of the processor, for the search with a proof


class Exchange:
    """``SubsetSelector()`` at its defaults."""

    name = "jointsparse"
    tasks = ("set",)
    search = "swap"

    def set_objective(self, data, params):
        from jointsparse import SubsetSelector

        self.X = data["X"]
        self.model = SubsetSelector(n_features_to_select=params["h"], search=self.search)

    def run(self):
        self.model.fit(self.X)

    def get_result(self):
        return {"order": np.flatnonzero(self.model.support_)}


class Greedy(Exchange):
    name = "jointsparse, greedy"
    search = "greedy"


class Exact(Exchange):
    """Ten seconds of the processor at most: a busy machine must not stop it earlier."""

    name = "jointsparse, with a proof"
    search = "exact"

    def run(self):
        start = time.process_time()
        self.model.set_params(max_nodes=1).fit(self.X)
        left = SECONDS
        while not self.model.proved_optimal_ and left > 0.01 * SECONDS:
            self.model.improve(time_limit=left)
            left = SECONDS - (time.process_time() - start)

    def get_result(self):
        return super().get_result() | {"bound": self.model.set_bound_}


SOLVERS = (Exchange, Greedy, Exact)
