"""The chosen model along every measured column of the held-out rows, in their own units."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fkd.core.arrays import Array
from fkd.measures import (
    GroupMeans,
    Profile,
    StratumProfile,
    profile_along,
    profile_of_pair,
    profile_within,
)
from fkd.measures.groups import LeftOutStratum
from fkd.problems.table import Table
from tasks.planned.trials import Trial
from tasks.study.control_columns import control_columns
from tasks.study.judgement import plain_trial
from tasks.study.opening import Study
from tasks.study.predicted_targets import predicted_targets

DRAWS = 2000  # of a band: its width wavers by about a hundredth


@dataclass(frozen=True)
class PairProfile:
    """Means by thirds of two measured columns."""

    columns: tuple[str, str]
    groups: tuple[GroupMeans, ...]
    left_out: tuple[LeftOutStratum, ...]


@dataclass(frozen=True)
class StrataProfile:
    """Means by thirds of one measured column within groups of the control columns."""

    strata: tuple[StratumProfile, ...]
    left_out: tuple[LeftOutStratum, ...]


@dataclass(frozen=True)
class StudyProfiles:
    """What the held-out rows say of the chosen model along the measured columns.

    Parameters
    ----------
    profiles
        By column; beside the same model with nothing removed, where that was a trial.
    problems
        By column, why there is no profile.
    strata
        By column, where control columns were named.
    pairs
        Of every two measured columns.
    """

    profiles: Mapping[str, Profile]
    problems: Mapping[str, str] = field(default_factory=dict)
    strata: Mapping[str, StrataProfile] = field(default_factory=dict)
    pairs: tuple[PairProfile, ...] = ()


def along_study(study: Study, trial: Trial) -> StudyProfiles:
    """Return a trial's profiles on the held-out rows, beside the same with nothing removed."""
    return study.once(("along", trial.key), lambda: _profiles(study, trial))


def _profiles(study: Study, trial: Trial) -> StudyProfiles:
    table, inputs = study.loaded.table, study.inputs
    test = table.take(inputs.splits.held_out_fold(table).test)
    f = predicted_targets(study, trial)
    if f is None:
        why = "it has no predictions of the held-out rows"
        return StudyProfiles({}, dict.fromkeys(inputs.measure_on, why))
    other, w = _reference(study, trial), study.held_out_weights()
    profiles, problems = {}, {}
    for column in inputs.measure_on:
        try:
            profiles[column] = profile_along(
                test.target,
                f,
                raw_sensitive(test, column),
                other=other,
                rng=np.random.default_rng(study.config.seed),
                draws=DRAWS,
                sample_weight=w,
            )
        except ValueError as error:
            # The fits are done: the report says why there is no curve instead of failing.
            problems[column] = str(error)
    control = study.config.data.control
    strata = {column: _strata(test, column, control, f, other, w) for column in profiles if control}
    return StudyProfiles(profiles, problems, strata, _pairs(test, tuple(profiles), f, other, w))


def raw_sensitive(test: Table, column: str) -> Array:
    """Return a measured column in its own unit."""
    return np.asarray(test.sensitive[:, test.sensitive_names.index(column)])


def _reference(study: Study, trial: Trial) -> Array | None:
    """Return the predictions with nothing removed; None for a model that removes nothing."""
    plain = plain_trial(study, trial)
    if plain is None or plain.key == trial.key:
        return None
    return predicted_targets(study, plain)


def _strata(
    test: Table,
    column: str,
    control: tuple[str, ...],
    f: Array,
    other: Array | None,
    w: Array | None,
) -> StrataProfile:
    """Return one column's means within groups of the control columns."""
    return StrataProfile(
        *profile_within(
            test.target,
            f,
            raw_sensitive(test, column),
            control_features=control_columns(test, control),
            other=other,
            sample_weight=w,
        )
    )


def _pairs(
    test: Table, columns: tuple[str, ...], f: Array, other: Array | None, w: Array | None
) -> tuple[PairProfile, ...]:
    """Return the means of every two columns."""
    return tuple(
        PairProfile(
            pair,
            *profile_of_pair(
                test.target,
                f,
                np.column_stack([raw_sensitive(test, column) for column in pair]),
                other=other,
                sample_weight=w,
            ),
        )
        for pair in itertools.combinations(columns, 2)
    )
