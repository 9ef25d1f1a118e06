"""``--report``: what ``select`` found as an HTML file, with the model's path through penalties."""

import re
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jointsparse.cli.display.console import error_console
from jointsparse.cli.display.rendering import extremes_in_words
from jointsparse.cli.errors import CommandError, told
from jointsparse.cli.intake.fitting import Scale, Selection, Transform
from jointsparse.cli.intake.streaming import StreamedTable, first_labels
from jointsparse.cli.options.robustness import outlier_record
from jointsparse.text import counted

if TYPE_CHECKING:
    from jointsparse.model_selection import RegularizationPath

PATH_POINTS = 24
PATH_SECONDS = 60.0  # by default a path that would take longer is left out, or cut short
_FIRST_POINTS = 8
_STRONGEST, _WEAKEST = 0.95, 1e-3
_SHAPE = re.compile(r"(\d+)\s*[x×,]\s*(\d+)")
_SCALERS = {Scale.STANDARD: "StandardScaler", Scale.ROBUST: "RobustScaler"}


def parse_image_shape(text: str | None) -> tuple[int, int] | None:
    """Read ``--image-shape``: height and width, such as 28x28."""
    if text is None:
        return None
    found = _SHAPE.fullmatch(text.strip())
    if found is None or not int(found[1]) * int(found[2]):
        raise CommandError(f"--image-shape takes height and width, such as 28x28, not '{text}'")
    return int(found[1]), int(found[2])


def check_pixels(image_shape: tuple[int, int] | None, n_features: int) -> None:
    """Refuse a picture that has not as many pixels as the table has features."""
    if image_shape is not None and image_shape[0] * image_shape[1] != n_features:
        size = "x".join(map(str, image_shape))
        raise CommandError(
            f"--image-shape {size} has {counted(image_shape[0] * image_shape[1], 'pixel')}, but "
            f"the table has {counted(n_features, 'feature')}"
        )


@dataclass(frozen=True)
class Request:
    """What the command line says about a report.

    Attributes
    ----------
    target : Path
        Where it goes.
    source : str or None
        Text of DATA.
    image_shape : (int, int) or None
        Height and width, where the features are pixels.
    points : int or None
        Points of the regularisation path; 0 for none, None for as many as there is time for.
    reading : dict
        Parameters of ``read_table``.
    show_progress : bool
        Whether to say on a terminal what is being done.
    weighing : dict
        Columns of weights and batches, by the parameters of ``fit``.
    estimated : bool
        Whether the scatter matrix is estimated over missing values.
    command : str
        The command that was given.
    """

    target: Path
    source: str | None
    image_shape: tuple[int, int] | None
    points: int | None
    reading: dict[str, Any]
    show_progress: bool
    weighing: dict[str, str] = field(default_factory=dict)
    estimated: bool = False
    command: str = ""


def write_report(request: Request, selection: Selection, values: Any) -> None:
    """Write the report of a finished selection; ``values`` are the data of the fit, scaled."""
    import numpy as np

    from jointsparse.moments import Moments
    from jointsparse.report import Report

    table, shape = selection.table, request.image_shape
    console = error_console()
    spinner: AbstractContextManager[Any] = nullcontext()
    if request.show_progress and console.is_terminal:
        spinner = console.status("following the model through penalties, for the report")
    with spinner:
        path, note = _path(selection, values, request.points)
    if isinstance(table, StreamedTable):  # then samples are at hand only if the method needs them
        samples, mean = values if hasattr(values, "__array__") else None, table.mean
        labels = None if samples is None else first_labels(table.source)
    else:
        samples, labels, mean = values, table.labels, np.nanmean(table.values, axis=0)
        if isinstance(values, Moments):  # estimated: no value of a sample is known
            samples = labels = None
        elif values.shape[0] != table.shape[0]:  # weights made other rows of them
            labels = None
    report = Report.from_estimator(
        selection.estimator,
        samples,
        labels,
        path=path,
        title=f"Which features matter: {selection.data}",
        feature_names=table.names,
        image_shape=shape,
        background=None if shape is None else mean,
        data=selection.data,
        scaling=selection.scaling,
        seconds=selection.seconds,
        code=_code(selection, request, values),
        command=request.command,
        original=getattr(table, "values", None),  # in their own units, where they are in memory
        sample_names=_sample_names(table, samples),
        notes=[*selection.notes, *([note] if note else []), *extremes_in_words(selection).values()],
        warnings=selection.warnings,
        certificate=selection.certificate,
        constraints=[] if selection.constraints is None else selection.constraints["words"],
        outliers=outlier_record(selection),
    )
    report.save(request.target)


def _sample_names(table: Any, samples: Any) -> Any:
    """Return the first IDs of the samples; None where there are none, or other rows."""
    ids = getattr(table, "ids", None)
    if not ids or samples is None or samples.shape[0] != table.shape[0]:
        return None
    return next(iter(ids.values()))


def _path(
    selection: Selection, values: Any, points: int | None
) -> "tuple[RegularizationPath | None, str]":
    """Return the path and a note on what is missing of it."""
    model = selection.model
    if points == 0 or not hasattr(model, "emptying_penalty"):
        return None, ""
    if getattr(model, "solver", "") == "published":
        return None, "no regularisation path: the published solver has no exact zeros"
    if points is None and _FIRST_POINTS * selection.seconds > PATH_SECONDS:
        return None, (
            f"no regularisation path: the fit took {selection.seconds:.0f} s, and a path takes one "
            f"for each point; --path-points {PATH_POINTS} asks for it all the same"
        )
    try:
        return followed(model, values, points), ""
    except ValueError as error:  # a method whose parameters leave no penalty to follow
        return None, f"no regularisation path: {told(error, method=selection.method)}"


def followed(estimator: Any, values: Any, points: int | None) -> "RegularizationPath":
    """Return a path with most of its points where features enter or leave.

    Parameters
    ----------
    estimator : estimator
        One that ``regularization_path`` takes; its other parameters are used.
    values : array, sparse matrix or Moments
        Samples, or their moments.
    points : int or None
        How many; None: up to 24, while there is time.
    """
    import numpy as np

    from jointsparse.model_selection import regularization_path
    from jointsparse.moments import Moments

    started = time.perf_counter()
    moments = values if isinstance(values, Moments) else estimator.moments_of(values)
    total = PATH_POINTS if points is None else points
    first = min(_FIRST_POINTS, total)
    path = regularization_path(estimator, moments, alphas=np.geomspace(_STRONGEST, _WEAKEST, first))
    while path.alphas.size < total:
        if points is None and 2 * (time.perf_counter() - started) > PATH_SECONDS:
            break
        wanted = min(total - path.alphas.size, 8)
        more = regularization_path(estimator, moments, alphas=_between(path, wanted))
        path = _merged(path, more)
    return path


def _between(path: "RegularizationPath", count: int) -> "list[float]":
    """Return new penalties in the intervals in which most features enter or leave."""
    import numpy as np

    changes = np.sum(path.supports[1:] != path.supports[:-1], axis=1).astype(float)
    # Where no feature comes or goes any more, the widest intervals are next.
    changes += 1e-3 * np.abs(np.diff(np.log(path.alphas)))
    parts = np.ones(changes.size, dtype=int)
    for _ in range(count):
        parts[np.argmax(changes / parts)] += 1
    return [
        float(alpha)
        for high, low, n in zip(path.alphas[:-1], path.alphas[1:], parts, strict=True)
        for alpha in np.geomspace(high, low, n + 1)[1:-1]
    ]


def _merged(one: "RegularizationPath", other: "RegularizationPath") -> "RegularizationPath":
    import numpy as np

    order = np.argsort(-np.concatenate([one.alphas, other.alphas]))
    parts = {field.name: getattr(one, field.name) for field in fields(one)}
    for name, part in parts.items():
        if name != "feature_names" and part is not None:
            parts[name] = np.concatenate([part, getattr(other, name)])[order]
    return type(one)(**parts)


def _code(selection: Selection, request: Request, values: Any) -> str:
    """Return the Python that does the same; file and column names are quoted as Python does."""
    from jointsparse.report.words import fit_line, import_lines

    imports = import_lines(selection.estimator)
    table = "load_breast_cancer_table()"
    home = "from jointsparse.datasets import load_breast_cancer_table"
    if request.source is not None:
        given = "".join(f", {name}={value!r}" for name, value in request.reading.items())
        table = f"read_table({request.source!r}{given})"
        home = "from jointsparse.io import read_table"
    imports.append(home)
    fit = fit_line(selection.estimator)
    if isinstance(selection.table, StreamedTable):
        return _streamed_code(selection, request, imports[:-1], values)
    columns = "table.values"
    sparse = not hasattr(selection.table.values, "ravel")
    if selection.transform is Transform.LOG1P:
        imports.append("import numpy as np")
        columns = f"np.log1p({columns})"
    elif selection.transform is Transform.RANK:
        imports.append("from jointsparse.ranks import normal_scores")
        columns = f"normal_scores({columns})"
    if request.weighing or request.estimated:  # scaled after these, by the selector itself
        beside = "".join(f", {name}=aside[{text!r}]" for name, text in request.weighing.items())
        fit = fit.replace(".fit(X)", f"{_scaling(selection)}.fit(X{beside})")
        lines = [*sorted(imports), "", f"table = {table}", f"X = {columns}"]
        lines += ["aside = {**table.all_labels, **table.ids}"] * bool(beside)
        shown = "print([table.names[j] for j in model.get_support(indices=True)])"
        return "\n".join([*lines, fit, shown])
    if selection.step is not None:
        imports.append(f"from jointsparse import {type(selection.step).__name__}")
        columns = f"{selection.step!r}.fit_transform({columns})"
    elif selection.scale in _SCALERS:
        scaler = _SCALERS[selection.scale]
        imports.append(f"from sklearn.preprocessing import {scaler}")
        columns = f"{scaler}({'with_mean=False' if sparse else ''}).fit_transform({columns})"
    lines = [*sorted(imports), "", f"table = {table}", f"X = {columns}", fit]
    return "\n".join([*lines, "print([table.names[j] for j in model.get_support(indices=True)])"])


def _scaling(selection: Selection) -> str:
    """Return the call that has the selector scale the columns; nothing where they stay."""
    if selection.scale is Scale.NONE:
        return ""
    return f".set_params(scale={selection.scale.value!r})"


def _streamed_code(selection: Selection, request: Request, imports: list[str], values: Any) -> str:
    """Return the Python that does the same without holding the table."""
    from jointsparse.moments import Moments
    from jointsparse.report.words import fit_line

    given = "".join(
        f", {name}={value!r}" for name, value in request.reading.items() if name != "impute"
    )
    step = selection.step
    scaled = selection.scale is not Scale.NONE and step is None
    opened = f"open_source({request.source!r}{given})"
    if selection.transform is Transform.LOG1P:
        imports = [*imports, "from jointsparse.sources.views.logarithms import Log1pSource"]
        opened = f"Log1pSource({opened})"
    if step is not None:
        imports = [*imports, f"from jointsparse import {type(step).__name__}"]
        opened = f"{step!r}.fit_transform({opened})"
    fit = fit_line(selection.estimator)
    columns = request.weighing.items()
    beside = "".join(f", {name}=samples.aside({text!r})" for name, text in columns)
    if beside and not isinstance(values, Moments):
        fit = fit.replace(".fit(X)", f"{_scaling(selection)}.fit(X{beside})")
        scaled = False  # but by the selector, after weights and batches
    if isinstance(values, Moments):
        imports = [*imports, "from jointsparse import Moments, open_source"]
        lines = [
            f"samples = {opened}",
            f"moments = Moments.from_data(samples{beside}){'.standardised()' if scaled else ''}",
            fit.replace(".fit(X)", ".fit_moments(moments)"),
        ]
    else:
        imports = [*imports, "from jointsparse import open_source"]
        imports += ["from jointsparse.sources.views.columnwise import standardised"] * scaled
        samples = f"standardised({opened}).source" if scaled else opened
        lines = [f"samples = {samples}", fit.replace(".fit(X", ".fit(samples")]
    assert isinstance(selection.table, StreamedTable)
    named = selection.table.source.feature_names is not None
    column = "samples.feature_names[j]" if named else "j"
    lines.append(f"print([{column} for j in model.get_support(indices=True)])")
    return "\n".join([*sorted(imports), "", *lines])
