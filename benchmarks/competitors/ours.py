"""jointsparse itself, with its defaults unless a task says otherwise."""

import numpy as np

ENVIRONMENT = "here"
DISTRIBUTION = "jointsparse"
MODEL_ONLY = {"n_features_to_select": "support"}  # rivals do not choose how many to keep


class SPCAPSD:
    """Certified to a gap of 1e-4. Narrow data: from the scatter matrix, as the reference."""

    name = "jointsparse"
    tasks = ("spca-psd",)
    tol = 1e-4
    solver = "exact"

    def set_objective(self, data, params):
        from jointsparse import SPCAPSD, Moments

        self.X, self.moments = data["X"], Moments
        self.wide = self.X.shape[1] > len(self.X)
        self.S = None if self.wide else self.X.T @ self.X
        self.model = SPCAPSD(
            alpha=params["lam"],
            eta=params["eta"],
            penalty_scale="absolute",
            solver=self.solver,
            tol=self.tol,
            **MODEL_ONLY,
        )

    def prepare(self):
        """Check the input, as the reference does not; nothing is remembered between runs."""
        if not self.wide:
            self.fresh = self.moments.from_scatter(self.S, n_samples=len(self.X))

    def run(self):
        if self.wide:
            self.model.fit(self.X)
        else:
            self.model.fit_moments(self.fresh)

    def get_result(self):
        gap = getattr(self.model, "duality_gap_", None)
        return {"loadings": self.model.loadings_} | ({} if gap is None else {"gap": gap})


class SPCAPSDAsFarAsReference(SPCAPSD):
    """Stopped at the loosest tolerance with which the reference's objective is reached."""

    name = "jointsparse, to the reference's objective"

    @staticmethod
    def refuses(data, params):
        return None if "target" in params else "the reference did not finish"

    def set_objective(self, data, params):
        for self.tol in (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4):
            super().set_objective(data, params)
            self.prepare()
            self.run()
            if self.model.objective_ <= params["target"]:
                break


class PublishedSPCAPSD(SPCAPSD):
    """The published algorithm, without p × p matrices where p > n."""

    name = "jointsparse, published algorithm"
    solver = "published"


class SampleLoss:
    """CSPCA-PSD and AW-SPCA-PSD, certified to a gap of 1e-4; they lead with their penalties."""

    name = "jointsparse"
    tasks = ("cspca-psd", "aw-spca-psd")

    def set_objective(self, data, params):
        from jointsparse import AWSPCA, CSPCA

        self.X = data["X"]
        common = {"alpha": params["alpha"], "tol": params["tol"], **MODEL_ONLY}
        self.free_mean = params["model"] == "aw-spca-psd"
        self.model = AWSPCA(**common) if self.free_mean else CSPCA(eta=params["share"], **common)

    def run(self):
        self.model.fit(self.X)

    def get_result(self):
        mean = self.model.mean_ if self.free_mean else self.X.mean(axis=0)
        return {
            "loadings": self.model.loadings_,
            "lam": self.model.alpha_,
            "eta": getattr(self.model, "eta_", None) or 0.0,
            "objective": self.model.objective_,
            "gap": self.model.duality_gap_,
            "mean": mean,
        }


class Dictionary:
    name = "jointsparse"
    tasks = ("dictionary",)

    def set_objective(self, data, params):
        from jointsparse import DictionarySPCA

        self.X = data["X"]
        self.model = DictionarySPCA(
            n_components=params["q"], alpha=params["lam"], penalty_scale="absolute"
        )

    def run(self):
        self.model.fit(self.X)

    def get_result(self):
        return {"components": self.model.components_, "objective": self.model.objective_}


class SPCA:
    """As many nonzeros in each component as the leader found."""

    name = "jointsparse"
    tasks = ("spca",)

    @staticmethod
    def refuses(data, params):
        return None if "counts" in params else "the leader did not finish"

    def set_objective(self, data, params):
        from jointsparse import SPCA

        self.X = data["X"]
        self.model = SPCA(n_components=params["k"], n_nonzero=params["counts"])

    def run(self):
        self.model.fit(self.X)

    def get_result(self):
        return {"components": self.model.components_}


class SPCAAtEqualPenalties(SPCA):
    """The problem that the leader solves, instead of as many nonzeros as it found."""

    name = "jointsparse, at the same penalties"

    def set_objective(self, data, params):
        from jointsparse import SPCA

        self.X = data["X"]
        wide = self.X.shape[1] > len(self.X)
        ridge = "inf" if wide else 1e-3 * np.linalg.norm(self.X, 2) ** 2
        self.model = SPCA(
            n_components=params["k"], alpha=params["l1"], ridge=ridge, penalty_scale="absolute"
        )


class FSSL:
    """It leads with its targets, its μ and its objective."""

    name = "jointsparse"
    tasks = ("fssl",)

    def set_objective(self, data, params):
        from jointsparse import FSSL

        self.X, self.y = data["X"], data["classes"]
        self.model = FSSL(graph="lda", mu=params["mu"])

    def run(self):
        self.model.fit(self.X, self.y)

    def get_result(self):
        model = self.model
        coefficients = model.components_.T
        return {
            "coefficients": coefficients,
            "targets": model.targets_,
            "mu": model.mu_,
            "objective": model.objective_,
            "gap": model.duality_gap_,
        }


class GraphScore:
    name = "jointsparse"
    tasks = ("laplacian-score", "udfs")

    def set_objective(self, data, params):
        from jointsparse import UDFS, LaplacianScore

        self.X = data["X"]
        self.laplacian = params["model"] == "laplacian-score"
        self.model = (
            LaplacianScore(**MODEL_ONLY) if self.laplacian else UDFS(n_clusters=5, **MODEL_ONLY)
        )

    def run(self):
        self.model.fit(self.X)

    def get_result(self):
        return {"scores": self.model.feature_scores_}


class Select:
    """What ``jointsparse select`` does: SPCA-PSD, greedy rule, everything at its default."""

    name = "jointsparse"
    tasks = ("reconstruction", "clusters", "worth", "picks")

    def make(self, params):
        from jointsparse import SPCAPSD

        return SPCAPSD()

    def set_objective(self, data, params):
        self.parts = {key: data[key] for key in data if key.startswith("X")}
        self.h = params["h"]
        self.models = {key: self.make(params) for key in self.parts}

    def run(self):
        for key, X in self.parts.items():
            self.models[key].set_params(n_features_to_select=self.h).fit(X)

    def get_result(self):
        return {
            key.replace("X", "order"): np.argsort(model.ranking_)[: self.h]
            for key, model in self.models.items()
        }


class SelectGreedily(Select):
    name = "jointsparse, GreedySelector"
    tasks = ("reconstruction", "clusters", "worth")

    def make(self, params):
        from jointsparse import GreedySelector

        return GreedySelector()


class Scale:
    """One method of ours at one size; ``run`` fits from moments where there are many samples."""

    method = "SPCAPSD"
    parameters: dict = {}  # noqa: RUF012
    name = "jointsparse"
    tasks = ("samples", "features")

    def set_objective(self, data, params):
        import jointsparse

        self.X = data["X"]
        self.model = getattr(jointsparse, self.method)(**self.parameters)
        if params["axis"] == "kept":
            self.model.set_params(n_features_to_select=params["h"])
        self.moments = None
        if params["axis"] == "samples":
            self.moments = jointsparse.Moments.from_data(self.X)
            self.scatter, self.n = self.moments.scatter, len(self.X)

    def prepare(self):
        if self.moments is not None:
            from jointsparse import Moments

            self.moments = Moments.from_scatter(self.scatter, n_samples=self.n)

    def run(self):
        if self.moments is None:
            self.model.fit(self.X)
        else:
            self.model.fit_moments(self.moments)

    def get_result(self):
        return {"iterations": self.model.n_iter_}


class ScaleDictionary(Scale):
    method, parameters, name = "DictionarySPCA", {"n_components": 5}, "jointsparse, DictionarySPCA"


class ScaleSPCA(Scale):
    method, parameters, name = "SPCA", {"n_components": 5}, "jointsparse, SPCA"


class ScaleJSPCA(Scale):
    method, name, tasks = "JSPCA", "jointsparse, JSPCA", ("features",)
    parameters = {"n_components": 5, "loss": "frobenius"}  # noqa: RUF012


class ScaleGreedy(Scale):
    method, name, tasks = "GreedySelector", "jointsparse, GreedySelector", ("features", "kept")
    parameters = {"n_features_to_select": 50}  # noqa: RUF012


class ScaleKept(Scale):
    tasks = ("kept",)


class Start:
    """Importing the package, or one command, in a process of its own."""

    name = "jointsparse"
    tasks = ("import", "command")

    def set_objective(self, data, params):
        import subprocess
        import sys

        code = params.get("code", "import jointsparse")
        self.call = lambda: subprocess.run([sys.executable, "-c", code], check=True, stdout=-3)

    def run(self):
        self.call()

    def get_result(self):
        return {}


SOLVERS = (
    SPCAPSD,
    SPCAPSDAsFarAsReference,
    PublishedSPCAPSD,
    SampleLoss,
    Dictionary,
    SPCA,
    SPCAAtEqualPenalties,
    FSSL,
    GraphScore,
    Select,
    SelectGreedily,
    Scale,
    ScaleDictionary,
    ScaleSPCA,
    ScaleJSPCA,
    ScaleGreedy,
    ScaleKept,
    Start,
)
