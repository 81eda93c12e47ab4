"""A backfill as a Prefect flow: every cell of a grid that is not done yet, one after the other."""

from collections.abc import Sequence

from prefect import flow

from configs.errors import UserError
from flows.cells import CellEnd, GridCell, failures, plan_cells, read_end, write_end
from flows.ending import check_end
from flows.experiment import run_all
from flows.progress import watcher
from flows.run_label import backfill_run_name
from flows.run_page import post_markdown
from tasks.adapters.markdown import plain_markdown
from tasks.adapters.settings import read_settings

# What concerns one cell: its files, its rows, its fits. Another fault would meet all of them.
_OWN_FAULTS = (UserError, OSError, ValueError)


class CellsFailedError(UserError):
    """The grid was gone through, but not all of it is done."""

    exit_code = 3


@flow(name="backfill", flow_run_name=backfill_run_name, persist_result=False)
def backfill(
    source: str, states: Sequence[str], years: Sequence[int], overrides: Sequence[str] = ()
) -> None:
    """Compute the cells of a grid; raise where some are not done at the end.

    Parameters
    ----------
    source : a YAML file of census data, or the name of a shipped one.
    states, years : the grid.
    overrides : changes of all cells, each as path.to.key=value.
    """
    fill(plan_cells(source, states, years, overrides))


def fill(cells: Sequence[GridCell]) -> None:
    """Compute cells one after the other; one that fails does not stop those behind it."""
    settings = read_settings()
    for number, cell in enumerate(cells, start=1):
        place = f"cell {number} of {len(cells)}, {cell.title}"
        if read_end(cell, settings).state == "done":
            watcher().say(f"{place}: done before")
            continue
        watcher().say(f"{place}: begins")
        end = _compute(cell)
        write_end(cell, end, settings)
        watcher().say(f"{place}: {end.state}; {end.told}")
        _post(cells)
    if told := failures(cells, settings):
        done = len(cells) - len(told)
        raise CellsFailedError(
            f"{done} of {len(cells)} cells are done; {' '.join(told)} Mend the cause, then give "
            "the same command: what is done stays, what failed is tried again."
        )


def _compute(cell: GridCell) -> CellEnd:
    """Return how a cell has ended."""
    try:
        outcomes = run_all([cell.config])
        check_end(outcomes)
    except _OWN_FAULTS as error:
        return CellEnd("failed", " ".join(str(error).split()))
    return CellEnd("done", outcomes[0].paths["report"])


def _post(cells: Sequence[GridCell]) -> None:
    """Show the grid on the run's page at the Prefect server."""
    settings = read_settings()
    lines = ["| cell | state | |", "|---|---|---|"]
    for cell in cells:
        end = read_end(cell, settings)
        lines.append(f"| {cell.title} | {end.state} | {plain_markdown(end.told)} |")
    post_markdown("backfill", "\n".join(lines), "Backfill")
