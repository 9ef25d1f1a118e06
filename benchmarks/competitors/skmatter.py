"""skmatter: CUR and farthest point sampling (FPS)."""

ENVIRONMENT = "skmatter"
DISTRIBUTION = "skmatter"


class CUR:
    name = "skmatter CUR"
    tasks = ("reconstruction", "clusters", "kept", "worth", "set")

    def set_objective(self, data, params):
        import skmatter.feature_selection as rivals

        self.parts = {key: data[key] for key in data if key.startswith("X")}
        # "full": where nothing is left to gain, the rest is random
        self.models = {
            key: getattr(rivals, type(self).__name__)(n_to_select=params["h"], full=True)
            for key in self.parts
        }

    def run(self):
        for key, X in self.parts.items():
            self.models[key].fit(X)

    def get_result(self):
        return {key.replace("X", "order"): m.selected_idx_ for key, m in self.models.items()}


class FPS(CUR):
    name = "skmatter FPS"


class CURByDefault:
    """Its default number is half of the features."""

    name = "skmatter CUR, default"
    tasks = ("noise", "planted")
    method = "CUR"

    def set_objective(self, data, params):
        self.parts = {key: data[key] for key in data if key.startswith("X")}

    def run(self):
        import skmatter.feature_selection as rivals

        self.kept = {
            key.replace("X", "kept"): getattr(rivals, self.method)().fit(X).get_support()
            for key, X in self.parts.items()
        }

    def get_result(self):
        return self.kept


class FPSByDefault(CURByDefault):
    name = "skmatter FPS, default"
    method = "FPS"


class Import:
    name = "skmatter"
    tasks = ("import",)

    def set_objective(self, data, params):
        import subprocess
        import sys

        code = "import skmatter.feature_selection"
        self.call = lambda: subprocess.run([sys.executable, "-c", code], check=True)

    def run(self):
        self.call()

    def get_result(self):
        return {}


SOLVERS = (CUR, FPS, CURByDefault, FPSByDefault, Import)
