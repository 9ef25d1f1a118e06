"""How samples that are not in memory are read for a method: the only place that decides.

``fit`` and every command ask :func:`plan`, so that both read a file in the same way, or refuse it
for the same reason. A method says what it needs; the numbers of bytes stand here and nowhere else.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from jointsparse.io.budget import default_budget, enough, size_in_words
from jointsparse.io.errors import TableError, table_error
from jointsparse.io.limits import BYTES_OF_FEATURE, UNCOUNTED
from jointsparse.methods import registry
from jointsparse.methods.reading.needs import SCATTER_COPIES, Needs
from jointsparse.sources import Source
from jointsparse.sources.refusals import check_reading
from jointsparse.sources.sums import mean_of

INDEX_BYTES = 4  # of the column of a stored entry
# Arrays as large as a table that is read as a whole, and fitted, that exist at the same time.
TABLE_COPIES = 4
ENTRY_BYTES = 120  # of a stored entry of sparse samples that are read as a whole, and fitted
NAME_BYTES = 200  # of the name of a sample, in the file's form, as text and in arrays: measured 200
FEATURE_BYTES = 1850  # of a feature beside its numbers: names, scores, ranks; measured 1650 to 1750
GRAM_COPIES = 8  # matrices of the size of the Gram matrix, where columns are read in blocks
ROOM_BESIDE = 1.5  # a third of the memory is for blocks, so that they are not too short
# Arrays as large as a wide table in float64, where a method for products has it in memory: three,
# and what its bases take at least.
WIDE_COPIES = 5
# Of a sample that is passed over: its weights and those of the last steps; measured 150 to 250,
# with what was freed and not given back.
PASSED_BYTES = 250
BLOCK_COPIES = 7  # of a block in float64, while the next one is read: measured 5 to 7
# Bytes of samples that are read whole, although sums of them would do, where a set of features is
# judged: sums do not tell how noisy each sample is, and a file should give the answer of its array.
# Beyond, a pass that keeps sums alone is worth more.
SMALL = 2**28


class Reading(Enum):
    """How samples are read."""

    MOMENTS = auto()  # once, in blocks of rows, of which only sums are kept
    PASSES = auto()  # once in every iteration, in blocks of rows
    PRODUCTS = auto()  # for every product, in blocks of columns
    WHOLE = auto()  # into memory


class DoesNotFitError(TableError):
    """Samples need more memory than may be used."""


def plan(source: Source, needs: Needs, method: str = "this") -> Reading:
    """Decide how samples are read.

    Where the scatter matrix is all that a method looks at, the samples are read once and not kept,
    unless they are few and a set of features is judged by them.
    Methods that need a pass over the samples in every iteration get that where the samples are on a
    cluster or do not fit. What else looks at the samples themselves, and data with more features
    than samples, are read into memory, if they fit; methods that make do with products read the
    latter in blocks of columns if they do not.

    Parameters
    ----------
    source : Source
        Samples. Read, to count its rows, only where nothing else tells how many there are and the
        scatter matrix does not do.
    needs : Needs
        What the method needs.
    method : str
        What messages call it.

    Raises
    ------
    DoesNotFitError
        Where there is no way within the memory of the source.
    """
    check_reading(source)
    budget, n_features = source.budget, source.n_features
    scatter_fits = bytes_in_blocks(source, needs) <= budget
    n_samples = source.n_samples
    small, most = min(SMALL, budget), source.most_samples
    whole = most is not None and bytes_of_samples(source, most) <= small
    whole = whole and bytes_at_once(source, most or 0, needs) <= budget
    if n_samples is None and needs.judged and whole:
        return Reading.WHOLE
    if n_samples is None and scatter_fits and not needs.samples:
        return Reading.MOMENTS
    if n_samples is None:
        n_samples = mean_of(source)[0]
    wide = n_samples < n_features
    needed = bytes_of_samples(source, n_samples)
    if not wide and not needs.samples:
        few = needs.judged and not source.remote and needed <= small
        if few and bytes_at_once(source, n_samples, needs) <= budget:
            return Reading.WHOLE
        if scatter_fits:
            return Reading.MOMENTS
        raise _too_many_features(source, needs)
    passes = needs.passes and not wide and bytes_in_passes(source, needs, n_samples) <= budget
    if passes and source.remote:
        return Reading.PASSES
    by_columns = wide and needs.products and source.n_samples is not None
    # On a cluster, samples that are not needed here stay there; where products would do, the
    # solver makes do with what the samples leave.
    if not source.remote and by_columns:
        needed = max(needed, bytes_at_hand(source, n_samples))
    elif not source.remote:
        needed = max(needed, bytes_at_once(source, n_samples, needs))
    if needed <= budget:
        return Reading.WHOLE
    if passes:
        return Reading.PASSES
    if by_columns and (source.remote or room_for_columns(source) > 0):
        return Reading.PRODUCTS
    if by_columns:
        raise _too_many_columns(source, n_samples)
    if needs.passes and not wide and not source.remote:
        raise _too_much_for_passes(source, n_samples, method, needs)
    raise too_many_samples(source, n_samples, method, needed)


def bytes_in_blocks(source: Source, needs: Needs) -> int:
    """Return the memory of a fit that reads the samples in blocks of rows.

    Blocks are gone by the time that a solver takes more than the usual number of matrices.
    """
    usual = SCATTER_COPIES * 8 * source.n_features**2
    first = usual + BLOCK_COPIES * 8 * source.block_entries()
    return max(first, bytes_of_scatter(source.n_features, needs)) + source.reading_bytes


def bytes_in_passes(source: Source, needs: Needs, n_samples: int) -> int:
    """Return the memory of a fit in blocks, with what it keeps of samples that it passes over."""
    return bytes_in_blocks(source, needs) + passed_bytes(needs, n_samples)


def passed_bytes(needs: Needs, n_samples: int) -> int:
    """Return what the samples take that a method passes over; 0 for one that does not."""
    return max(PASSED_BYTES * n_samples - UNCOUNTED, 0) if needs.passes else 0


def bytes_of_scatter(n_features: int, needs: Needs) -> int:
    """Return the memory of a fit that works on the scatter matrix."""
    return needs.scatter_copies * 8 * n_features**2


def bytes_by_columns(source: Source, n_samples: int) -> int:
    """Return what a wide table takes beside its blocks, where it is read in blocks of columns."""
    bytes_each = BYTES_OF_FEATURE if source.feature_names is None else FEATURE_BYTES
    needed = bytes_each * source.n_features + GRAM_COPIES * 8 * n_samples**2
    return max(needed - UNCOUNTED, 0)


def room_for_columns(source: Source) -> int:
    """Return the memory for blocks of columns: what the features leave; 0 for too little."""
    assert source.n_samples is not None
    beside = bytes_by_columns(source, source.n_samples)
    return source.budget - beside if source.budget >= ROOM_BESIDE * beside else 0


def bytes_at_hand(source: Source, n_samples: int) -> int:
    """Return what a wide table takes in memory, where products with it are all that is needed."""
    if source.entries is not None:
        return ENTRY_BYTES * source.entries
    copies = WIDE_COPIES * 8 * n_samples * source.n_features
    return copies + bytes_by_columns(source, n_samples)


def bytes_of_samples(source: Source, n_samples: int) -> int:
    """Return the memory of the samples, and of a centred copy in float64.

    Sparse samples stay sparse: what counts is what is stored, with the columns it is in.
    """
    if source.entries is not None:
        return source.entries * (source.dtype.itemsize + 8 + 2 * INDEX_BYTES)
    return n_samples * source.n_features * (source.dtype.itemsize + 8)


def bytes_at_once(source: Source, n_samples: int, needs: Needs, *, named: bool = False) -> int:
    """Return the memory of samples that are read as a whole, and of a fit to them.

    Parameters
    ----------
    source : Source
        Samples.
    n_samples : int
        How many there are.
    needs : Needs
        What the method needs of them.
    named : bool
        Whether the columns that go along with them are read, too.
    """
    n_features = source.n_features
    needed = TABLE_COPIES * 8 * n_samples * n_features
    if source.entries is not None:
        needed = ENTRY_BYTES * source.entries  # sparse samples stay sparse
    if named:
        needed += NAME_BYTES * n_samples * len({*source.ids, *source.labels})
    if n_samples >= n_features and not needs.samples:
        needed += bytes_of_scatter(n_features, needs)
    if source.entries is None:
        needed = max(needed, needs.fit_bytes(n_samples, n_features))
    return needed + max(FEATURE_BYTES * n_features - UNCOUNTED, 0)


def _too_many_features(source: Source, needs: Needs) -> DoesNotFitError:
    needed = bytes_in_blocks(source, needs)
    ways = ["read fewer columns", _more_memory(source, _enough_for_blocks(source, needs, 0))]
    if frugal := _methods_in_blocks(source, below=needs):
        ways.append(f"use a method that needs less: {', '.join(frugal)}")
    return _refused(
        source,
        f"has {source.n_features} columns, whose scatter matrices need {size_in_words(needed)}, "
        f"more than the {size_in_words(source.budget)} that may be used: {_one_of(ways)}.",
    )


def _enough_for_blocks(source: Source, needs: Needs, beside: int) -> int:
    """Return a memory that a fit in blocks is within, however long its blocks are then.

    Blocks take a third of what is allowed, or one row, and text a tenth.
    """
    usual = SCATTER_COPIES * 8 * source.n_features**2 + source.reading_bytes + beside
    blocks = 2 * usual + BLOCK_COPIES * 8 * source.n_features
    return max(blocks, bytes_in_blocks(source, needs) + beside)


def _too_many_columns(source: Source, n_samples: int) -> DoesNotFitError:
    needed = int(ROOM_BESIDE * bytes_by_columns(source, n_samples))
    return _refused(
        source,
        f"has {source.n_features} columns, for which {size_in_words(needed)} are needed even where "
        f"they are read in blocks, more than the {size_in_words(source.budget)} that may be used; "
        f"{_more_memory(source, needed)}, or read fewer columns.",
    )


def _too_much_for_passes(
    source: Source, n_samples: int, method: str, needs: Needs
) -> DoesNotFitError:
    needed = bytes_in_passes(source, needs, n_samples)
    allowed = _enough_for_blocks(source, needs, passed_bytes(needs, n_samples))
    ways = [_more_memory(source, allowed), "read fewer columns"]
    if frugal := _methods_in_blocks(source, n_samples):
        ways.append(f"use a method that needs less: {', '.join(frugal)}")
    return _refused(
        source,
        f"is too large for {method}, which passes over its {n_samples} × {source.n_features} "
        f"samples again and again and needs {size_in_words(needed)} for that, more than the "
        f"{size_in_words(source.budget)} that may be used; {_one_of(ways)}.",
    )


def too_many_samples(
    source: Source, n_samples: int, method: str, needed: int = 0
) -> DoesNotFitError:
    """Return the error of samples that a method needs in memory, where they do not fit.

    ``needed`` is what a fit to them takes, where that is more than they take themselves.
    """
    needed = max(needed, bytes_of_samples(source, n_samples))
    wide = n_samples < source.n_features
    why = "goes over them many times" if wide else "needs them all at once"
    ways = [_more_memory(source, needed), "read fewer columns"]
    if wide:
        text = ", from a file that is not text" if source.n_samples is None else ""
        names = ", ".join(_wide_methods())
        ways.append(f"use a method that reads wide tables in blocks of columns{text}: {names}")
    elif in_blocks := _methods_in_blocks(source, n_samples):
        ways.append(f"use a method that reads them in blocks: {', '.join(in_blocks)}")
    return _refused(
        source,
        f"does not fit in memory: its {n_samples} × {source.n_features} samples need "
        f"{size_in_words(needed)}, more than the {size_in_words(source.budget)} that may be used, "
        f"and {method} {why}; {_one_of(ways)}.",
    )


def _refused(source: Source, sentence: str) -> DoesNotFitError:
    return DoesNotFitError(*table_error(source.name, sentence).args)


def _one_of(ways: list[str]) -> str:
    *most, last = ways
    return f"{', '.join(most)}, or {last}"


def _more_memory(source: Source, needed: int) -> str:
    if source.remote:  # a collection has no such parameter
        return "work where more memory is free"
    return f'allow more with memory="{enough(needed)}"'


def _wide_methods() -> list[str]:
    return [name for name, method in registry.methods().items() if method.make()._needs().products]


def _methods_in_blocks(source: Source, n_samples: int = 0, below: Needs | None = None) -> list[str]:
    """Return the methods that read so many samples in blocks of rows, within the memory.

    With ``below``, only those that need fewer matrices.
    """
    found = []
    for name, method in registry.methods().items():
        needs = Needs.of(method.make())
        if below is not None and needs.scatter_copies >= below.scatter_copies:
            continue
        in_blocks = method.scatter_only or needs.passes
        if in_blocks and bytes_in_passes(source, needs, n_samples) <= source.budget:
            found.append(name)
    return found


def check_dense(estimator: Any, n_samples: int, n_features: int) -> None:
    """Refuse sparse samples of which a method would make dense arrays that do not fit in memory."""
    needed, budget = estimator._needs().dense_bytes(n_samples, n_features), default_budget()
    if needed > budget:
        raise ValueError(
            f"{type(estimator).__name__} works on dense arrays, which for these {n_samples} × "
            f"{n_features} sparse samples need about {size_in_words(needed)} of memory, more than "
            f"the {size_in_words(budget)} that may be used (half of what is free); use fewer "
            "features, or a method that leaves samples sparse: "
            f"{', '.join(_sparse_methods(n_samples, n_features))}"
        )


def _sparse_methods(n_samples: int, n_features: int) -> list[str]:
    budget = default_budget()
    return [
        name
        for name, method in registry.methods().items()
        if method.make()._needs().dense_bytes(n_samples, n_features) <= budget
    ]
