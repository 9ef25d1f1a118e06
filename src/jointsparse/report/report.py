"""Report: what a fit found, as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from numbers import Real
from pathlib import Path
from platform import python_version
from typing import TYPE_CHECKING, Any

import numpy as np

from jointsparse.arrays import FloatArray
from jointsparse.io import StrPath, atomic_path
from jointsparse.methods import registry
from jointsparse.report.findings import Findings, PathPoints, PixelMaps
from jointsparse.report.gather import Fitted, sizes_of, worth_of
from jointsparse.report.outliers import outliers_from_record, outliers_of
from jointsparse.report.words import reproducing_code, wanted_words
from jointsparse.sources.door import as_samples
from jointsparse.text import visible

if TYPE_CHECKING:
    from jointsparse.methods.sets.set_certificate import SetCertificate
    from jointsparse.model_selection import RegularizationPath

_PACKAGES = ("jointsparse", "numpy", "scipy", "scikit-learn")


class Report:
    """What a fit found, as one HTML file that needs no network.

    The page begins with the verdict and its evidence; says in plain words what was asked and found;
    names every feature that was kept or dropped, with the reason and the share that it has in
    common with others; shows the regularisation path, the convergence and what is proved of the
    model; and ends with the Python that makes the fit again. It is bounded in size, however many
    features there are. Make it with :meth:`from_estimator`.

    Parameters
    ----------
    findings : Findings
        All that the page tells.

    Attributes
    ----------
    html : str
        The page.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from jointsparse import SPCAPSD, Report
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = make_pipeline(StandardScaler(), SPCAPSD(n_features_to_select=5)).fit(X)
    >>> report = Report.from_estimator(model, X, y, title="Five measurements")
    >>> report
    <Report 'Five measurements': 5 of 30 features kept>
    >>> path = report.save("report.html")  # doctest: +SKIP
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._page: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        path: RegularizationPath | None = None,
        title: str | None = None,
        feature_names: Sequence[str] | None = None,
        image_shape: tuple[int, int] | None = None,
        background: Any = None,
        data: str = "",
        scaling: str = "",
        seconds: float | None = None,
        code: str | None = None,
        command: str = "",
        original: Any = None,
        sample_names: Sequence[Any] | None = None,
        notes: Sequence[str] = (),
        warnings: Sequence[str] = (),
        certificate: SetCertificate | None = None,
        constraints: Sequence[Any] = (),
        outliers: dict[str, Any] | None = None,
    ) -> Report:
        """Make a report of a fitted estimator.

        The estimator stays as it is. What the kept features predict in new samples is measured by
        selecting again in parts of the samples, where the estimator does not know it yet.

        Parameters
        ----------
        estimator : estimator
            Fitted: a selector or component method of this library, any estimator with
            ``feature_scores_`` or ``components_``, or a pipeline that ends with one.
        X : array-like of shape (n_samples, n_features), optional
            The samples of fit, for what has to be measured on them. Without them the report has
            what the estimator still knows.
        y : array-like of shape (n_samples,), optional
            Classes, for cluster scores.
        path : RegularizationPath, optional
            Solutions for other penalties, from :func:`~jointsparse.regularization_path`.
        title : str, optional
            Heading of the page.
        feature_names : sequence of str, optional
            Names; by default those seen in fit.
        image_shape : (int, int), optional
            Height and width, where the features are the pixels of pictures, row by row.
        background : array-like of shape (n_features,), optional
            Picture under the kept pixels; the mean of X by default.
        data, scaling : str
            Name of the table; what was done to its columns, in words.
        seconds : float, optional
            Duration of the fit.
        code : str, optional
            Python that makes the fit again; by default made from the estimator.
        command : str
            What repeats it on a command line.
        original : array-like, optional
            The samples in their own units, where X is scaled, for the distributions; X itself by
            default.
        sample_names : sequence, optional
            Names of the samples; by default their numbers, counted from 1.
        notes, warnings : sequence of str
            What else the reader should know.
        certificate : SetCertificate, optional
            What is proved about the kept features, from :func:`~jointsparse.certify_set`; by
            default what the estimator itself knows.
        constraints : sequence
            What is said about the constraints, such as what they cost, from
            :func:`~jointsparse.constraint_prices`.
        outliers : dict, optional
            Outliers as ``select --json`` lists them; by default what the estimator, or a step of
            the pipeline, knows of them.

        Returns
        -------
        Report
        """
        fitted = Fitted(estimator, X, feature_names)
        if image_shape is not None:
            _take_shape(fitted, image_shape)
        worth = fitted.worth()
        features = fitted.features(worth)
        clusters = None if y is None else fitted.clusters(y)
        if isinstance(clusters, str):  # why there are none
            notes, clusters = [*notes, clusters], None
        return cls(
            Findings(
                title=visible(title or f"Which features matter{': ' if data else ''}{data}"),
                features=features,
                data=visible(data),
                n_samples=None if fitted.values is None else int(fitted.values.shape[0]),
                scaling=scaling,
                **_about(fitted),
                parameters=_parameters(estimator),
                worth=worth_of(worth),
                curves=fitted.curves(worth),
                sizes=sizes_of(worth),
                look=fitted.look(y, X if original is None else original, sample_names),
                components=fitted.components(),
                run=fitted.solver_run(seconds),
                proof=fitted.proof(certificate),
                constraints=[visible(str(text)) for text in constraints],
                clusters=clusters,
                path=None if path is None else _points(path, features.columns, fitted.model),
                outliers=outliers_from_record(outliers) or outliers_of(estimator),
                pixels=_pixels(fitted, image_shape, background, X, worth),
                notes=[visible(note) for note in notes],
                warnings=[visible(text) for text in [*warnings, *fitted.warnings]],
                code=reproducing_code(estimator) if code is None else code,
                command=command,
                made=versions(),
            )
        )

    @property
    def html(self) -> str:
        """The page."""
        if self._page is None:
            from jointsparse.report.page import render

            self._page = render(self.findings)
        return self._page

    def save(self, path: StrPath) -> Path:
        """Write the page, whole or not at all.

        Parameters
        ----------
        path : path-like
            Where to; an existing file is replaced.

        Returns
        -------
        Path
            Where it is.
        """
        page = self.html.encode("utf-8")
        with atomic_path(path) as temporary:
            temporary.write_bytes(page)
        return Path(path)

    def _repr_html_(self) -> str:
        """Show the page in a notebook, in a frame of its own."""
        return (
            '<iframe sandbox="allow-scripts allow-downloads" width="100%" height="800" '
            f'title="Report" srcdoc="{escape(self.html, quote=True)}"></iframe>'
        )

    def __repr__(self) -> str:
        features = self.findings.features
        kept = f"{features.n_kept} of {len(features)} features kept"
        return f"<Report {self.findings.title!r}: {kept}>"


def versions() -> dict[str, str]:
    """Return when a report is made, and with what."""
    made = {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "Python": python_version()}
    for package in _PACKAGES:
        try:
            made[package] = version(package)
        except PackageNotFoundError:  # run from a source tree
            continue
    return made


def _about(fitted: Fitted) -> dict[str, Any]:
    """Return what is known of the method: name, summary and source, and what was asked of it."""
    model = fitted.model
    method = registry.method_of(model)
    found = {"method": type(model).__name__, "summary": "", "source": ""}
    if method is not None:
        found["method"] += f" ({method.name})"
        found |= {"summary": method.summary, "source": method.source}
    asked = wanted_words(getattr(fitted.selector, "n_features_to_select", None))
    return {**found, "asked": asked, "supervised": getattr(model, "graph", "") == "lda"}


def _parameters(estimator: Any) -> dict[str, str]:
    """Return all parameters that are no estimators themselves, as text."""
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    return {
        visible(str(name)): visible(repr(value))[:500]
        for name, value in sorted(parameters.items())
        if not hasattr(value, "get_params") and name not in ("steps", "memory", "verbose")
    }


def _points(path: RegularizationPath, columns: Any, model: Any) -> PathPoints:
    used = getattr(model, "alpha_", None)
    empties = float(path.penalties[0] / path.alphas[0])
    if path.feature_scores.shape[1] != columns.size:
        raise ValueError(
            f"the path has {path.feature_scores.shape[1]} features, the estimator {columns.size}"
        )
    return PathPoints(
        alphas=path.alphas,
        penalties=path.penalties,
        scores=path.feature_scores[:, columns],
        gaps=path.duality_gaps,
        used=float(used) / empties if isinstance(used, Real) else None,
    )


def _take_shape(fitted: Fitted, shape: tuple[int, int]) -> None:
    """Check the shape of pictures, and name their pixels where they have no names."""
    (height, width), size = shape, fitted.scores.size
    if height * width != size:
        raise ValueError(
            f"image_shape={height}x{width} has {height * width} pixels, but there are "
            f"{size} features"
        )
    if fitted.names is None:
        fitted.names = [f"pixel ({i}, {j})" for i, j in np.ndindex(*shape)]


def _pixels(
    fitted: Fitted, shape: tuple[int, int] | None, background: Any, X: Any, worth: Any
) -> PixelMaps | None:
    if shape is None:
        return None
    size = fitted.scores.size
    if background is None and X is not None:
        background = as_samples(X).values.mean(axis=0)
    picture: FloatArray | None = None
    if background is not None:
        picture = np.asarray(background, dtype=np.float64).ravel()
        # A table that was centred has a mean without a picture in it.
        if np.ptp(picture) <= 1e-9 * (1 + np.abs(picture).max()):
            picture = None
    explained = None
    if worth is not None and worth.n_kept:
        explained = np.ones(size)
        explained[worth.stand_ins.dropped] = worth.stand_ins.r2_all
    return PixelMaps((int(shape[0]), int(shape[1])), picture, fitted.scores, fitted.kept, explained)
