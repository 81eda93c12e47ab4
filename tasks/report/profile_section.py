"""What a page shows along a sensitive column, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fkd.measures import CurveBand, GroupMeans, LeakingFunction, Profile, StratumProfile
from fkd.measures.groups import LeftOutStratum
from fkd.measures.profiles import (
    ABSOLUTE,
    ABSOLUTE_CHANGE,
    ERROR,
    GAIN,
    OTHER_ABSOLUTE,
    OTHER_ERROR,
    OTHER_PREDICTION,
    PREDICTION,
    TARGET,
)
from fkd.measures.registry import LEAKING
from tasks.report.formatting import count, has_own_unit, shown, unit_decimals, with_interval
from tasks.report.model import ReportData, ReportedInterval
from tasks.report.narrative import noise_floors_of
from tasks.report.svg import CurveFigure, DrawnCurve
from tasks.report.tables import Grid, TableCell, TableRow
from tasks.select.groups import StudyProfiles


@dataclass(frozen=True)
class AlongWords:
    """How a page speaks of the target, its rows, the two models.

    Parameters
    ----------
    target, unit
        What is predicted, what it is counted in; no unit where it has none of its own.
    rows
        What the rows are.
    model, other
        The model at hand, the one that it is compared with.
    """

    target: str
    unit: str = ""
    rows: str = "rows"
    model: str = "chosen model"
    other: str = "nothing removed"

    @property
    def of_unit(self) -> str:
        """The unit after a number."""
        return f" {self.unit}" if self.unit else ""


@dataclass(frozen=True)
class CaptionedGrid:
    """A table with what stands above it, what it leaves out."""

    caption: str
    grid: Grid
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class AlongColumn:
    """The figures, tables, sentences on one sensitive column."""

    column: str
    sentences: tuple[str, ...]
    figures: tuple[CurveFigure, ...]
    tables: tuple[CaptionedGrid, ...]


@dataclass(frozen=True)
class AlongSection:
    """Everything that a page shows along sensitive columns."""

    columns: tuple[AlongColumn, ...]
    pairs: tuple[CaptionedGrid, ...] = ()
    notes: tuple[str, ...] = ()


MODEL, OTHER, TRUTH = "model", "other", "truth"
NOISE = "noise"  # beside one of these: a curve that cannot be told from chance


def along_figures(
    profile: Profile, column: str, words: AlongWords, floor: float | None = None
) -> tuple[CurveFigure, ...]:
    """Return what is predicted, which way and how far it is off, who gains, what leaks.

    Parameters
    ----------
    profile
        The means.
    column, words
        What the page calls the column, then everything else.
    floor
        The HGR up to which dependence cannot be told from none; None where it is unknown.
    """
    figures = [
        _figure(
            profile,
            column,
            words,
            ("What is predicted", f"mean {words.target}{_counted(words)}"),
            ((TARGET, "true value", TRUTH), *_both(profile, words, PREDICTION, OTHER_PREDICTION)),
        ),
        _figure(
            profile,
            column,
            words,
            ("Too high or too low", f"prediction minus truth{_counted(words)}"),
            _both(profile, words, ERROR, OTHER_ERROR),
            zero=True,
            caption="Above the line predictions are too high on average, below it too low.",
        ),
        _figure(
            profile,
            column,
            words,
            ("How far off", f"mean absolute error{_counted(words)}"),
            _both(profile, words, ABSOLUTE, OTHER_ABSOLUTE),
        ),
    ]
    if GAIN in profile.curves:
        figures.append(
            _figure(
                profile,
                column,
                words,
                (
                    "Who gains, who loses",
                    f"predicted more or less{_counted(words)}",
                ),
                ((GAIN, f"{words.model} minus {words.other}", MODEL),),
                zero=True,
                caption=f"How much more the {words.model} predicts for the same row. Whether more "
                "is better depends on what is predicted.",
            )
        )
    leaks = _leaks(profile, column, words, floor)
    return (*figures, leaks) if leaks else tuple(figures)


def _both(
    profile: Profile, words: AlongWords, model: str, other: str
) -> tuple[tuple[str, str, str], ...]:
    """Return the names of the curves of one or two models with their labels and looks."""
    compared = ((other, words.other, OTHER),) if other in profile.curves else ()
    return (*compared, (model, words.model, MODEL))


def _figure(
    profile: Profile,
    column: str,
    words: AlongWords,
    titles: tuple[str, str],
    curves: tuple[tuple[str, str, str], ...],
    *,
    zero: bool = False,
    caption: str = "",
) -> CurveFigure:
    """Return some curves of a profile on one pair of axes."""
    title, y_label = titles
    drawn = tuple(drawn_curve(profile.curves[name], label, look) for name, label, look in curves)
    ends = tuple(group.ranges[0][1] for group in profile.groups[:-1])
    return CurveFigure(title, column, y_label, drawn, caption, zero, ends)


def drawn_curve(curve: CurveBand, label: str, look: str) -> DrawnCurve:
    """Return a curve as it is drawn."""
    return DrawnCurve(
        label,
        look,
        curve.points,
        curve.mean,
        (curve.low, curve.high),
        (curve.lowest, curve.highest),
    )


def _leaks(
    profile: Profile, column: str, words: AlongWords, floor: float | None
) -> CurveFigure | None:
    """Return the functions of the column that either model gives away most, noise as such."""
    known: list[tuple[LeakingFunction, str, str]] = [
        (leak, label, look)
        for leak, label, look in (
            (profile.other_leak, words.other, OTHER),
            (profile.leak, words.model, MODEL),
        )
        if leak is not None
    ]
    if not known:
        return None
    drawn, noisy = [], []
    for leak, label, look in known:
        if floor is not None and leak.correlation <= floor:
            noisy.append(label)
            told, look = f"HGR {leak.correlation:.3f}, within noise", f"{look} {NOISE}"
        else:
            told = f"HGR {leak.correlation:.3f}"
        drawn.append(DrawnCurve(f"{label} ({told})", look, leak.points, leak.values))
    caption = (
        "Of all functions of the column this one can be told best from the predictions; HGR is how "
        "closely. A straight line: more or less of it shows. A bowl: the middle is told from the "
        "ends."
    )
    if noisy:
        caption += (
            f" Independent columns read an HGR of up to {floor:.3f}: a thin grey curve "
            f"({', '.join(noisy)}) may be noise, its shape says nothing."
        )
    return CurveFigure(
        "What leaks most", column, "in standard deviations", tuple(drawn), caption, zero=True
    )


def _counted(words: AlongWords) -> str:
    """Return the unit in brackets."""
    return f" ({words.unit})" if words.unit else ""


# Which means a table has, in this order, and whether with their interval.
_SHOWN = (
    (TARGET, "True value", False),
    (OTHER_PREDICTION, "Predicted, {other}", False),
    (PREDICTION, "Predicted, {model}", False),
    (OTHER_ERROR, "Too high or low, {other}", False),
    (ERROR, "Too high or low, {model}", True),
    (OTHER_ABSOLUTE, "Absolute error, {other}", False),
    (ABSOLUTE, "Absolute error, {model}", True),
    (GAIN, "Predicted more or less", True),
)
# A group that carries so many times its share of the added error is told of.
_MARKED = 1.5


def group_grid(
    groups: Sequence[GroupMeans],
    names: Sequence[str],
    columns: Sequence[str],
    words: AlongWords,
    *,
    labels: Sequence[str] = (),
) -> Grid:
    """Return one line per group: its range of each column, its rows, its means.

    Parameters
    ----------
    groups, names
        The groups, what their means are of.
    columns
        Words for the sensitive columns that make the groups.
    words
        For target and models.
    labels
        What stands before each line, if anything.
    """
    wanted = [(names.index(name), heading, wide) for name, heading, wide in _SHOWN if name in names]
    decimals = _decimals(groups, names)
    spoken = [range_words([group.ranges[j] for group in groups]) for j in range(len(columns))]
    headings = (
        *(("Group",) if labels else ()),
        *columns,
        "Rows",
        *(heading.format(model=words.model, other=words.other) for _, heading, _ in wanted),
    )
    rows = []
    for i, group in enumerate(groups):
        cells = [
            *([labels[i]] if labels else []),
            *(texts[i] for texts in spoken),
            count(group.rows),
            *(_mean(group, j, decimals, wide) for j, _, wide in wanted),
        ]
        rows.append(TableRow(tuple(map(TableCell, cells))))
    return Grid(headings, tuple(rows))


def decile_table(profile: Profile, column: str, words: AlongWords) -> CaptionedGrid:
    """Return the means by deciles of a column."""
    tenths = len(profile.groups)
    parts = "tenths" if tenths == 10 else f"{tenths} groups"
    caption = (
        f"Means in {parts} of the {words.rows} by {column}{_in_unit(words)}; equal values stay "
        "together. In brackets 95 % intervals."
    )
    return CaptionedGrid(caption, group_grid(profile.groups, profile.names, [column], words))


def strata_table(
    strata: Sequence[StratumProfile],
    left_out: Sequence[LeftOutStratum],
    names: Sequence[str],
    column: str,
    words: AlongWords,
) -> CaptionedGrid:
    """Return the means by thirds of a column within groups of control columns."""
    groups = [group for stratum in strata for group in stratum.groups]
    labels = [stratum.label for stratum in strata for _ in stratum.groups]
    return CaptionedGrid(
        f"Means in thirds of {column} within each group{_in_unit(words)}.",
        group_grid(groups, names, [column], words, labels=labels),
        left_out_notes(left_out),
    )


def pair_table(
    groups: Sequence[GroupMeans],
    left_out: Sequence[LeftOutStratum],
    names: Sequence[str],
    columns: Sequence[str],
    words: AlongWords,
) -> CaptionedGrid:
    """Return the means by thirds of two columns."""
    return CaptionedGrid(
        f"Means in thirds of {columns[0]} by thirds of {columns[1]}{_in_unit(words)}.",
        group_grid(groups, names, columns, words),
        left_out_notes(left_out),
    )


def left_out_notes(left_out: Sequence[LeftOutStratum]) -> tuple[str, ...]:
    """Return one sentence that names every group left out, none where all are there."""
    told = [f"{group.label} ({count(group.rows)} rows: {group.why})" for group in left_out]
    return (f"Left out: {'; '.join(told)}.",) if told else ()


def along_sentences(profile: Profile, column: str, words: AlongWords) -> tuple[str, ...]:
    """Return where errors are greatest, for whom they grew most, who is predicted less."""
    decimals = _decimals(profile.groups, profile.names)
    names = profile.names
    spoken = range_words([group.ranges[0] for group in profile.groups])

    def of(name: str) -> list[float]:
        return [float(group.mean[names.index(name)]) for group in profile.groups]

    def told(value: float) -> str:
        return f"{shown(value, decimals)}{words.of_unit}"

    worst, best = int(np.argmax(of(ABSOLUTE))), int(np.argmin(of(ABSOLUTE)))
    compared = OTHER_ABSOLUTE in names

    def before(i: int) -> str:
        return f" ({words.other}: {shown(of(OTHER_ABSOLUTE)[i], decimals)})" if compared else ""

    j = names.index(ERROR)
    error, low, high = (
        float(ends[j])
        for ends in (
            profile.groups[worst].mean,
            profile.groups[worst].low,
            profile.groups[worst].high,
        )
    )
    side = "too low" if error < 0 else "too high"
    lean = (
        f"and {side} by {shown(abs(error), decimals)}"
        if low > 0 or high < 0
        else "too high about as much as too low"
    )
    sentences = [
        f"Predictions are farthest off where {column} is {spoken[worst]}: by "
        f"{told(of(ABSOLUTE)[worst])} on average{before(worst)}, {lean}. They are least off where "
        f"it is {spoken[best]}: by {shown(of(ABSOLUTE)[best], decimals)}{before(best)}."
    ]
    if compared:
        sentences += [who_pays(profile, column), _who_gains(profile, column, words)]
    return tuple(filter(None, sentences))


def who_pays(profile: Profile, column: str) -> str:
    """Return which group carries more than its share of what the error grew by, if one surely does.

    Nothing where no other model is compared, or where the error did not grow.
    """
    if ABSOLUTE_CHANGE not in profile.names:
        return ""
    j = profile.names.index(ABSOLUTE_CHANGE)
    rows = np.array([group.rows for group in profile.groups])
    change = np.array([float(group.mean[j]) for group in profile.groups])
    total = float(rows @ change)
    most = int(change.argmax(axis=0))
    part, share = rows[most] * change[most], rows[most] / rows.sum(axis=0)
    if total <= 0 or profile.groups[most].low[j] <= 0 or part < _MARKED * share * total:
        return ""
    where = range_words([group.ranges[0] for group in profile.groups])[most]
    if part > total:
        return (
            f"The error that was added falls on the {100 * share:.0f} % of rows where {column} is "
            f"{where}; on all others together it fell."
        )
    return (
        f"Of the error that was added, {100 * part / total:.0f} % falls on the "
        f"{100 * share:.0f} % of rows where {column} is {where}."
    )


def _who_gains(profile: Profile, column: str, words: AlongWords) -> str:
    """Return where more or less is predicted than by the other model, by the whole band."""
    curve = profile.curves[GAIN]
    decimals = unit_decimals(float(np.abs(curve.mean).max(axis=0)))
    told = []
    for word, sure in (("more", curve.lowest > 0), ("less", curve.highest < 0)):
        if sure.any():
            most = int(np.abs(np.where(sure, curve.mean, 0.0)).argmax(axis=0))
            number = f"{shown(abs(float(curve.mean[most])), decimals)}{words.of_unit}"
            at = shown(float(curve.points[most]), _column_decimals(profile))
            told.append(f"up to {number} {word} (where {column} is about {at})")
    if not told:
        return f"Nowhere along {column} does it surely predict more or less than {words.other}."
    return (
        f"Against {words.other} the {words.model} predicts {' and '.join(told)}: there the band of "
        "the whole curve does not hold zero."
    )


def _column_decimals(profile: Profile) -> int:
    """Return the decimals that leave three figures of the column's spread."""
    low, high = profile.groups[0].ranges[0][0], profile.groups[-1].ranges[0][1]
    return unit_decimals(high - low)


def range_words(ranges: Sequence[tuple[float, float]]) -> list[str]:
    """Return ranges of a column with digits that suit all of them."""
    ends = [end for pair in ranges for end in pair]
    if all(float(end).is_integer() for end in ends):
        decimals = 0
    else:
        spread = max(ends) - min(ends) or abs(ends[0])
        decimals = unit_decimals(spread)
    told = [f"{end:.{decimals}f}".replace("-", "−") for end in ends]
    return [
        low if low == high else f"{low} to {high}"
        for low, high in zip(told[::2], told[1::2], strict=True)
    ]


def _decimals(groups: Sequence[GroupMeans], names: Sequence[str]) -> int:
    """Return the decimals that leave three figures of the greatest mean absolute error."""
    j = names.index(ABSOLUTE)
    return unit_decimals(max(float(group.mean[j]) for group in groups))


def _mean(group: GroupMeans, j: int, decimals: int, wide: bool) -> str:
    """Return one mean, with its interval where it is to be wide."""
    value = float(group.mean[j])
    if not wide:
        return shown(value, decimals)
    return with_interval(
        ReportedInterval(value, float(group.low[j]), float(group.high[j])), decimals
    )


def _in_unit(words: AlongWords) -> str:
    """Return what means are counted in, for a caption."""
    return f", in {words.unit}" if words.unit else ""


def along_section(
    found: StudyProfiles,
    columns: Mapping[str, str],
    words: AlongWords,
    floors: Mapping[str, float],
) -> AlongSection:
    """Return what a page shows of profiles.

    Parameters
    ----------
    found
        The profiles.
    columns
        Words for the sensitive columns, by name.
    words
        For everything else.
    floors
        By name of a column, the HGR up to which dependence cannot be told from none.
    """
    names = next((profile.names for profile in found.profiles.values()), ())
    shown = []
    for name, profile in found.profiles.items():
        title = columns.get(name, name)
        tables = [decile_table(profile, title, words)]
        if name in found.strata:
            part = found.strata[name]
            if part.strata:
                tables.append(strata_table(part.strata, part.left_out, names, title, words))
        shown.append(
            AlongColumn(
                title,
                along_sentences(profile, title, words),
                along_figures(profile, title, words, floors.get(name)),
                tuple(tables),
            )
        )
    pairs = tuple(
        pair_table(
            pair.groups,
            pair.left_out,
            names,
            [columns.get(name, name) for name in pair.columns],
            words,
        )
        for pair in found.pairs
        if pair.groups
    )
    notes = tuple(
        f"There is no curve along {columns.get(name, name)}: {why}."
        for name, why in found.problems.items()
    )
    return AlongSection(tuple(shown), pairs, notes)


def report_section(report: ReportData) -> AlongSection | None:
    """Return the section of an experiment's report; None where no model was chosen."""
    if report.along is None:
        return None
    words = AlongWords(
        report.target.title,
        report.target.unit if has_own_unit(report.target) else "",
        report.data.row_noun,
    )
    columns = {column.name: column.words for column in report.columns}
    floors = {
        column.name: floor.upper
        for column in report.columns
        if (floor := noise_floors_of(report, column).get(LEAKING))
    }
    return along_section(report.along, columns, words, floors)


def burden_sentences(report: ReportData) -> tuple[str, ...]:
    """Return on whom the added error falls, column by column: no price is paid by an average."""
    if report.along is None:
        return ()
    words = {column.name: column.words for column in report.columns}
    told = (who_pays(one, words.get(name, name)) for name, one in report.along.profiles.items())
    return tuple(filter(None, told))
