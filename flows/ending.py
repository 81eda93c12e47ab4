"""How a run ends: hooks are told, what went wrong becomes one error."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from configs.errors import UserError
from configs.schema import RunConfig
from flows.outcome import Outcome
from tasks.adapters.hooks import tell


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
