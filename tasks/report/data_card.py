"""The datasheet of a run's rows in markdown, filled from what was read."""

from tasks.adapters.markdown import plain_markdown
from tasks.report.card_pieces import facts, lowered, open_questions, table
from tasks.report.contents import ReportData
from tasks.report.words import count, joined

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
