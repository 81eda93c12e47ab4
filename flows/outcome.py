"""Results of runs and sweeps: on the terminal, in JSON, on Prefect's page, for hooks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from configs.hooks import HooksConfig
from configs.run import RunConfig
from fkd.measures import REPORTED
from fkd.methods import method
from flows.errors import as_user_error
from flows.messages import is_json, run_log, write_line
from tasks.plan.trials import Trial
from tasks.report.model import report_data
from tasks.report.narrative import finding_of
from tasks.select.champion import Champion, NoChampionError, select_champion
from tasks.select.checks import CheckOutcome, CheckResult, check_study
from tasks.select.judgement import GateError, broken_limits
from tasks.select.results import SCORES, Finding, TrialResult
from tasks.select.study import Study
from tasks.servers.hooks import call_hook, check_hooks, literal_webhooks
from tasks.storage.settings import plain_markdown, scrubbed, without_credentials
from tasks.track.client import runs_page
from tasks.track.recording import model_address
from tasks.track.registry import CHAMPION
from tasks.track.run_index import recorded

# Characters of a terminal for method and strength, and for a score with its deviation.
_NAMES_WIDTH, _SCORE_WIDTH = 24, 14
_SEARCHED = (
    "‡ parameters chosen by a search, on rows that most folds test on: these means are slightly "
    "too good"
)


@dataclass(frozen=True)
class Outcome:
    """Results of a run and the paths of its files."""

    study: Study
    results: tuple[TrialResult, ...]
    champion: Champion | None
    paths: dict[str, str]
    failures: dict[str, str]  # cause by fit
    notices: tuple[str, ...]
    broken: tuple[str, ...]  # limits of the gate that the champion exceeds
    record: str | None  # address of the run in MLflow, without credentials
    finding: Finding | None  # None without a champion
    checks: tuple[CheckResult, ...]

    @classmethod
    def of(cls, study: Study, page: str, notices: tuple[str, ...]) -> "Outcome":
        """Return the outcome of a finished study."""
        paths = {"report": page, "results": str(study.folder / "results.csv")}
        champion, finding, broken = None, None, list[str]()
        with suppress(NoChampionError):
            champion = select_champion(study)
            broken = broken_limits(champion.judgement, study.config.gate)
            finding = finding_of(report_data(study, curves=False))
            paths["model"] = model_address(study, champion)
        return cls(
            study,
            tuple(study.results()),
            champion,
            paths,
            study.failures(),
            notices,
            tuple(broken),
            _record(study),
            finding,
            check_study(study),
        )

    def message(self) -> dict[str, Any]:
        """Return the message for hooks."""
        problem = self.problem()
        return {
            "name": self.study.config.name,
            "state": "success" if problem is None else "failure",
            "problem": None if problem is None else str(problem),
            "trials": len(self.results),
            "failed_fits": len(self.failures),
            "champion": None if self.champion is None else self.champion.trial.key,
            **self.paths,
        }

    def show(self) -> None:
        """Print the trials as a table, and the paths of files; with JSON output, one line."""
        if is_json():
            text = "" if self.finding is None else " ".join(self.finding.sentences)
            fields = self.message()
            write_line("info", "result", text, run=fields.pop("name"), **fields)
            return
        console = Console(highlight=False)
        for column in self.study.inputs.measure_on:
            console.print(self._table(column, console.width))
        if (weights := self.study.config.weights) is not None:
            console.print(f"[dim]rows weighed by {escape(weights.text())}[/dim]")
        if any(result.trial.key in self.study.searched for result in self.results):
            console.print(f"[dim]{_SEARCHED}[/dim]")
        if self.finding is not None:
            for sentence in self.finding.broken:
                console.print(f"[bold red]{escape(sentence)}[/bold red]")
            console.print(escape(" ".join(self.finding.sentences)))
        for result in self.checks:
            if result.outcome is CheckOutcome.ISSUE:
                console.print(f"[bold red]check[/bold red] {escape(result.line)}", soft_wrap=True)
        for what, where in self.paths.items():
            console.print(f"[bold]{what:8}[/bold] {escape(where)}", soft_wrap=True)

    def _table(self, column: str, width: int) -> Table:
        """Return a table of means for one measured column, ± standard deviations if they fit."""
        headings = ("MAE", *(measure.label for measure in REPORTED.values()))
        deviations = _NAMES_WIDTH + _SCORE_WIDTH * len(headings) <= width
        shown = "Mean ± std" if deviations else "Mean"
        table = Table(
            title=f"{shown} over folds, dependence on {escape(self.words(column))}; ← champion",
            title_justify="left",
        )
        table.add_column("method")
        table.add_column("strength", justify="right")
        for heading in headings:
            table.add_column(heading, justify="right", no_wrap=True)

        def short(*values: float) -> str:
            # Without the leading zero, so that six columns fit a terminal.
            return "±".join(f"{value:.4f}".removeprefix("0") for value in values[: 1 + deviations])

        for trial, cells in self.rows(column, short):
            mark = " ‡" if trial.key in self.study.searched else ""
            chosen = self.is_champion(trial)
            table.add_row(
                escape(self.study.names[trial.key]) + mark + (" ←" if chosen else ""),
                *cells,
                style="bold green" if chosen else None,
            )
        return table

    def words(self, column: str) -> str:
        """Return the title of a measured column."""
        return self.study.config.data.declaration.titles.get(column, column)

    def is_champion(self, trial: Trial) -> bool:
        """Return whether a trial was selected."""
        return self.champion is not None and self.champion.trial.key == trial.key

    def rows(
        self, column: str, text: Callable[[float, float], str]
    ) -> Iterator[tuple[Trial, list[str]]]:
        """Yield every trial with its strength and scores; `text` formats mean and deviation."""
        for result in self.results:
            has_strength = method(result.trial.method).strength is not None
            numbers = [
                text(result.mean(m, column), result.std(m, column))
                if result.is_defined(m, column)
                else "undefined"
                for m in SCORES
            ]
            yield result.trial, [f"{result.trial.strength:g}" if has_strength else "", *numbers]

    def problem(self) -> UserError | None:
        """Return all failures of the run as one error, None without failures."""
        problems = list(dict.fromkeys(self.notices))
        if self.failures:
            fit, cause = next(iter(self.failures.items()))
            problems.append(
                f"{len(self.failures)} fits failed, the first ({fit}) with {cause}. The same "
                "command tries them again."
            )
        if self.broken:
            text = (
                f"The champion breaks the gate: {'; '.join(self.broken)}. It is registered as "
                f"{self.paths['model']}. The alias @{CHAMPION} was not moved."
            )
            return GateError(" ".join([text, *problems]))
        return UserError(" ".join(problems)) if problems else None


def _record(study: Study) -> str | None:
    """Return the address of the run in MLflow, without credentials."""
    place = recorded(study)
    if place is None:
        return None
    uri = without_credentials(place.uri)
    if uri.startswith("http"):
        return runs_page(uri, place.experiment_id, place.run_id)
    return f"run {place.run_id} of experiment {place.experiment_id} in {uri}"


def result_markdown(outcome: Outcome) -> str:
    """Return the results of a run as Markdown."""
    problem = outcome.problem()
    parts = [
        f"# {outcome.study.config.name}",
        "" if problem is None else f"**{plain_markdown(str(problem))}**",
    ]
    if outcome.finding is not None:
        found = (*outcome.finding.broken, *outcome.finding.sentences)
        parts += [plain_markdown(" ".join(found))]
    for column in outcome.study.inputs.measure_on:
        words = plain_markdown(outcome.words(column))
        parts += [f"## Means over folds, dependence on {words}", _trials(outcome, column)]
    if outcome.champion is not None:
        held_out = outcome.champion.judgement.held_out
        intervals = [("MAE", "", held_out.mae)]
        for column, measures in held_out.measures.items():
            intervals += [(name.upper(), column, ends) for name, ends in measures.items()]
        rows = [[name, column, *(f"{end:.4f}" for end in ends)] for name, column, ends in intervals]
        table = markdown_table(["measure", "on", "value", "from", "to"], rows)
        parts += ["## The champion on held-out rows", table]
    if outcome.broken:
        parts += [
            "## Broken limits",
            "\n".join(f"- {plain_markdown(text)}" for text in outcome.broken),
        ]
    return "\n\n".join([*filter(None, parts), "## Files", _places(outcome)])


def markdown_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with the first column left-aligned, the others right-aligned."""
    rule = ["---", *["---:"] * (len(heading) - 1)]
    lines = [[plain_markdown(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heading, rule, *lines))


def file_link(path: str) -> str:
    """Return a link to a file on the machine of the run."""
    place = Path(path).absolute()
    return f"[{plain_markdown(str(place))}](<{place.as_uri()}>)"


def _trials(outcome: Outcome, column: str) -> str:
    """Return a table of means ± standard deviations for one measured column."""
    rows = [
        [
            outcome.study.names[trial.key] + (" ← champion" if outcome.is_champion(trial) else ""),
            *cells,
        ]
        for trial, cells in outcome.rows(column, lambda mean, std: f"{mean:.4f} ± {std:.4f}")
    ]
    return markdown_table(["method", "strength", *(m.upper() for m in SCORES)], rows)


def _places(outcome: Outcome) -> str:
    """Return links to files and to the registered model."""
    places = {
        what: f"`{where}`" if what == "model" else file_link(where)
        for what, where in outcome.paths.items()
    }
    if outcome.record is not None:
        web = outcome.record.startswith("http")
        places["MLflow"] = f"<{outcome.record}>" if web else plain_markdown(outcome.record)
    return "\n".join(f"- {what}: {where}" for what, where in places.items())


_COLOURS = {"done": "green", "failed": "red"}


class SweepFailedError(UserError):
    """Some runs of a finished sweep failed."""

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
            fields = self.message()
            write_line("error", "result", run=fields.pop("name"), **fields)


def failure_of(cells: Sequence[Cell]) -> UserError | None:
    """Return the problem of a single run, or one error for all failed runs of a sweep."""
    problems = [(cell.config.name, p) for cell in cells if (p := cell.problem()) is not None]
    if not problems or len(cells) == 1:
        return problems[0][1] if problems else None
    name, first = problems[0]
    others = ", ".join(name for name, _ in problems[1:])
    others = f" Also failed: {others}." if others else ""
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


_STOPPED = "The run was stopped by a signal. Computed results are kept; the same command continues."


class Hooked(Protocol):
    """A configuration with a name and hooks."""

    @property
    def name(self) -> str:
        """Name in messages."""

    @property
    def hooks(self) -> HooksConfig:
        """Hooks that are called at the end."""


class BadEndError(UserError):
    """Some runs of a finished flow failed: the flow run counts as failed."""

    def __init__(self, cells: Sequence[Cell], failure: UserError) -> None:
        super().__init__(str(failure))
        self.cells = list(cells)


def check_end(cells: Sequence[Cell]) -> None:
    """Raise if a run failed, so that Prefect shows the flow run as Failed."""
    if (failure := failure_of(cells)) is not None:
        raise BadEndError(cells, failure) from failure


@contextmanager
def failure_hooks(configs: Sequence[Hooked]) -> Iterator[None]:
    """Call the failure hooks of all runs if the block raises.

    The state of runs that Ctrl-C or SIGTERM stopped is "stopped". A hook that cannot be called is
    refused before the block.
    """
    for config in configs:
        check_hooks(config.hooks)
        for key in literal_webhooks(config.hooks):
            run_log().log(
                f"{key} is an address in the configuration. env:NAME or file:PATH keeps it secret",
                "warning",
            )
    try:
        yield
    except BaseException as error:
        if not isinstance(error, GeneratorExit):
            state, problem = "stopped", _STOPPED
            if isinstance(error, Exception):
                state, problem = "failure", str(as_user_error(error))
            for config in configs:
                message = {"name": config.name, "state": state, "problem": problem}
                for fault in call_hook(config.hooks.on_failure, message):
                    run_log().log(fault, "warning")
        raise


def end_runs(cells: Sequence[Cell]) -> None:
    """Call the hooks of each run, then raise the failures of runs and hooks as one error."""
    faults: list[str] = []
    for cell in cells:
        hooks = cell.config.hooks
        hook = hooks.on_success if cell.problem() is None else hooks.on_failure
        faults += call_hook(hook, cell.message())
    failure = failure_of(cells)
    if failure is not None or faults:
        kind = UserError if failure is None else type(failure)
        texts = [*faults, *([] if failure is None else [str(failure)])]
        raise kind(" ".join(dict.fromkeys(texts))) from failure
