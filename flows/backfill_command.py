"""The command that fills a grid of states by years."""

from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape

from flows.address_space import check_address_space
from flows.cells import failures, grid, plan_cells
from flows.clearing import clear_leftovers
from flows.command_options import Overrides
from tasks.adapters.settings import ensure_writable, read_settings

States = Annotated[tuple[str, ...], Parameter(name="--states", consume_multiple=True)]
Years = Annotated[tuple[int, ...], Parameter(name="--years", consume_multiple=True)]


def backfill_grid(
    config: str,
    /,
    *,
    states: States,
    years: Years,
    overrides: Overrides = (),
    show: bool = False,
) -> None:
    """Run a configuration for each state with each year; what is done is not done again.

    Parameters
    ----------
    config
        A YAML file of census data, or the name of a shipped one.
    states
        Postal codes, such as --states MT ID NE.
    years
        Survey years, such as --years 2017 2018.
    show
        Only show which cells are done, failed or missing.
    """
    cells, settings = plan_cells(config, states, years, overrides), read_settings()
    console = Console(highlight=False)
    if not show:
        check_address_space(run=True)
        clear_leftovers()
        ensure_writable(settings.home)
        from tasks.adapters.servers.prefect_server import prefect_server

        try:
            with prefect_server(settings):
                # Prefect reads its settings when it is first imported: only now are they in force.
                from flows.backfill import backfill

                backfill(config, states, years, overrides)
        finally:
            console.print(grid(cells, settings))
        return
    console.print(grid(cells, settings))
    for sentence in failures(cells, settings):
        console.print(escape(sentence), soft_wrap=True)
