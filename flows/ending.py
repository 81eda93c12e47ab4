"""How a run ends: hooks are told, what went wrong becomes one error."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from configs.errors import UserError
from configs.schema import RunConfig
from flows.outcome import Outcome
from tasks.adapters.hooks import tell


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
def failure_told(configs: Sequence[RunConfig]) -> Iterator[None]:
    """Tell the failure hooks of all runs where nothing comes of them."""
    try:
        yield
    except UserError as error:
        for config in configs:
            message = {"name": config.name, "state": "failure", "problem": str(error)}
            tell(config.hooks.on_failure, message)
        raise


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
