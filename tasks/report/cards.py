"""Pieces of a card in markdown; whatever comes from data is plain text in them."""

import re
from collections.abc import Mapping, Sequence

from tasks.report.choice import (
    deciding_sentence,
    limit_sentences,
    policy_sentence,
    recoverability_sentence,
)
from tasks.report.formatting import count, day, joined, params_words, setting_words
from tasks.report.model import ReportData
from tasks.report.narrative import finding_of, limits_of, removed_words, task_sentence
from tasks.report.profile_section import report_section
from tasks.report.tables import champion_grid
from tasks.storage.addresses import plain_markdown

OPEN = "Open: nobody has answered this yet."


def facts(known: Mapping[str, str]) -> str:
    """Return names with their values, those that are empty left out."""
    return "\n".join(
        f"- **{name}:** {_cell(value)}" for name, value in known.items() if value.strip()
    )


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [headings, ["---"] * len(headings), *([_cell(c) for c in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def open_questions(questions: Sequence[str]) -> str:
    """Return questions to people, each marked as open."""
    asked = "\n".join(f"{i}. {text} *{OPEN}*" for i, text in enumerate(questions, 1))
    return f"## Open questions\n\nOnly a person can answer these.\n\n{asked}"


def lowered(text: str) -> str:
    """Return markdown whose headings stand below those of a card."""
    return re.sub(r"^(#{1,4}) ", r"#\1 ", text, flags=re.MULTILINE).strip()


def _cell(text: str) -> str:
    """Return a text on one line in which nothing is markup."""
    return plain_markdown(" ".join(text.split()))


# What no run can know. A card is finished when people have answered these.
MODEL_QUESTIONS = (
    "Who is responsible for this model, and where do people turn with a complaint?",
    "For which decision is it meant, and who decides in the end, a person or the model?",
    "For what must it not be used?",
    "Who is affected, and were any of them asked?",
    "Why is this limit on the dependence enough, and who has set it?",
    "Which wrong predictions do most harm, and to whom?",
    "Why may the inputs that go along with the attribute be used at all?",
    "Which law applies, and who has checked it?",
    "Who looks at new rows, how often, and who may stop the model?",
)


def model_card(report: ReportData) -> str:
    """Return the card; questions that only a person can answer stand at its end, open."""
    parts = [
        f"# Model card: {plain_markdown(report.name)}",
        _plain(task_sentence(report)),
        "## Model",
        *_model(report),
        "## What it does",
        _plain(" ".join(finding_of(report).sentences)),
        *_numbers(report),
        *_along(report),
        "## Data",
        f"{count(report.data.rows_used)} {_plain(report.data.row_noun)} of "
        f"{_plain(report.problem)}; the [datasheet](datasheet.md) tells where they come from.",
        "## Checks",
        _checks(report),
        "## Limits and misuse",
        "\n".join(f"- **{_plain(one.title)}** {_plain(one.text)}" for one in limits_of(report)),
        open_questions(MODEL_QUESTIONS),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _model(report: ReportData) -> list[str]:
    """Return which model it is, how it was chosen."""
    champion, chosen = report.champion, report.chosen
    if champion is None or chosen is None:
        return [_plain(report.no_champion or "No model was chosen.")]
    params = params_words(chosen)
    return [
        facts(
            {
                "Method": setting_words(chosen) + (f" ({params})" if params else ""),
                "Registered as": champion.model_uri,
                "Verdict of the gate": champion.gate,
                "Decision of a person": report.promotion,
                "Removed": removed_words(report) or "nothing",
                "Asks for the attribute of a case": "yes" if chosen.needs_sensitive else "no",
                "Training rows inside its file": count(champion.stored_rows),
                "Made": f"{day(report.run.finished)}, fkd {report.run.versions.get('fkd', '')}",
                "Configuration": report.run.config_digest,
            }
        ),
        _plain(f"{policy_sentence(champion)} {deciding_sentence(champion)}"),
    ]


def _numbers(report: ReportData) -> list[str]:
    """Return the held-out numbers with their intervals, what can still be recovered."""
    if report.champion is None:
        return []
    grid = champion_grid(report, report.champion)
    rows = [[cell.text for cell in row.cells] for row in grid.rows]
    probes = [
        recoverability_sentence(report, column)
        for column in report.columns
        if any(row.column == column.name for row in report.recoverability)
    ]
    return [
        f"On {count(report.champion.rows_held_out)} held-out rows, in brackets 95 % intervals:",
        table(grid.headings, rows),
        _plain(" ".join((*limit_sentences(report), *probes))),
    ]


def _along(report: ReportData) -> list[str]:
    """Return who is treated how, column by column."""
    section = report_section(report)
    if section is None or not section.columns:
        return []
    told = [
        f"- **Along {_plain(one.column)}:** {_plain(' '.join(one.sentences))}"
        for one in section.columns
    ]
    return ["## Who is treated how", "\n".join(told)]


def _checks(report: ReportData) -> str:
    """Return every check with what was found."""
    rows = [
        [f"{one.check.code} {one.check.title}", str(one.outcome), one.said] for one in report.checks
    ]
    return table(("Check", "Outcome", "Found"), rows) if rows else "No checks were made."


def _plain(text: str) -> str:
    return plain_markdown(text)


# What no file says of itself, after the questions of Gebru et al. (2021).
DATA_QUESTIONS = (
    "For which purpose were these rows collected, by whom, paid by whom?",
    "Do the people in them know, and could they refuse?",
    "Who is missing, or there too seldom?",
    "How was the target measured, and does it mean the same for everybody?",
    "Is the target itself the outcome of unfair decisions?",
    "Who may see the rows, and when are they deleted?",
    "For what must they not be used?",
    "Who corrects a wrong row, and how?",
)


def data_card(report: ReportData) -> str:
    """Return the sheet; questions that only a person can answer stand at its end, open."""
    data = report.data
    parts = [
        f"# Datasheet: {plain_markdown(report.problem)}",
        "**These rows are synthetic.**" if data.synthetic else "",
        "## What the rows are",
        facts(
            {
                "A row is one of": data.row_noun,
                "Rows read": count(data.rows_read),
                "Rows used": count(data.rows_used),
                "Inputs": "" if data.inputs is None else count(data.inputs),
                "Predicted": _target(report),
                "Measured on": joined([column.words for column in report.columns]),
                "Removed": joined(report.removed),
                "Survey weight": data.survey_weight,
                "Licence": data.licence,
                "Digest of the prepared rows": report.run.data_digest,
            }
        ),
        "## Which rows were left out",
        _dropped(report),
        "## Columns that go along with the attribute",
        _proxies(report),
        "## Where they come from",
        table(("File", "sha256"), [[one.name, one.sha256 or "made up"] for one in data.files])
        if data.files
        else plain_markdown(data.source),
        lowered(data.datasheet),
        open_questions(DATA_QUESTIONS),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _target(report: ReportData) -> str:
    """Return what is predicted, in what it is counted."""
    unit = report.target.unit
    return report.target.title + (f", in {unit}" if unit else "")


def _dropped(report: ReportData) -> str:
    """Return how many rows were dropped for which reason."""
    found = report.data.rows_dropped
    if not found:
        return "None."
    return table(("Reason", "Rows"), [[why, count(number)] for why, number in found.items()])


def _proxies(report: ReportData) -> str:
    """Return the inputs most related to each measured column."""
    rows = [
        [column.words, name, f"{correlation:.2f}"]
        for column in report.columns
        for name, correlation in column.proxies
    ]
    return table(("Column", "Input", "Correlation"), rows) if rows else "None is known."
