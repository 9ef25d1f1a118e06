"""``select --save``: the fitted model, with what was done to the columns before it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jointsparse.cli.errors import told
from jointsparse.cli.intake.fitting import ESTIMATES, Impute, Scale, Selection, Transform
from jointsparse.cli.intake.streaming import StreamedTable

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

    Ranks are those of one table: the samples of another have none in it. So a step "rank" that
    does nothing, in place of any scaling, tells how the features were chosen.
    """
    import numpy as np
    from scipy.sparse import issparse
    from sklearn.pipeline import Pipeline

    values, prepared = _before_and_after(selection)
    steps: list[tuple[str, Any]] = []
    if impute not in (None, *ESTIMATES) and not issparse(values):
        from sklearn.impute import SimpleImputer

        filling = SimpleImputer(strategy=impute.value, keep_empty_features=True)
        steps.append(("impute", filling.fit(values)))
    if selection.transform is not None:
        from sklearn.preprocessing import FunctionTransformer

        change = np.log1p if selection.transform is Transform.LOG1P else None
        step = FunctionTransformer(change, accept_sparse=True, feature_names_out="one-to-one")
        steps.append((selection.transform.value, step.fit(values)))
    if selection.step is not None and selection.transform is not Transform.RANK:
        steps.append(("robust", selection.step))
    elif selection.scale is not Scale.NONE and selection.transform is not Transform.RANK:
        from sklearn.preprocessing import RobustScaler, StandardScaler

        scaler = (
            RobustScaler()
            if selection.scale is Scale.ROBUST
            else StandardScaler(with_mean=not issparse(values))
        )
        steps.append(("scale", scaler.fit(prepared)))
    steps.append(("select", selection.estimator))
    # As if the first step had been fitted to a data frame; the others are given arrays.
    steps[0][1].feature_names_in_ = np.asarray(selection.table.names, dtype=object)
    return Pipeline(steps)


def _before_and_after(selection: Selection) -> tuple[Any, Any]:
    """Return samples as they are, and as they are before they are scaled."""
    import numpy as np

    table = selection.table
    if isinstance(table, StreamedTable):
        prepared = _with_same_moments(table)
        if selection.transform is None or table.typical is None:
            return prepared, prepared
        return np.stack([table.typical, table.typical]), prepared
    if selection.transform is Transform.LOG1P:
        return table.values, np.log1p(table.values)
    return table.values, table.values


def _with_same_moments(table: StreamedTable) -> Any:
    """Return two samples with the mean and the spread of a table that is not in memory."""
    import numpy as np

    assert table.mean is not None
    assert table.deviations is not None
    return np.stack([table.mean - table.deviations, table.mean + table.deviations])
