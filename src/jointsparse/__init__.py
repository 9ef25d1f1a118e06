"""Which few original features matter: sparse PCA and feature selection with certified optima."""

__version__ = "0.1.0.dev0"
