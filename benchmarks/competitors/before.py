"""jointsparse as it was: an earlier checkout, in the folder that JOINTSPARSE_BEFORE names."""

import os
import sys
from pathlib import Path

import numpy as np

ENVIRONMENT = "here"
DISTRIBUTION = "jointsparse, before"


class SelectBefore:
    """The default of commit 31bb749: fixed penalties, and a target with all directions alike."""

    name = "jointsparse, before"
    tasks = ("worth", "picks")

    @staticmethod
    def refuses(data, params):
        return None if os.environ.get("JOINTSPARSE_BEFORE") else "JOINTSPARSE_BEFORE is not set"

    def set_objective(self, data, params):
        folder = Path(os.environ["JOINTSPARSE_BEFORE"]).resolve() / "src"
        sys.path.insert(0, str(folder))
        import jointsparse

        if not Path(jointsparse.__file__).is_relative_to(folder):
            raise RuntimeError(f"jointsparse is not the one in {folder}")
        self.parts = {key: data[key] for key in data if key.startswith("X")}
        self.h = params["h"]
        self.models = {key: jointsparse.SPCAPSD(n_features_to_select=self.h) for key in self.parts}

    def run(self):
        for key, X in self.parts.items():
            self.models[key].fit(X)

    def get_result(self):
        return {
            key.replace("X", "order"): np.argsort(model.ranking_)[: self.h]
            for key, model in self.models.items()
        }


SOLVERS = (SelectBefore,)
