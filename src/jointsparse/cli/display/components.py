"""What the components of a fitted method are made of, as text and as JSON."""

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from jointsparse.cli.display.console import Glyphs
from jointsparse.cli.intake.fitting import Selection
from jointsparse.text import counted, visible

_MOST_COMPONENTS = 10
_STRONGEST = 6  # loadings of a component that are printed
_LISTED = 100  # loadings of a component in JSON: bounded however wide the table is


def component_records(selection: Selection) -> list[dict[str, Any]] | None:
    """Return share of the variance and strongest loadings of each component; None without any."""
    model = selection.model
    if not hasattr(model, "components_") or not hasattr(model, "explained_variance_ratio_"):
        return None
    names = selection.table.names
    records = []
    for row, share in zip(model.components_, model.explained_variance_ratio_, strict=True):
        strongest = abs(row).argsort(kind="stable")[::-1][:_LISTED]
        loadings = {names[int(j)]: float(row[j]) for j in strongest if row[j] != 0}
        records.append(
            {
                "explained_variance": float(share),
                "n_nonzero": int((row != 0).sum()),
                "loadings": loadings,
            }
        )
    return records


def print_components(console: Console, selection: Selection) -> None:
    """Print one line for each component: what it explains, what it is made of."""
    glyphs = Glyphs.for_console(console)
    records = component_records(selection) or []
    for number, record in enumerate(records[:_MOST_COMPONENTS], start=1):
        shown = list(record["loadings"].items())[:_STRONGEST]
        parts = [f"{value:+.2f} {visible(name)}" for name, value in shown]
        if record["n_nonzero"] > len(shown):
            parts.append(glyphs.ellipsis)
        heading = Text.assemble(
            (f"component {number}", "bold"),
            glyphs.separator,
            f"{record['explained_variance']:.1%} of the variance",
            glyphs.separator,
            f"{counted(record['n_nonzero'], 'loading')}",
        )
        console.print(heading, soft_wrap=True)
        console.print(Padding(Text(", ".join(parts) or "empty"), (0, 0, 0, 2)))
    if len(records) > _MOST_COMPONENTS:
        console.print(Text(f"{glyphs.ellipsis} and {len(records) - _MOST_COMPONENTS} more", "dim"))
