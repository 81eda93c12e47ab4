"""Measures of the champion within groups, and its curves along sensitive columns."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np

from fkd.core.arrays import AnyArray, Array
from fkd.measures import (
    REPORTED,
    GroupMeans,
    Profile,
    StratumProfile,
    by_stratum,
    interval,
    noise_floor,
    profile_along,
    profile_of_pair,
    profile_within,
)
from fkd.measures.groups import LeftOutStratum, StratifiedValue
from fkd.problems.table import Table
from tasks.plan.trials import Trial
from tasks.select.champion import Champion
from tasks.select.judgement import DRAWS, plain_trial, without_removal
from tasks.select.refit import held_out_predictions, predicted_targets
from tasks.select.study import Study, control_columns
from tasks.storage.records import digest
from tasks.storage.store import open_store

VERSION = 1  # to be raised whenever these numbers change; part of their key
CHOSEN, REFERENCE = "chosen", "reference"
_MEASURES = {name: measure.within_groups() for name, measure in REPORTED.items()}


@dataclass(frozen=True)
class GroupedScore:
    """One measure of one model on one column, group by group."""

    overall: float  # by the same estimator on all held-out rows
    mean: tuple[float, float, float]  # over groups by their rows, with its interval
    groups: tuple[tuple[str, int, float], ...]  # label, rows, value
    left_out: tuple[tuple[str, int, str], ...]  # label, rows, why

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the score that `asdict` and JSON made plain."""
        return cls(
            plain["overall"],
            tuple(plain["mean"]),
            tuple(tuple(group) for group in plain["groups"]),
            tuple(tuple(group) for group in plain["left_out"]),
        )


@dataclass(frozen=True)
class WithinGroups:
    """What the held-out rows say of a model within groups of the control columns."""

    control: tuple[str, ...]
    # By measured column, then measure, then model: "chosen", and "reference" with nothing removed.
    scores: Mapping[str, Mapping[str, Mapping[str, GroupedScore]]]
    problems: Mapping[str, Mapping[str, str]]  # by column, then measure: why there is no number
    # By column, then measure: mean within these groups on shuffled rows.
    noise: Mapping[str, Mapping[str, float]]

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return what `asdict` and JSON made plain."""
        scores = {
            column: {
                measure: {model: GroupedScore.from_plain(score) for model, score in models.items()}
                for measure, models in found.items()
            }
            for column, found in plain["scores"].items()
        }
        return cls(tuple(plain["control"]), scores, plain["problems"], plain["noise"])


def within_groups(study: Study, champion: Champion) -> WithinGroups | None:
    """Return the champion's numbers within groups, made once; None where none are asked for."""
    control = study.config.data.control
    if not control:
        return None
    key = digest(
        {
            "champion": champion.key,
            "control": control,
            "version": VERSION,
            "seed": study.config.seed,
            "reference": without_removal(study, champion.trial) is not None,
        }
    )
    store, name = open_store(study.settings), f"within/{key}.arrays"
    stored = store.read_arrays(name)
    if stored is not None:
        return WithinGroups.from_plain(json.loads(str(stored["within"])))
    made = _make(study, champion, control)
    text = json.dumps(asdict(made), allow_nan=False)
    store.write_arrays(name, {"within": np.array(text)})
    return WithinGroups.from_plain(json.loads(text))


def _make(study: Study, champion: Champion, control: tuple[str, ...]) -> WithinGroups:
    """Measure both models within groups of the held-out rows; kept predictions need no fit."""
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.held_out_fold(table)
    test = table.take(fold.test)
    plain = without_removal(study, champion.trial)
    trials = {CHOSEN: champion.trial, **({} if plain is None else {REFERENCE: plain})}
    found = held_out_predictions(study, list(trials.values()))
    predictions = dict(zip(trials, found, strict=True))
    groups, w = control_columns(test, control), study.held_out_weights()
    rng = np.random.default_rng(study.config.seed)
    scores: dict[str, dict[str, dict[str, GroupedScore]]] = {}
    problems: dict[str, dict[str, str]] = {}
    noise: dict[str, dict[str, float]] = {}
    for column in inputs.measure_on:
        scores[column], problems[column] = _on_column(test, column, predictions, groups, rng, w)
        noise[column] = {}
        f, s = next(reversed(predictions.values())), test.S([column])[:, 0]
        for name, measure in _MEASURES.items():
            if measure.noise_floor and name in scores[column]:
                within = partial(measure, control_features=groups)
                floor = noise_floor(f, s, rng=rng, measure=within, sample_weight=w)
                noise[column][name] = float(floor.mean)
    return WithinGroups(control, scores, problems, noise)


def _on_column(
    test: Table,
    column: str,
    predictions: Mapping[str, Array],
    groups: AnyArray,
    rng: np.random.Generator,
    w: Array | None,
) -> tuple[dict[str, dict[str, GroupedScore]], dict[str, str]]:
    """Return by measure the scores of every model on one column, then why others are absent."""
    s = test.S([column])[:, 0]
    found: dict[str, dict[str, GroupedScore]] = {}
    problems: dict[str, str] = {}
    for name, measure in _MEASURES.items():
        try:
            found[name] = {
                model: _grouped(measure, measure.columns(test.y, f, s), groups, rng, w)
                for model, f in predictions.items()
            }
        except ValueError as error:
            # The fits are done: the report says why this number is missing instead of failing.
            problems[name] = str(error)
    return found, problems


def _grouped(
    measure: Any,
    rows: tuple[Array, ...],
    groups: AnyArray,
    rng: np.random.Generator,
    w: Array | None,
) -> GroupedScore:
    """Return one measure of one model with the interval of its mean over groups."""
    value: StratifiedValue = by_stratum(measure, *rows, control_features=groups, sample_weight=w)
    mean = interval(
        measure, *rows, control_features=groups, rng=rng, replicates=DRAWS, sample_weight=w
    )
    return GroupedScore(
        overall=float(measure(*rows, sample_weight=w)),
        mean=(float(mean.estimate), float(mean.low), float(mean.high)),
        groups=tuple((s.label, s.rows, float(s.value)) for s in value.strata),
        left_out=tuple((g.label, g.rows, g.why) for g in value.left_out),
    )


BAND_DRAWS = 2000  # of a band: its width wavers by about a hundredth


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
                draws=BAND_DRAWS,
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
