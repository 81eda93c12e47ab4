"""How a run ends: hooks are told, what went wrong becomes one error."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from configs.errors import UserError
from configs.hook_config import HooksConfig
from configs.schema import RunConfig
from flows.faults import as_user_error
from flows.outcome import Outcome
from flows.progress import watcher
from tasks.adapters.hooks import check_hooks, literal_webhooks, tell

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
    """Everything was computed, but something of it went wrong: the flow run counts as failed."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        problems = (outcome.problem() for outcome in outcomes)
        super().__init__(" ".join(str(problem) for problem in problems if problem is not None))
        self.outcomes = list(outcomes)


def check_end(outcomes: Sequence[Outcome]) -> None:
    """Raise where an outcome has a problem, so that Prefect shows a run as we do."""
    if any(outcome.problem() is not None for outcome in outcomes):
        raise BadEndError(outcomes)


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


def end_runs(configs: Sequence[RunConfig], outcomes: Sequence[Outcome]) -> None:
    """Call the hooks, then raise what went wrong as one error with the gravest exit code."""
    problems: list[UserError] = []
    for config, outcome in zip(configs, outcomes, strict=True):
        problem = outcome.problem()
        hook = config.hooks.on_success if problem is None else config.hooks.on_failure
        problems += [UserError(text) for text in tell(hook, outcome.message())]
        problems += [] if problem is None else [problem]
    if problems:
        gravest = max(problems, key=lambda error: error.exit_code)
        raise type(gravest)(" ".join(dict.fromkeys(map(str, problems))))
