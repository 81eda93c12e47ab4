"""The cells of a backfill: one configuration for each state with each year, what came of each."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.table import Table

from configs.errors import UserError
from configs.load import load_configs
from configs.schema import RunConfig
from tasks.adapters.files import write_atomic
from tasks.adapters.settings import Settings

State = Literal["done", "failed", "missing"]
_SHOWN = {
    "done": "[green]done[/green]",
    "failed": "[red]failed[/red]",
    "missing": "[dim]missing[/dim]",
}
_FILE = "backfill.json"


@dataclass(frozen=True)
class GridCell:
    """One state in one year."""

    state: str
    year: int
    config: RunConfig

    @property
    def title(self) -> str:
        """What a person calls it."""
        return f"{self.state} {self.year}"


@dataclass(frozen=True)
class CellEnd:
    """How a cell ended, with its report or the reason."""

    state: State
    told: str = ""


def plan_cells(
    source: str, states: Sequence[str], years: Sequence[int], overrides: Sequence[str]
) -> list[GridCell]:
    """Return the cells in the order of the years; a faulty one is told before any work.

    Parameters
    ----------
    source : a YAML file of census data, or the name of a shipped one.
    states, years : the grid.
    overrides : changes of all cells, each as path.to.key=value.
    """
    (base, *more) = load_configs(source, overrides)
    if more or base.data.source != "census":
        came = f"{len(more) + 1} runs" if more else f"data.source {base.data.source}"
        raise UserError(
            "A backfill fills a grid of states and years from one configuration with data.source "
            f"census, got {source} with {came}; see `fkd run` for a sweep."
        )
    for word, given in (("--states", states), ("--years", years)):
        if not given or len(set(given)) < len(given):
            raise UserError(f"{word} must name each of its values once, got {list(given)}.")
    cells = []
    for year in years:
        for state in map(str.upper, states):
            place = [f"data.states=[{state}]", f"data.year={year}"]
            named = f"name={base.name}-{state.lower()}-{year}"
            (config,) = load_configs(source, [*overrides, *place, named])
            cells.append(GridCell(state, year, config))
    return cells


def read_end(cell: GridCell, settings: Settings) -> CellEnd:
    """Return how a cell ended when it was last computed; missing where it would be another one."""
    try:
        plain = json.loads(_path(cell, settings).read_text("utf-8"))
        if plain["digest"] == cell.config.digest:
            return CellEnd(plain["state"], plain["told"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # never computed, or by another version
    return CellEnd("missing")


def write_end(cell: GridCell, end: CellEnd, settings: Settings) -> None:
    """Keep how a cell has ended."""
    path = _path(cell, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = {"digest": cell.config.digest, "state": end.state, "told": end.told}
    write_atomic(path, json.dumps(plain, indent=2).encode())


def grid(cells: Sequence[GridCell], settings: Settings) -> Table:
    """Return states as rows, years as columns, how each cell stands."""
    years = list(dict.fromkeys(cell.year for cell in cells))
    table = Table("", *map(str, years), title="Backfill", title_justify="left", box=None)
    ends = {(cell.state, cell.year): read_end(cell, settings) for cell in cells}
    for state in dict.fromkeys(cell.state for cell in cells):
        table.add_row(state, *(_SHOWN[ends[state, year].state] for year in years))
    return table


def failures(cells: Sequence[GridCell], settings: Settings) -> list[str]:
    """Return why cells failed, one sentence each."""
    ends = ((cell.title, read_end(cell, settings)) for cell in cells)
    return [f"{title}: {end.told}" for title, end in ends if end.state == "failed"]


def _path(cell: GridCell, settings: Settings) -> Path:
    """Return where the end of a cell lies."""
    return settings.experiments / cell.config.name / _FILE
