"""Kept features where they lie in a picture: pixels over an image."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from jointsparse.plotting._components import counted
from jointsparse.plotting._fitted import fitted_with
from jointsparse.plotting._style import ACCENT, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class FeatureMapDisplay:
    """Kept pixels in colour over a picture, or over the scores of all pixels.

    For tables whose features are the pixels of pictures, row by row. Make it with
    :meth:`from_estimator`.

    Parameters
    ----------
    support : array-like of bool of shape (n_features,)
        Which pixels were kept.
    image_shape : (int, int)
        Height and width.
    background : array-like of shape (n_features,), optional
        Picture below, such as the mean of the samples; one grey if not given.

    Attributes
    ----------
    ax_ : matplotlib.axes.Axes
        Axes with the picture.
    figure_ : matplotlib.figure.Figure
        Figure of the axes.
    image_ : matplotlib.image.AxesImage
        The picture below.
    marks_ : matplotlib.image.AxesImage
        The kept pixels: a masked array in which the others are masked.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from jointsparse import GreedySelector
    >>> from jointsparse.plotting import FeatureMapDisplay
    >>> X = load_digits().data
    >>> selector = GreedySelector(n_features_to_select=12).fit(X)
    >>> display = FeatureMapDisplay.from_estimator(selector, X, image_shape=(8, 8))
    >>> int(display.marks_.get_array().count())
    12
    """

    ax_: Any
    figure_: Any
    image_: Any
    marks_: Any

    def __init__(
        self,
        *,
        support: ArrayLike,
        image_shape: tuple[int, int],
        background: ArrayLike | None = None,
    ) -> None:
        self.support = np.asarray(support, dtype=bool)
        self.image_shape = image_shape
        self.background = None if background is None else np.asarray(background, dtype=float)
        height, width = image_shape
        for name, array in (("support", self.support), ("background", self.background)):
            if array is not None and array.size != height * width:
                raise ValueError(
                    f"image_shape={height}x{width} has {height * width} pixels, but {name} has "
                    f"{array.size}"
                )

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        image_shape: tuple[int, int],
        ax: "Axes | None" = None,
    ) -> "FeatureMapDisplay":
        """Draw the pixels that a fitted estimator keeps.

        Parameters
        ----------
        estimator : estimator
            Any fitted selector, or component method of this library, or a pipeline that ends with
            one.
        X : array-like or sparse matrix of shape (n_samples, n_features), optional
            Samples: their mean is the picture below. Without them, it is the scores.
        image_shape : (int, int)
            Height and width of the pictures.
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        FeatureMapDisplay
            The display, drawn.
        """
        from jointsparse.sources.door import as_samples

        estimator = fitted_with(estimator, "get_support", cls.__name__)
        background = getattr(estimator, "feature_scores_", None)
        if X is not None:
            mean = as_samples(X).values.mean(axis=0)
            background = np.asarray(mean, dtype=float).ravel()
        display = cls(
            support=estimator.get_support(), image_shape=image_shape, background=background
        )
        return display.plot(ax=ax)

    def plot(
        self, ax: "Axes | None" = None, *, cmap: str = "gray", color: str = ACCENT
    ) -> "FeatureMapDisplay":
        """Draw the picture.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; a new figure by default.
        cmap : str
            Colours of the picture below.
        color : str
            Colour of the kept pixels.

        Returns
        -------
        FeatureMapDisplay
            The display itself.
        """
        from matplotlib.colors import ListedColormap

        ax = new_axes(3.6, 3.9) if ax is None else ax
        self.ax_, self.figure_ = ax, ax.figure
        below = np.ones(self.support.size) if self.background is None else self.background
        limits = (0.0, 1.2) if self.background is None else (None, None)
        self.image_ = ax.imshow(
            below.reshape(self.image_shape), cmap=cmap, vmin=limits[0], vmax=limits[1]
        )
        marks = np.ma.masked_where(~self.support, np.ones(self.support.size))
        self.marks_ = ax.imshow(
            marks.reshape(self.image_shape), cmap=ListedColormap([color]), vmin=0, vmax=1
        )
        ax.set_xticks([])
        ax.set_yticks([])
        kept = int(self.support.sum())
        total = counted(self.support.size)
        ax.set_title(f"{counted(kept)} of {total} pixels kept", loc="left", fontsize="medium")
        return self
