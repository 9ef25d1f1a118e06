"""``--weights``, ``--batch`` and ``--missing``: from the columns of a table to what is fitted."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jointsparse.cli.errors import CommandError, told
from jointsparse.cli.intake.fitting import ESTIMATES, Impute, Scale, of_origin, scale_columns

if TYPE_CHECKING:
    from jointsparse.io import Table
    from jointsparse.io.columns.layout import Layout
    from jointsparse.preparation import Prepared
    from jointsparse.sources import Source

WEIGHTS_HELP = (
    "Column with the weight of each sample: whole numbers are counts, 0 leaves a sample out; of "
    "others only the ratios matter."
)
BATCH_HELP = "Column that says which samples were measured together: what varies within is fitted."
MISSING_HELP = (
    "What to do about missing values: error (the default) refuses them, mean and median fill them, "
    "pairwise and em estimate the scatter matrix without filling. --impute is the older name."
)


@dataclass(frozen=True)
class Weighing:
    """Columns that say how much samples count, and which belong together.

    Attributes
    ----------
    weights, batch : str or None
        Names of the columns.
    """

    weights: str | None = None
    batch: str | None = None

    @property
    def names(self) -> dict[str, str]:
        """The columns, and the options that name them."""
        both = {self.weights: "--weights", self.batch: "--batch"}
        return {name: option for name, option in both.items() if name is not None}

    def in_layout(self, layout: "Layout") -> "Layout":
        """Return a layout in which the columns are kept out, and go along with the samples."""
        if self.weights is not None and self.weights == self.batch:
            raise CommandError(f"--weights and --batch both name the column {self.weights}")
        more = [name for name in self.names if name not in layout.carried]
        return replace(layout, ids=(*layout.ids, *more))

    def told(self, error: CommandError) -> CommandError:
        """Return an error about a column in the words of the option that named it."""
        text = str(error)
        for name, option in self.names.items():
            if name in text:
                text = text.replace("--id;", f"{option};")
        return CommandError(text)

    def of_table(self, table: "Table") -> dict[str, Any]:
        """Return the columns of a table in memory, as parameters of ``fit``."""
        known = {**table.all_labels, **table.ids}
        return self._given(lambda name: known[name])

    def of_source(self, source: "Source") -> dict[str, Any]:
        """Return the columns of a table that stays on disk, read by themselves."""
        return self._given(source.aside)

    @property
    def parameters(self) -> dict[str, str]:
        """The columns, by the parameters of ``fit`` that they are."""
        named = {"sample_weight": self.weights, "batch": self.batch}
        return {key: name for key, name in named.items() if name is not None}

    def _given(self, column: Any) -> dict[str, Any]:
        return {key: column(name) for key, name in self.parameters.items()}


def set_missing(estimator: Any, how: Impute | None) -> None:
    """Tell the method what to do about missing values, so that a saved one knows; or refuse."""
    if how not in ESTIMATES:
        return
    from jointsparse.cli.options.arguments import name_of

    inner = getattr(estimator, "estimator", estimator)
    if "missing" not in inner.get_params() or estimator._needs().samples:
        raise CommandError(
            f"{name_of(estimator)} looks at the samples themselves, and --missing {how.value} "
            "estimates their scatter matrix only: use --missing mean, or another method, such as "
            "spca-psd"
        )
    inner.set_params(missing=how.value)


def weighed(
    values: Any, given: dict[str, Any], how: Impute | None, scale: Scale, estimator: Any
) -> tuple[Any, str, list[str]]:
    """Return what to fit, in words how it was scaled, and notes.

    Parameters
    ----------
    values : ndarray or sparse matrix of shape (n_samples, n_features)
        The table, transformed but not scaled.
    given : dict
        Weights and batches, as in ``fit``.
    how : Impute or None
        What to do about missing values that are still there.
    scale : Scale
        How columns are made comparable, after weights and batches.
    estimator : estimator
        What is to be fitted.
    """
    from jointsparse.moments import Moments
    from jointsparse.sources.in_memory import ArraySource

    estimate = how in ESTIMATES
    if estimate and scale is Scale.ROBUST:  # quartiles of what is there; then there are only sums
        values, _ = scale_columns(values, scale)
    table = _prepared(ArraySource(values), given, how.value if how and estimate else "error")
    if table.mixed and estimator._needs().samples:
        raise CommandError(_COUNTS_ONLY)
    notes = [str(found) for found in (table.missing, table.batches) if found is not None]
    if table.estimate is None and table.samples.array is not None:
        values, words = scale_columns(table.samples.array, scale)
        return of_origin(values, table.origin), words, notes
    moments = Moments.of_prepared(table)
    scaled = {Scale.NONE: "not scaled", Scale.ROBUST: "scaled by median and quartiles"}
    if scale is Scale.STANDARD:
        moments = moments.standardised()
    elif scale is Scale.ROBUST and not estimate:
        raise CommandError(
            "--scale robust needs a dense table; use standard or none for sparse data"
        )
    return moments, scaled.get(scale, "standardised"), notes


_COUNTS_ONLY = (
    "the method looks at the samples themselves, so --weights has to hold whole numbers: how often "
    "each sample is there; other weights are for methods such as spca-psd"
)


def weighed_source(source: "Source", given: dict[str, Any], reading: Any) -> "Prepared":
    """Return a table that stays on disk, with weights and without batches, and what they were."""
    from jointsparse.methods.reading.plan import Reading
    from jointsparse.preparation import Prepared

    if not given:
        return Prepared(source)
    table: Prepared = _prepared(source, given, "error")
    if table.mixed and reading is not Reading.MOMENTS:
        raise CommandError(_COUNTS_ONLY)
    return table


def _prepared(samples: Any, given: dict[str, Any], missing: str) -> Any:
    from jointsparse.preparation import prepared

    try:
        return prepared(samples, missing=missing, **given)
    except ValueError as error:
        raise told(error) from error
