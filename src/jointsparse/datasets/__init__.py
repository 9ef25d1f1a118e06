"""Data to try things on."""

from jointsparse.datasets.bundled import load_breast_cancer_table
from jointsparse.datasets.folder import available_datasets, load_dataset
from jointsparse.datasets.pitprops import load_pitprops
from jointsparse.datasets.synthetic import (
    make_spiked,
    make_three_curve,
    make_three_ring,
    make_two_moon,
)
from jointsparse.datasets.tutorials import (
    make_expression,
    make_process,
    make_spectra,
    write_example,
)

__all__ = [
    "available_datasets",
    "load_breast_cancer_table",
    "load_dataset",
    "load_pitprops",
    "make_expression",
    "make_process",
    "make_spectra",
    "make_spiked",
    "make_three_curve",
    "make_three_ring",
    "make_two_moon",
    "write_example",
]
