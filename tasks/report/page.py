"""Write the report of a run: one HTML file, PNG figures and cards.

The page consists of sections. To add a section, write a function that returns the variables of its
template, add it to `SECTIONS`, and add the template `templates/sections/NAME.html.j2`.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from configs.errors import UserError
from tasks.plan.trials import record_key
from tasks.report.cards import write_cards
from tasks.report.figures import (
    CHOSEN_COLOUR,
    FLOOR_COLOUR,
    FRONT_COLOUR,
    LIMIT_COLOUR,
    Panel,
    Series,
    bars_sentence,
    draw,
    panel_svg,
    panels_of,
    png_bytes,
    style_of,
    y_range,
)
from tasks.report.formatting import count, params_text, setting_text, shown
from tasks.report.html import markdown_html, page_template, render_page, resource
from tasks.report.limit_section import figures_of, limits_of
from tasks.report.model import ReportData, SensitiveColumn, report_data, with_curves
from tasks.report.narrative import (
    broken_limits,
    cautions_of,
    deciding_sentence,
    finding_of,
    limit_sentences,
    person_sentences,
    policy_sentence,
    recoverability_sentence,
    task_sentence,
    tiles_of,
)
from tasks.report.profile_section import burden_sentences, profiles_of
from tasks.report.tables import champion_table, parameters_of, trial_table, within_tables
from tasks.select.champion import select_champion
from tasks.select.study import Study
from tasks.storage.files import sha256, write_atomic
from tasks.storage.records import digest
from tasks.storage.store import open_store
from tasks.track.client import TrackingUnreachableError
from tasks.track.registry import versions_of
from tasks.track.run_index import recorded, share_run, take_folder

_Content = Mapping[str, Any] | None


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Parameters
    ----------
    name
        The id of the section and the name of its template.
    title, link
        The heading and the text in the navigation.
    content
        Function that returns the variables of the template, or None to omit the section.
    """

    name: str
    title: str
    link: str
    content: Callable[[ReportData], _Content]


def _checks(report: ReportData) -> _Content:
    return {} if report.checks else None


def _trade_off(report: ReportData) -> _Content:
    figures = []
    for column, panels in _column_panels(report):
        limits = y_range(panels)
        drawn = [
            (panel, panel_svg(panel, limits), _floor_sentence(report, panel)) for panel in panels
        ]
        series = {series.label: series for panel in panels for series in panel.series}
        figures.append(
            {
                "column": column,
                "series": [*series.values()],
                "panels": drawn,
                "floor": any(panel.floor for panel in panels),
                "limit": any(panel.limit is not None for panel in panels),
                "needs_sensitive": any(one.needs_sensitive for one in series.values()),
            }
        )
    colours = {
        "front": FRONT_COLOUR,
        "chosen": CHOSEN_COLOUR,
        "floor": FLOOR_COLOUR,
        "limit": LIMIT_COLOUR,
    }
    bars = bars_sentence(report.trials)
    known = {"figures": figures, "bars": bars, "style_of": style_of, "colours": colours}
    return known if figures else None


def _floor_sentence(report: ReportData, panel: Panel) -> str:
    """Return an explanation of the noise floor of a panel, empty if it has none."""
    if not panel.floor or not report.champion:
        return ""
    return (
        f"On {count(report.champion.rows_held_out)} independent rows the estimate has a mean of "
        f"{float(panel.floor.mean):.2f} (line), and {100 * panel.floor.quantile:g} % of "
        f"{count(panel.floor.permutations)} permutations are below {float(panel.floor.upper):.2f} "
        "(band). Values in the band are compatible with independence."
    )


def _chosen(report: ReportData) -> _Content:
    if report.champion is None or report.chosen is None:
        return None
    return {
        "policy": policy_sentence(report.champion),
        "setting": setting_text(report.chosen),
        "params": params_text(report.chosen),
        "deciding": deciding_sentence(report.champion),
        "limits": limit_sentences(report),
        "numbers": champion_table(report, report.champion),
    }


def _move(report: ReportData) -> _Content:
    limits = limits_of(report)
    return {"limits": limits, "figures": figures_of(limits)} if limits else None


def _along(report: ReportData) -> _Content:
    profiles = profiles_of(report)
    return {"profiles": profiles} if profiles else None


def _within(report: ReportData) -> _Content:
    tables = within_tables(report)
    return {"tables": tables} if tables else None


def _person(report: ReportData) -> _Content:
    sentences = person_sentences(report)
    return {"sentences": sentences} if sentences else None


def _recoverable(report: ReportData) -> _Content:
    sentences = {
        column.name: sentence
        for column in report.columns
        if (sentence := recoverability_sentence(report, column))
    }
    return {"sentences": sentences, "shown": shown} if sentences else None


def _trials(report: ReportData) -> _Content:
    if not report.trials:
        return None
    return {"trials": trial_table(report), "parameters": parameters_of(report)}


def _failures(report: ReportData) -> _Content:
    return {} if report.failures else None


def _cautions(report: ReportData) -> _Content:
    return {"cautions": cautions_of(report)}


def _provenance(report: ReportData) -> _Content:
    return {"datasheet": markdown_html(report.data.datasheet, deeper=3)}


SECTIONS = (
    Section("checks", "Checks", "Checks", _checks),
    Section("trade-off", "The cost of fairness in accuracy", "Trade-off", _trade_off),
    Section("chosen", "The chosen model", "Chosen model", _chosen),
    Section("move", "Other limits", "Other limits", _move),
    Section("along", "Predictions and errors along the attribute", "Along the attribute", _along),
    Section("within", "Dependence within groups", "Within groups", _within),
    Section("person", "Information for persons concerned", "For persons concerned", _person),
    Section("recoverable", "Recoverability of the attribute", "Recoverability", _recoverable),
    Section("trials", "All trials", "All trials", _trials),
    Section("failures", "Failed trials", "Failed trials", _failures),
    Section("limits", "Limits and misuse", "Limits and misuse", _cautions),
    Section("provenance", "Provenance", "Provenance", _provenance),
)


@dataclass(frozen=True)
class ReportFiles:
    """The files of a report."""

    html: Path
    figures: tuple[Path, ...]


def write_report(study: Study, *, again: bool = False) -> Path:
    """Write report, figures and cards of a study and return the path of the report.

    Files are written only if their content would change. A shared store receives them as well.

    Parameters
    ----------
    study
        A study whose fits are stored.
    again
        Whether to write unchanged files as well.
    """
    take_folder(study)
    report = replace(report_data(study, curves=False), promotion=_promotion(study))
    store, name = open_store(study.settings), f"pages/{_report_key(study, report)}.json"
    stored = store.read(name)
    checksums: dict[str, str] = {} if stored is None else json.loads(stored)
    if again or not _unchanged(study.folder, checksums):
        report = with_curves(study, report)
        written = render(report, study.folder)
        paths = [written.html, *written.figures, *write_cards(report, study.folder)]
        checksums = {path.name: sha256(path.read_bytes()) for path in paths}
        store.write(name, json.dumps(checksums).encode())
    if study.settings.shared is not None:  # otherwise the files are beside the store
        share_run(study, checksums)
    return study.folder / "report.html"


def _promotion(study: Study) -> str:
    """Return who promoted the champion's version, when and why; empty if nobody did."""
    if recorded(study) is None:
        return ""
    try:
        key = select_champion(study).key
        versions = versions_of(study.settings, study.config.model)
    except TrackingUnreachableError:
        return (
            "The registry did not answer when this page was written. If a person promoted this "
            "model, run `fkd report` when the registry answers."
        )
    except UserError:  # no champion, or not registered yet
        return ""
    return " ".join(str(one.promotion) for one in versions if one.key == key and one.promotion)


def _report_key(study: Study, report: ReportData) -> str:
    """Return a digest of everything that decides the content of the files.

    The stored trials stand for the curves, which take most time and are computed only if needed.
    """
    fold = study.inputs.splits.held_out_fold(study.loaded.table)
    return digest(
        {
            "report": sha256(repr(report).encode()),
            "folder": study.config.name,
            "data": study.loaded.digest,
            "records": [record_key(trial, fold, study.inputs) for trial in study.trials],
            "seed": study.config.seed,
            "code": code_digest(),
        }
    )


@cache
def code_digest() -> str:
    """Return a digest of the code and the templates that decide the content of a page."""
    content = []
    for package in ("fkd", "tasks", "configs"):
        root = Path(str(files(package)))
        for path in sorted(root.rglob("*")):
            if path.suffix in (".py", ".j2", ".css", ".js"):
                content.append([str(path.relative_to(root)), sha256(path.read_bytes())])
    return digest(content)


def _unchanged(folder: Path, checksums: Mapping[str, str]) -> bool:
    """Return whether every file of a report has its checksum."""
    try:
        return bool(checksums) and all(
            sha256((folder / name).read_bytes()) == found for name, found in checksums.items()
        )
    except OSError:
        return False


def render(report: ReportData, folder: Path) -> ReportFiles:
    """Write report.html and one PNG file per measured column."""
    figures = []
    slugs = [re.sub(r"[^A-Za-z0-9_]+", "-", c.name).strip("-") for c in report.columns]
    for column, panels in _column_panels(report):
        i = report.columns.index(column)
        unique = slugs[i] and slugs.count(slugs[i]) == 1
        slug = slugs[i] if unique else f"{slugs[i]}-{i}".strip("-")
        figures.append(folder / f"fronts-{slug}.png")
        title = f"{report.problem}: dependence on {column.text}"
        write_atomic(figures[-1], png_bytes(draw(panels, title=title)))
    page = folder / "report.html"
    write_atomic(page, to_html(report).encode())
    return ReportFiles(page, tuple(figures))


def to_html(report: ReportData) -> str:
    """Return the page; the templates escape every value from data."""
    sections = []
    for section in SECTIONS:
        content = section.content(report)
        if content is not None:
            template = page_template("tasks.report", f"sections/{section.name}.html.j2")
            sections.append((section, Markup(template.render(report=report, **content))))
    script = f"\n{resource('tasks.report', 'report.js').strip()}\n"
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return render_page(
        "report.html.j2",
        title=report.title,
        # Only this script runs, and nothing is fetched.
        policy=(
            f"default-src 'none'; script-src 'sha256-{allowed}'; style-src 'unsafe-inline'; "
            "img-src data:; base-uri 'none'; form-action 'none'"
        ),
        report=report,
        sections=sections,
        series_keys=sorted(
            {series.key for _, panels in _column_panels(report) for series in _series(panels)}
        ),
        broken=broken_limits(report),
        summary=[task_sentence(report), *finding_of(report).sentences, *burden_sentences(report)],
        tiles=tiles_of(report),
        script=Markup(script),
    )


def _column_panels(report: ReportData) -> list[tuple[SensitiveColumn, tuple[Panel, ...]]]:
    """Return the panels of every measured column that has at least one."""
    found = [(column, panels_of(report, column)) for column in report.columns]
    return [(column, panels) for column, panels in found if panels]


def _series(panels: tuple[Panel, ...]) -> list[Series]:
    """Return the series of all panels."""
    return [series for panel in panels for series in panel.series]
