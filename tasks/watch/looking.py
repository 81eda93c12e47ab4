"""A champion on new rows, compared with its record."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from configs.errors import UserError
from configs.schema import RunConfig
from fkd.measures import SampleChanges, sample_changes
from tasks.data.prepared import Loaded
from tasks.study.known_runs import now
from tasks.watch.batches import Batch
from tasks.watch.change_words import reasons_of
from tasks.watch.watch_values import Watch
from tasks.watch.watched_champion import WatchedChampion

PERMUTATIONS = 199


def look(champion: WatchedChampion, batch: Batch, loaded: Loaded) -> Watch:
    """Return what the champion does on rows that were loaded."""
    config = champion.config
    changes = _changes(champion, batch, loaded)
    problem = config.data.declaration
    found = Watch(
        model=champion.version.model,
        version=champion.version.version,
        title=champion.version.title,
        rows_from=batch.label,
        data=loaded.digest,
        at=now(),
        target=problem.titles.get(problem.target, problem.target),
        unit=problem.target_unit,
        changes=changes,
        words={name: problem.titles.get(name, name) for name in champion.record.columns},
    )
    return replace(found, reasons=reasons_of(found, strictest_limits(config)))


def strictest_limits(config: RunConfig) -> Mapping[str, float]:
    """Return the stricter of the limits that choosing and the gate have on each measure."""
    chosen = {} if config.select is None else dict(config.select.subject_to)
    both = (chosen, config.gate)
    names = dict.fromkeys(name for limits in both for name in limits)
    return {name: min(limits[name] for limits in both if name in limits) for name in names}


def _changes(champion: WatchedChampion, batch: Batch, loaded: Loaded) -> SampleChanges:
    """Return numbers and curves of record and new rows."""
    table, record = loaded.table, champion.record
    low, high = record.target_range
    absent = [name for name in record.columns if name not in table.sensitive_names]
    if absent:
        raise UserError(
            f"the new rows must have the measured column {absent[0]}; {batch.label} has "
            f"{', '.join(table.sensitive_names)}."
        )
    places = [table.sensitive_names.index(name) for name in record.columns]
    try:
        found = sample_changes(
            (record.y, record.y_pred, record.S),
            (table.target, champion.predictions(table), table.sensitive[:, places]),
            rng=np.random.default_rng(champion.config.seed),
            names=record.columns,
            sensitive_range=record.sensitive_range,
            permutations=PERMUTATIONS,
        )
    except ValueError as error:
        raise UserError(f"{batch.label} cannot be compared with the record: {error}.") from error
    return replace(
        found,
        numbers=tuple(
            replace(
                one,
                **{
                    name: getattr(one, name) / (high - low)
                    for name in ("before", "after", "change", "low", "high")
                },
            )
            if one.quantity == "gdp"
            else one
            for one in found.numbers
        ),
    )
