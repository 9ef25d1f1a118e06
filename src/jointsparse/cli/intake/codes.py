"""Numbers that stand for missing values, such as -999, and would be taken as measurements."""

from typing import TYPE_CHECKING, Any

from jointsparse.text import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jointsparse.io import Table

# 9 may be a count.
CODES = (-9, *(sign * (10**digits - 1) for digits in range(2, 8) for sign in (-1, 1)))


def codes_told(table: "Table") -> list[str]:
    """Return a note where columns hold -9, 99, -99, 999, … farther off than all else.

    Only a number that is there more than once, and whose distance from the other values of its
    column is larger than the distance between any two of these.

    Examples
    --------
    >>> import numpy as np
    >>> from jointsparse.cli.intake.codes import codes_told
    >>> from jointsparse.io import Table
    >>> values = np.array([[1.0, 5.0], [-999.0, 6.0], [2.0, 9.0], [-999.0, 7.0]])
    >>> codes_told(Table(values, ["a", "b"]))[0][:48]
    'a holds -999 in 2 of 4 rows, far from all other '
    """
    import numpy as np

    from jointsparse.io.errors import listed

    values = table.values
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iuf":
        return []
    with np.errstate(invalid="ignore"):
        least, most = values.min(axis=0), values.max(axis=0)
    # A hole makes both NaN; where there are some, the column is looked at by itself.
    holes = np.isnan(least) if values.dtype.kind == "f" else np.zeros(least.shape, dtype=bool)
    found: dict[int, list[int]] = {}
    for j in np.flatnonzero(holes | np.isin(least, CODES) | np.isin(most, CODES)):
        if (code := _code_in(values[:, j])) is not None:
            found.setdefault(code, []).append(int(j))
    if not found:
        return []
    code, columns = max(found.items(), key=lambda pair: len(pair[1]))
    names = [table.names[j] for j in columns]
    cells = int(np.count_nonzero(values[:, columns] == code))
    where = f"{cells} of {counted(len(values), 'row')}"
    if len(columns) > 1:
        where = counted(cells, "cell")
    return [
        f"{listed(names)} {'holds' if len(names) == 1 else 'hold'} {code} in {where}, far from all "
        "other values: if it stands for a missing value, leave these cells empty, and say what to "
        "do by --missing"
    ]


def _code_in(column: "NDArray[Any]") -> int | None:
    import numpy as np

    known = column[column == column].astype(np.float64)  # without holes
    for code in (known.min(), known.max()) if known.size else ():
        if code not in CODES:
            continue
        others = known[known != code]
        if others.size < 2 or known.size - others.size < 2:
            continue
        distance = np.abs(others - code).min()
        if distance > np.ptp(others) > 0:
            return int(code)
    return None
