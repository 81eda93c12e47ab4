"""The command that prints the checks of a finished run."""

from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape

from configs.errors import UserError
from configs.load import load_config
from configs.schema import RunConfig
from flows.command_options import Overrides
from tasks.adapters.settings import read_settings
from tasks.study.check_values import CheckOutcome, CheckResult
from tasks.study.checks import check_study
from tasks.study.opening import open_study

_COLOURS = {
    CheckOutcome.PASSED: "green",
    CheckOutcome.ISSUE: "bold red",
    CheckOutcome.TIP: "yellow",
    CheckOutcome.NOT_APPLICABLE: "dim",
    CheckOutcome.SKIPPED: "dim",
}


class IssueFoundError(UserError):
    """A check found an issue: everything was computed, but somebody should look."""

    exit_code = 3


def check_run(config: str = "default", /, *, overrides: Overrides = ()) -> None:
    """Print what the checks say of a finished run; an issue ends with exit code 3.

    Parameters
    ----------
    config
        A YAML file, or the name of a shipped one.
    """
    check_config(load_config(config, overrides))


def check_config(config: RunConfig) -> None:
    """Print the checks of a configuration whose trials are stored; an issue is exit code 3."""
    study = open_study(config, read_settings())
    if jobs := study.missing():
        raise UserError(
            f"{config.name} is not finished: {sum(len(job.trials) for job in jobs)} fits are not "
            "stored; compute them by `fkd run` first."
        )
    results = check_study(study)
    console = Console(highlight=False)
    for result in results:
        colour = _COLOURS[result.outcome]
        console.print(
            f"[bold]{result.check.code}[/bold] {escape(result.check.title)}: "
            f"[{colour}]{result.outcome}[/{colour}]"
        )
        console.print(f"   {escape(result.said)}", soft_wrap=True)
        if result.outcome in (CheckOutcome.ISSUE, CheckOutcome.TIP):
            console.print(f"   [dim]{escape(result.check.explanation)}[/dim]", soft_wrap=True)
            console.print(f"   [dim]{result.check.address}[/dim]")
    console.print(checks_line(results))
    issues = [result for result in results if result.outcome is CheckOutcome.ISSUE]
    if issues:
        codes = ", ".join(result.check.code for result in issues)
        raise IssueFoundError(f"checks of {config.name} found issues: {codes}; see above.")


def checks_line(results: Iterable[CheckResult]) -> str:
    """Return how many checks ended how."""
    outcomes = [result.outcome for result in results]
    told = [f"{outcomes.count(one)} {one}" for one in CheckOutcome if one in outcomes]
    return f"checks: {', '.join(told)}"
