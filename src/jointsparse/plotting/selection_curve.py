"""What the kept features account for, feature by feature, against principal components."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from jointsparse.plotting._fitted import before_last, fitted_with
from jointsparse.plotting._style import ACCENT, FAINT, QUIET_TEXT, STRONG, clean_axes, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class SelectionCurveDisplay:
    """What the first kept feature, the first two, … account for in this table, and PCA.

    The distance between the two curves is the price of keeping original features. Both are of the
    samples that the features were chosen on: what they predict in new samples is in
    ``selection_report_``. Make it with :meth:`from_estimator`.

    Parameters
    ----------
    curve : array-like of shape (n_kept,)
        Share of the variance in this table that the best feature, the best two, … account for.
    pca_curve : array-like of shape (n_kept,), optional
        The same for the first principal component, the first two, ….
    random_r2 : float or array-like, optional
        R² of random sets as large as the kept one: their mean, or each of them for the spread.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the curves.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.
    line_, pca_line_ : matplotlib.lines.Line2D
        The curves; ``pca_line_`` is None if there is no PCA curve.
    random_point_ : matplotlib.lines.Line2D or None
        The point of the random sets, their mean.
    """

    ax_: Any
    figure_: Any
    line_: Any
    pca_line_: Any
    random_point_: Any

    def __init__(
        self,
        *,
        curve: ArrayLike,
        pca_curve: ArrayLike | None = None,
        random_r2: float | ArrayLike | None = None,
    ) -> None:
        self.curve = np.asarray(curve, dtype=float)
        self.pca_curve = None if pca_curve is None else np.asarray(pca_curve, dtype=float)
        self.random_r2 = None if random_r2 is None else np.atleast_1d(random_r2).astype(float)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, *, ax: "Axes | None" = None
    ) -> "SelectionCurveDisplay":
        """Draw the selection curve of a fitted selector.

        Parameters
        ----------
        estimator : estimator
            A fitted selector of this library, with a ``selection_curve_``, or a pipeline that ends
            with one.
        X : array-like of shape (n_samples, n_features), optional
            The samples of fit, where the estimator no longer has them (large data, or a pickle);
            for the curve of PCA and the random sets.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        SelectionCurveDisplay
            The display, drawn.
        """
        final = fitted_with(estimator, "selection_curve_", cls.__name__)
        report = (
            final.selection_report_
            if X is None
            else final.selection_report(before_last(estimator, X))
        )
        display = cls(
            curve=final.selection_curve_,
            pca_curve=report.pca_curve,
            random_r2=report.random_r2,
        )
        return display.plot(ax=ax)

    def plot(self, ax: "Axes | None" = None) -> "SelectionCurveDisplay":
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        SelectionCurveDisplay
            The display itself.
        """
        ax = new_axes(6.4, 3.6) if ax is None else ax
        self.ax_, self.figure_ = ax, ax.figure
        size = self.curve.size
        marker = "o" if size <= 30 else ""  # more markers than that are a thick line
        style: dict[str, Any] = {"marker": marker, "markersize": 4}
        self.pca_line_ = self.random_point_ = None
        if self.pca_curve is not None:
            (self.pca_line_,) = ax.plot(
                np.arange(1, self.pca_curve.size + 1),
                self.pca_curve,
                color=FAINT,
                label="as many principal components",
                **style,
            )
        (self.line_,) = ax.plot(
            np.arange(1, size + 1), self.curve, color=STRONG, label="kept features", **style
        )
        if self.random_r2 is not None:
            several = self.random_r2.size > 1
            self.random_point_, *_ = ax.errorbar(
                [size],
                [self.random_r2.mean()],
                yerr=[self.random_r2.std(ddof=1)] if several else None,
                fmt="x",
                color=ACCENT,
                label=f"{size} random features{', ± standard deviation' if several else ''}",
            )
        ax.set(xlabel="number of features kept", ylabel="share of the variance", ylim=(0, 1.02))
        words = "What the kept features account for in this table"
        ax.set_title(words, loc="left", fontsize="medium")
        locator: Any = ax.xaxis.get_major_locator()
        locator.set_params(integer=True)
        ax.legend(loc="lower right", frameon=False, labelcolor=QUIET_TEXT, fontsize="small")
        clean_axes(ax)
        return self
