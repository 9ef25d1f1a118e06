"""Between parsing and printing: read, scale and fit by calling the library, keep the outcome."""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jointsparse.cli.display.console import error_console
from jointsparse.cli.display.progress import solver_progress
from jointsparse.cli.errors import SILENT_WARNINGS, CommandError, told
from jointsparse.cli.intake.codes import codes_told
from jointsparse.cli.intake.copies import copies_told
from jointsparse.cli.intake.symmetric import symmetric_told
from jointsparse.cli.options.arguments import name_of, parameters_of, quoted
from jointsparse.cli.options.tables import notes_in_options
from jointsparse.text import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jointsparse.cli.intake.streaming import StreamedTable
    from jointsparse.io import Table
    from jointsparse.io.columns.layout import Layout
    from jointsparse.methods.robust_steps import RobustStep
    from jointsparse.methods.sets.set_certificate import SetCertificate
    from jointsparse.selection_report import SelectionReport

BUNDLED_NAME = "breast cancer (bundled)"


class Scale(StrEnum):
    """How columns are made comparable before the fit."""

    STANDARD = "standard"
    NONE = "none"
    ROBUST = "robust"


class Transform(StrEnum):
    """What stands for the values while features are chosen."""

    LOG1P = "log1p"
    RANK = "rank"


_IN_WORDS = {Transform.LOG1P: "log(1 + x)", Transform.RANK: "normal scores of ranks"}


class Rule(StrEnum):
    """How a set of features is made from the scores."""

    GREEDY = "greedy"
    RESIDUAL = "residual"
    NORM = "norm"
    VARIANCE = "variance"
    SWAP = "swap"


class Impute(StrEnum):
    """What is done about missing values."""

    ERROR = "error"
    MEAN = "mean"
    MEDIAN = "median"
    PAIRWISE = "pairwise"
    EM = "em"


ESTIMATES = (Impute.PAIRWISE, Impute.EM)  # of the scatter matrix; nothing is filled


@dataclass(frozen=True)
class Selection:
    """A finished fit, with what the printing needs to know about it."""

    data: str
    table: "Table | StreamedTable"
    method: str
    scale: Scale
    scaling: str
    estimator: Any
    seconds: float
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    report: "SelectionReport | None" = None
    transform: Transform | None = None
    certificate: "SetCertificate | None" = None
    constraints: dict[str, Any] | None = None  # those that held, and what they cost
    step: "RobustStep | None" = None  # what made the samples robust

    @property
    def model(self) -> Any:
        """What was fitted: the estimator itself, or the method inside a wrapper."""
        return getattr(self.estimator, "estimator_", self.estimator)

    @property
    def curve(self) -> list[float]:
        """R² of the best kept feature, the best two, …; empty where the estimator has none."""
        curve: list[float] = list(getattr(self.estimator, "selection_curve_", ()))
        return curve

    @property
    def scores(self) -> "NDArray[Any]":
        """Score of each column."""
        scores: NDArray[Any] = self.estimator.feature_scores_
        return scores

    @property
    def kept(self) -> "NDArray[Any]":
        """Mask of the kept columns."""
        mask: NDArray[Any] = self.estimator.get_support()
        return mask


def load_table(
    data: str | None,
    layout: "Layout",
    impute: Impute | None,
    memory: str | None = None,
    *,
    estimates: bool = False,
) -> "Table":
    """Read the user's table, or the bundled one; with its holes where those are estimated over."""
    if impute in ESTIMATES and not estimates:
        raise CommandError(
            f"--missing {impute.value} estimates the scatter matrix, from which select works; use "
            "--missing mean here"
        )
    from jointsparse.io import TableError
    from jointsparse.io.budget import available_memory, parse_size
    from jointsparse.io.columns.reshaping import take_aside
    from jointsparse.io.reading import read_with

    try:
        if data is not None:
            limit = available_memory() if memory is None else parse_size(memory)
            table = read_with(
                Path(data), layout, impute=filling_of(impute), least_rows=2, memory=limit
            )
            if impute in ESTIMATES:
                table = _without_empty(table)
            table.notes[:] = notes_in_options(table.notes)
            table.notes.extend([*codes_told(table), *copies_told(table), *symmetric_told(table)])
            return table
        from jointsparse.datasets import load_breast_cancer_table

        table = load_breast_cancer_table()
        return take_aside(
            Path(BUNDLED_NAME), table, replace(layout, labels=_of_bundled(layout, table))
        )
    except (TableError, OSError) as error:
        raise told(error) from error


def _without_empty(table: "Table") -> "Table":
    """Leave out columns without a single value, as where missing values are filled."""
    import numpy as np
    import scipy.sparse as sp

    from jointsparse.io.errors import listed

    if sp.issparse(table.values):
        return table
    empty = np.isnan(table.values).all(axis=0)
    if not empty.any() or empty.all():
        return table
    names = [table.names[j] for j in np.flatnonzero(empty)]
    kept = table.select(np.flatnonzero(~empty))
    kept.notes.append(f"left out {counted(len(names), 'empty column')}: {listed(names)}")
    return kept


def filling_of(impute: Impute | None) -> str | None:
    """Return what the reader of tables calls it."""
    if impute in ESTIMATES:
        return "keep"
    return None if impute in (None, Impute.ERROR) else impute.value


def _of_bundled(layout: "Layout", table: "Table") -> tuple[str, ...]:
    """Return the labels of the bundled table, of which there is one."""
    if any(name != table.label_name for name in layout.labels):
        raise CommandError(f"the label column of the bundled table is {table.label_name}")
    return layout.labels


def check_table(table: "Table", estimator: Any) -> None:
    """Refuse tables in which what was asked for cannot be selected."""
    n_features = table.values.shape[1]
    check_count(parameters_of(estimator).get("n_features_to_select"), n_features)
    if not _any_column_varies(table.values):
        raise CommandError("every column is constant, so there is nothing to select")


def check_count(count: Any, n_features: int) -> None:
    """Refuse more features than there are; what is not a count says nothing."""
    if isinstance(count, int) and not isinstance(count, bool) and count > n_features:
        raise CommandError(f"cannot keep {counted(count, 'feature')}: the table has {n_features}")


def _any_column_varies(values: Any) -> bool:
    from scipy.sparse import issparse

    lowest, highest = values.min(axis=0), values.max(axis=0)
    if issparse(values):
        lowest, highest = lowest.toarray(), highest.toarray()
    return bool((lowest != highest).any())


def prepare(
    table: "Table", data: str | None, transform: Transform | None, scale: Scale
) -> tuple[Any, str]:
    """Return the values to fit, transformed and scaled, and in words what was done to them."""
    values = transformed(table.values, data or BUNDLED_NAME, transform, table.names)
    values, scaling = scale_columns(values, scale)
    return values, told_with(transform, scaling)


def told_with(transform: Transform | None, scaling: str) -> str:
    """Return in words what was done to the columns."""
    return scaling if transform is None else f"{_IN_WORDS[transform]}, {scaling}"


def transformed(values: Any, data: str, transform: Transform | None, names: list[str]) -> Any:
    """Return what stands for the values while features are chosen; they stay as they are."""
    from jointsparse.io import TableError

    if transform is Transform.LOG1P:
        from jointsparse.sources.views.logarithms import log1p

        try:
            return log1p(values, data, names)
        except TableError as error:
            raise told(error) from error
    if transform is Transform.RANK:
        from jointsparse.ranks import normal_scores

        return normal_scores(values)
    return values


def check_rule(rule: Rule | None, scale: Scale) -> None:
    """Refuse a rule that columns of equal variance leave nothing to go by."""
    if rule is Rule.VARIANCE and scale is Scale.STANDARD:
        raise CommandError(
            "--rule variance keeps the columns with the largest variances, and --scale standard "
            "makes all equal: add --scale none"
        )


def scale_columns(values: Any, scale: Scale) -> tuple[Any, str]:
    """Scale the columns with scikit-learn; also say in words what was done."""
    from scipy.sparse import issparse
    from sklearn.preprocessing import RobustScaler

    sparse = issparse(values)
    if scale is Scale.NONE:
        return values, "not scaled"
    if scale is Scale.STANDARD:
        words = "divided by standard deviations" if sparse else "standardised"
        return _standardised(values, centred=not sparse), words
    if sparse:
        raise CommandError(
            "--scale robust needs a dense table; use standard or none for sparse data"
        )
    return RobustScaler().fit_transform(values), "scaled by median and quartiles"


def _standardised(values: Any, *, centred: bool) -> Any:
    import numpy as np
    from sklearn.preprocessing import StandardScaler

    from jointsparse.numerics.variance import standard_deviations

    scaler = StandardScaler(with_mean=centred)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = scaler.fit_transform(values)
    try:
        standard_deviations(scaler.var_, 1)  # an infinite one would make NaN of its column
    except ValueError as error:
        raise told(error) from error
    return scaled


def of_origin(values: Any, origin: Any) -> Any:
    """Return a table together with what its rows are; as it is where they are samples."""
    from jointsparse.moments import Moments
    from jointsparse.sources import Source

    if origin is None or isinstance(values, Moments):
        return values
    if isinstance(values, Source):
        values.origin = origin
        return values
    return Moments.from_data(values, copy=False).made_of(origin)


def without_origin(values: Any) -> Any:
    """Return a table in memory that knows what its rows are as an array; others as they are."""
    from jointsparse.moments import Moments

    at_hand = isinstance(values, Moments) and values.has_samples and not values.elsewhere
    return values.data if at_hand else values


def origin_of(values: Any) -> Any:
    """Return what the rows of a table are, where it knows."""
    return getattr(values, "origin", None)


def fit(
    estimator: Any, values: Any, defaults: dict[str, Any], show_progress: bool
) -> tuple[float, list[str]]:
    """Fit the estimator; return the seconds it took and the warnings it gave.

    Parameters
    ----------
    estimator : estimator
        Unfitted.
    values : array, sparse matrix or Moments
        Data, scaled.
    defaults : dict
        Parameters of the method when none is given.
    show_progress : bool
        Whether to show a bar or lines on stderr.
    """
    from jointsparse.moments import Moments

    tol = parameters_of(estimator).get("tol")
    target = tol if isinstance(tol, float) else None
    bar = solver_progress(error_console(), target) if show_progress else nullcontext()
    started = time.perf_counter()
    with collect_warnings(estimator) as messages, bar:
        try:
            if isinstance(values, Moments):
                estimator.fit_moments(values)
            else:
                estimator.fit(values)
        except ValueError as error:
            raise told(error, method=name_of(estimator)) from error
        except TypeError as error:
            _blame_parameter(estimator, defaults, error)
            raise
    return time.perf_counter() - started, messages


def worth(
    estimator: Any, values: Any, *, show_progress: bool
) -> "tuple[SelectionReport | None, list[str]]":
    """Return what the kept features are worth, and the warnings about it; None where unknown."""
    bar = solver_progress(error_console(), None) if show_progress else nullcontext()
    with collect_warnings(estimator) as messages, bar:
        report = getattr(estimator, "selection_report_", None)
        if report is None and hasattr(estimator, "selection_report"):
            report = estimator.selection_report(values)  # of a table too large to be remembered
    return report, messages


def _blame_parameter(estimator: Any, defaults: dict[str, Any], error: TypeError) -> None:
    """Report a value of an unsuitable type as the cause; anything else is a bug."""
    for name, value in parameters_of(estimator).items():
        default = defaults.get(name)
        # A number in place of a word such as "auto" is usual, and 1 will do for 1.0.
        usual = isinstance(value, int | float) and not isinstance(default, bool | int)
        if type(value) is not type(default) and not usual:
            raise CommandError(
                f"--param {name}={value} does not suit the method; the default is {default!r}"
            ) from error


@contextmanager
def collect_warnings(estimator: Any) -> Iterator[list[str]]:
    """Collect each different warning of an estimator once, in the words of the command line."""
    from jointsparse.cli.words import in_options

    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for category in SILENT_WARNINGS:
            warnings.simplefilter("ignore", category)
        yield messages
    texts = (in_options(str(warning.message), name_of(estimator)) for warning in caught)
    messages.extend(dict.fromkeys(texts))


def nothing_kept_message(estimator: Any) -> str:
    """Say that nothing was kept and what to lower."""
    params = parameters_of(estimator)
    penalties = [f"{name} (now {params[name]})" for name in ("alpha", "eta") if name in params]
    hint = f": lower {' or '.join(penalties)} with --param" if penalties else ""
    return f"nothing was kept{hint}"


def data_name(data: str | None) -> str:
    """Name of the data in headings."""
    return BUNDLED_NAME if data is None else quoted(Path(data).name)[1:-1]
