"""Small real tables that come with scikit-learn."""

from __future__ import annotations

from jointsparse.io import Table


def load_breast_cancer_table() -> Table:
    """Return the Wisconsin breast-cancer measurements: 569 samples, 30 named features.

    The diagnosis ("malignant" or "benign") is kept aside as the label.

    Examples
    --------
    >>> from jointsparse.datasets import load_breast_cancer_table
    >>> table = load_breast_cancer_table()
    >>> table.values.shape, table.names[0], table.label_name
    ((569, 30), 'mean radius', 'diagnosis')
    """
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    return Table(
        values=data.data,
        names=[str(name) for name in data.feature_names],
        labels=data.target_names[data.target],
        label_name="diagnosis",
        notes=[],
    )
