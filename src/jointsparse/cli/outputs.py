"""Results that are tables of text and figures: checked before the work, written whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jointsparse.cli.arguments import check_outputs
from jointsparse.cli.errors import CommandError

FIGURE_SUFFIXES = (".png", ".svg", ".pdf")
_TEXT_SUFFIXES = (".csv", ".tsv", ".txt")


def check_result_paths(table: Path | None, figure: Path | None, data: str | None) -> None:
    """Refuse, before any work, names that could not be written at the end."""
    if table is not None and not table.name.lower().removesuffix(".gz").endswith(_TEXT_SUFFIXES):
        raise CommandError(f"--output writes text, so {table} must end in .csv, .tsv or .txt")
    check_outputs(table, None, data)
    if figure is None:
        return
    if figure.suffix.lower() not in FIGURE_SUFFIXES:
        raise CommandError(f"--figure: {figure} must end in {', '.join(FIGURE_SUFFIXES)}")
    if not figure.parent.is_dir():
        raise CommandError(f"{figure} cannot be written: there is no directory {figure.parent}")


def save_figure(path: Path, draw: Callable[[], Any]) -> None:
    """Draw without a screen, and write the figure whole or not at all."""
    import matplotlib

    from jointsparse.io import atomic_path

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure = draw()
    try:
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=150)
    finally:
        plt.close(figure)
