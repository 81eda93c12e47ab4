"""What a setting means on these rows where it leaves the choice to us."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fkd.catalog.methods.kernel_settings import least_ridge
from fkd.catalog.table import Table
from tasks.blocks.shared_map import SharedMap, rounding_of, store_map
from tasks.planned.trials import Inputs


def settled(settings: Sequence[Any], inputs: Inputs, table: Table) -> list[Any]:
    """Return the settings with nothing left open: each is decided by itself and its rows alone."""
    return [_settled(setting, inputs, table) for setting in settings]


def _settled(setting: Any, inputs: Inputs, table: Table) -> Any:
    approximation = getattr(setting, "approximation", None)
    if approximation is None or not approximation.shared or approximation.sums != "auto":
        return setting
    stored = store_map(SharedMap.of(inputs, setting.gamma, approximation))
    way = rounding_of(stored).fastest(table.n, least_ridge(setting, table.n))
    return replace(setting, approximation=replace(approximation, sums=way))
