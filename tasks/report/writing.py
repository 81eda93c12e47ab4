"""Whether the pages of a report lie there as they would be written again."""

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from configs.errors import UserError
from tasks.plan.trials import record_key
from tasks.report.audit_page import CONTENT_POLICY
from tasks.report.cards import data_card, model_card
from tasks.report.gather import report_data, with_curves
from tasks.report.model import ReportData
from tasks.report.page import render
from tasks.report.page_pieces import markdown_html, page_template, resource
from tasks.select.champion import select_champion
from tasks.select.study import Study
from tasks.storage.files import sha256, write_atomic
from tasks.storage.records import digest
from tasks.storage.store import SharedStore, open_store
from tasks.track.reachable import TrackingUnreachableError
from tasks.track.registry import versions_of
from tasks.track.run_index import recorded, share_run, take_folder

# Where the code of everything stands that a page shows.
_ROOMS = ("fkd", "tasks", "configs")
_KINDS = (".py", ".j2", ".css", ".js")


@dataclass(frozen=True)
class DrawnPages:
    """The files of one report, known by all that they show.

    Parameters
    ----------
    folder
        Where they are written.
    store, name
        Where their checksums are noted, by a name made of all that they show.
    """

    folder: Path
    store: SharedStore
    name: str

    @classmethod
    def of(cls, study: Study, told: ReportData) -> "DrawnPages":
        """Return the pages of a study.

        Parameters
        ----------
        study
            Its stored trials decide the curves, whose drawing this spares.
        told
            Everything else that they show.
        """
        fold = study.inputs.splits.held_out_fold(study.loaded.table)
        key = digest(
            {
                "told": sha256(repr(_plain(told)).encode()),
                "folder": study.config.name,
                "data": study.loaded.digest,
                "records": [record_key(trial, fold, study.inputs) for trial in study.trials],
                "seed": study.config.seed,
                "code": code_digest(),
            }
        )
        return cls(study.folder, open_store(study.settings), f"pages/{key}.json")

    def lie_there(self) -> bool:
        """Return whether every file has the content with which it was written."""
        noted = self.noted()
        try:
            return bool(noted) and all(
                sha256((self.folder / name).read_bytes()) == found for name, found in noted.items()
            )
        except OSError:
            return False

    def noted(self) -> dict[str, str]:
        """Return the checksums with which files were written, by name; none where none were."""
        noted = self.store.read(self.name)
        found: dict[str, str] = {} if noted is None else json.loads(noted)
        return found

    def note(self, written: Sequence[Path]) -> None:
        """Keep the checksums of files that were just written."""
        found = {path.name: sha256(path.read_bytes()) for path in written}
        self.store.write(self.name, json.dumps(found).encode())


@cache
def code_digest() -> str:
    """Return the digest of the code that decides a page: who changes it sees the change."""
    content = []
    for room in _ROOMS:
        root = Path(str(files(room)))
        for path in sorted(path for path in root.rglob("*") if path.suffix in _KINDS):
            content.append([str(path.relative_to(root)), sha256(path.read_bytes())])
    return digest(content)


def _plain(value: Any) -> Any:
    """Return a value as lists of plain ones, so that equal content reads equal."""
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, [_plain(getattr(value, f.name)) for f in fields(value)]]
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(item)] for key, item in value.items()]
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Set):
        return sorted(map(repr, value))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return repr(value)


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
