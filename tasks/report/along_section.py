"""The part of a page that follows a model along sensitive columns."""

from collections.abc import Mapping

from fkd.measures.registry import LEAKING
from tasks.report.along_contents import AlongColumn, AlongSection, AlongWords
from tasks.report.along_figures import along_figures
from tasks.report.along_tables import (
    along_sentences,
    decile_table,
    pair_table,
    strata_table,
    who_pays,
)
from tasks.report.contents import ReportData
from tasks.report.text import noise_floors_of
from tasks.report.words import has_own_unit
from tasks.study.along import StudyProfiles


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
