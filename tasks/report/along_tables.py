"""A model along a sensitive column, group by group, as tables with sentences."""

from collections.abc import Sequence

import numpy as np

from fkd.measures import GroupMeans, Profile, StratumProfile
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
from tasks.report.along_contents import AlongWords, CaptionedGrid
from tasks.report.contents import ReportedInterval
from tasks.report.tables import Grid, TableCell, TableRow
from tasks.report.words import count, shown, unit_decimals, with_interval

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
