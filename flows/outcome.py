"""What a run made, for the person who started it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.errors import UserError
from fkd.measures import REPORTED
from fkd.methods import method
from flows.log_lines import is_json, write_line
from tasks.adapters.addresses import without_credentials
from tasks.adapters.registry import CHAMPION
from tasks.adapters.tracking_places import runs_page
from tasks.report.gather import report_data
from tasks.report.text import finding_of
from tasks.study.champion import select_champion
from tasks.study.check_values import CheckOutcome, CheckResult
from tasks.study.checks import check_study
from tasks.study.finding import Finding
from tasks.study.gate import GateError, broken_limits
from tasks.study.judgement import ScoreIntervals
from tasks.study.opening import Study
from tasks.study.recording import model_address, recorded
from tasks.study.results import SCORES, TrialResult
from tasks.study.selection import NoChampionError

_SEARCHED = (
    "‡ parameters searched on rows that most folds test on: these means look a little too good"
)


@dataclass(frozen=True)
class Outcome:
    """Results of a run with the places where they lie."""

    name: str
    columns: tuple[str, ...]
    results: tuple[TrialResult, ...]
    champion: str | None  # the chosen trial's key
    paths: dict[str, str]
    failures: dict[str, str]  # cause by fit
    notices: tuple[str, ...]
    broken: tuple[str, ...]  # limits of the gate that the champion breaks
    held_out: ScoreIntervals | None = None  # the champion's figures on rows it never saw
    record: str | None = None  # where MLflow has the run, as it may be shown
    finding: Finding | None = None  # what the champion changed, None where there is none
    names: Mapping[str, str] = field(default_factory=dict)  # of methods and variants, by trial
    words: Mapping[str, str] = field(default_factory=dict)  # for measured columns
    searched: frozenset[str] = frozenset()  # trials that a search has won
    checks: tuple[CheckResult, ...] = ()
    weights: str = ""  # by which column rows were weighed in what

    @classmethod
    def of(cls, study: Study, page: str, notices: tuple[str, ...]) -> "Outcome":
        """Return the outcome of a study whose stages have all run."""
        champion, broken = None, []
        try:
            selected = select_champion(study)
        except NoChampionError:
            pass
        else:
            champion = selected.trial.key
            broken = broken_limits(selected.judgement, study.config.gate)
        paths = {"report": page, "results": str(study.folder / "results.csv")}
        if champion is not None:
            paths["model"] = model_address(study, selected)
        return cls(
            study.config.name,
            study.inputs.measure_on,
            tuple(study.results()),
            champion,
            paths,
            study.failures(),
            notices,
            tuple(broken),
            None if champion is None else selected.judgement.held_out,
            _record(study),
            None if champion is None else finding_of(report_data(study, curves=False)),
            study.names,
            study.config.data.declaration.titles,
            study.searched,
            check_study(study),
            "" if study.config.weights is None else study.config.weights.told(),
        )

    def message(self) -> dict[str, Any]:
        """Return what hooks are told."""
        problem = self.problem()
        return {
            "name": self.name,
            "state": "success" if problem is None else "failure",
            "problem": None if problem is None else str(problem),
            "trials": len(self.results),
            "failed_fits": len(self.failures),
            "champion": self.champion,
            **self.paths,
        }

    def show(self) -> None:
        """Print the trials as a table, then what was made where; as JSON one line of all that."""
        if is_json():
            told = self.message()
            write_line("info", "result", self._sentence(), run=told.pop("name"), **told)
            return
        console = Console(highlight=False)
        for column in self.columns:
            console.print(self._table(column))
        if self.weights:
            console.print(f"[dim]rows weighed by {escape(self.weights)}[/dim]")
        if any(result.trial.key in self.searched for result in self.results):
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

    def _sentence(self) -> str:
        """Return what was found in a few words."""
        return "" if self.finding is None else " ".join(self.finding.sentences)

    def _table(self, column: str) -> Table:
        """Return the trials' means ± deviations on one measured column."""
        words = self.words.get(column, column)
        table = Table(
            title=f"Mean ± std over folds, dependence on {escape(words)}; ← champion",
            title_justify="left",
        )
        table.add_column("method")
        table.add_column("strength", justify="right")
        for heading in ("MAE", *(measure.label for measure in REPORTED.values())):
            table.add_column(heading, justify="right", no_wrap=True)
        for result in self.results:
            declared, chosen = method(result.trial.method), result.trial.key == self.champion
            numbers = [
                f"{_short(result.mean(m, column))}±{_short(result.std(m, column))}"
                if result.is_defined(m, column)
                else "undefined"
                for m in SCORES
            ]
            table.add_row(
                self._name(result) + (" ←" if chosen else ""),
                f"{result.trial.strength:g}" if declared.strength else "",
                *numbers,
                style="bold green" if chosen else None,
            )
        return table

    def _name(self, result: TrialResult) -> str:
        """Return method and variant, marked where a search has chosen its parameters."""
        key = result.trial.key
        name = self.names.get(key, method(result.trial.method).title)
        return escape(name) + (" ‡" if key in self.searched else "")

    def problem(self) -> UserError | None:
        """Return what could not be done as one error, None where all is well."""
        problems = list(dict.fromkeys(self.notices))
        if self.failures:
            fit, cause = next(iter(self.failures.items()))
            problems.append(
                f"{len(self.failures)} fits failed, the first ({fit}) by {cause}; the same "
                "command tries them again."
            )
        if self.broken:
            text = (
                f"The champion breaks the gate: {'; '.join(self.broken)}. It is registered as "
                f"{self.paths['model']}; what was @{CHAMPION} before stays so."
            )
            return GateError(" ".join([text, *problems]))
        return UserError(" ".join(problems)) if problems else None


def _record(study: Study) -> str | None:
    """Return where MLflow has the run, without anybody's credentials."""
    place = recorded(study)
    if place is None:
        return None
    uri = without_credentials(place.uri)
    if uri.startswith("http"):
        return runs_page(uri, place.experiment_id, place.run_id)
    return f"run {place.run_id} of experiment {place.experiment_id} in {uri}"


def _short(value: float) -> str:
    """Return four decimals without the leading zero: six columns must fit a terminal."""
    return f"{value:.4f}".removeprefix("0")
