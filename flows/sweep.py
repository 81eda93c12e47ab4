"""The runs of a sweep with their results, as a table for the terminal and for Prefect's page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape

from configs.errors import UserError
from configs.schema import RunConfig
from flows.log_lines import is_json, write_line
from flows.outcome import Outcome
from flows.result_page import file_link
from tasks.adapters.addresses import scrubbed
from tasks.adapters.markdown import plain_markdown

_COLOURS = {"done": "green", "failed": "red"}


class SweepFailedError(UserError):
    """The sweep went to its end, but some of its runs failed."""

    exit_code = 3


@dataclass(frozen=True)
class Cell:
    """One run, often of a sweep, with its outcome or the error that stopped it."""

    config: RunConfig
    end: Outcome | UserError

    def problem(self) -> UserError | None:
        """Return why the run counts as failed, None if it does not."""
        return self.end if isinstance(self.end, UserError) else self.end.problem()

    def message(self) -> dict[str, Any]:
        """Return the message for hooks."""
        if isinstance(self.end, Outcome):
            return self.end.message()
        return {"name": self.config.name, "state": "failure", "problem": str(self.end)}

    def row(self) -> tuple[str, str, str]:
        """Return name, state, and the path of the report or the cause of the failure."""
        problem = self.problem()
        if isinstance(self.end, Outcome) and problem is None:
            return self.config.name, "done", self.end.paths["report"]
        return self.config.name, "failed", scrubbed(" ".join(str(problem).split()))

    def show(self) -> None:
        """Print the result of the run; in JSON also the error of a run without one."""
        if isinstance(self.end, Outcome):
            self.end.show()
        elif is_json():
            told = self.message()
            write_line("error", "result", run=told.pop("name"), **told)


def failure_of(cells: Sequence[Cell]) -> UserError | None:
    """Return the problem of a single run, or one error for all failed runs of a sweep."""
    problems = {cell.config.name: p for cell in cells if (p := cell.problem()) is not None}
    if not problems or len(cells) == 1:
        return next(iter(problems.values()), None)
    name, first = next(iter(problems.items()))
    others = f" Also failed: {', '.join([*problems][1:])}." if len(problems) > 1 else ""
    return SweepFailedError(
        f"{len(problems)} of {len(cells)} runs failed. {name}: {first}{others} Correct the cause, "
        "then repeat the command: what is stored is not computed again."
    )


def show_cells(cells: Sequence[Cell]) -> None:
    """Print a table of the runs: name, state, and report or cause."""
    if is_json():
        return
    console, rows = Console(highlight=False), [cell.row() for cell in cells]
    width = max(len(name) for name, *_ in rows)
    console.print("Runs of the sweep")
    for name, state, text in rows:
        shown = f"[{_COLOURS[state]}]{state:6}[/]"
        # Never wrapped, so that a path can be copied.
        console.print(f"  {name:{width}}  {shown}  {escape(text)}", soft_wrap=True)


def cells_markdown(cells: Sequence[Cell]) -> str:
    """Return the same table in markdown."""
    lines = ["| run | state | report or cause |", "|---|---|---|"]
    for name, state, text in (cell.row() for cell in cells):
        shown = file_link(text) if state == "done" else plain_markdown(text)
        lines.append(f"| {plain_markdown(name)} | {state} | {shown} |")
    return "\n".join(lines)
