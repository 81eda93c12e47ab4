"""Everything that people read of a run, written beside each other."""

from pathlib import Path

from markupsafe import Markup

from tasks.adapters.files import write_atomic
from tasks.report.audit_page import CONTENT_POLICY
from tasks.report.contents import ReportData
from tasks.report.data_card import data_card
from tasks.report.gather import report_data
from tasks.report.model_card import model_card
from tasks.report.page import render
from tasks.report.page_pieces import markdown_html, page_template, resource
from tasks.study.opening import Study


def write_report(study: Study) -> Path:
    """Return where the report was written; model card and datasheet lie beside it."""
    report = report_data(study)
    write_cards(report, study.folder)
    return render(report, study.folder).html


def write_cards(report: ReportData, folder: Path) -> None:
    """Write model card and datasheet, each as markdown and as a page without a script."""
    for name, title, text in (
        ("model_card", f"Model card: {report.name}", model_card(report)),
        ("datasheet", f"Datasheet: {report.problem}", data_card(report)),
    ):
        write_atomic(folder / f"{name}.md", text.encode())
        write_atomic(folder / f"{name}.html", card_html(title, text).encode())


def card_html(title: str, text: str) -> str:
    """Return a card as a page; links between cards lead to pages."""
    body = str(markdown_html(text)).replace('href="datasheet.md"', 'href="datasheet.html"')
    return page_template("tasks.report", "card.html.j2").render(
        title=title,
        policy=CONTENT_POLICY,
        css=Markup(resource("tasks.report", "report.css")),
        body=Markup(body),
    )
