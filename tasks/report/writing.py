"""Everything that people read of a run, written beside each other."""

from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from configs.errors import UserError
from tasks.adapters.files import write_atomic
from tasks.adapters.model_versions import versions_of
from tasks.adapters.reachable import TrackingUnreachableError
from tasks.report.audit_page import CONTENT_POLICY
from tasks.report.contents import ReportData
from tasks.report.data_card import data_card
from tasks.report.drawn_pages import DrawnPages
from tasks.report.gather import report_data, with_curves
from tasks.report.model_card import model_card
from tasks.report.page import render
from tasks.report.page_pieces import markdown_html, page_template, resource
from tasks.study.champion import select_champion
from tasks.study.known_runs import recorded, take_folder
from tasks.study.opening import Study
from tasks.study.shared_runs import share_run


def write_report(study: Study, *, again: bool = False) -> Path:
    """Return where the report lies; model card and datasheet lie beside it.

    A store that homes share has them too before this returns.

    Parameters
    ----------
    study
        What was computed.
    again
        Whether to write what lies there already, as it would be written.
    """
    take_folder(study)
    told = replace(report_data(study, curves=False), promotion=_promotion(study))
    drawn = DrawnPages.of(study, told)
    if again or not drawn.lie_there():
        report = with_curves(study, told)
        files = render(report, study.folder)
        drawn.note([files.html, *files.figures, *write_cards(report, study.folder)])
    if study.settings.shared is not None:  # else they lie beside the store
        share_run(study, drawn.noted())
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
            "model, `fkd report` shows it once the registry answers."
        )
    except UserError:  # no champion, or not registered yet
        return ""
    return " ".join(str(one.promotion) for one in versions if one.key == key and one.promotion)


def write_cards(report: ReportData, folder: Path) -> list[Path]:
    """Write model card and datasheet, each as markdown and as a page without a script."""
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
    """Return a card as a page; links between cards lead to pages."""
    body = str(markdown_html(text)).replace('href="datasheet.md"', 'href="datasheet.html"')
    return page_template("tasks.report", "card.html.j2").render(
        title=title,
        policy=CONTENT_POLICY,
        css=Markup(resource("tasks.report", "report.css")),
        body=Markup(body),
    )
