"""Whether a model that was fitted anew may take the champion's place."""

from dataclasses import replace

import numpy as np

from fkd.core.arrays import Array
from fkd.measures import Interval, bootstrap_difference
from tasks.study.champion import select_champion
from tasks.study.check_values import CheckOutcome
from tasks.study.checks import check_study
from tasks.study.gate import broken_limits
from tasks.study.judgement import DRAWS
from tasks.study.opening import Study
from tasks.study.predicted_targets import predicted_targets
from tasks.watch.change_words import short
from tasks.watch.watch_values import Refit
from tasks.watch.watched_champion import WatchedChampion


def judged_refit(study: Study, champion: WatchedChampion) -> tuple[Study, Refit]:
    """Return the study with what speaks against its champion, and what comes of it in words."""
    chosen = select_champion(study)
    against = refusals(study, champion)
    broken = broken_limits(chosen.judgement, study.config.gate)
    why = [*broken, *against]
    said = (
        f"refitted: {chosen.title} stays a candidate: {'; '.join(why)}"
        if why
        else f"refitted: {chosen.title} is promoted, every check kept"
    )
    return replace(study, refused=against), Refit(chosen.title, not why, said, chosen.key)


def refusals(study: Study, champion: WatchedChampion) -> tuple[str, ...]:
    """Return what speaks against the study's champion, beside its gate, which comes later.

    A check with an issue that the old champion did not have, or more error than the old champion
    has on the same held-out rows.
    """
    found = [
        f"check {result.check.code} found an issue that version {champion.version.version} did "
        f"not have: {result.said.rstrip('.')}"
        for result in check_study(study)
        if result.outcome is CheckOutcome.ISSUE and result.check.code not in champion.issues
    ]
    change = _error_change(study, champion)
    if change is not None and float(change.low) > 0:
        found.append(
            f"its mean absolute error on the held-out rows is greater by "
            f"{short(float(change.estimate))} ({short(float(change.low))} to "
            f"{short(float(change.high))}) than that of version {champion.version.version}"
        )
    return tuple(found)


def _error_change(study: Study, champion: WatchedChampion) -> Interval | None:
    """Return the new model's error minus the old one's on the new held-out rows."""
    table = study.loaded.table
    test = table.take(study.inputs.splits.held_out_fold(table).test)
    f = predicted_targets(study, select_champion(study).trial)
    if f is None:
        return None
    y, rng = test.target, np.random.default_rng(study.config.seed)
    before = champion.predictions(test)
    return bootstrap_difference(_mae, (f, y), (before, y), rng=rng, replicates=DRAWS)


def _mae(f: Array, y: Array) -> float:
    """Mean absolute error."""
    return float(np.abs(f - y).mean(axis=0))
