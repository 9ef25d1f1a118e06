"""``--report``: what ``select`` found as an HTML file, with the model's path through penalties."""

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jointsparse.cli.errors import CommandError
from jointsparse.cli.fitting import BUNDLED_NAME, Scale, Selection

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


def check_report(
    report: Path | None, others: list[Path | None], image_shape: tuple[int, int] | None
) -> None:
    """Make sure, before any work, that the report will have a place to go."""
    if report is None:
        if image_shape is not None:
            raise CommandError("--image-shape is for the pictures of a report: give --report too")
        return
    check_page_target(report, "--report")
    if report.resolve() in {path.resolve() for path in others if path is not None}:
        raise CommandError(f"{report} would replace the data or another result")


def check_page_target(page: Path, option: str) -> None:
    """Refuse a place where an HTML page cannot be written."""
    import os

    if page.suffix.lower() not in (".html", ".htm"):
        raise CommandError(f"{option} writes HTML, so {page} must end in .html")
    if not page.resolve().parent.is_dir():
        raise CommandError(f"{page} cannot be written: there is no directory {page.parent}")
    if page.is_dir() or not os.access(page if page.exists() else page.resolve().parent, os.W_OK):
        raise CommandError(f"{page} cannot be written: it is a directory or read-only")


def write_report(
    target: Path,
    selection: Selection,
    values: Any,
    *,
    source: str | None,
    label: str | None,
    image_shape: tuple[int, int] | None,
    points: int | None,
    reading: dict[str, Any],
) -> None:
    """Write the report of a finished selection.

    Parameters
    ----------
    target : Path
        Where to.
    selection : Selection
        The finished fit.
    values : array or sparse matrix
        The data of the fit, scaled.
    source, label : str or None
        Text of DATA and of ``--label``.
    image_shape : (int, int) or None
        Height and width, where the features are pixels.
    points : int or None
        Points of the regularisation path; 0 for none, None for as many as there is time for.
    reading : dict
        Other options of ``read_table``.
    """
    from jointsparse.io import TableError
    from jointsparse.report import Report

    table = selection.table
    path, note = _path(selection, values, points)
    try:
        report = Report.from_estimator(
            selection.estimator,
            values,
            table.labels,
            path=path,
            title=f"Which features matter: {selection.data}",
            feature_names=table.names,
            image_shape=image_shape,
            background=None if image_shape is None else table.values.mean(axis=0),
            data=selection.data,
            scaling=selection.scaling,
            seconds=selection.seconds,
            code=_code(selection, source, label, reading),
            notes=[*selection.notes, *([note] if note else [])],
            warnings=selection.warnings,
        )
        report.save(target)
    except (TableError, OSError) as error:
        raise CommandError(f"{target}: {str(error).rstrip('.')}") from error
    except ValueError as error:
        raise CommandError(str(error)) from error


def _path(
    selection: Selection, values: Any, points: int | None
) -> "tuple[RegularizationPath | None, str]":
    """Return the path and a note on what is missing of it."""
    estimator = selection.estimator
    if points == 0 or not hasattr(estimator, "emptying_penalty"):
        return None, ""
    if estimator.solver == "published":
        return None, "no regularisation path: the published solver has no exact zeros"
    if points is None and _FIRST_POINTS * selection.seconds > PATH_SECONDS:
        return None, (
            f"no regularisation path: the fit took {selection.seconds:.0f} s, and a path takes one "
            f"for each point; --path-points {PATH_POINTS} asks for it all the same"
        )
    return followed(estimator, values, points), ""


def followed(estimator: Any, values: Any, points: int | None) -> "RegularizationPath":
    """Return a path with most of its points where features enter or leave.

    Parameters
    ----------
    estimator : ConvexSelector
        Its penalties other than alpha are used.
    values : array or sparse matrix
        Samples.
    points : int or None
        How many; None: up to 24, while there is time.
    """
    import numpy as np

    from jointsparse.model_selection import regularization_path
    from jointsparse.moments import Moments

    moments, started = Moments.from_data(values), time.perf_counter()
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
    names = ("alphas", "penalties", "feature_scores", "objectives", "duality_gaps", "n_iter")
    parts = {
        name: np.concatenate([getattr(one, name), getattr(other, name)])[order] for name in names
    }
    return type(one)(**parts, feature_names=one.feature_names)


def _code(
    selection: Selection, source: str | None, label: str | None, reading: dict[str, Any]
) -> str:
    """Return the Python that does the same; file and column names are quoted as Python does."""
    from jointsparse.report.words import fit_line, import_lines

    imports = import_lines(selection.estimator)
    table = "load_breast_cancer_table()"
    home = "from jointsparse.datasets import load_breast_cancer_table"
    if selection.data != BUNDLED_NAME or source is not None:
        options = {"label": label, **reading}
        given = "".join(f", {name}={value!r}" for name, value in options.items() if value)
        table, home = f"read_table({source!r}{given})", "from jointsparse.io import read_table"
    imports.append(home)
    values = "table.values"
    if selection.scale in _SCALERS:
        scaler = _SCALERS[selection.scale]
        imports.append(f"from sklearn.preprocessing import {scaler}")
        sparse = not hasattr(selection.table.values, "ravel")
        values = f"{scaler}({'with_mean=False' if sparse else ''}).fit_transform(table.values)"
    fit = fit_line(selection.estimator)
    lines = [*sorted(imports), "", f"table = {table}", f"X = {values}", fit]
    return "\n".join([*lines, "print([table.names[j] for j in model.get_support(indices=True)])"])
