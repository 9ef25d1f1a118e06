"""scanpy: highly variable genes, by its defaults (flavour "seurat")."""

import warnings

ENVIRONMENT = "scanpy"
DISTRIBUTION = "scanpy"


class HighlyVariable:
    """Logarithms of values as they came; genes of more dispersion than others of their mean."""

    name = "scanpy highly variable genes"
    tasks = ("noise", "planted")

    @staticmethod
    def refuses(data, params):
        negative = any((data[key] < 0).any() for key in data if key.startswith("raw_X"))
        return "negative values" if negative else None

    def set_objective(self, data, params):
        self.parts = {key: data[key] for key in data if key.startswith("raw_X")}

    def run(self):
        import anndata
        import numpy as np
        import scanpy

        self.kept = {}
        for key, X in self.parts.items():
            cells = anndata.AnnData(np.log1p(X))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scanpy.pp.highly_variable_genes(cells)
            self.kept[key.replace("raw_X", "kept")] = cells.var["highly_variable"].to_numpy()

    def get_result(self):
        return self.kept


SOLVERS = (HighlyVariable,)
