"""Write the page of an audit: one HTML file without a script."""

from dataclasses import dataclass
from pathlib import Path

from fkd.measures import MEASURES, Interval, NoiseFloor
from fkd.measures.auditing import Audit
from fkd.measures.registry import LEAKING
from tasks.report.html import ABSENT, count, joined, render_page, unit_decimals, with_interval
from tasks.report.model import Estimate
from tasks.report.narrative import SAME, effect_of
from tasks.report.profile_section import Labels, ProfileSection, profile_section
from tasks.report.tables import Row, Table
from tasks.select.groups import StudyProfiles
from tasks.storage.files import write_atomic


@dataclass(frozen=True)
class AuditLabels(Labels):
    """The names of predictions, models and columns on the page of an audit.

    Parameters
    ----------
    target, unit, rows, model, other
        As in `Labels`.
    source
        The origin of the predictions.
    rows_read
        The number of rows before some were dropped, None if all rows were audited.
    dropped
        Numbers of dropped rows with the reason.
    weights
        The column of row weights.
    """

    model: str = "audited model"
    other: str = "other model"
    source: str = "predictions in memory"
    rows_read: int | None = None
    dropped: tuple[str, ...] = ()
    weights: str = ""


def write_audit(audit: Audit, labels: AuditLabels, path: Path) -> Path:
    """Write the page of an audit and return its path.

    Parameters
    ----------
    audit
        The return value of `fkd.audit`.
    labels
        The names on the page.
    path
        The HTML file, which is overwritten.
    """
    title = f"Predictions of {labels.target} along {joined([c.name for c in audit.columns])}"
    names = dict.fromkeys(name for column in audit.columns for name in column.scores)
    within = [
        Row.from_texts(
            f"{MEASURES[name].label} on {column.name}",
            _text(found, _decimals(name, found)),
            _text(column.scores[name], _decimals(name, column.scores[name])),
        )
        for column in audit.columns
        for name, found in column.within.items()
    ]
    page = render_page(
        "audit.html.j2",
        title=title,
        labels=labels,
        audit=audit,
        sentences=audit_sentences(audit, labels),
        numbers=audit_table(audit, labels),
        measures=[MEASURES[name] for name in names],
        within=Table(
            ("Measure", "Within groups, mean by rows", "All rows at once"),
            tuple(within),
            "The mean weights each group by its rows; in brackets 95 % intervals.",
        ),
        profiles=_profiles(audit, labels),
    )
    write_atomic(path, page.encode())
    return path


def audit_table(audit: Audit, labels: AuditLabels) -> Table:
    """Return error and measures with their intervals, of one or two models."""
    compared = audit.other_mae is not None
    decimals = unit_decimals(float(audit.mae.estimate))

    def row(label: str, decimals: int, floor: NoiseFloor | None, *found: Interval | None) -> Row:
        texts = [ABSENT if one is None else _text(one, decimals) for one in found]
        noise = f"{float(floor.mean):.3f}, up to {float(floor.upper):.3f}" if floor else ABSENT
        return Row.from_texts(label, *texts[: 3 if compared else 1], noise)

    error = (audit.mae, audit.other_mae, audit.mae_change)
    rows = [
        row(f"Mean absolute error{labels.in_brackets}", decimals, None, *error),
        row(f"Mean signed error{labels.in_brackets}", decimals, None, audit.error, None, None),
    ]
    for column in audit.columns:
        for name, found in column.scores.items():
            label = f"{MEASURES[name].label} on {column.name}"
            others = column.other_scores.get(name), column.changes.get(name)
            rows.append(row(label, _decimals(name, found), column.noise.get(name), found, *others))
    second = (labels.other, "Change") if compared else ()
    headings = ("Measure", labels.model, *second, "On independent columns")
    return Table(headings, tuple(rows), "In brackets 95 % intervals, from quarters of the rows.")


def audit_sentences(audit: Audit, labels: AuditLabels) -> tuple[str, ...]:
    """Return sentences on error, dependence beyond noise, and the effect of a second model."""
    decimals = unit_decimals(float(audit.mae.estimate))
    unit = f" {labels.unit}" if labels.unit else ""
    weighted = f", weighted by {labels.weights}" if labels.weights else ""
    sentences = [
        f"On {count(audit.rows)} rows{weighted}, the mean absolute error of predictions of "
        f"{labels.target} is {_text(audit.mae, decimals)}{unit}."
    ]
    for column in audit.columns:
        for name, floor in column.noise.items():
            found, label = column.scores[name], MEASURES[name].label
            above = float(found.estimate) > float(floor.upper)
            sentences.append(
                f"{label} on {column.name} is {_text(found, _decimals(name, found))}, "
                f"{'above' if above else 'within'} noise: independent columns have a mean {label} "
                f"of {float(floor.mean):.2f}, up to {float(floor.upper):.2f}."
            )
    if audit.mae_change is not None:
        effect = effect_of(_estimate(audit.mae_change))
        verdict = "is within noise" if effect == SAME else effect
        sentences.append(
            f"Compared with {labels.other} the mean absolute error {verdict}: the change is "
            f"{_text(audit.mae_change, decimals)}."
        )
    return tuple(sentences)


def _profiles(audit: Audit, labels: Labels) -> ProfileSection:
    """Return curves and tables along every column."""
    found = StudyProfiles(
        {column.name: column.profile for column in audit.columns},
        strata={
            column.name: (column.strata, column.left_out)
            for column in audit.columns
            if column.strata
        },
        pairs=audit.pairs,
    )
    floors = {
        column.name: float(column.noise[LEAKING].upper)
        for column in audit.columns
        if LEAKING in column.noise
    }
    return profile_section(found, {}, labels, floors)


def _decimals(name: str, found: Interval) -> int:
    """Return the decimals of a measure: three digits if it is in the unit of the target."""
    own = unit_decimals(float(found.estimate))
    return own if MEASURES[name].unit == "prediction" else MEASURES[name].decimals


def _text(found: Interval, decimals: int) -> str:
    """Return a number with its interval."""
    return with_interval(_estimate(found), decimals)


def _estimate(found: Interval) -> Estimate:
    """Return an interval as plain numbers."""
    return float(found.estimate), float(found.low), float(found.high)
