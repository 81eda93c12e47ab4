"""The page of an audit: one HTML file without a script."""

from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from fkd.measures import MEASURES, Interval, NoiseFloor
from fkd.measures.auditing import Audit
from fkd.measures.registry import LEAKING
from tasks.report.formatting import ABSENT, count, unit_decimals, with_interval
from tasks.report.model import ReportedInterval
from tasks.report.narrative import effect_of
from tasks.report.page_pieces import page_template, resource
from tasks.report.profile_section import AlongSection, AlongWords, along_section
from tasks.report.tables import Grid, TableCell, TableRow
from tasks.select.groups import PairProfile, StrataProfile, StudyProfiles
from tasks.storage.files import write_atomic

CONTENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class AuditStory:
    """How the page of an audit speaks of predictions that came from anywhere.

    Parameters
    ----------
    target, unit
        What is predicted, what it is counted in.
    source
        Where the predictions come from.
    model, other
        What the audited model is called, then the one that it is compared with.
    rows_read
        How many rows there were before some were dropped; None where all were audited.
    dropped
        How many rows were left out, each with the reason.
    weights
        The column that says how much each row counts.
    """

    target: str
    unit: str = ""
    source: str = "predictions in memory"
    model: str = "audited model"
    other: str = "other model"
    rows_read: int | None = None
    dropped: tuple[str, ...] = ()
    weights: str = ""

    @property
    def words(self) -> AlongWords:
        """How the curves speak of it."""
        return AlongWords(self.target, self.unit, "rows", self.model, self.other)


def write_audit(audit: Audit, story: AuditStory, path: Path) -> Path:
    """Return where the page of an audit was written.

    Parameters
    ----------
    audit
        What `fkd.audit` returned, or `fkd audit` found in a file.
    story
        How the page speaks of it.
    path
        The HTML file, written over where it is there.
    """
    write_atomic(path, audit_html(audit, story).encode())
    return path


def audit_html(audit: Audit, story: AuditStory) -> str:
    """Return the page; every value from data is escaped by the template."""
    return page_template("tasks.report", "audit.html.j2").render(
        title=f"Predictions of {story.target} along {', '.join(c.name for c in audit.columns)}",
        story=story,
        audit=audit,
        policy=CONTENT_POLICY,
        css=Markup(resource("tasks.report", "report.css")),
        sentences=audit_sentences(audit, story),
        numbers=audit_grid(audit, story),
        within=within_grid(audit),
        along=_section(audit, story),
        count=count,
    )


def audit_grid(audit: Audit, story: AuditStory) -> Grid:
    """Return error and measures with their intervals, of two models side by side."""
    compared = audit.other_mae is not None
    headings = ["Measure", story.model]
    headings += [story.other, "Change"] if compared else []
    headings.append("Read of independent columns")
    rows = [
        _row(
            f"Mean absolute error{_counted(story)}",
            (audit.mae, audit.other_mae, audit.mae_change),
            unit_decimals(float(audit.mae.estimate)),
        ),
        _row(
            f"Mean signed error{_counted(story)}",
            (audit.error, None, None),
            unit_decimals(float(audit.mae.estimate)),
            compared=compared,
        ),
    ]
    for column in audit.columns:
        for name, found in column.scores.items():
            decimals = _decimals(name, found)
            both = (found, column.other_scores.get(name), column.changes.get(name))
            label = f"{MEASURES[name].label} on {column.name}"
            floor = _floor(column.noise.get(name))
            rows.append(_row(label, both, decimals, floor=floor))
    return Grid(tuple(headings), tuple(rows))


def within_grid(audit: Audit) -> Grid | None:
    """Return the measures within groups, beside those on all rows."""
    if not any(column.within for column in audit.columns):
        return None
    rows = [
        TableRow(
            (
                TableCell(f"{MEASURES[name].label} on {column.name}"),
                TableCell(_told(found, _decimals(name, found))),
                TableCell(_told(column.scores[name], _decimals(name, column.scores[name]))),
            )
        )
        for column in audit.columns
        for name, found in column.within.items()
    ]
    return Grid(("Measure", "Within groups, mean by rows", "All rows at once"), tuple(rows))


def audit_sentences(audit: Audit, story: AuditStory) -> tuple[str, ...]:
    """Return the error, what can be told from noise, what a second model changes."""
    decimals = unit_decimals(float(audit.mae.estimate))
    unit = f" {story.unit}" if story.unit else ""
    weighed = f", weighed by {story.weights}" if story.weights else ""
    sentences = [
        f"On {count(audit.rows)} rows{weighed}, predictions of {story.target} are off by "
        f"{_told(audit.mae, decimals)}{unit} on average."
    ]
    for column in audit.columns:
        for name, floor in column.noise.items():
            found, measure = column.scores[name], MEASURES[name]
            verdict = (
                "more than chance would show"
                if float(found.estimate) > float(floor.upper)
                else "which cannot be told from none"
            )
            sentences.append(
                f"Their dependence on {column.name} is {measure.label} "
                f"{_told(found, _decimals(name, found))}, {verdict}: independent columns have "
                f"{float(floor.mean):.2f}, up to {float(floor.upper):.2f}."
            )
    if audit.mae_change is not None:
        effect = effect_of(_interval(audit.mae_change))
        moved = f"which {effect}" if effect not in ("fell", "rose") else f"it {effect}"
        change = _told(audit.mae_change, decimals)
        sentences.append(
            f"Against {story.other} the mean absolute error changes by {change}: {moved}."
        )
    return tuple(sentences)


def _section(audit: Audit, story: AuditStory) -> AlongSection:
    """Return the curves and tables along every column."""
    found = StudyProfiles(
        {column.name: column.profile for column in audit.columns},
        strata={
            column.name: StrataProfile(column.strata, column.left_out)
            for column in audit.columns
            if column.strata
        },
        pairs=tuple(PairProfile(pair.names, pair.groups, pair.left_out) for pair in audit.pairs),
    )
    floors = {column.name: float(column.noise[LEAKING].upper) for column in audit.columns}
    return along_section(found, {}, story.words, floors)


def _row(
    label: str,
    found: tuple[Interval | None, Interval | None, Interval | None],
    decimals: int,
    *,
    floor: str = ABSENT,
    compared: bool | None = None,
) -> TableRow:
    """Return one measure of one or two models."""
    first, other, change = found
    assert first is not None
    texts = [label, _told(first, decimals)]
    if compared if compared is not None else other is not None:
        texts += [ABSENT if side is None else _told(side, decimals) for side in (other, change)]
    return TableRow(tuple(map(TableCell, (*texts, floor))))


def _decimals(name: str, found: Interval) -> int:
    """Return the decimals of a measure: three figures if it is in the target's unit."""
    own = unit_decimals(float(found.estimate))
    return own if MEASURES[name].unit == "prediction" else MEASURES[name].decimals


def _floor(noise: NoiseFloor | None) -> str:
    """Return mean and upper quantile of a measure under independence."""
    return ABSENT if noise is None else f"{float(noise.mean):.3f}, up to {float(noise.upper):.3f}"


def _told(found: Interval, decimals: int) -> str:
    """Return a number with its interval."""
    return with_interval(_interval(found), decimals)


def _interval(found: Interval) -> ReportedInterval:
    """Return an interval of plain numbers."""
    return ReportedInterval(float(found.estimate), float(found.low), float(found.high))


def _counted(story: AuditStory) -> str:
    """Return the unit in brackets."""
    return f" ({story.unit})" if story.unit else ""
