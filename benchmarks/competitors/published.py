"""The published algorithms of the sources, dense, as printed (:mod:`benchmarks.reference`)."""

import numpy as np

ENVIRONMENT = "here"
DISTRIBUTION = "numpy"
MOST_FEATURES = 2500


class _Dense:
    name = "reference"

    @staticmethod
    def refuses(data, params):
        p = data["X"].shape[1]
        if p > MOST_FEATURES:
            return (
                f"one iteration on {p} × {p} matrices takes minutes "
                "(python -m benchmarks.convex wide_against_reference estimates it)"
            )
        return None


class SPCAPSD(_Dense):
    """It leads with its final objective."""

    tasks = ("spca-psd",)

    def set_objective(self, data, params):
        self.S = data["X"].T @ data["X"]
        self.lam, self.eta = params["lam"], params["eta"]

    def run(self):
        from benchmarks.reference import reference

        self.omega, self.history = reference(self.S, self.lam, self.eta)

    def get_result(self):
        return {"omega": self.omega, "objective": self.history[-1]}


class SampleLoss(_Dense):
    tasks = ("cspca-psd", "aw-spca-psd")

    def set_objective(self, data, params):
        self.X = data["X"]
        self.lam, self.eta, self.model = params["lam"], params["eta"], params["model"]
        self.mean = np.zeros(self.X.shape[1])

    def run(self):
        from benchmarks.reference import aw_spca_psd_reference, cspca_psd_reference

        if self.model == "aw-spca-psd":
            self.omega, self.mean, _ = aw_spca_psd_reference(self.X, self.lam)
        else:
            self.omega, _ = cspca_psd_reference(self.X, self.lam, self.eta)

    def get_result(self):
        return {"omega": self.omega, "offset": self.mean}


class Dictionary:
    name = "reference"
    tasks = ("dictionary",)

    def set_objective(self, data, params):
        self.X, self.q, self.lam = data["X"], params["q"], params["lam"]

    def run(self):
        from benchmarks.reference import dictionary_reference

        self.D, self.history = dictionary_reference(self.X, self.q, self.lam)

    def get_result(self):
        return {"components": self.D.T, "objective": self.history[-1]}


class SPCA:
    """The source's alternation at the penalties of the leader, not at its counts."""

    name = "reference"
    tasks = ("spca",)

    @staticmethod
    def refuses(data, params):
        n, p = data["X"].shape
        return "elastic net for p ≤ n" if p > n else None

    def set_objective(self, data, params):
        self.X, self.params = data["X"], params

    def run(self):
        from benchmarks.reference import spca_reference

        largest = np.linalg.norm(self.X, 2) ** 2
        self.B = spca_reference(self.X, self.params["k"], self.params["l1"], 1e-3 * largest)

    def get_result(self):
        lengths = np.linalg.norm(self.B, axis=0)
        return {"components": (self.B / np.where(lengths > 0, lengths, 1)).T}


class FSSL:
    name = "reference"
    tasks = ("fssl",)

    @staticmethod
    def refuses(data, params):
        return None if "target" in params else "no objective to reach"

    def set_objective(self, data, params):
        self.X, self.Y = data["X"] - data["X"].mean(axis=0), np.array(params["targets"])
        self.mu, self.target = params["absolute_mu"], params["target"]

    def run(self):
        from benchmarks.reference import fssl_reference

        self.A, _ = fssl_reference(self.X, self.Y, self.mu, self.target)

    def get_result(self):
        return {"coefficients": self.A}


class ScaleReference(SPCAPSD):
    """The dense algorithm on data of growing size, at the shares of the wide bar."""

    tasks = ("features",)

    def set_objective(self, data, params):
        total = float((data["X"] ** 2).sum())
        super().set_objective(data, {"lam": 0.001 * total, "eta": 0.05 * total})

    def get_result(self):
        return {"iterations": len(self.history)}


SOLVERS = (SPCAPSD, SampleLoss, Dictionary, SPCA, FSSL, ScaleReference)
