"""Tables of so many features that their scatter matrix does not fit: some of them take part."""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from jointsparse.cli.display.console import error_console, print_note
from jointsparse.cli.display.reading_progress import reading_progress
from jointsparse.cli.errors import told
from jointsparse.cli.intake.fitting import Transform
from jointsparse.cli.intake.streaming import Preparation, StreamedTable, rows_of
from jointsparse.cli.options.constraining import ConstraintOptions, places
from jointsparse.cli.options.weighing import weighed_source
from jointsparse.text import counted

if TYPE_CHECKING:
    from jointsparse.methods.reading.needs import Needs
    from jointsparse.sources import Source

MOST = 1000  # features that take part: a fit to them takes minutes, and grows with their cube
LEAST = 30  # of fewer it would be hard to say what they stand for


def screened(
    source: "Source", how: Preparation, options: ConstraintOptions, estimator: Any, *, quiet: bool
) -> "tuple[Source, list[str]]":
    """Return a table, or those of its columns that share most where all do not fit; and notes.

    Parameters
    ----------
    source : Source
        The table.
    how : Preparation
        What is done to its values.
    options : ConstraintOptions
        Features that are named take part in any case.
    estimator : estimator
        What is to be fitted.
    quiet : bool
        Whether to say nothing meanwhile.
    """
    import numpy as np

    from jointsparse.io import TableError
    from jointsparse.io.budget import enough, size_in_words
    from jointsparse.methods.reading.plan import bytes_in_passes, bytes_of_scatter, passed_bytes
    from jointsparse.moments import not_finite
    from jointsparse.sources.refusals import check_reading
    from jointsparse.sources.screening import most_shared
    from jointsparse.sources.sums import NotFiniteError

    try:
        check_reading(source)
    except TableError as error:
        raise told(error) from error
    n, p, needs = source.n_samples, source.n_features, estimator._needs()
    named = options.costs is not None or options.groups is not None
    if n is None or n < p or named or bytes_in_passes(source, needs, n) <= source.budget:
        return source, []
    held = passed_bytes(needs, n)
    # Blocks take a third, and matrices half of the rest.
    count = _how_many(source.budget - held, needs) if held <= source.budget // 4 else 0
    if count < LEAST or p <= count:
        return source, []  # which is refused, with the memory that would do
    names = StreamedTable(source, 0).names
    always = places(options.include or (), names, "--include")
    always += places(options.exclude or (), names, "--exclude")
    needed = bytes_of_scatter(p, needs) + held
    if not quiet:
        passed = ", and samples that are passed over," if held else ""
        print_note(
            f"scatter matrices of {counted(p, 'feature')}{passed} take {size_in_words(needed)}, "
            f"more than the {size_in_words(source.budget)} allowed: looking for the {count} that "
            "share most with others, in five passes and one more"
        )
    shown: Any = nullcontext(source)
    if not quiet:
        shown = reading_progress(error_console(), source, rows_of(source))
    try:
        with shown as watched:
            given = how.weighing.of_source(source)
            # Batches alone leave sparse samples sparse.
            batch = given.pop("batch") if set(given) == {"batch"} else None
            prepared = _prepared_source(watched, how, given)
            found = most_shared(prepared, count, always=always, batch=batch)
    except NotFiniteError as error:
        raise told(not_finite(source, error)) from error
    except (ValueError, OSError) as error:
        raise told(error) from error
    said = (
        f"of the features {found.columns.size} take part, those that share most with others; each "
        f"of the rest has at most {100 * found.left_out:.2g} % of its variance in the leading "
        "patterns. Shares below are of what takes part. All of them would need "
        f"--memory {enough(2 * needed)}"
    )
    cut = source.columns(found.columns)
    cut.feature_names = np.array([names[j] for j in found.columns], dtype=object)
    return cut, [said]


def _how_many(budget: int, needs: "Needs") -> int:
    """Return how many features may take part."""
    from jointsparse.methods.reading.needs import Needs
    from jointsparse.methods.reading.plan import bytes_of_scatter

    count, usual = MOST, Needs()
    # Blocks take the other half, and are gone where a solver takes more than is usual.
    while bytes_of_scatter(count, usual) > budget // 2 or bytes_of_scatter(count, needs) > budget:
        count //= 2
    return count


def _prepared_source(source: "Source", how: Preparation, given: dict[str, Any]) -> "Source":
    """Return a table as it is before any scaling: filled, transformed, within its batches."""
    from jointsparse.methods.reading.plan import Reading
    from jointsparse.sources.views.filling import filled_with_means
    from jointsparse.sources.views.logarithms import Log1pSource

    if how.impute is not None:
        source = filled_with_means(source).source
    if how.transform is Transform.LOG1P:
        source = Log1pSource(source)
    return weighed_source(source, given, Reading.MOMENTS).samples
