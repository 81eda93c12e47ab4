"""Show predictions and errors along a sensitive column: curves, tables and sentences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fkd.measures import MEASURES, GroupMeans, Profile
from fkd.measures.groups import LeftOutStratum
from fkd.measures.profiles import (
    ABSOLUTE,
    ERROR,
    GAIN,
    OTHER_ABSOLUTE,
    OTHER_ERROR,
    OTHER_PREDICTION,
    PREDICTION,
    TARGET,
)
from fkd.measures.registry import LEAKING
from tasks.report.html import (
    CurveFigure,
    DrawnCurve,
    count,
    has_own_unit,
    shown,
    unit_decimals,
    with_interval,
)
from tasks.report.model import ReportData
from tasks.report.tables import Row, Table
from tasks.select.groups import StudyProfiles

MODEL, OTHER, TRUTH = "model", "other", "truth"  # classes of the style sheet
NOISE = "noise"  # added for a curve within the noise floor
PREDICTIONS_TITLE, ABSOLUTE_TITLE = "Mean prediction", "Absolute error"


@dataclass(frozen=True)
class Labels:
    """The names of target, unit, rows and models in texts.

    Parameters
    ----------
    target, unit
        The predicted column and its unit, empty if it has none.
    rows
        A plural noun.
    model, other
        The model, and the model that it is compared with.
    """

    target: str
    unit: str = ""
    rows: str = "rows"
    model: str = "chosen model"
    other: str = "nothing removed"

    @property
    def in_brackets(self) -> str:
        """The unit in brackets, for an axis."""
        return f" ({self.unit})" if self.unit else ""

    @property
    def after_comma(self) -> str:
        """The unit after a comma, for a caption."""
        return f", in {self.unit}" if self.unit else ""

    def with_unit(self, value: float, decimals: int) -> str:
        """Return a number with the unit."""
        return f"{shown(value, decimals)} {self.unit}".rstrip()


@dataclass(frozen=True)
class ColumnProfile:
    """Sentences, figures and tables on one sensitive column."""

    column: str
    sentences: tuple[str, ...]
    figures: tuple[CurveFigure, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True)
class ProfileSection:
    """The profiles of all columns, tables of two columns, and columns without a profile."""

    columns: tuple[ColumnProfile, ...]
    pairs: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


def profiles_of(report: ReportData) -> ProfileSection | None:
    """Return the section of a run's report, None if no model was chosen."""
    if report.profiles is None:
        return None
    floors = {c.name: c.noise_floor[LEAKING][1] for c in report.columns if LEAKING in c.noise_floor}
    return profile_section(report.profiles, report.titles, labels_of(report), floors)


def labels_of(report: ReportData, model: str = "chosen model") -> Labels:
    """Return the names of target, unit and rows of a run."""
    unit = report.target.unit if has_own_unit(report.target) else ""
    return Labels(report.target.title, unit, report.data.row_noun, model)


def burden_sentences(report: ReportData) -> list[str]:
    """Return for each column the group that bears more than its share of the added error."""
    profiles = report.profiles.profiles if report.profiles else {}
    sentences = (
        burden_sentence(profile, report.titles.get(name, name))
        for name, profile in profiles.items()
    )
    return [*filter(None, sentences)]


def profile_section(
    found: StudyProfiles, titles: Mapping[str, str], labels: Labels, floors: Mapping[str, float]
) -> ProfileSection:
    """Return the section of a page on profiles.

    Parameters
    ----------
    found
        The profiles.
    titles
        Titles of the sensitive columns by name.
    labels
        The names of everything else.
    floors
        The upper end of the noise floor of the leaking function by name of a column.
    """
    columns = []
    names: tuple[str, ...] = ()
    for name, profile in found.profiles.items():
        title, names, number = titles.get(name, name), profile.names, len(profile.groups)
        parts = "tenths" if number == 10 else f"{number} groups"
        caption = (
            f"Means in {parts} of the {labels.rows} by {title}{labels.after_comma}. Equal values "
            "are in one group. In brackets 95 % intervals."
        )
        tables = [_group_table(profile.groups, names, [title], labels, caption)]
        strata, left_out = found.strata.get(name, ((), ()))
        if strata:
            caption = f"Means in thirds of {title} within each group{labels.after_comma}."
            groups = [(one.label, group) for one in strata for group in one.groups]
            first = [label for label, _ in groups]
            means = [group for _, group in groups]
            tables.append(_group_table(means, names, [title], labels, caption, left_out, first))
        sentences = profile_sentences(profile, title, labels)
        figures = profile_figures(profile, title, labels, floors.get(name))
        columns.append(ColumnProfile(title, sentences, figures, tuple(tables)))
    pairs = []
    for pair in found.pairs:
        if pair.groups:
            both = [titles.get(name, name) for name in pair.names]
            caption = f"Means in thirds of {both[0]} by thirds of {both[1]}{labels.after_comma}."
            pairs.append(_group_table(pair.groups, names, both, labels, caption, pair.left_out))
    notes = tuple(
        f"There is no curve along {titles.get(name, name)}: {reason}."
        for name, reason in found.problems.items()
    )
    return ProfileSection(tuple(columns), tuple(pairs), notes)


def profile_figures(
    profile: Profile, column: str, labels: Labels, floor: float | None = None
) -> tuple[CurveFigure, ...]:
    """Return figures of predictions, errors, gain and the leaking function.

    Parameters
    ----------
    profile
        Means along the column.
    column, labels
        Texts.
    floor
        The upper end of the noise floor of the leaking function, None if unknown.
    """
    ticks = tuple(group.ranges[0][1] for group in profile.groups[:-1])

    def figure(
        title: str, y_label: str, *names: tuple[str, str, str], zero: bool = False, text: str = ""
    ) -> CurveFigure:
        curves = tuple(
            DrawnCurve(label, look, c.points, c.mean, (c.low, c.high), (c.lowest, c.highest))
            for name, label, look in names
            if (c := profile.curves.get(name)) is not None
        )
        y_label = f"{y_label}{labels.in_brackets}"
        return CurveFigure(title, column, y_label, curves, text, zero, ticks)

    def both(other: str, own: str) -> tuple[tuple[str, str, str], ...]:
        return (other, labels.other, OTHER), (own, labels.model, MODEL)

    truth = (TARGET, "true value", TRUTH)
    predictions, errors = both(OTHER_PREDICTION, PREDICTION), both(OTHER_ERROR, ERROR)
    sides = "Above the line predictions are too high on average, below it too low."
    figures = [
        figure(PREDICTIONS_TITLE, f"mean {labels.target}", truth, *predictions),
        figure("Signed error", "prediction minus truth", *errors, zero=True, text=sides),
        figure(ABSOLUTE_TITLE, "mean absolute error", *both(OTHER_ABSOLUTE, ABSOLUTE)),
    ]
    if GAIN in profile.curves:
        gain = (GAIN, f"{labels.model} minus {labels.other}", MODEL)
        text = (
            f"Predictions of the {labels.model} minus those of {labels.other}, for the same rows. "
            "Whether a higher prediction is an advantage depends on the target."
        )
        title, y_label = "Change of the prediction", "difference of predictions"
        figures.append(figure(title, y_label, gain, zero=True, text=text))
    leaking = _leaking_figure(profile, column, labels, floor)
    return (*figures, leaking) if leaking else tuple(figures)


def _leaking_figure(
    profile: Profile, column: str, labels: Labels, floor: float | None
) -> CurveFigure | None:
    """Return the functions of the column that predictions determine best."""
    name = MEASURES[LEAKING].label
    leaks = ((profile.other_leak, labels.other, OTHER), (profile.leak, labels.model, MODEL))
    drawn, noisy = [], []
    for leak, label, look in leaks:
        if leak is not None:
            text = f"{name} {leak.correlation:.3f}"
            if floor is not None and leak.correlation <= floor:
                noisy.append(label)
                text, look = f"{text}, within noise", f"{look} {NOISE}"
            drawn.append(DrawnCurve(f"{label} ({text})", look, leak.points, leak.values))
    if not drawn:
        return None
    caption = (
        "Of all functions of the column, the predictions determine this one best; "
        f"{name} is the correlation. A straight line means that predictions reveal whether the "
        "column is high or low. A bowl means that they distinguish the middle from both ends."
    )
    if noisy:
        caption += (
            f" Independent columns reach {name} {floor:.3f}. The shape of a thin grey "
            f"curve ({', '.join(noisy)}) may be noise."
        )
    return CurveFigure(
        "Leaking function", column, "in standard deviations", tuple(drawn), caption, zero=True
    )


def profile_sentences(profile: Profile, column: str, labels: Labels) -> tuple[str, ...]:
    """Return the ranges with the largest error, with added error, and with changed predictions."""
    names, decimals = profile.names, _error_decimals(profile.groups, profile.names)
    ranges = range_texts([group.ranges[0] for group in profile.groups])
    compared = OTHER_ABSOLUTE in names

    def means(name: str) -> list[float]:
        return [float(group.mean[names.index(name)]) for group in profile.groups]

    def error(i: int) -> str:
        text = labels.with_unit(means(ABSOLUTE)[i], decimals)
        if compared:
            text += f" ({labels.other}: {shown(means(OTHER_ABSOLUTE)[i], decimals)})"
        return text

    worst, best = int(np.argmax(means(ABSOLUTE))), int(np.argmin(means(ABSOLUTE)))
    group, j = profile.groups[worst], names.index(ERROR)
    signed = float(group.mean[j])
    if group.low[j] > 0 or group.high[j] < 0:
        side = "low" if signed < 0 else "high"
        bias = f"predictions are too {side} by {shown(abs(signed), decimals)}"
    else:
        bias = "predictions are not clearly too high or too low"
    sentences = [
        f"The mean absolute error is largest for {column} {ranges[worst]}: {error(worst)}. There "
        f"{bias} on average. It is smallest for {column} {ranges[best]}: {error(best)}."
    ]
    if compared:
        sentences += [burden_sentence(profile, column), _gain_sentence(profile, column, labels)]
    return tuple(filter(None, sentences))


def burden_sentence(profile: Profile, column: str) -> str:
    """Return the group that clearly bears more than its share of the added error, if any."""
    if profile.added_error is None:
        return ""
    most, rows, error = profile.added_error
    ranges = range_texts([group.ranges[0] for group in profile.groups])
    subject = f"the {100 * rows:.0f} % of rows with {column} {ranges[most]}"
    if error > 1:
        return f"The added error falls on {subject}. On all other rows together the error fell."
    return f"Of the added error, {100 * error:.0f} % falls on {subject}."


def _gain_sentence(profile: Profile, column: str, labels: Labels) -> str:
    """Return the greatest differences from the predictions of the other model beyond the band."""
    curve = profile.curves[GAIN]
    decimals = unit_decimals(float(np.abs(curve.mean).max(axis=0)))
    low, high = profile.groups[0].ranges[0][0], profile.groups[-1].ranges[0][1]
    texts = []
    for word, clear in (("higher", curve.lowest > 0), ("lower", curve.highest < 0)):
        if clear.any():
            most = int(np.abs(np.where(clear, curve.mean, 0.0)).argmax(axis=0))
            number = labels.with_unit(abs(float(curve.mean[most])), decimals)
            at = shown(float(curve.points[most]), unit_decimals(high - low))
            texts.append(f"up to {number} {word} (at {column} {at})")
    subject = f"Compared with {labels.other}, predictions of the {labels.model}"
    if not texts:
        return f"{subject} differ nowhere along {column} by more than noise."
    return f"{subject} are {' and '.join(texts)}. There the band of the whole curve excludes zero."


# The means in a table, in this order, and whether with their intervals.
_COLUMNS = (
    (TARGET, "True value", False),
    (OTHER_PREDICTION, "Prediction, {other}", False),
    (PREDICTION, "Prediction, {model}", False),
    (OTHER_ERROR, "Signed error, {other}", False),
    (ERROR, "Signed error, {model}", True),
    (OTHER_ABSOLUTE, "Absolute error, {other}", False),
    (ABSOLUTE, "Absolute error, {model}", True),
    (GAIN, "Change of the prediction", True),
)


def _group_table(
    groups: Sequence[GroupMeans],
    names: Sequence[str],
    columns: Sequence[str],
    labels: Labels,
    caption: str,
    left_out: Sequence[LeftOutStratum] = (),
    strata: Sequence[str] = (),
) -> Table:
    """Return one line per group: its ranges, rows and means.

    Parameters
    ----------
    groups, names
        The groups, and the names of their means.
    columns
        Titles of the sensitive columns that form the groups.
    labels
        The names of target and models.
    caption, left_out
        The caption, and the excluded groups for a note.
    strata
        A first cell for each line.
    """
    decimals = _error_decimals(groups, names)
    wanted = [(names.index(name), text, wide) for name, text, wide in _COLUMNS if name in names]
    headings = (
        *(["Group"] if strata else []),
        *columns,
        "Rows",
        *(text.format(model=labels.model, other=labels.other) for _, text, _ in wanted),
    )
    ranges = [range_texts([group.ranges[j] for group in groups]) for j in range(len(columns))]
    rows = []
    for i, group in enumerate(groups):
        means = (
            with_interval((group.mean[j], group.low[j], group.high[j]), decimals)
            if wide
            else shown(float(group.mean[j]), decimals)
            for j, _, wide in wanted
        )
        first = (*strata[i : i + 1], *(texts[i] for texts in ranges))
        rows.append(Row.from_texts(*first, count(group.rows), *means))
    texts = [f"{group.label} ({count(group.rows)} rows: {group.why})" for group in left_out]
    notes = (f"Left out: {'; '.join(texts)}.",) if texts else ()
    return Table(headings, tuple(rows), caption, notes)


def _error_decimals(groups: Sequence[GroupMeans], names: Sequence[str]) -> int:
    """Return the decimals that leave three digits of the largest mean absolute error."""
    j = names.index(ABSOLUTE)
    return unit_decimals(max(float(group.mean[j]) for group in groups))


def range_texts(ranges: Sequence[tuple[float, float]]) -> list[str]:
    """Return ranges of a column with decimals that suit all of them."""
    ends = [end for pair in ranges for end in pair]
    decimals = 0
    if not all(float(end).is_integer() for end in ends):
        decimals = unit_decimals(max(ends) - min(ends) or abs(ends[0]))
    texts = [f"{end:.{decimals}f}".replace("-", "−") for end in ends]
    return [
        low if low == high else f"{low} to {high}"
        for low, high in zip(texts[::2], texts[1::2], strict=True)
    ]
