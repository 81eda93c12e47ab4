"""Write the model card and the datasheet of a run as Markdown and HTML."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from tasks.report import narrative
from tasks.report.html import (
    count,
    day,
    joined,
    markdown_html,
    params_text,
    render_page,
    setting_text,
)
from tasks.report.model import ReportData
from tasks.report.profile_section import profiles_of
from tasks.report.tables import champion_table
from tasks.storage.files import write_atomic
from tasks.storage.settings import plain_markdown

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
