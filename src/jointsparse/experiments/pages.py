"""Outcomes as Markdown and HTML pages with figures."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jointsparse.experiments.catalogue import experiments
from jointsparse.experiments.claims import VERDICTS, Outcome
from jointsparse.experiments.records import as_text, origin
from jointsparse.experiments.store import Finished
from jointsparse.io import atomic_path, atomic_set

CLAIM_HEADER = ("claim", "published", "found", "verdict", "reason")
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #ccc; padding: .3rem .7rem; text-align: left; }
img { max-width: 100%; } .reproduced { color: #06683b; } .not-reproduced { color: #a3122b; }
.close { color: #7a5a00; } .not-testable { color: #555; }
"""


def write_pages(
    folder: Path,
    name: str,
    title: str,
    outcome: Outcome,
    failures: Sequence[str] = (),
    done: Sequence[Finished] = (),
) -> list[Path]:
    """Write NAME.md, NAME.html, the figures and NAME.json of one experiment; return the files.

    Parameters
    ----------
    folder : Path
        Where to; made where it does not exist.
    name, title : str
        Name and title of the experiment.
    outcome : Outcome
        What it found.
    failures : sequence of str
        Messages of tasks that failed.
    done : sequence of Finished
        The tasks behind it; NAME.json keeps them, and the page says what computed them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    notes = page_notes(outcome, failures, done)
    with atomic_set():  # a page with the figures of another run would be worse than none
        figures = [
            _write_figure(folder / f"{name}-{key}.png", draw)
            for key, draw in outcome.figures.items()
        ]
        markdown = markdown_page(title, outcome, figures, notes)
        page = _html(title, outcome, figures, notes)
        return [
            _write(folder / f"{name}.md", markdown),
            _write(folder / f"{name}.html", page),
            *([_write(folder / f"{name}.json", as_text(name, done))] if done else []),
            *figures,
        ]


def page_notes(outcome: Outcome, failures: Sequence[str], done: Sequence[Finished]) -> list[str]:
    """Return what stands below the tables of a page."""
    return [*outcome.notes, *(f"Failed: {message}" for message in failures), *origin(done)]


def write_summary(
    folder: Path,
    outcomes: dict[str, tuple[str, Outcome]],
    versions: Mapping[str, Sequence[str]] | None = None,
) -> list[Path]:
    """Write summary.md, summary.html and summary.json, which count the claims of all experiments.

    Experiments of earlier runs that summary.json has stay in the tables: a run of a few brings
    only those up to date. The tables say with which versions each was computed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    known = _earlier(folder / "summary.json")
    for name, (title, outcome) in outcomes.items():
        known[name] = {
            "title": title,
            "claims": outcome.counts(),
            "versions": list((versions or {}).get(name, ())),
        }
    place = {name: number for number, name in enumerate(experiments())}
    order = sorted(known, key=lambda name: place.get(name, len(place)))
    counts = {name: [known[name]["claims"][v] for v in VERDICTS] for name in order}
    total = ("all", "", *(sum(column) for column in zip(*counts.values(), strict=True)), "")
    made = {name: ", ".join(known[name]["versions"]) for name in order}
    header = ("experiment", "what", *VERDICTS, "version")
    rows = [
        (f"[{name}]({name}.md)", known[name]["title"], *counts[name], made[name]) for name in order
    ]
    table = _markdown_table(header, [*rows, total])
    links = [
        (
            f'<a href="{html.escape(name)}.html">{html.escape(name)}</a>',
            html.escape(known[name]["title"]),
            *counts[name],
            html.escape(made[name]),
        )
        for name in order
    ]
    body = (
        f"<h1>Published claims, run again</h1>{_html_table(header, [*links, total], escaped=True)}"
    )
    body += f"<p>{html.escape(_origin())}</p>"
    record = json.dumps({name: known[name] for name in order}, indent=1, ensure_ascii=False)
    with atomic_set():
        return [
            _write(
                folder / "summary.md",
                f"# Published claims, run again\n\n{table}\n\n{_origin()}\n",
            ),
            _write(folder / "summary.html", _page("Published claims", body)),
            _write(folder / "summary.json", record + "\n"),
        ]


def _earlier(path: Path) -> dict[str, dict[str, Any]]:
    """Return the counts of earlier runs; nothing where there are none, or no such counts."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: {
                "title": str(one["title"]),
                "claims": {v: int(one["claims"][v]) for v in VERDICTS},
                "versions": [str(v) for v in one.get("versions", ())],
            }
            for name, one in known.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_page(path: Path, outcomes: Mapping[str, tuple[str, Outcome, Sequence[str]]]) -> Path:
    """Write all experiments on one page that needs no other file.

    Parameters
    ----------
    path : Path
        Where to.
    outcomes : dict of name to (title, outcome, notes)
        The experiments, in the order of the page.
    """
    title = "Published claims, run again"
    header = ("experiment", "what", *VERDICTS)
    rows = [
        (
            f'<a href="#{html.escape(name)}">{html.escape(name)}</a>',
            html.escape(heading),
            *outcome.counts().values(),
        )
        for name, (heading, outcome, _) in outcomes.items()
    ]
    parts = [f"<h1>{title}</h1>", _html_table(header, rows, escaped=True)]
    for name, (heading, outcome, notes) in outcomes.items():
        figures = [(key, _data_address(draw)) for key, draw in outcome.figures.items()]
        body = _html_body(heading, outcome, figures, [*outcome.notes, *notes], level=2)
        parts.append(f'<section id="{html.escape(name)}">{body}</section>')
    parts.append(f"<p>{html.escape(_origin('report'))}</p>")
    return _write(path, _page(title, "\n".join(parts)))


def _origin(command: str = "reproduce") -> str:
    return f"Made by jointsparse {command} on {datetime.now(UTC).date()}."


def cell(value: Any) -> str:
    """Return a number or text as it stands in a table."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def markdown_page(
    title: str, outcome: Outcome, figures: Sequence[Path], notes: Sequence[str]
) -> str:
    """Return the page of an experiment in Markdown; its figures lie beside it."""
    parts = [f"# {title}"]
    if outcome.claims:
        rows = [(c.statement, c.published, c.found, c.verdict, c.reason) for c in outcome.claims]
        parts.append(_markdown_table(CLAIM_HEADER, rows))
    for caption, header, table in outcome.tables:
        parts += [f"## {caption}", _markdown_table(header, table)]
    parts += [f"![{path.stem}]({path.name})" for path in figures]
    parts += notes
    return "\n\n".join(parts) + "\n"


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell(value).replace("|", "\\|") for value in line) + " |"
        for line in lines
    )


def _html(title: str, outcome: Outcome, figures: list[Path], notes: list[str]) -> str:
    pictures = [(path.stem, path.name) for path in figures]
    return _page(title, _html_body(title, outcome, pictures, notes))


def _html_body(
    title: str,
    outcome: Outcome,
    figures: Sequence[tuple[str, str]],
    notes: Sequence[str],
    level: int = 1,
) -> str:
    parts = [f"<h{level}>{html.escape(title)}</h{level}>"]
    if outcome.claims:
        rows = [
            (
                html.escape(c.statement),
                html.escape(c.published),
                html.escape(c.found),
                f'<b class="{c.verdict.replace(" ", "-")}">{c.verdict}</b>',
                html.escape(c.reason),
            )
            for c in outcome.claims
        ]
        parts.append(_html_table(CLAIM_HEADER, rows, escaped=True))
    for caption, header, table in outcome.tables:
        heading = f"<h{level + 1}>{html.escape(caption)}</h{level + 1}>"
        parts += [heading, _html_table(header, table)]
    parts += [f'<img src="{address}" alt="{html.escape(name)}">' for name, address in figures]
    parts += [f"<p>{html.escape(note)}</p>" for note in notes]
    return "\n".join(parts)


def _html_table(
    header: Sequence[str], rows: Sequence[Sequence[Any]], *, escaped: bool = False
) -> str:
    def line(tag: str, values: Sequence[Any], safe: bool) -> str:
        texts = (cell(v) if safe else html.escape(cell(v)) for v in values)
        return "<tr>" + "".join(f"<{tag}>{text}</{tag}>" for text in texts) + "</tr>"

    body = "\n".join(line("td", row, escaped) for row in rows)
    return f"<table>{line('th', header, False)}\n{body}</table>"


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>"
        f"<body>{body}</body></html>\n"
    )


def _write(path: Path, text: str) -> Path:
    with atomic_path(path) as temporary:
        Path(temporary).write_text(text, encoding="utf-8")
    return path


def _write_figure(path: Path, draw: Any) -> Path:
    with atomic_path(path) as temporary:
        Path(temporary).write_bytes(_drawn(draw))
    return path


def _data_address(draw: Any) -> str:
    return "data:image/png;base64," + base64.b64encode(_drawn(draw)).decode("ascii")


def _drawn(draw: Any) -> bytes:
    """Return a figure as a PNG file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
