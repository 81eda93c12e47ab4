"""Measures of the champion within groups, and its curves along sensitive columns."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from fkd.core.arrays import AnyArray, Array
from fkd.measures import (
    REPORTED,
    Profile,
    StratumProfile,
    by_stratum,
    interval,
    noise_floor,
    profile_along,
    profile_of_pair,
    profile_within,
)
from fkd.measures.auditing import AuditedPair
from fkd.measures.groups import LeftOutStratum
from tasks.plan.trials import Trial
from tasks.select.champion import Champion
from tasks.select.judgement import (
    DRAWS,
    Ends,
    held_out_predictions,
    plain_trial,
    predicted_targets,
    without_removal,
)
from tasks.select.study import Study, cached_on_study, control_columns
from tasks.storage.records import digest
from tasks.storage.store import open_store

VERSION = 1  # to be raised whenever these numbers change; part of their key
CHOSEN, REFERENCE = "chosen", "reference"
BAND_DRAWS = 2000  # of a band; its width has a standard error of about 1 %
_MEASURES = {name: measure.within_groups() for name, measure in REPORTED.items()}


@dataclass(frozen=True)
class GroupedScore:
    """One measure of one model on one column, by group."""

    overall: float  # by the same estimator on all held-out rows
    mean: Ends  # over groups weighted by their rows
    groups: tuple[tuple[str, int, float], ...]  # label, rows, value
    left_out: tuple[tuple[str, int, str], ...]  # label, rows, why


@dataclass(frozen=True)
class WithinGroups:
    """Measures on the held-out rows within groups of the control columns.

    Parameters
    ----------
    control
        The control columns.
    scores
        By measured column, measure and model: "chosen", and "reference" without removal.
    problems
        By column and measure, the reason if there is no number.
    noise
        By column and measure, the mean within these groups on shuffled rows.
    """

    control: tuple[str, ...]
    scores: Mapping[str, Mapping[str, Mapping[str, GroupedScore]]]
    problems: Mapping[str, Mapping[str, str]]
    noise: Mapping[str, Mapping[str, float]]


def within_groups(study: Study, champion: Champion) -> WithinGroups | None:
    """Return the champion's measures within groups, None without control columns.

    They are computed once and then read from the store.
    """
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
        return TypeAdapter(WithinGroups).validate_json(str(stored["within"]))
    found = _measure(study, champion, control)
    text = json.dumps(asdict(found), allow_nan=False)
    store.write_arrays(name, {"within": np.array(text)})
    return found


def _measure(study: Study, champion: Champion, control: tuple[str, ...]) -> WithinGroups:
    """Measure the champion and its reference within groups of the held-out rows."""
    test, w = study.held_out_rows(), study.held_out_weights()
    trials = {CHOSEN: champion.trial}
    if (plain := without_removal(study, champion.trial)) is not None:
        trials[REFERENCE] = plain
    found = held_out_predictions(study, list(trials.values()))
    predictions = dict(zip(trials, found, strict=True))
    groups = control_columns(test, control)
    rng = np.random.default_rng(study.config.seed)
    scores: dict[str, dict[str, dict[str, GroupedScore]]] = {}
    problems: dict[str, dict[str, str]] = {}
    noise: dict[str, dict[str, float]] = {}
    for column in study.inputs.measure_on:
        scores[column], problems[column], noise[column] = {}, {}, {}
        s = test.S([column])[:, 0]
        for name, measure in _MEASURES.items():
            try:
                scores[column][name] = {
                    model: _grouped(measure, measure.columns(test.y, f, s), groups, rng, w)
                    for model, f in predictions.items()
                }
            except ValueError as error:
                # The fits are done, so the report shows the reason and the run goes on.
                problems[column][name] = str(error)
        for name, measure in _MEASURES.items():
            if measure.noise_floor and name in scores[column]:
                within = partial(measure, control_features=groups)
                floor = noise_floor(found[-1], s, rng=rng, measure=within, sample_weight=w)
                noise[column][name] = float(floor.mean)
    return WithinGroups(control, scores, problems, noise)


def _grouped(
    measure: Any,
    rows: tuple[Array, ...],
    groups: AnyArray,
    rng: np.random.Generator,
    w: Array | None,
) -> GroupedScore:
    """Return one measure of one model with the interval of its mean over groups."""
    value = by_stratum(measure, *rows, control_features=groups, sample_weight=w)
    mean = interval(
        measure, *rows, control_features=groups, rng=rng, replicates=DRAWS, sample_weight=w
    )
    return GroupedScore(
        overall=float(measure(*rows, sample_weight=w)),
        mean=(float(mean.estimate), float(mean.low), float(mean.high)),
        groups=tuple((s.label, s.rows, float(s.value)) for s in value.strata),
        left_out=tuple((g.label, g.rows, g.why) for g in value.left_out),
    )


# Means by thirds of a measured column within groups of the control columns, and excluded groups.
Strata = tuple[tuple[StratumProfile, ...], tuple[LeftOutStratum, ...]]


@dataclass(frozen=True)
class StudyProfiles:
    """Profiles of a trial on the held-out rows along the measured columns.

    Parameters
    ----------
    profiles
        By column, with the same trial without removal if there is one.
    problems
        By column, the reason if there is no profile.
    strata
        By column, if there are control columns.
    pairs
        Of every two measured columns.
    """

    profiles: Mapping[str, Profile]
    problems: Mapping[str, str] = field(default_factory=dict)
    strata: Mapping[str, Strata] = field(default_factory=dict)
    pairs: tuple[AuditedPair, ...] = ()


@cached_on_study
def along_study(study: Study, trial: Trial) -> StudyProfiles:
    """Return a trial's profiles on the held-out rows, with those of the same without removal."""
    columns, control = study.inputs.measure_on, study.config.data.control
    f = predicted_targets(study, trial)
    if f is None:
        return StudyProfiles(
            {}, dict.fromkeys(columns, "it has no predictions of the held-out rows")
        )
    plain = plain_trial(study, trial)
    other = None if plain is None or plain == trial else predicted_targets(study, plain)
    test = study.held_out_rows()
    y, S = test.target, {c: test.sensitive[:, test.sensitive_names.index(c)] for c in columns}
    options: Any = {"other": other, "sample_weight": study.held_out_weights()}
    profiles, problems, strata = {}, {}, {}
    for column, s in S.items():
        rng = np.random.default_rng(study.config.seed)
        try:
            profiles[column] = profile_along(y, f, s, rng=rng, draws=BAND_DRAWS, **options)
        except ValueError as error:
            # The fits are done, so the report shows the reason and the run goes on.
            problems[column] = str(error)
    if control:
        groups = control_columns(test, control)
        for column in profiles:
            strata[column] = profile_within(y, f, S[column], control_features=groups, **options)
    pairs = tuple(
        AuditedPair(pair, *profile_of_pair(y, f, np.column_stack([S[c] for c in pair]), **options))
        for pair in itertools.combinations(profiles, 2)
    )
    return StudyProfiles(profiles, problems, strata, pairs)
