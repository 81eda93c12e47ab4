"""The model card of a run in markdown, filled from its numbers."""

from tasks.adapters.markdown import plain_markdown
from tasks.report.along_section import report_section
from tasks.report.card_pieces import facts, open_questions, table
from tasks.report.choice import (
    deciding_sentence,
    limit_sentences,
    policy_sentence,
    recoverability_sentence,
)
from tasks.report.contents import ReportData
from tasks.report.limits import limits_of
from tasks.report.tables import champion_grid
from tasks.report.text import finding_of, removed_words, task_sentence
from tasks.report.words import count, day, params_words, setting_words

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
