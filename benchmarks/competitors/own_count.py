"""Tools of this environment that choose by themselves how many features they keep."""

import warnings

import numpy as np

ENVIRONMENT = "here"
DISTRIBUTION = "jointsparse"


class Ours:
    name = "jointsparse"
    tasks = ("noise", "planted")

    def set_objective(self, data, params):
        self.parts = {key: data[key] for key in data if key.startswith("X")}

    def model(self):
        from jointsparse import SPCAPSD

        return SPCAPSD()

    def run(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that nothing is there
            self.kept = {
                key.replace("X", "kept"): self.features(self.model().fit(X))
                for key, X in self.parts.items()
            }

    def features(self, model):
        return model.get_support()

    def get_result(self):
        return self.kept


class OursGreedy(Ours):
    name = "jointsparse, GreedySelector"

    def model(self):
        from jointsparse import GreedySelector

        return GreedySelector(n_features_to_select="auto")


class OursSignificant(Ours):
    name = "jointsparse, significant features"

    def features(self, model):
        return model.significant_


class OursTested(Ours):
    tasks = ("tested",)

    def run(self):
        from jointsparse import feature_significance

        self.kept = {
            key.replace("X", "kept"): feature_significance(X).significant
            for key, X in self.parts.items()
        }


class Correlations(Ours):
    """Features that are correlated with any other: what one would test without a model.

    The smallest p value of a feature counts as many times as there are others (Bonferroni); of
    these Benjamini and Hochberg's rule takes those with at most 5 % of false ones.
    """

    name = "largest correlations"
    tasks = ("tested",)

    def run(self):
        self.kept = {key.replace("X", "kept"): self.correlated(X) for key, X in self.parts.items()}

    @staticmethod
    def correlated(X):
        from scipy.special import betainc
        from scipy.stats import false_discovery_control

        n, p = X.shape
        with np.errstate(invalid="ignore"):  # of columns that do not vary
            squares = np.nan_to_num(np.corrcoef(X, rowvar=False) ** 2)
        np.fill_diagonal(squares, 0.0)
        pvalues = betainc((n - 2) / 2, 0.5, 1 - squares.max(axis=0))
        return false_discovery_control(np.minimum(1.0, (p - 1) * pvalues)) <= 0.05


class Sequential(Ours):
    """Forward selection by cross-validated regressions of all features on those chosen.

    Its default number is half of the features; it fits features × steps × 5 regressions.
    """

    name = "scikit-learn SequentialFeatureSelector"
    MOST = 40  # features: more would take hours

    @staticmethod
    def refuses(data, params):
        n_features = data["X0"].shape[1]
        return None if n_features <= Sequential.MOST else "hours of regressions"

    def model(self):
        from sklearn.feature_selection import SequentialFeatureSelector
        from sklearn.linear_model import LinearRegression

        selector = SequentialFeatureSelector(LinearRegression())
        return _ToItself(selector)


class _ToItself:
    """A supervised selector whose outcomes are the features themselves."""

    def __init__(self, selector):
        self.selector = selector

    def fit(self, X):
        return self.selector.fit(X, X)


class Threshold(Ours):
    name = "scikit-learn VarianceThreshold"

    def model(self):
        from sklearn.feature_selection import VarianceThreshold

        return VarianceThreshold()


class Loadings(Ours):
    """Features with a loading in any of five components, at the default penalty."""

    name = "scikit-learn SparsePCA, nonzero loadings"
    MOST = 100

    @staticmethod
    def refuses(data, params):
        n_features = data["X0"].shape[1]
        return None if n_features <= Loadings.MOST else "minutes for each table"

    def model(self):
        from sklearn.decomposition import SparsePCA

        return SparsePCA(n_components=5, random_state=0)

    def features(self, model):
        return np.any(model.components_ != 0, axis=0)


SOLVERS = (
    Ours,
    OursGreedy,
    OursSignificant,
    OursTested,
    Correlations,
    Sequential,
    Threshold,
    Loadings,
)
