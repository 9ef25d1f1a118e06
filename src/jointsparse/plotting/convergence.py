"""Objective and proved gap while the solver runs."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jointsparse.plotting._fitted import fitted_with
from jointsparse.plotting._style import ACCENT, STRONG, clean_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Between two evaluations the last value stands: a sloping line would claim more than is known.
_LINE = {"color": STRONG, "drawstyle": "steps-post"}


class ConvergenceDisplay:
    """Objective against iteration and, where the solver proves it, the gap below.

    Make it with :meth:`from_estimator`.

    Parameters
    ----------
    objective : array-like of shape (n_points,)
        Best objective of a feasible point so far.
    gap : array-like of shape (n_points,), optional
        Relative duality gap: a proved upper bound on the distance to the optimum.
    iterations : array-like of int of shape (n_points,), optional
        Iteration of each point; 1, 2, … if not given.
    tol : float, optional
        Gap at which the solver stops.
    point_name : str, default="iteration"
        What is counted on the horizontal axis.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the objective.
    gap_ax_ : matplotlib.axes.Axes or None
        Axes with the gap, below; None if there is no gap.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.
    line_, gap_line_ : matplotlib.lines.Line2D
        The curves; ``gap_line_`` is None if there is no gap.
    """

    ax_: Any
    gap_ax_: Any
    figure_: Any
    line_: Any
    gap_line_: Any

    def __init__(
        self,
        *,
        objective: ArrayLike,
        gap: ArrayLike | None = None,
        iterations: ArrayLike | None = None,
        tol: float | None = None,
        point_name: str = "iteration",
    ) -> None:
        self.objective = _finite_or_nan(objective)
        self.gap = None if gap is None else _finite_or_nan(gap)
        self.iterations = (
            np.arange(1, self.objective.size + 1) if iterations is None else np.asarray(iterations)
        )
        self.tol = tol
        self.point_name = point_name

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, relative: bool = False, ax: "Axes | None" = None
    ) -> "ConvergenceDisplay":
        """Draw how a fitted estimator's solver converged.

        Parameters
        ----------
        estimator : estimator
            Any fitted estimator of this library, or a pipeline that ends with one.
        relative : bool
            Draw the distance to the final objective instead of the objective.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ConvergenceDisplay
            The display, drawn.
        """
        estimator = fitted_with(estimator, "history_", cls.__name__)
        history = estimator.history_
        gap = getattr(estimator, "gap_history_", None)
        display = cls(
            objective=history,
            gap=None if gap is None or len(gap) != len(history) else gap,
            tol=None if gap is None else getattr(estimator, "tol", None),
            # A solver that records only its checks has fewer records than iterations.
            point_name="iteration" if len(history) >= estimator.n_iter_ else "check of the solver",
        )
        return display.plot(ax=ax, relative=relative)

    def plot(self, ax: "Axes | None" = None, *, relative: bool = False) -> "ConvergenceDisplay":
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw. If there is a gap, the lower half of its place is used for it. A new
            figure by default.
        relative : bool
            Draw the distance to the final objective, relative to its size, on a logarithmic axis.

        Returns
        -------
        ConvergenceDisplay
            The display itself.
        """
        self.ax_, self.gap_ax_ = self._axes(ax)
        self.figure_ = self.ax_.figure
        self._plot_objective(relative)
        self.gap_line_ = None
        if self.gap_ax_ is not None:
            self._plot_gap()
            self.figure_.align_ylabels([self.ax_, self.gap_ax_])
        lowest = self.ax_ if self.gap_ax_ is None else self.gap_ax_
        lowest.set_xlabel(self.point_name)
        lowest.xaxis.get_major_locator().set_params(integer=True)
        return self

    def _axes(self, ax: "Axes | None") -> "tuple[Any, Any]":
        """Return the axes of the objective and of the gap (None without one)."""
        has_gap = self.gap is not None
        if ax is None:
            import matplotlib.pyplot as plt

            rows = 2 if has_gap else 1
            size = (6.4, 1.2 + 2.0 * rows)
            _, axes = plt.subplots(rows, 1, figsize=size, sharex=True, layout="constrained")
            return (axes[0], axes[1]) if has_gap else (axes, None)
        if not has_gap:
            return ax, None
        from mpl_toolkits.axes_grid1 import make_axes_locatable

        lower = make_axes_locatable(ax).append_axes("bottom", size="100%", pad=0.15, sharex=ax)
        ax.tick_params(axis="x", labelbottom=False)
        return ax, lower

    def _plot_objective(self, relative: bool) -> None:
        title = "Best objective found so far"
        values, label = self.objective, "objective"
        if relative:
            title = "Distance of the objective to its final value"
            values, label = _relative_to_last(self.objective), "relative distance"
        (self.line_,) = self.ax_.plot(self.iterations, values, marker=self._marker(), **_LINE)
        if relative:
            _use_log_axis(self.ax_, values)
        self.ax_.set_ylabel(label)
        self.ax_.set_title(title, loc="left", fontsize="medium")
        self.ax_.ticklabel_format(axis="x", style="plain")
        clean_axes(self.ax_)

    def _plot_gap(self) -> None:
        assert self.gap is not None
        ax = self.gap_ax_
        # An exact zero has no place on a logarithmic axis; show it as the smallest number there.
        values = np.maximum(self.gap, np.finfo(float).eps)
        (self.gap_line_,) = ax.plot(self.iterations, values, marker=self._marker(), **_LINE)
        _use_log_axis(ax, values)
        if self.tol:
            ax.axhline(self.tol, color=ACCENT, linewidth=1, linestyle="--")
            ax.annotate(
                "tolerance",
                (0.01, self.tol),
                xycoords=("axes fraction", "data"),
                xytext=(0, 3),
                textcoords="offset points",
                color=ACCENT,
                fontsize="small",
            )
        ax.set_ylabel("relative gap (proved)")
        clean_axes(ax)

    def _marker(self) -> str:
        # A line needs two points to be seen.
        return "o" if self.objective.size == 1 else ""


def _use_log_axis(ax: "Axes", values: NDArray[np.float64]) -> None:
    # matplotlib warns about a logarithmic axis on which there is nothing to show.
    if (values > 0).any():
        ax.set_yscale("log", nonpositive="mask")


def _finite_or_nan(values: ArrayLike) -> NDArray[np.float64]:
    """Return the values as floats; what is not finite (or None) is left out of the drawing."""
    array = np.asarray(values, dtype=float).ravel()
    return np.where(np.isfinite(array), array, np.nan)


def _relative_to_last(objective: NDArray[np.float64]) -> NDArray[np.float64]:
    finite = objective[np.isfinite(objective)]
    if finite.size == 0:
        return objective
    return np.abs(objective - finite[-1]) / max(abs(finite[-1]), np.finfo(float).tiny)
