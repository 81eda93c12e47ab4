"""What rows alone say, whatever was fitted on them: every page of a study tells it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from scipy.stats import ks_2samp

from fkd.core.arrays import Array
from fkd.problems.table import check_finite
from tasks.adapters.state.opened_store import open_store
from tasks.adapters.store import digest
from tasks.study.opening import Study
from tasks.study.proxies import Proxy, strongest_proxies

VERSION = 1  # to be raised whenever these numbers change; part of their key


@dataclass(frozen=True)
class Distance:
    """How far two distributions of a column lie apart, with the chance of that among equals."""

    statistic: float  # of Kolmogorov and Smirnov
    chance: float


@dataclass(frozen=True)
class RowFacts:
    """Inputs close to a sensitive column, held-out rows against those before, the middle of these.

    Parameters
    ----------
    proxies
        What `strongest_proxies` finds, by removed or measured column.
    distances
        Of target and sensitive columns, by name.
    median
        Of the target, over the rows that a model is chosen on.
    """

    proxies: Mapping[str, tuple[Proxy, ...]]
    distances: Mapping[str, Distance]
    median: float

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the facts that `asdict` and JSON made plain."""
        close, apart = plain["proxies"], plain["distances"]
        return cls(
            {name: tuple(Proxy(**one) for one in found) for name, found in close.items()},
            {name: Distance(**one) for name, one in apart.items()},
            plain["median"],
        )


def row_facts(study: Study) -> RowFacts:
    """Return what the rows of a study say, looked for once: a million of them take a second."""
    return study.once("row facts", lambda: _kept(study))


def _kept(study: Study) -> RowFacts:
    """Return the facts from the store, made where they are absent or damaged."""
    columns = tuple(dict.fromkeys((*study.inputs.sensitive, *study.inputs.measure_on)))
    fold = study.inputs.splits.held_out_fold(study.loaded.table)
    identity = {
        "data": study.loaded.digest,
        "columns": columns,
        "rows": fold.digest,
        "version": VERSION,
    }
    store, name = open_store(study.settings), f"rows/{digest(identity)}.json"
    stored = store.read(name)
    if stored is None:
        made = RowFacts(
            {column: tuple(strongest_proxies(study.loaded.table, column)) for column in columns},
            _distances(study),
            float(np.median(study.loaded.table.target[fold.train])),
        )
        stored = json.dumps(asdict(made), allow_nan=False).encode()
        store.write(name, stored)
    return RowFacts.from_plain(json.loads(stored))


def _distances(study: Study) -> dict[str, Distance]:
    """Compare the held-out rows with those that a model is chosen on."""
    table = study.loaded.table
    fold = study.inputs.splits.held_out_fold(table)
    names = (table.target_name, *table.sensitive_names)
    columns = dict(zip(names, (table.target, *table.sensitive.T), strict=True))
    for name, column in columns.items():
        check_finite((name,), column[:, None])  # of a table that is a view nobody else has looked
    before, after = (
        {name: column[rows] for name, column in columns.items()} for rows in (fold.train, fold.test)
    )
    return column_distances(before, after)


def column_distances(
    before: Mapping[str, Array], after: Mapping[str, Array]
) -> dict[str, Distance]:
    """Return how far later rows lie from those before, column by column."""
    found = {name: ks_2samp(before[name], after[name]) for name in before}
    return {name: Distance(float(one.statistic), float(one.pvalue)) for name, one in found.items()}
