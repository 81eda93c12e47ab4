"""Select the champion, refit it and judge it on held-out rows."""

import json
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from pydantic import TypeAdapter

from configs.run import SelectConfig
from fkd import __version__, measures
from fkd.measures.resampling import FEWEST_ROWS
from fkd.methods import method
from fkd.problems.bundle import Bundle
from tasks.fit.job import is_counted
from tasks.plan.training import measure_weights
from tasks.plan.trials import Trial
from tasks.select.judgement import VERSION, Judgement, Refitted, judge, probed_rows, recover, refit
from tasks.select.selection import (
    NoChampionError,
    candidates,
    excess,
    is_most_accurate,
    noise_on_inner_folds,
    select_trial,
)
from tasks.select.study import Study, cached_on_study
from tasks.storage.environment import blas_threads
from tasks.storage.records import digest
from tasks.storage.store import open_store

_EXAMPLE_ROWS = 5


@dataclass(frozen=True)
class Champion:
    """The selected trial with its model and judgement.

    Parameters
    ----------
    key
        Digest of the selection, the rows and the code.
    trial, title
        The selected trial and its name for people.
    bundle
        The model, fitted to the held-out fold's training rows.
    judgement
        Its scores on the held-out rows.
    example
        A few made-up rows, as the served model takes them.
    policy
        The configured policy.
    within_noise
        True if the trial has the least error and does not depend on s beyond noise.
    """

    key: str
    trial: Trial
    title: str
    bundle: Bundle
    judgement: Judgement
    example: pd.DataFrame
    policy: SelectConfig
    within_noise: bool = False


def select_champion(study: Study) -> Champion:
    """Return the champion of a study, computed once and then read from the store.

    It is selected by scores on inner folds of the held-out fold's training rows, refitted to these
    rows, and judged on the held-out rows.
    """
    policy = study.config.select
    if policy is None:
        raise NoChampionError("No champion is selected: select is null.")
    w = study.held_out_weights()
    rows = len(study.held_out.test) if w is None else int(np.count_nonzero(w))
    if rows < FEWEST_ROWS:
        raise NoChampionError(
            f"folds must hold out at least {FEWEST_ROWS} rows to judge a champion, got {rows}. "
            "Use more rows, fewer folds, or select: null."
        )
    found = candidates(study)
    within_noise = False
    if found and policy.knee_of:
        noise = noise_on_inner_folds(study, found, policy.knee_of)
        selected = select_trial(found, policy, noise)
        fair = excess(selected, policy.knee_of, noise)[0] <= 0
        within_noise = fair and is_most_accurate(selected, found)
    else:
        selected = select_trial(found, policy)
    trial = selected.trial
    key = champion_key(study, trial)
    bundle, judgement = _stored_champion(study, trial, key)
    example = _example(study, bundle.input_columns)
    title = study.title(trial)
    return Champion(key, trial, title, bundle, judgement, example, policy, within_noise)


def champion_key(study: Study, trial: Trial) -> str:
    """Return the digest of the selected trial, the selection and the code."""
    return digest(
        {
            "trial": trial.key,
            "method": method(trial.method).version,
            "inner": study.config.inner_folds,
            "judged": VERSION,
            "code": __version__,
        }
    )


@cached_on_study
def _stored_champion(study: Study, trial: Trial, key: str) -> tuple[Bundle, Judgement]:
    """Return the stored model and judgement, computed if they are absent or damaged."""
    store, name = open_store(study.settings), f"champions/{key}.arrays"
    arrays = store.read_arrays(name)
    if arrays is not None:
        judgement = TypeAdapter(Judgement).validate_json(str(arrays["judgement"]))
        return Bundle.from_arrays(arrays), judgement
    with blas_threads(study.inputs.blas_threads):
        model = refit(study, trial)
        bundle, judgement = _bundle(study, trial, model), _judge(study, trial, model)
    text = np.array(json.dumps(asdict(judgement), allow_nan=False))
    store.write_arrays(name, {"judgement": text, **bundle.arrays()})
    return bundle, judgement


def _bundle(study: Study, trial: Trial, model: Refitted) -> Bundle:
    """Return what predictions from raw columns need, with the range of each numeric input."""
    table, encoder = study.table, model.encoder
    places = [table.numeric_names.index(name) for name in encoder.numeric_names]
    rows = table.numeric[study.held_out.train][:, places]
    ranges = np.stack([np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)], axis=1)
    if not method(trial.method).needs_sensitive:
        return Bundle(encoder, model.predictor, table.target_range, ranges)
    names = study.inputs.sensitive
    units = table.sensitive_range[[table.sensitive_names.index(name) for name in names]]
    return Bundle(encoder, model.predictor, table.target_range, ranges, names, units)


def _judge(study: Study, trial: Trial, model: Refitted) -> Judgement:
    """Return the judgement on held-out rows with the results of probes."""
    test, inputs = study.held_out_rows(), study.inputs

    def probe() -> tuple[measures.Recovery, ...]:
        rows = probed_rows(test, model.training.seed)
        w = measure_weights(rows, inputs.weights)
        with blas_threads(inputs.blas_threads):  # OpenMP counts threads per thread
            X = model.encoder.transform(rows)
            return tuple(recover(trial, model.training, X, rows.S(inputs.measure_on), w))

    if not is_counted(test.n, study.held_out_weights()):
        judgement = judge(study, trial, test, model.y_pred)
        return judgement.with_recovered(inputs.measure_on, probe())
    # Each takes seconds for very many rows, so two threads share the work. Both may change the
    # warning filters, which belong to the whole process: restore them once both have finished.
    with warnings.catch_warnings(), ThreadPoolExecutor(1) as executor:
        probes = executor.submit(probe)
        judgement = judge(study, trial, test, model.y_pred)
        return judgement.with_recovered(inputs.measure_on, probes.result())


@cached_on_study
def _example(study: Study, names: tuple[str, ...]) -> pd.DataFrame:
    """Return a few made-up rows of raw columns, as the served model takes them.

    They are nobody's rows: numbers are deciles of their columns, labels the most common ones.
    """
    table, train = study.table, study.held_out.train
    shares = np.linspace(0.1, 0.9, _EXAMPLE_ROWS)
    columns: dict[str, Any] = {
        # A value of the column, which is written with as few digits as the column.
        name: np.nanquantile(column[train], shares, method="nearest")
        for name, column in (
            *zip(table.numeric_names, table.numeric.T, strict=True),
            *zip(table.sensitive_names, table.sensitive.T, strict=True),
        )
        if name in names
    }
    for i, name in enumerate(table.categorical_names):
        labels = ("", *table.levels[i])  # code -1, missing, is the first one
        counts = np.bincount(table.codes[train, i] + 1)
        common = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        columns[name] = [labels[common[j % len(common)]] for j in range(_EXAMPLE_ROWS)]
    return pd.DataFrame(columns)[list(names)]
