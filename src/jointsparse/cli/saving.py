"""``select --save``: the fitted model, with what was done to the columns before it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jointsparse.cli.errors import told
from jointsparse.cli.fitting import Impute, Scale, Selection
from jointsparse.cli.streaming import StreamedTable

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


def write_model(path: Path, selection: Selection, impute: Impute | None) -> None:
    """Write the pipeline of a selection."""
    from jointsparse.io import TableError
    from jointsparse.persistence import ModelError, save_model

    try:
        save_model(pipeline_of(selection, impute), path)
    except (ModelError, TableError, OSError) as error:
        raise told(error) from error


def pipeline_of(selection: Selection, impute: Impute | None) -> "Pipeline":
    """Return the fitted steps: what fills and scales the columns, and the selector.

    The first knows the names of the columns. The table was filled while it was read; a column
    filled with its median (or mean) has the same median (mean): the filling is learned from it.
    """
    import numpy as np
    from scipy.sparse import issparse
    from sklearn.pipeline import Pipeline

    if isinstance(selection.table, StreamedTable):
        values: Any = _with_same_moments(selection.table)
    else:
        values = selection.table.values
    steps: list[tuple[str, Any]] = []
    if impute is not None and not issparse(values):
        from sklearn.impute import SimpleImputer

        filling = SimpleImputer(strategy=impute.value, keep_empty_features=True)
        steps.append(("impute", filling.fit(values)))
    if selection.scale is not Scale.NONE:
        from sklearn.preprocessing import RobustScaler, StandardScaler

        scaler = (
            RobustScaler()
            if selection.scale is Scale.ROBUST
            else StandardScaler(with_mean=not issparse(values))
        )
        steps.append(("scale", scaler.fit(values)))
    steps.append(("select", selection.estimator))
    # As if the first step had been fitted to a data frame; the others are given arrays.
    steps[0][1].feature_names_in_ = np.asarray(selection.table.names, dtype=object)
    return Pipeline(steps)


def _with_same_moments(table: StreamedTable) -> Any:
    """Return two samples with the mean and the spread of a table that is not in memory."""
    import numpy as np

    assert table.mean is not None
    assert table.deviations is not None
    return np.stack([table.mean - table.deviations, table.mean + table.deviations])
