"""Decide if a refitted model replaces the champion."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fkd.core.arrays import Array
from fkd.measures import Interval, compare
from tasks.monitor.champion import WatchedChampion
from tasks.monitor.check import Refit, short
from tasks.select.champion import select_champion
from tasks.select.checks import CheckOutcome, check_study
from tasks.select.judgement import DRAWS, broken_limits
from tasks.select.refit import predicted_targets
from tasks.select.study import Study


def judged_refit(
    study: Study, champion: WatchedChampion, first_new: int = 0
) -> tuple[Study, Refit]:
    """Return the study with the reasons against promoting its champion, and the decision.

    Parameters
    ----------
    study
        The refit, on the rows of the champion followed by the new rows.
    champion
        The model that it may replace.
    first_new
        Position of the first new row.
    """
    chosen = select_champion(study)
    against = refusals(study, champion, first_new)
    if not study.config.gate:
        against = (*against, "no gate is configured")
    broken = broken_limits(chosen.judgement, study.config.gate)
    why = [*broken, *against]
    said = (
        f"refitted: {chosen.title} stays a candidate: {'; '.join(why)}"
        if why
        else f"refitted: {chosen.title} is promoted, it passed the gate and every check"
    )
    return replace(study, refused=against), Refit(chosen.title, not why, said, chosen.key)


def refusals(study: Study, champion: WatchedChampion, first_new: int = 0) -> tuple[str, ...]:
    """Return the reasons against the study's champion, apart from the limits of the gate.

    A check found an issue that the old champion did not have, or the error on the held-out rows
    among the new ones is greater than the old champion's. Other held-out rows are not compared:
    the old champion may have been fitted on them.
    """
    found = [
        f"check {result.check.code} found an issue that version {champion.version.version} did "
        f"not have: {result.said.rstrip('.')}"
        for result in check_study(study)
        if result.outcome is CheckOutcome.ISSUE and result.check.code not in champion.issues
    ]
    table = study.loaded.table
    new = study.inputs.splits.held_out_fold(table).test >= first_new
    if not new.any():
        return (*found, "none of the new rows is held out, so its error cannot be compared")
    change = _error_change(study, champion, new)
    if change is not None and float(change.low) > 0:
        found.append(
            f"its mean absolute error on the new held-out rows is greater by "
            f"{short(float(change.estimate))} ({short(float(change.low))} to "
            f"{short(float(change.high))}) than that of version {champion.version.version}"
        )
    return tuple(found)


def _error_change(
    study: Study, champion: WatchedChampion, new: NDArray[np.bool_]
) -> Interval | None:
    """Return the new model's error minus the old one's on the new ones of the held-out rows."""
    table = study.loaded.table
    test = table.take(study.inputs.splits.held_out_fold(table).test[new])
    f = predicted_targets(study, select_champion(study).trial)
    if f is None:
        return None
    f = f[new]
    y, rng = test.target, np.random.default_rng(study.config.seed)
    before = champion.predictions(test)
    return compare(_mae, (f, y), (before, y), rng=rng, replicates=DRAWS).difference


def _mae(f: Array, y: Array) -> float:
    """Mean absolute error."""
    return float(np.abs(f - y).mean(axis=0))
