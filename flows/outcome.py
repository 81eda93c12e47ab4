"""What a run made, for the person who started it."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from configs.errors import UserError
from fkd.methods import method
from tasks.choose import NoChampionError, choose
from tasks.report_data import Failure
from tasks.results import TrialResult
from tasks.study import Study


@dataclass(frozen=True)
class Outcome:
    """Results of a run with the places where they lie."""

    name: str
    columns: tuple[str, ...]
    results: tuple[TrialResult, ...]
    champion: str | None  # the chosen trial's key
    paths: dict[str, str]
    failures: tuple[Failure, ...]
    notices: tuple[str, ...]

    @classmethod
    def of(
        cls, study: Study, page: str, failures: tuple[Failure, ...], notices: tuple[str, ...]
    ) -> "Outcome":
        """Return the outcome of a study whose stages have all run."""
        try:
            champion = choose(study.results(inner=True), study.config.select).trial.key
        except NoChampionError:
            champion = None
        paths = {"report": page, "results": str(study.folder / "results.csv")}
        if champion is not None:
            paths["model"] = f"models:/{study.config.model}@champion"
        return cls(
            study.config.name,
            study.inputs.measure_on,
            tuple(study.results()),
            champion,
            paths,
            failures,
            notices,
        )

    def show(self, seconds: float) -> None:
        """Print the trials as a table, then what was made where."""
        console = Console(highlight=False)
        for column in self.columns:
            console.print(self._table(column))
        for what, where in self.paths.items():
            console.print(f"[bold]{what:8}[/bold] {where}", soft_wrap=True)
        console.print(f"[dim]{self.name}: done in {seconds:.0f} s[/dim]")

    def _table(self, column: str) -> Table:
        """Return the trials' means ± deviations on one measured column."""
        table = Table(
            title=f"Mean ± std over folds, dependence on {column}; ← champion", title_justify="left"
        )
        table.add_column("method", no_wrap=True)
        table.add_column("strength", justify="right")
        for heading in ("MAE", "HGR", "GDP", "PF"):
            table.add_column(heading, justify="right", no_wrap=True)
        for result in self.results:
            declared, chosen = method(result.trial.method), result.trial.key == self.champion
            numbers = [
                f"{result.mean(m, column):.3f}±{result.std(m, column):.3f}"
                for m in ("mae", "hgr", "gdp", "pf")
            ]
            table.add_row(
                declared.title + (" ←" if chosen else ""),
                f"{result.trial.strength:g}" if declared.strength else "",
                *numbers,
                style="bold green" if chosen else None,
            )
        return table

    def raise_if_incomplete(self) -> None:
        """Turn what could not be done into one sentence with an exit code."""
        problems = list(dict.fromkeys(self.notices))
        if self.failures:
            first = self.failures[0]
            problems.append(
                f"{len(self.failures)} fits failed, the first ({first.trial}) by {first.cause}"
            )
        if problems:
            raise UserError(" ".join(problems))
