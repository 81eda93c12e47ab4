"""The report of an experiment: one HTML file that needs nothing else."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from tasks.report.choice import (
    deciding_sentence,
    limit_sentences,
    person_sentences,
    policy_sentence,
    recoverability_sentence,
)
from tasks.report.figures import (
    CHOSEN_COLOUR,
    FLOOR_COLOUR,
    FRONT_COLOUR,
    LIMIT_COLOUR,
    Panel,
    Series,
    bar_words,
    interactive,
    panels_of,
    still,
    style_of,
    y_range,
)
from tasks.report.formatting import (
    count,
    day,
    duration,
    joined,
    params_words,
    setting_words,
    with_std,
)
from tasks.report.limit_section import limit_section
from tasks.report.model import ReportData, SensitiveColumn
from tasks.report.narrative import finding_of, limits_of, task_sentence, tiles_of
from tasks.report.page_pieces import image_address, markdown_html, page_template, resource
from tasks.report.profile_section import burden_sentences, report_section
from tasks.report.tables import champion_grid, parameters_of, trial_grid, within_tables
from tasks.storage.files import write_atomic


@dataclass(frozen=True)
class ReportFiles:
    """Where a report was written."""

    html: Path
    figures: tuple[Path, ...]


@dataclass(frozen=True)
class ColumnFigures:
    """The figures on one sensitive column."""

    column: SensitiveColumn
    panels: tuple[Panel, ...]
    png: bytes
    file_name: str

    @property
    def ids(self) -> list[str]:
        """The panels' element ids."""
        return [f"{Path(self.file_name).stem}-{i}" for i, _ in enumerate(self.panels)]

    @property
    def image(self) -> str:
        """The PNG as an address that needs no file."""
        return image_address(self.png)

    @property
    def series(self) -> tuple[Series, ...]:
        """The series of all panels, each once."""
        found = {series.label: series for panel in self.panels for series in panel.series}
        return tuple(found.values())


def render(report: ReportData, folder: Path) -> ReportFiles:
    """Write report.html with one PNG per measured column beside it; return their paths."""
    figures = column_figures(report)
    for figure in figures:
        write_atomic(folder / figure.file_name, figure.png)
    page = folder / "report.html"
    write_atomic(page, to_html(report, figures).encode())
    return ReportFiles(page, tuple(folder / figure.file_name for figure in figures))


def column_figures(report: ReportData) -> tuple[ColumnFigures, ...]:
    """Return the figures of every measured column that has a number to show."""
    found = []
    for i, column in enumerate(report.columns):
        panels = panels_of(report, column)
        if panels:
            png = still(panels, title=f"{report.problem}: dependence on {column.words}")
            found.append(ColumnFigures(column, panels, png, _file_name(report, i)))
    return tuple(found)


def _file_name(report: ReportData, i: int) -> str:
    """Return a name that any file system takes, different for every column."""
    slugs = [re.sub(r"[^A-Za-z0-9_]+", "-", c.name).strip("-") for c in report.columns]
    slug = slugs[i] if slugs[i] and slugs.count(slugs[i]) == 1 else f"{slugs[i]}-{i}".strip("-")
    return f"fronts-{slug}.png"


def to_html(report: ReportData, figures: Iterable[ColumnFigures]) -> str:
    """Return the page; every value from data is escaped by the template."""
    figures = tuple(figures)
    scripts = {
        "plotly": _clean(get_plotlyjs()),
        "page": _clean(resource("tasks.report", "report.js")),
    }
    return page_template("tasks.report", "report.html.j2").render(
        report=report,
        figures=figures,
        policy=_content_policy(scripts.values()),
        css=Markup(resource("tasks.report", "report.css")),
        scripts={name: Markup(text) for name, text in scripts.items()},
        panels=_json({i: p for figure in figures for i, p in _interactive(figure)}),
        words=_words(report),
        bars=bar_words(report.trials),
        trials=trial_grid(report),
        parameters=parameters_of(report),
        chosen=champion_grid(report, report.champion) if report.champion else None,
        within=within_tables(report),
        along=report_section(report),
        movable=limit_section(report),
        datasheet=markdown_html(report.data.datasheet, deeper=3),
        count=count,
        day=day,
        duration=duration,
        joined=joined,
        params_words=params_words,
        setting_words=setting_words,
        style_of=style_of,
        colours={
            "front": FRONT_COLOUR,
            "chosen": CHOSEN_COLOUR,
            "floor": FLOOR_COLOUR,
            "limit": LIMIT_COLOUR,
        },
        with_std=with_std,
    )


def _words(report: ReportData) -> dict[str, Any]:
    """Return the computed sentences."""
    finding = finding_of(report)
    return {
        "broken": finding.broken,
        "summary": [task_sentence(report), *finding.sentences, *burden_sentences(report)],
        "tiles": tiles_of(report),
        "policy": policy_sentence(report.champion) if report.champion else "",
        "deciding": deciding_sentence(report.champion) if report.champion else "",
        "kept": limit_sentences(report),
        "person": person_sentences(report),
        "limits": limits_of(report),
        "probes": {
            column.name: recoverability_sentence(report, column)
            for column in report.columns
            if any(row.column == column.name for row in report.recoverability)
        },
    }


def _interactive(figure: ColumnFigures) -> list[tuple[str, Any]]:
    """Element id, plotly figure of every panel."""
    limits = y_range(figure.panels)
    drawn = [json.loads(interactive(panel, y_limits=limits).to_json()) for panel in figure.panels]
    return list(zip(figure.ids, drawn, strict=True))


def _json(value: object) -> Markup:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _clean(script: str) -> str:
    """Return the script as a browser will hash it."""
    return "\n" + script.replace("\r\n", "\n").strip() + "\n"


def _content_policy(scripts: Iterable[str]) -> str:
    """Only our own scripts run; nothing is ever fetched."""
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
