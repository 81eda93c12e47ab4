"""Select the champion, refit it and judge it on held-out rows."""

import json
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from configs.run import SelectConfig
from fkd import __version__, measures
from fkd.core.arrays import Array
from fkd.core.predictors import Predictor
from fkd.measures.resampling import FEWEST_ROWS
from fkd.methods import method
from fkd.problems.bundle import Bundle
from fkd.problems.encoder import Encoder
from fkd.problems.table import Table
from tasks.fit.job import is_counted
from tasks.plan.training import measure_weights
from tasks.plan.trials import Trial
from tasks.select.judgement import VERSION, Judgement, judge, probed_rows, recover
from tasks.select.refit import Refitted, refit
from tasks.select.results import TrialResult
from tasks.select.selection import (
    NoChampionError,
    excess,
    is_most_accurate,
    noise_on_inner_folds,
    select_trial,
)
from tasks.select.study import Study
from tasks.storage.environment import blas_threads
from tasks.storage.records import digest
from tasks.storage.store import BlobStore, open_store

_EXAMPLE_ROWS = 5
_Judged = tuple[Judgement, Sequence[measures.Recovery]]


@dataclass(frozen=True)
class Champion:
    """The selected trial with its model and what is known of it."""

    key: str
    trial: Trial
    title: str
    bundle: Bundle
    judgement: Judgement
    example: pd.DataFrame  # a few made-up rows, as the served model takes them
    policy: SelectConfig
    within_noise: bool = False  # the most accurate trial does not depend on s beyond noise


def select_champion(study: Study) -> Champion:
    """Return the champion of a study, made once and then read from the store.

    It is selected by scores on inner folds of the held-out fold's training rows, refitted on these
    rows, judged on the held-out rows.
    """
    policy = study.config.select
    if policy is None:
        raise NoChampionError("No champion was to be chosen: select is null.")
    rows = _held_out_rows(study)
    if rows < FEWEST_ROWS:
        raise NoChampionError(
            f"folds must hold out at least {FEWEST_ROWS} rows to judge a champion, got {rows}. "
            "Use more rows, fewer folds, or select: null."
        )
    found = candidates(study)
    selected, within_noise = _selected(study, found, policy)
    key = _key(study, selected)
    bundle, judgement = _stored(study, selected.trial, key)
    example = study.once(("example", bundle.input_columns), lambda: _example(study, bundle))
    return Champion(
        key=key,
        trial=selected.trial,
        title=study.title(selected.trial),
        bundle=bundle,
        judgement=judgement,
        example=example,
        policy=policy,
        within_noise=within_noise,
    )


def _held_out_rows(study: Study) -> int:
    """Return the number of held-out rows that count."""
    w, fold = study.held_out_weights(), study.inputs.splits.held_out_fold(study.loaded.table)
    return len(fold.test) if w is None else int(np.count_nonzero(w))


def _selected(
    study: Study, found: Sequence[TrialResult], policy: SelectConfig
) -> tuple[TrialResult, bool]:
    """Return the selected trial, and whether the least error decided as the rest is noise."""
    if not found or not policy.knee_of:
        return select_trial(found, policy), False
    noise = noise_on_inner_folds(study, found, policy.knee_of)
    selected = select_trial(found, policy, noise)
    fair = excess(selected, policy.knee_of, noise)[0] <= 0
    return selected, fair and is_most_accurate(selected, found)


def _stored(study: Study, trial: Trial, key: str) -> tuple[Bundle, Judgement]:
    """Return what is kept of a champion, made where it is absent or damaged.

    Every step of a run asks for it: its file is read once for as long as it stays the same.
    """
    store, name = open_store(study.settings), f"champions/{key}.arrays"
    known = study.made.get(("champion", key))
    if known is None or not store.is_unchanged(name, known[0]):
        found = _read(store, name)
        if found is None:
            found = _make(study, trial)
            _write(store, name, *found)
        known = study.made[("champion", key)] = store.stamp(name), found
    champion: tuple[Bundle, Judgement] = known[1]
    return champion


def candidates(study: Study) -> list[TrialResult]:
    """Return the results on inner folds of the trials that failed on no fold at all."""
    whole = {result.trial.key for result in study.results()}
    return [result for result in study.results(inner=True) if result.trial.key in whole]


def _make(study: Study, trial: Trial) -> tuple[Bundle, Judgement]:
    """Return the refitted model with its judgement."""
    table, inputs = study.loaded.table, study.inputs
    test = table.take(inputs.splits.held_out_fold(table).test)
    with blas_threads(inputs.blas_threads):
        model = refit(study, trial)
        bundle = _bundle(study, trial, model.encoder, model.predictor)
        judgement, recovered = _judged(study, trial, model, test)
    return bundle, judgement.with_recovered(inputs.measure_on, recovered)


def _judged(study: Study, trial: Trial, model: Refitted, test: Table) -> _Judged:
    """Return the judgement on held-out rows and the result of the probes."""
    if not is_counted(test.n, study.held_out_weights()):
        return judge(study, trial, test, model.y_pred), _recovered(study, trial, model, test)
    # Each takes seconds for very many rows, so two threads share the work. Both may change the
    # warning filters, which belong to the whole process: restore them once both have finished.
    with warnings.catch_warnings(), ThreadPoolExecutor(1) as beside:
        probed = beside.submit(_recovered, study, trial, model, test)
        return judge(study, trial, test, model.y_pred), probed.result()


def _recovered(
    study: Study, trial: Trial, model: Refitted, test: Table
) -> Sequence[measures.Recovery]:
    """Return how well other models guess s from the champion's features of some held-out rows."""
    inputs = study.inputs
    seen = probed_rows(test, model.training.seed)
    w = measure_weights(seen, inputs.weights)
    with blas_threads(inputs.blas_threads):
        X = model.encoder.transform(seen)
        return recover(trial, model.training, X, seen.S(inputs.measure_on), w)


def _bundle(study: Study, trial: Trial, encoder: Encoder, predictor: Predictor) -> Bundle:
    """Return all that predicting from raw columns needs."""
    table, ranges = study.loaded.table, _ranges(study, encoder)
    if not method(trial.method).needs_sensitive:
        return Bundle(encoder, predictor, table.target_range, ranges)
    names = study.inputs.sensitive
    units = table.sensitive_range[[table.sensitive_names.index(name) for name in names]]
    return Bundle(encoder, predictor, table.target_range, ranges, names, units)


def _ranges(study: Study, encoder: Encoder) -> Array:
    """Return between which values each numeric input lies in the rows that the model learnt on."""
    table = study.loaded.table
    places = [table.numeric_names.index(name) for name in encoder.numeric_names]
    rows = table.numeric[study.inputs.splits.held_out_fold(table).train][:, places]
    return np.stack([np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)], axis=1)


def _key(study: Study, selected: TrialResult) -> str:
    """Return a digest of the selection, the rows, the code."""
    return digest(
        {
            "trial": selected.trial.key,
            "method": method(selected.trial.method).version,
            "inner": study.config.inner_folds,
            "judged": VERSION,
            "code": __version__,
        }
    )


def _example(study: Study, bundle: Bundle) -> pd.DataFrame:
    """Return a few made-up rows as the served model takes them: raw columns by name.

    Nobody's row: each number is a decile of its own column, each label one of the most common.
    """
    table = study.loaded.table
    train = study.inputs.splits.held_out_fold(table).train
    shares = np.linspace(0.1, 0.9, _EXAMPLE_ROWS)
    columns: dict[str, Any] = {
        # A value of the column, so that it is written as shortly as the column is.
        name: np.nanquantile(column[train], shares, method="nearest")
        for names, values in (
            (table.numeric_names, table.numeric),
            (table.sensitive_names, table.sensitive),
        )
        for name, column in zip(names, values.T, strict=True)
        if name in bundle.input_columns
    }
    for i, name in enumerate(table.categorical_names):
        labels = ("", *table.levels[i])  # code -1, missing, is the first one
        counts = np.bincount(table.codes[train, i] + 1)
        common = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        columns[name] = [labels[common[j % len(common)]] for j in range(_EXAMPLE_ROWS)]
    return pd.DataFrame(columns)[list(bundle.input_columns)]


def _write(store: BlobStore, name: str, bundle: Bundle, judgement: Judgement) -> None:
    """Keep model and judgement in one blob."""
    text = np.array(json.dumps(asdict(judgement), allow_nan=False))
    store.write_arrays(name, {"judgement": text, **bundle.arrays()})


def _read(store: BlobStore, name: str) -> tuple[Bundle, Judgement] | None:
    """Return model and judgement, None where they are absent or damaged."""
    arrays = store.read_arrays(name)
    if arrays is None:
        return None
    judgement = Judgement.from_plain(json.loads(str(arrays["judgement"])))
    return Bundle.from_arrays(arrays), judgement
