"""``--categories onehot``: columns made of one category are kept, or dropped, together."""

from dataclasses import replace
from typing import Any

from jointsparse.cli.errors import CommandError


def keep_together(estimator: Any, table: Any) -> None:
    """Add to the constraints of an estimator that columns of one category are kept as a whole.

    Parameters
    ----------
    estimator : estimator
        Unfitted; its constraints, where it has any, stay.
    table : Table or StreamedTable
        Only a table in memory has such columns.
    """
    from jointsparse.solvers.subset.constraints import Constraints

    groups = getattr(table, "groups", {})
    if not groups:
        return
    given = estimator.get_params().get("constraints") or Constraints()
    if given.groups is not None:
        raise CommandError(
            "--categories makes groups of columns, and --groups makes others: give one of them"
        )
    place = {name: column for column, name in enumerate(table.names)}
    whole = {place[made]: name for name, columns in groups.items() for made in columns}
    estimator.set_params(constraints=replace(given, groups=whole, whole_groups=True))
