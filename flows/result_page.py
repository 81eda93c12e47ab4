"""A run's result in markdown, as Prefect's page of the run shows it."""

from collections.abc import Sequence
from pathlib import Path

from fkd.catalog.methods import method
from flows.outcome import Outcome

_MEASURES = ("mae", "hgr", "gdp", "pf")


def result_markdown(outcome: Outcome) -> str:
    """Return the trials' means, the champion, its held-out figures, what went wrong, links."""
    problem = outcome.problem()
    parts = [f"# {outcome.name}", "" if problem is None else f"**{_plain(str(problem))}**"]
    for column in outcome.columns:
        parts += [f"## Means over folds, dependence on {_plain(column)}", _trials(outcome, column)]
    if outcome.held_out is not None:
        parts += ["## The champion on held-out rows", _held_out(outcome)]
    if outcome.broken:
        parts += ["## Broken limits", "\n".join(f"- {_plain(text)}" for text in outcome.broken)]
    return "\n\n".join([*filter(None, parts), "## Where it lies", _places(outcome)])


def markdown_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, the first column to the left, all others to the right."""
    rule = ["---", *["---:"] * (len(heading) - 1)]
    lines = [[_plain(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heading, rule, *lines))


def file_link(path: str) -> str:
    """Return a link to a file of the machine on which the run was."""
    place = Path(path).absolute()
    return f"[{_plain(str(place))}](<{place.as_uri()}>)"


def _trials(outcome: Outcome, column: str) -> str:
    """Return the trials' means ± deviations on one measured column."""
    rows = []
    for result in outcome.results:
        declared, chosen = method(result.trial.method), result.trial.key == outcome.champion
        rows.append(
            [
                declared.title + (" ← champion" if chosen else ""),
                f"{result.trial.strength:g}" if declared.strength else "",
                *(f"{result.mean(m, column):.4f} ± {result.std(m, column):.4f}" for m in _MEASURES),
            ]
        )
    return markdown_table(["method", "strength", *(m.upper() for m in _MEASURES)], rows)


def _held_out(outcome: Outcome) -> str:
    """Return the champion's figures with their intervals."""
    assert outcome.held_out is not None
    rows = [["MAE", "", *_interval(outcome.held_out.mae)]]
    for column, found in outcome.held_out.measures.items():
        rows += [[name.upper(), column, *_interval(ends)] for name, ends in found.items()]
    return markdown_table(["measure", "on", "value", "from", "to"], rows)


def _interval(ends: Sequence[float]) -> list[str]:
    return [f"{end:.4f}" for end in ends]


def _places(outcome: Outcome) -> str:
    """Return links to files, names of what is registered."""
    places = {
        what: f"`{where}`" if what == "model" else file_link(where)
        for what, where in outcome.paths.items()
    }
    if outcome.record is not None:
        web = outcome.record.startswith("http")
        places["MLflow"] = f"<{outcome.record}>" if web else _plain(outcome.record)
    return "\n".join(f"- {what}: {where}" for what, where in places.items())


def _plain(text: str) -> str:
    """Return a text in which nothing is markup."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>|#" else c for c in text)
