"""Tables that do not fit in memory: what they need, said up front, and how they are taken in."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jointsparse.cli.display.console import error_console
from jointsparse.cli.display.reading_progress import reading_progress
from jointsparse.cli.errors import CommandError, told
from jointsparse.cli.intake.fitting import (
    ESTIMATES,
    Impute,
    Scale,
    Transform,
    filling_of,
    of_origin,
    told_with,
)
from jointsparse.cli.options.arguments import name_of
from jointsparse.cli.options.robustness import Robust, make_step, scaling_words
from jointsparse.cli.options.tables import notes_in_options
from jointsparse.cli.options.weighing import Weighing, weighed_source
from jointsparse.text import counted

if TYPE_CHECKING:
    import numpy as np

    from jointsparse.io import Table
    from jointsparse.io.columns.layout import Layout
    from jointsparse.methods.reading.plan import Reading
    from jointsparse.methods.robust_steps import RobustStep
    from jointsparse.sources import Source

_TEXT_SAMPLE = 1 << 16  # bytes of delimited text from which its number of rows is estimated
_PACKED = 4  # how much smaller .gz is than what it holds, about
# A few bytes of these can stand for any number of rows.
_PACKED_WITHOUT_LIMIT = (".parquet", ".h5", ".h5ad")
_BLOCKS_ONLY = (".hdf5", ".he5", ".zarr")


@dataclass(frozen=True)
class Preparation:
    """What is done to the values of a table before the fit."""

    transform: Transform | None = None
    scale: Scale = Scale.STANDARD
    impute: Impute | None = None
    weighing: Weighing = field(default_factory=Weighing)
    robust: Robust | None = None


@dataclass
class StreamedTable:
    """A table that stays on disk; for printing and writing it can do what a table in memory can."""

    source: "Source"
    n_samples: int
    notes: list[str] = field(default_factory=list)
    filling: "np.ndarray | None" = None  # what stands for missing values, where there are any
    typical: "np.ndarray | None" = None  # means of the values as they are, for --missing
    mean: "np.ndarray | None" = None  # before any scaling, of what is fitted
    deviations: "np.ndarray | None" = None
    step: "RobustStep | None" = None  # what made the samples robust

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
        """The first column of labels."""
        return next(iter(self.source.labels), None)

    @property
    def id_names(self) -> tuple[str, ...]:
        """Columns that name the samples."""
        return self.source.ids

    @cached_property
    def ids(self) -> "dict[str, np.ndarray]":
        """What is in these columns, which are read by themselves."""
        return {name: self.source.aside(name) for name in self.source.ids}

    def write(self, path: Path, columns: Any) -> None:
        """Write some columns, and the labels, block by block."""
        from jointsparse.io.formats import kind_of
        from jointsparse.sources.files.arrow import ArrowSource
        from jointsparse.sources.files.writing import write_columns, write_source
        from jointsparse.sources.views.columnwise import ColumnwiseSource, fill_block

        if isinstance(self.source, ArrowSource) and kind_of(path) != "npy":
            change = None
            if self.filling is not None:
                change = partial(fill_block, means=self.filling[columns])
            write_columns(path, self.source, [self.names[j] for j in columns], change)
            return
        kept = self.source.columns(columns)
        if self.filling is not None:
            kept = ColumnwiseSource(kept, fill=self.filling[columns])
        kept.n_samples = self.n_samples  # which text files do not say, and .npy begins with
        write_source(path, kept, beside=self.source)


def open_if_large(
    data: str | None,
    estimator: Any,
    *,
    layout: "Layout",
    memory: str | None,
) -> "Source | None":
    """Open a table that is to be read in blocks; None for one that fits in memory.

    Parameters
    ----------
    data : str or None
        A file, or a folder of files.
    estimator : estimator
        What is to be fitted to it.
    layout : Layout
        What the options say about the table.
    memory : str or None
        Text of ``--memory``.
    """
    from jointsparse.io import TableError
    from jointsparse.io.budget import default_budget
    from jointsparse.methods.reading.plan import bytes_at_once
    from jointsparse.sources import parse_size

    try:
        budget = default_budget() if memory is None else parse_size(memory)
    except ValueError as error:
        raise told(error, about="--memory: ") from error
    if data is None or not (path := Path(data)).exists():
        return None
    if not _blocks_only(path) and not _may_be_large(path, budget, packed=not layout.transpose):
        return None
    if _wide_text(path, layout, budget):
        return None  # read row by row, as a whole
    from jointsparse.sources.opening import open_with

    try:
        source = open_with(path, layout, memory=budget)
        whole = bytes_at_once(source, rows_of(source), estimator._needs(), named=True)
        if whole <= budget and not _blocks_only(path):
            return None
        if layout.categories is not None:
            raise CommandError(
                f"{path} does not fit in memory, and --categories needs all samples at once: allow "
                "more with --memory, or make the columns of 0 and 1 in the file"
            )
        return source
    except TableError as error:
        # What is read as a whole says itself what is wrong, and may be able to read more.
        if _blocks_only(path) or _looks_like_table(path):
            raise told(error) from error
        return None


def _blocks_only(path: Path) -> bool:
    from jointsparse.io.matrices.tenx import is_market_folder

    if path.is_dir():
        return not is_market_folder(path)
    return path.suffix.lower() in _BLOCKS_ONLY


def _looks_like_table(path: Path) -> bool:
    from jointsparse.io.errors import TableError
    from jointsparse.io.formats import kind_of

    try:
        return kind_of(path) not in ("npz", "mtx", "npy", "sheet")
    except TableError:
        return False


def _wide_text(path: Path, layout: "Layout", budget: int) -> bool:
    """Whether a file is text of too many columns to be read in blocks."""
    from jointsparse.io import TableError
    from jointsparse.io.formats import DELIMITERS, kind_of
    from jointsparse.io.plain_text.delimited import read_header
    from jointsparse.sources.files.arrow import too_wide

    try:
        if path.is_dir() or (kind := kind_of(path)) not in DELIMITERS or kind == "sheet":
            return False
        return too_wide(len(read_header(path, kind, layout).names), budget)
    except (TableError, OSError):
        return False  # what is wrong is said when it is read


def _may_be_large(path: Path, budget: int, *, packed: bool) -> bool:
    # No text packs numbers more tightly than this; small files need not be looked into.
    packed = packed and path.suffix.lower() in _PACKED_WITHOUT_LIMIT
    return packed or 64 * path.stat().st_size > budget


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


def announcement(source: "Source", reading: "Reading", estimator: Any) -> str:
    """Say what a table needs before it is read."""
    from jointsparse.io.budget import size_in_words
    from jointsparse.methods.reading.plan import Reading, bytes_in_passes, bytes_of_samples

    n, p = source.n_samples, source.n_features
    rows = f"about {rows_of(source)}" if n is None else str(n)
    size = size_in_words(rows_of(source) * p * source.dtype.itemsize)
    if reading is Reading.PRODUCTS:
        how = "read in blocks of columns, many times"
    elif reading is Reading.WHOLE:
        needed = size_in_words(bytes_of_samples(source, rows_of(source)))
        how = f"read as a whole: {needed} with a centred copy"
    else:
        often = ", once in every iteration" if reading is Reading.PASSES else ""
        how = (
            f"read in blocks{often}: each scatter matrix {size_in_words(8 * p**2)}, "
            f"{size_in_words(bytes_in_passes(source, estimator._needs(), rows_of(source)))} in all"
        )
    shape = f"{counted(rows, 'sample')} × {counted(p, 'feature')}"
    return f"{shape} take {size}; {how}, {size_in_words(source.budget)} allowed"


def whole_table(source: "Source", how: Preparation) -> "Table | None":
    """Return a table that has to be read as a whole: for medians or ranks; None where it has not.

    Refuse it where it does not fit in memory.
    """
    from jointsparse.io.budget import enough, size_in_words
    from jointsparse.methods.reading.plan import TABLE_COPIES

    why = "medians need all samples at once"
    if how.transform is Transform.RANK:
        why, instead = "ranks need all samples at once", "use --transform log1p"
    elif how.scale is Scale.ROBUST:
        instead = "use --scale standard"
    elif how.impute is Impute.MEDIAN:
        instead = "use --missing mean"
    elif how.impute in ESTIMATES:
        why, instead = "estimates need all samples at once", "use --missing mean"
    else:
        return None
    needed = TABLE_COPIES * 8 * rows_of(source) * source.n_features
    if needed > source.budget:
        raise CommandError(
            f"{source.name} needs {size_in_words(needed)} when read as a whole, and "
            f"{size_in_words(source.budget)} may be used; {why}: "
            f"{instead}, or allow more with --memory {enough(needed)}"
        )
    return _read_whole(source, how.impute)


def check_whole(table: "Table", estimator: Any, memory: str | None) -> None:
    """Refuse a fit to a table in memory that needs more than ``--memory``, or than there is."""
    import numpy as np

    from jointsparse.io.budget import available_memory, enough, parse_size, size_in_words
    from jointsparse.methods.reading.plan import bytes_at_once
    from jointsparse.sources.in_memory import ArraySource

    if not isinstance(table.values, np.ndarray):
        return  # of sparse samples, only what is stored counts
    n, p = table.shape
    needed = bytes_at_once(ArraySource(table.values), n, estimator._needs())
    allowed = available_memory() if memory is None else parse_size(memory)
    if needed > allowed:
        raise CommandError(
            f"a fit to {counted(n, 'sample')} × {counted(p, 'feature')} needs "
            f"{size_in_words(needed)} of memory, and {size_in_words(allowed)} may be used: use "
            f"fewer columns, allow more with --memory {enough(needed)}, or save the table as "
            ".parquet or .npy, which are read in blocks"
        )


def how_to_read(source: "Source", estimator: Any, how: Preparation) -> "Reading":
    """Decide as the library does, for the table as it will be when it is filled and scaled."""
    import numpy as np

    from jointsparse.io import TableError
    from jointsparse.methods.reading.needs import Needs
    from jointsparse.methods.reading.plan import plan
    from jointsparse.sources.views.columnwise import ColumnwiseSource

    n_features = source.n_features
    # Only its type matters, and that rows can be counted.
    fill = np.zeros(n_features) if how.impute else None
    # Logarithms, too, are floating-point numbers.
    plain = how.scale is Scale.NONE and how.transform is None and how.robust is None
    factors = None if plain else np.ones(n_features)
    prepared = ColumnwiseSource(source, fill=fill, factors=factors)
    inner = getattr(estimator, "estimator", estimator)
    try:
        return plan(prepared, Needs.of(estimator), type(inner).__name__)
    except (TableError, OSError) as error:
        raise told(error, method=name_of(estimator)) from error


def _notes_of(source: "Source") -> list[str]:
    return notes_in_options(list(getattr(source, "notes", [])))


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
            first_labels(source),
            streamed.label_name,
            _notes_of(source),
            streamed.ids,
            {name: source.aside(name) for name in source.labels[1:]},
        )
        complete(Path(source.name), table, filling_of(impute))
    except (TableError, OSError) as error:
        raise told(error) from error
    return table


def first_labels(source: "Source") -> "np.ndarray | None":
    """Return the first labels of a table, read by themselves; None where it has none."""
    return source.aside(source.labels[0]) if source.labels else None


def take_in(
    source: "Source",
    reading: "Reading",
    how: Preparation,
    *,
    show_progress: bool,
) -> "tuple[StreamedTable, Any, str, RobustStep | None]":
    """Return a table that stays on disk, what to fit, how it was scaled, and the robust step.

    What to fit is moments where these are enough, an array where the samples are needed and fit in
    memory, and otherwise a source that is read while the method is fitted.
    """
    from jointsparse.moments import not_finite
    from jointsparse.numerics.variance import check_squares
    from jointsparse.sources.sums import NotFiniteError

    shown: Any = nullcontext(source)
    if show_progress:
        shown = reading_progress(error_console(), source, rows_of(source))
    try:
        with shown as watched:
            table, values = _taken_in(watched, reading, how, how.weighing.of_source(source))
            assert table.mean is not None
            assert table.deviations is not None
            check_squares(table.mean, table.deviations)
    except NotFiniteError as error:
        raise told(not_finite(source, error)) from error
    except (ValueError, OSError) as error:
        raise told(error) from error
    table.source = source
    table.notes[:0] = _notes_of(source)
    if table.n_samples < 2:
        raise CommandError(f"{source.name} has one row of data; at least two samples are needed")
    if not (table.deviations > 0).any():
        raise CommandError("every column is constant, so there is nothing to select")
    scaling = "not scaled" if how.scale is Scale.NONE else "standardised"
    if how.robust is not None:
        scaling = scaling_words(how.robust, how.scale)
    return table, values, told_with(how.transform, scaling), table.step


def _taken_in(
    source: "Source", reading: "Reading", how: Preparation, given: dict[str, Any]
) -> "tuple[StreamedTable, Any]":

    from jointsparse.io.budget import size_in_words
    from jointsparse.methods.reading.plan import Reading
    from jointsparse.moments import Moments
    from jointsparse.numerics.variance import standard_deviations
    from jointsparse.sources.views.columnwise import standardised
    from jointsparse.sources.views.filling import filled_with_means
    from jointsparse.sources.views.logarithms import Log1pSource

    table = StreamedTable(source, 0)
    if how.impute is not None:
        filled = filled_with_means(source)
        table.typical = filled.means
        if filled.missing.any():
            table.notes.append(_filled_note(source, filled.missing, filled.means))
            table.filling, source = filled.means, filled.source
    if how.transform is Transform.LOG1P:
        source = Log1pSource(source)
    weighed = weighed_source(source, given, reading)
    source, origin = weighed.samples, weighed.origin
    if weighed.batches is not None:
        table.notes.append(str(weighed.batches))
    passes = "once" if how.impute is None else "twice"
    values: Any
    if how.robust is not None:
        step = table.step = make_step(how.robust, how.scale).fit(source)
        table.n_samples = step.outlier_scores_.size
        table.mean, table.deviations = step.center_, step.deviation_
        values, passes = step.transform(source), "several times"
        values.n_samples = table.n_samples
        origin = step.origin_of(table.n_samples)
        if reading is Reading.MOMENTS:
            values = Moments.from_source(values)
            values.feature_names = table.names
    elif reading is Reading.MOMENTS:
        values = Moments.from_source(source).made_of(origin)
        values.feature_names = table.names
        table.n_samples, table.mean = values.n_samples, values.mean
        table.deviations = standard_deviations(values.variances, values.n_samples)
        if how.scale is not Scale.NONE:
            values = values.standardised()
    else:
        found = standardised(source)
        table.n_samples, table.mean, table.deviations = found[1:]
        values = source if how.scale is Scale.NONE else found.source
        passes = "several times"
    if reading is Reading.WHOLE:
        values = values.read()
    else:
        by = " of columns" if reading is Reading.PRODUCTS else ""
        budget = size_in_words(source.budget)
        table.notes.append(f"read {passes}, in blocks{by}, within {budget} of memory")
    return table, of_origin(values, origin)


def _filled_note(source: "Source", missing: Any, means: Any) -> str:
    import numpy as np

    from jointsparse.io.errors import listed, table_error

    if np.isnan(means).any():
        empty = [source.column_name(int(j)) for j in np.flatnonzero(np.isnan(means))]
        count = f"{counted(len(empty), 'column')} without a single value ({listed(empty)})"
        raise table_error(source.name, f"has {count}, which --missing cannot fill; drop them.")
    columns = counted(int((missing > 0).sum()), "column")
    return f"filled {counted(int(missing.sum()), 'missing value')} in {columns} with the mean"


def check_outliers(source: "Source", outliers: bool) -> None:
    """Refuse to add outlier scores to a table that is written in blocks."""
    if outliers:
        raise CommandError(
            f"--outliers adds a column to tables in memory, and {source.name} is read in blocks: "
            "leave it out (--json lists the outliers), or allow more with --memory"
        )


def check_format(output: Path | None) -> None:
    """Refuse, before any work, a format that cannot be written in blocks."""
    from jointsparse.io import TableError
    from jointsparse.sources.files.writing import check_streamed_format

    if output is None:
        return
    try:
        check_streamed_format(output)
    except TableError as error:
        raise told(error) from error
