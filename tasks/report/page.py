"""Write the report of a run: one HTML file, PNG figures and cards.

The page consists of sections. To add a section, write a function that returns its content, add it
to `SECTIONS`, and add the template `templates/sections/NAME.html.j2`, which shows the content.
"""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from configs.errors import UserError
from tasks.plan.trials import record_key
from tasks.report import figures, narrative, tables
from tasks.report.figures import Panel, panels_of
from tasks.report.html import (
    count,
    day,
    joined,
    markdown_html,
    params_text,
    render_page,
    resource,
    setting_text,
    templates,
)
from tasks.report.limit_section import limits_of
from tasks.report.model import ReportData, SensitiveColumn, report_data, with_curves
from tasks.report.profile_section import burden_sentences, profiles_of
from tasks.report.tables import champion_table
from tasks.select.champion import select_champion
from tasks.select.study import Study
from tasks.storage.files import sha256, write_atomic
from tasks.storage.records import digest
from tasks.storage.settings import plain_markdown
from tasks.storage.store import open_store
from tasks.track.client import TrackingUnreachableError
from tasks.track.registry import versions_of
from tasks.track.run_index import recorded, share_run, take_folder


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Parameters
    ----------
    name
        The id of the section and the name of its template.
    title
        The heading.
    content
        Function that returns what the template shows as `content`. An empty section is omitted.
    short
        The text in the navigation, if it is not the heading.
    """

    name: str
    title: str
    content: Callable[[ReportData], Any]
    short: str = ""


def _trade_off(report: ReportData) -> dict[str, Any]:
    """Return the figures of every measured column."""
    columns = []
    for column, panels in _column_panels(report):
        limits = figures.y_range(panels)
        svgs = [figures.panel_svg(panel, limits) for panel in panels]
        floors = [_floor_sentence(report, panel) for panel in panels]
        series = {series.label: series for panel in panels for series in panel.series}
        columns.append(
            {
                "column": column,
                "series": [(one, figures.style_of(one)) for one in series.values()],
                "panels": list(zip(panels, svgs, floors, strict=True)),
                "floor": any(panel.floor for panel in panels),
                "limit": any(panel.limit is not None for panel in panels),
                "needs_sensitive": any(one.needs_sensitive for one in series.values()),
            }
        )
    bars = figures.bars_sentence(report.trials)
    return {"columns": columns, "bars": bars, "colours": figures.COLOURS} if columns else {}


def _floor_sentence(report: ReportData, panel: Panel) -> str:
    """Return an explanation of the noise floor of a panel, empty if it has none."""
    if not panel.floor or not report.champion:
        return ""
    mean, upper = panel.floor
    return (
        f"On {count(report.champion.judgement.rows_held_out)} independent rows the estimate has a "
        f"mean of {mean:.2f} (line), and 95 % of 200 permutations are below {upper:.2f} (band). "
        "Values in the band are compatible with independence."
    )


def _chosen(report: ReportData) -> dict[str, Any]:
    """Return the rule that chose the champion and its held-out numbers."""
    if report.champion is None or report.chosen is None:
        return {}
    return {
        "policy": narrative.policy_sentence(report.champion),
        "setting": setting_text(report.chosen),
        "params": params_text(report.chosen),
        "deciding": narrative.deciding_sentence(report.champion),
        "limits": narrative.limit_sentences(report),
        "numbers": tables.champion_table(report, report.champion),
    }


def _recoverable(report: ReportData) -> list[tuple[SensitiveColumn, str, tables.Table]]:
    """Return the results of the probes of every column that has some."""
    return [
        (column, sentence, tables.probe_table(report, column))
        for column in report.columns
        if (sentence := narrative.recoverability_sentence(report, column))
    ]


def _trials(report: ReportData) -> tuple[tables.Table, dict[str, list[str]]] | None:
    """Return the table of trials and their parameters."""
    return (tables.trial_table(report), tables.parameters_of(report)) if report.trials else None


SECTIONS = (
    Section("checks", "Checks", lambda report: report.checks),
    Section("trade-off", "The cost of fairness in accuracy", _trade_off, "Trade-off"),
    Section("chosen", "The chosen model", _chosen, "Chosen model"),
    Section("move", "Other limits", limits_of),
    Section(
        "along", "Predictions and errors along the attribute", profiles_of, "Along the attribute"
    ),
    Section("within", "Dependence within groups", tables.within_tables, "Within groups"),
    Section(
        "person",
        "Information for persons concerned",
        narrative.person_sentences,
        "For persons concerned",
    ),
    Section("recoverable", "Recoverability of the attribute", _recoverable, "Recoverability"),
    Section("trials", "All trials", _trials),
    Section("failures", "Failed trials", lambda report: report.failures),
    Section("limits", "Limits and misuse", narrative.cautions_of),
    Section(
        "provenance",
        "Provenance",
        lambda report: {"datasheet": markdown_html(report.data.datasheet, deeper=3)},
    ),
)


def write_report(study: Study, *, again: bool = False) -> Path:
    """Write report, figures and cards of a study and return the path of the report.

    Files are written only if their content would change. A shared store receives them as well.

    Parameters
    ----------
    study
        A study whose fits are stored.
    again
        If True, write unchanged files as well.
    """
    take_folder(study)
    report = replace(report_data(study, curves=False), promotion=_promotion(study))
    store, name = open_store(study.settings), f"pages/{_report_key(study, report)}.json"
    stored = store.read(name)
    checksums: dict[str, str] = {} if stored is None else json.loads(stored)
    if again or not _unchanged(study.folder, checksums):
        report = with_curves(study, report)
        paths = [*render(report, study.folder), *write_cards(report, study.folder)]
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


def render(report: ReportData, folder: Path) -> list[Path]:
    """Write report.html and one PNG file per measured column; return the paths, the page first."""
    paths = [folder / "report.html"]
    write_atomic(paths[0], to_html(report).encode())
    slugs = [re.sub(r"[^A-Za-z0-9_]+", "-", c.name).strip("-") for c in report.columns]
    for column, panels in _column_panels(report):
        i = report.columns.index(column)
        unique = slugs[i] and slugs.count(slugs[i]) == 1
        slug = slugs[i] if unique else f"{slugs[i]}-{i}".strip("-")
        paths.append(folder / f"fronts-{slug}.png")
        drawn = figures.draw(panels, title=f"{report.problem}: dependence on {column.text}")
        write_atomic(paths[-1], figures.png_bytes(drawn))
    return paths


def to_html(report: ReportData) -> str:
    """Return the page; the templates escape every value from data."""
    sections = []
    for section in SECTIONS:
        content = section.content(report)
        if content:
            template = templates("tasks.report").get_template(f"sections/{section.name}.html.j2")
            sections.append((section, Markup(template.render(report=report, content=content))))
    script = f"\n{resource('report.js').strip()}\n"
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    found = narrative.finding_of(report)
    panels = [panel for _, column_panels in _column_panels(report) for panel in column_panels]
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
        series_keys=sorted({series.key for panel in panels for series in panel.series}),
        broken=found.broken,
        summary=[narrative.task_sentence(report), *found.sentences, *burden_sentences(report)],
        tiles=narrative.tiles_of(report),
        script=Markup(script),
    )


def _column_panels(report: ReportData) -> list[tuple[SensitiveColumn, tuple[Panel, ...]]]:
    """Return the panels of every measured column that has at least one."""
    found = [(column, panels_of(report, column)) for column in report.columns]
    return [(column, panels) for column, panels in found if panels]


OPEN = "Open: not answered yet."

MODEL_QUESTIONS = (
    "Who is responsible for this model, and who handles complaints?",
    "For which decision is it intended, and does a person or the model decide?",
    "For which purposes must it not be used?",
    "Who is affected, and were any of them consulted?",
    "Why is this limit on the dependence sufficient, and who set it?",
    "Which wrong predictions do most harm, and to whom?",
    "Why may inputs that are correlated with the attribute be used?",
    "Which law applies, and who has checked it?",
    "Who checks new rows, how often, and who may stop the model?",
)

# After the questions of Gebru et al. (2021).
DATA_QUESTIONS = (
    "For which purpose were these rows collected, by whom, and who paid for it?",
    "Do the people in the data know about it, and could they refuse?",
    "Who is missing or underrepresented?",
    "How was the target measured, and does it mean the same for everybody?",
    "Is the target itself the result of unfair decisions?",
    "Who may see the rows, and when are they deleted?",
    "For which purposes must they not be used?",
    "Who corrects a wrong row, and how?",
)


def write_cards(report: ReportData, folder: Path) -> list[Path]:
    """Write model card and datasheet, each as Markdown and as a page without a script."""
    written = []
    for name, title, text in (
        ("model_card", f"Model card: {report.name}", model_card(report)),
        ("datasheet", f"Datasheet: {report.problem}", data_card(report)),
    ):
        for ending, content in (("md", text), ("html", card_html(title, text))):
            written.append(folder / f"{name}.{ending}")
            write_atomic(written[-1], content.encode())
    return written


def card_html(title: str, text: str) -> str:
    """Return a card as a page; a link to the other card leads to its page."""
    body = str(markdown_html(text)).replace('href="datasheet.md"', 'href="datasheet.html"')
    return render_page("card.html.j2", title=title, body=Markup(body))


def model_card(report: ReportData) -> str:
    """Return the model card, which ends with open questions."""
    checks = [
        [f"{one.check.code} {one.check.title}", str(one.outcome), one.message]
        for one in report.checks
    ]
    profiles = profiles_of(report)
    along = [
        f"- **Along {plain_markdown(one.column)}:** {plain_markdown(' '.join(one.sentences))}"
        for one in (profiles.columns if profiles else ())
    ]
    cautions = [
        f"- **{plain_markdown(title)}** {plain_markdown(text)}"
        for title, text in narrative.cautions_of(report).items()
    ]
    return _card(
        f"# Model card: {plain_markdown(report.name)}",
        plain_markdown(narrative.task_sentence(report)),
        "## Model",
        *_model(report),
        "## Results",
        plain_markdown(" ".join(narrative.finding_of(report).sentences)),
        *_numbers(report),
        *(["## Predictions and errors along the attribute", "\n".join(along)] if along else []),
        "## Data",
        f"{count(report.data.rows_used)} {plain_markdown(report.data.row_noun)} of "
        f"{plain_markdown(report.problem)}; see the [datasheet](datasheet.md).",
        "## Checks",
        _table(("Check", "Outcome", "Result"), checks) or "No checks were made.",
        "## Limits and misuse",
        "\n".join(cautions),
        _open_questions(MODEL_QUESTIONS),
    )


def data_card(report: ReportData) -> str:
    """Return the datasheet, which ends with open questions."""
    data, unit = report.data, report.target.unit
    dropped = [[reason, count(number)] for reason, number in data.rows_dropped.items()]
    proxies = [
        [column.text, name, f"{correlation:.2f}"]
        for column in report.columns
        for name, correlation in column.proxies
    ]
    files = [[name, checksum or "synthetic"] for name, checksum in data.files]
    return _card(
        f"# Datasheet: {plain_markdown(report.problem)}",
        "**These rows are synthetic.**" if data.synthetic else "",
        "## Rows",
        _facts(
            {
                "A row is one of": data.row_noun,
                "Rows read": count(data.rows_read),
                "Rows used": count(data.rows_used),
                "Inputs": "" if data.inputs is None else count(data.inputs),
                "Target": report.target.title + (f", in {unit}" if unit else ""),
                "Measured on": joined([column.text for column in report.columns]),
                "Removed": joined(report.removed),
                "Survey weight": data.survey_weight,
                "Digest of the prepared rows": report.run.data_digest,
            }
        ),
        "## Rows left out",
        _table(("Reason", "Rows"), dropped) or "None.",
        "## Inputs correlated with the attribute",
        _table(("Column", "Input", "Correlation"), proxies) or "None is known.",
        "## Source",
        _table(("File", "sha256"), files) or plain_markdown(data.source),
        # The headings of the data's own sheet become subheadings.
        re.sub(r"^(#{1,4}) ", r"#\1 ", data.datasheet, flags=re.MULTILINE).strip(),
        _open_questions(DATA_QUESTIONS),
    )


def _model(report: ReportData) -> list[str]:
    """Return the facts about the model and the sentences on its choice."""
    champion, chosen = report.champion, report.chosen
    if champion is None or chosen is None:
        return [plain_markdown(report.no_champion or "No model was chosen.")]
    params = params_text(chosen)
    policy = f"{narrative.policy_sentence(champion)} {narrative.deciding_sentence(champion)}"
    return [
        _facts(
            {
                "Method": setting_text(chosen) + (f" ({params})" if params else ""),
                "Registered as": champion.model_uri,
                "Verdict of the gate": champion.gate,
                "Decision of a person": report.promotion,
                "Removed": narrative.removed_text(report) or "nothing",
                "Needs the attribute to predict": "yes" if chosen.needs_sensitive else "no",
                "Training rows in its file": count(champion.stored_rows),
                "Created": f"{day(report.run.finished)}, fkd {report.run.versions.get('fkd', '')}",
                "Configuration": report.run.config_digest,
            }
        ),
        plain_markdown(policy),
    ]


def _numbers(report: ReportData) -> list[str]:
    """Return the held-out numbers with their intervals, and the results of the probes."""
    if report.champion is None:
        return []
    numbers = champion_table(report, report.champion)
    probes = (narrative.recoverability_sentence(report, column) for column in report.columns)
    sentences = (*narrative.limit_sentences(report), *filter(None, probes))
    rows = count(report.champion.judgement.rows_held_out)
    return [
        f"On {rows} held-out rows, in brackets 95 % intervals:",
        _table(numbers.headings, [[cell.text for cell in row.cells] for row in numbers.rows]),
        plain_markdown(" ".join(sentences)),
    ]


def _card(*parts: str) -> str:
    """Return the parts as paragraphs."""
    return "\n\n".join(part for part in parts if part) + "\n"


def _facts(facts: Mapping[str, str]) -> str:
    """Return a list of names and values without empty values."""
    return "\n".join(
        f"- **{name}:** {_cell(value)}" for name, value in facts.items() if value.strip()
    )


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, empty if there are no rows."""
    lines = [headings, ["---"] * len(headings), *([_cell(c) for c in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if rows else ""


def _cell(text: str) -> str:
    """Return text on one line in which nothing is markup."""
    return plain_markdown(" ".join(text.split()))


def _open_questions(questions: Sequence[str]) -> str:
    """Return questions for people, each marked as open."""
    items = "\n".join(f"{i}. {text} *{OPEN}*" for i, text in enumerate(questions, 1))
    return f"## Open questions\n\nOnly a person can answer these.\n\n{items}"
