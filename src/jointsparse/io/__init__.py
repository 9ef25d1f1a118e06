"""Tables in and out: CSV, Parquet, Arrow, NumPy and Matrix Market files.

What a user can mend is a `TableError` of one sentence; nothing is unpickled; files appear whole.
"""

from jointsparse.io.atomic import atomic_path, atomic_set
from jointsparse.io.errors import StrPath, TableError
from jointsparse.io.reading import read_table
from jointsparse.io.table import Table
from jointsparse.io.writing import check_writable_format, write_rows, write_table

__all__ = [
    "StrPath",
    "Table",
    "TableError",
    "atomic_path",
    "atomic_set",
    "check_writable_format",
    "read_table",
    "write_rows",
    "write_table",
]
