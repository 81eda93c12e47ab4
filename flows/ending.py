"""Call hooks at the end of a run, and raise one error for all failures."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from configs.errors import UserError
from configs.hooks import HooksConfig
from flows.errors import as_user_error
from flows.outcome import Cell, failure_of
from flows.progress import watcher
from tasks.servers.hooks import check_hooks, literal_webhooks, tell

_STOPPED = "It was stopped by a signal; what was computed is kept, the same command continues."


class Hooked(Protocol):
    """What has a name and tells somebody of its end."""

    @property
    def name(self) -> str:
        """What is told of."""

    @property
    def hooks(self) -> HooksConfig:
        """Who is told."""


class BadEndError(UserError):
    """The flow went to its end, but some of its runs failed: the flow run counts as failed."""

    def __init__(self, cells: Sequence[Cell], failure: UserError) -> None:
        super().__init__(str(failure))
        self.cells = list(cells)


def check_end(cells: Sequence[Cell]) -> None:
    """Raise if a run failed, so that Prefect shows the flow run as Failed."""
    if (failure := failure_of(cells)) is not None:
        raise BadEndError(cells, failure) from failure


@contextmanager
def failure_told(configs: Sequence[Hooked]) -> Iterator[None]:
    """Tell the failure hooks of all runs where nothing comes of them, for whichever reason.

    An error that nobody has foreseen counts as well; a run that is stopped by Ctrl-C or SIGTERM is
    told as "stopped". A hook that could never be called is refused before any work.
    """
    for config in configs:
        check_hooks(config.hooks)
        for key in literal_webhooks(config.hooks):
            watcher().say(
                f"{key} is never written out; better keep it as env:NAME or file:PATH", "warning"
            )
    try:
        yield
    except BaseException as error:
        if not isinstance(error, GeneratorExit):
            _tell_end(configs, error)
        raise


def _tell_end(configs: Sequence[Hooked], error: BaseException) -> None:
    """Tell the failure hooks of all runs by what they were ended."""
    crashed = isinstance(error, Exception)
    state, problem = ("failure", str(as_user_error(error))) if crashed else ("stopped", _STOPPED)
    for config in configs:
        message = {"name": config.name, "state": state, "problem": problem}
        for fault in tell(config.hooks.on_failure, message):
            watcher().say(fault, "warning")


def end_runs(cells: Sequence[Cell]) -> None:
    """Call the hooks of each run, then raise the failures of runs and hooks as one error."""
    faults: list[str] = []
    for cell in cells:
        hooks = cell.config.hooks
        hook = hooks.on_success if cell.problem() is None else hooks.on_failure
        faults += tell(hook, cell.message())
    failure = failure_of(cells)
    if failure is not None or faults:
        kind = UserError if failure is None else type(failure)
        texts = [*faults, *([] if failure is None else [str(failure)])]
        raise kind(" ".join(dict.fromkeys(texts))) from failure
