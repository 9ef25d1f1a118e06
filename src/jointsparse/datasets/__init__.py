"""Data to try things on."""

from jointsparse.datasets.bundled import load_breast_cancer_table

__all__ = ["load_breast_cancer_table"]
