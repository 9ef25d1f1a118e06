"""Tables that do not fit in memory: what they need, said up front, and how they are taken in."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jointsparse.cli.arguments import parameters_of
from jointsparse.cli.console import error_console
from jointsparse.cli.errors import CommandError
from jointsparse.cli.fitting import Impute, Scale
from jointsparse.cli.reading_progress import reading_progress
from jointsparse.methods import registry

if TYPE_CHECKING:
    import numpy as np

    from jointsparse.io import Table
    from jointsparse.moments import Moments
    from jointsparse.sources import Source

# Arrays as large as the table, or as the scatter matrix, that exist at the same time: measured.
_TABLE_COPIES = 4
_SCATTER_COPIES = 12
_TEXT_SAMPLE = 1 << 16  # bytes of delimited text from which its number of rows is estimated
_PACKED = 4  # how much smaller .gz is than what it holds, about
_BLOCKS_ONLY = (".h5", ".hdf5", ".he5", ".zarr")


@dataclass
class StreamedTable:
    """A table that stays on disk; for printing and writing it can do what a table in memory can."""

    source: "Source"
    n_samples: int
    notes: list[str] = field(default_factory=list)
    means: "np.ndarray | None" = None  # of columns with missing values, which they fill
    moments: "Moments | None" = None  # before any scaling

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        if self.source.feature_names is not None:
            return [str(name) for name in self.source.feature_names]
        width = len(str(self.source.n_features))
        return [f"x{j:0{width}d}" for j in range(1, self.source.n_features + 1)]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return self.n_samples, self.source.n_features

    @property
    def label_name(self) -> str | None:
        """Column that was kept out."""
        return getattr(self.source, "label", None)

    def write(self, path: Path, columns: Any) -> None:
        """Write some columns, and the labels, block by block."""
        from jointsparse.sources.arrow import ArrowSource
        from jointsparse.sources.filling import fill_block
        from jointsparse.sources.writing import write_columns, write_source

        if isinstance(self.source, ArrowSource):
            change = None
            if self.means is not None:
                change = partial(fill_block, means=self.means[columns])
            write_columns(path, self.source, [self.names[j] for j in columns], change)
        else:
            write_source(path, self.source.columns(columns))


def open_if_large(
    data: str | None,
    *,
    label: str | None,
    drop_text: bool,
    memory: str | None,
) -> "Source | None":
    """Open a table that is to be read in blocks; None for one that fits in memory.

    Parameters
    ----------
    data : str or None
        A file, or a folder of files.
    label, drop_text
        As in ``open_source``.
    memory : str or None
        Text of ``--memory``.
    """
    from jointsparse.io import TableError
    from jointsparse.io.budget import default_budget
    from jointsparse.sources import parse_size

    try:
        budget = default_budget() if memory is None else parse_size(memory)
    except ValueError as error:
        raise CommandError(f"--memory: {error}") from error
    if data is None or not (path := Path(data)).exists():
        return None
    if not _blocks_only(path) and not _may_be_large(path, budget):
        return None
    try:
        return _open(path, label, drop_text, budget)
    except TableError as error:
        # What is read as a whole says itself what is wrong, and may be able to read more.
        if _blocks_only(path) or _looks_like_table(path):
            raise CommandError(str(error)) from error
        return None


def _open(path: Path, label: str | None, drop_text: bool, budget: int) -> "Source | None":
    from jointsparse.sources import open_source

    named = {} if _is_array(path) else {"label": label, "drop_text": drop_text}
    source = open_source(path, memory=budget, **cast(Any, named))
    if not _blocks_only(path) and needed_at_once(source) <= budget:
        return None
    return source


def _blocks_only(path: Path) -> bool:
    return path.is_dir() or path.suffix.lower() in _BLOCKS_ONLY


def _is_array(path: Path) -> bool:
    return path.suffix.lower() in (*_BLOCKS_ONLY, ".npy") or (path / "zarr.json").exists()


def _looks_like_table(path: Path) -> bool:
    from jointsparse.io.errors import TableError
    from jointsparse.io.formats import kind_of

    try:
        return kind_of(path) not in ("npz", "mtx", "npy")
    except TableError:
        return False


def _may_be_large(path: Path, budget: int) -> bool:
    # No format packs numbers more tightly than this; small files need not be looked into.
    return 64 * path.stat().st_size > budget


def needed_at_once(source: "Source") -> int:
    """Return the memory that a table takes when it is read as a whole, about."""
    return _TABLE_COPIES * rows_of(source) * source.n_features * max(source.dtype.itemsize, 8)


def rows_of(source: "Source") -> int:
    """Return the number of samples; of text, about how many there are."""
    if source.n_samples is not None:
        return source.n_samples
    from jointsparse.io.formats import open_input

    rows = 0.0
    for file in cast(Any, source).files:
        with open_input(file) as stream:
            sample = stream.read(_TEXT_SAMPLE)
        size = file.stat().st_size * (_PACKED if file.suffix.lower() == ".gz" else 1)
        if sample:
            rows += sample.count(b"\n") * max(size / len(sample), 1)
    return int(rows)


def needed_in_blocks(source: "Source") -> int:
    """Return the memory that a fit takes when the table is read in blocks, about."""
    return _SCATTER_COPIES * 8 * source.n_features**2 + 4 * 8 * source.block_entries()


def announcement(source: "Source") -> str:
    """Say what a table needs before it is read."""
    from jointsparse.io.budget import size_in_words

    n, p = source.n_samples, source.n_features
    rows = f"about {rows_of(source)}" if n is None else str(n)
    scatter = size_in_words(8 * p**2)
    return (
        f"{rows} samples × {p} features take "
        f"{size_in_words(rows_of(source) * p * source.dtype.itemsize)}; read in blocks: each "
        f"scatter matrix {scatter}, {size_in_words(needed_in_blocks(source))} in all, "
        f"{size_in_words(source.budget)} allowed"
    )


def whole_table(
    source: "Source", estimator: Any, scale: Scale, impute: Impute | None
) -> "Table | None":
    """Return a table that is opened for reading in blocks as a whole, where it has to be.

    Refuse what cannot be done in blocks and does not fit in memory. None: read it in blocks.
    """
    from jointsparse.io.budget import size_in_words

    reason = _needs_all(estimator, scale, impute)
    fits = needed_at_once(source) <= source.budget
    wide = source.n_samples is not None and source.n_samples < source.n_features
    scatter_fits = needed_in_blocks(source) <= source.budget
    if fits and (reason or wide):
        return _read_whole(source, impute)
    if reason:
        raise CommandError(
            f"{source.name} needs {size_in_words(needed_at_once(source))} when read as a whole, "
            f"and {size_in_words(source.budget)} may be used; {reason}"
        )
    if not scatter_fits:
        p = source.n_features
        raise CommandError(
            f"p = {p} features need {size_in_words(8 * p**2)} for the scatter matrix and "
            f"{size_in_words(needed_in_blocks(source))} in all, and "
            f"{size_in_words(source.budget)} may be used: use fewer columns, or allow more with "
            f"--memory{_way_out_for_wide(source)}"
        )
    return None


def check_whole(table: "Table", estimator: Any, memory: str | None) -> None:
    """Refuse a fit to a table in memory that needs more than ``--memory``, or than there is."""
    import numpy as np

    from jointsparse.io.budget import available_memory, parse_size, size_in_words

    if not isinstance(table.values, np.ndarray):
        return  # of sparse samples, only what is stored counts
    n, p = table.shape
    needed = _TABLE_COPIES * 8 * n * p
    if n >= p and not estimator._needs_samples():
        needed += _SCATTER_COPIES * 8 * p**2
    allowed = available_memory() if memory is None else parse_size(memory)
    if needed > allowed:
        raise CommandError(
            f"a fit to {n} samples × {p} features needs {size_in_words(needed)} of memory, and "
            f"{size_in_words(allowed)} may be used: use fewer columns, allow more with --memory, "
            "or save the table as .parquet or .npy, which are read in blocks"
        )


def _way_out_for_wide(source: "Source") -> str:
    from jointsparse.io.budget import size_in_words

    if rows_of(source) >= source.n_features:
        return ""
    size = size_in_words(needed_at_once(source))
    return f" (with {size} the samples themselves fit, and no scatter matrix is needed)"


def _needs_all(estimator: Any, scale: Scale, impute: Impute | None) -> str:
    """Say why all samples are needed at once and what to do instead; nothing where they are not."""
    if estimator._needs_samples():
        inner = getattr(estimator, "estimator", estimator)
        names = ", ".join(
            name for name, method in registry.methods().items() if method.scatter_only
        )
        return (
            f"{type(inner).__name__} needs all samples at once: allow more with --memory, or use "
            f"one of the methods {names}, which read them in blocks"
        )
    if scale is Scale.ROBUST:
        return "medians need all samples at once: use --scale standard, or allow more with --memory"
    if impute is Impute.MEDIAN:
        return "medians need all samples at once: use --impute mean, or allow more with --memory"
    return ""


def _read_whole(source: "Source", impute: Impute | None) -> "Table":
    import numpy as np

    from jointsparse.io import Table, TableError
    from jointsparse.io.table import complete

    try:
        streamed = StreamedTable(source, 0)
        values = np.array(source.read())  # writable, to be filled
        table = Table(
            values,
            streamed.names,
            _labels(source),
            streamed.label_name,
            list(getattr(source, "notes", [])),
        )
        complete(Path(source.name), table, impute and impute.value)
    except (TableError, OSError) as error:
        raise CommandError(str(error)) from error
    return table


def _labels(source: "Source") -> "np.ndarray | None":
    import numpy as np

    label = getattr(source, "label", None)
    if label is None:
        return None
    batches = cast(Any, source).batches([label], 1 << 16)
    values = [batch.column(0).to_numpy(zero_copy_only=False) for batch in batches]
    joined = np.concatenate(values)
    return joined if joined.dtype.kind in "biuf" else joined.astype(str)


def take_in(
    source: "Source", estimator: Any, scale: Scale, impute: Impute | None, *, show_progress: bool
) -> "tuple[StreamedTable, Moments, str]":
    """Read a table in blocks; return it, the moments to fit, and in words how it was scaled."""
    from jointsparse.io import TableError
    from jointsparse.io.budget import size_in_words
    from jointsparse.moments import not_finite
    from jointsparse.sources.sums import NotFiniteError

    _check_count(estimator, source.n_features)
    notes = list(getattr(source, "notes", []))
    shown: Any = nullcontext(source)
    if show_progress:
        shown = reading_progress(error_console(), source, rows_of(source))
    try:
        with shown as reading:
            moments, means = _moments(reading, impute, notes)
    except NotFiniteError as error:
        told = not_finite(source, error)
        raise CommandError(str(told)) from told
    except (TableError, OSError) as error:
        raise CommandError(str(error)) from error
    if moments.n_samples < 2:
        raise CommandError(f"{source.name} has one row of data; at least two samples are needed")
    if not (moments.variances > 0).any():
        raise CommandError("every column is constant, so there is nothing to select")
    passes = "once" if impute is None else "twice"
    notes.append(f"read {passes}, in blocks, within {size_in_words(source.budget)} of memory")
    table = StreamedTable(source, moments.n_samples, notes, means, moments)
    moments.feature_names = table.names
    if scale is Scale.NONE:
        return table, moments, "not scaled"
    return table, moments.standardised(), "standardised"


def _moments(
    source: "Source", impute: Impute | None, notes: list[str]
) -> "tuple[Moments, np.ndarray | None]":
    """Return the moments, and the means that filled what was missing."""
    from jointsparse.moments import Moments
    from jointsparse.sources.filling import filled_with_means

    if impute is None:
        return Moments.from_source(source), None
    filled = filled_with_means(source)
    if not filled.missing.any():
        return Moments.from_source(source), None
    notes.append(_filled_note(source, filled.missing, filled.means))
    return Moments.from_source(filled.source), filled.means


def _filled_note(source: "Source", missing: Any, means: Any) -> str:
    import numpy as np

    from jointsparse.io.errors import counted, listed, table_error

    if np.isnan(means).any():
        empty = [source.column_name(int(j)) for j in np.flatnonzero(np.isnan(means))]
        count = f"{counted(len(empty), 'column')} without a single value ({listed(empty)})"
        raise table_error(source.name, f"has {count}, which --impute cannot fill; drop them.")
    columns = counted(int((missing > 0).sum()), "column")
    return f"imputed {counted(int(missing.sum()), 'missing value')} in {columns} by the mean"


def check_output(output: Path | None) -> None:
    """Refuse, before any work, a format that cannot be written in blocks."""
    from jointsparse.io import TableError
    from jointsparse.sources.writing import check_streamed_format

    if output is None:
        return
    try:
        check_streamed_format(output)
    except TableError as error:
        raise CommandError(str(error)) from error


def _check_count(estimator: Any, n_features: int) -> None:
    count = parameters_of(estimator).get("n_features_to_select")
    if isinstance(count, int) and not isinstance(count, bool) and count > n_features:
        raise CommandError(f"cannot keep {count} features: the table has {n_features}")
