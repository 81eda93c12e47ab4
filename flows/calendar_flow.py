"""What every flow of a calendar shares: where it may start, the line it leaves when it ends."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from prefect import Flow, State, flow
from prefect.client.schemas.objects import FlowRun

from configs.errors import UserError
from flows.clearing import clear_leftovers
from flows.progress import watcher
from tasks.adapters.servers.lifeline import end_with_parent

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


def calendar_flow(
    name: str, run_name: Callable[[], str] | None = None
) -> Callable[[Callable[_Given, _Found]], Flow[_Given, _Found]]:
    """Return a decorator: a flow that says how each of its runs ended, however it ended."""
    ends = ("on_completion", "on_failure", "on_cancellation", "on_crashed")
    told: dict[str, Any] = {end: [tell_run] for end in ends}
    return flow(name=name, flow_run_name=run_name, persist_result=False, **told)


def begin_run() -> None:
    """Look whether a run can be gone through here, clear away what killed ones have left."""
    end_with_parent()
    check_home()
    clear_leftovers()


def check_home() -> None:
    """Refuse to start where the results would be lost with the run's working folder."""
    named = os.environ.get("FKD_HOME", "")
    if not Path(named).expanduser().is_absolute():
        raise UserError(
            "FKD_HOME must be the absolute path of a folder that outlives a scheduled run, got "
            f"{named!r}: a worker runs in a temporary folder which it deletes; set FKD_HOME in the "
            "deployment's job_variables, as deploy/prefect.yaml does from the shell that deploys: "
            "export it there, then deploy again."
        )


def tell_run(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Say in one line when a run was on, how it ended; its traceback is with the server."""
    watcher().say(describe_run(flow_run, state))


def describe_run(flow_run: FlowRun, state: State[Any]) -> str:
    """Return a run's name, start, end, state, seconds, with its report or what went wrong."""
    start, end = flow_run.start_time or flow_run.expected_start_time, state.timestamp
    ended = f"{start:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} UTC, " if start else ""
    seconds = f" after {(end - start).total_seconds():.0f} s" if start else ""
    line = f"run {flow_run.name}: {ended}{(state.name or state.type.value).lower()}{seconds}"
    return f"{line}; {told}" if (told := _told(state)) else line


def _told(state: State[Any]) -> str:
    """Return what a run that went well has made, one sentence of any other."""
    if state.is_completed():
        made = str(state.result(raise_on_failure=False))
        return f"report: {made}" if made.endswith(".html") else made
    # A run that failed has its error; of one that was ended from outside there is a message.
    error = state.result(raise_on_failure=False) if state.is_failed() else state.message
    return " ".join(str(error or "").split())
