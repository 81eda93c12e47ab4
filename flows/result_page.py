"""A run's result in markdown, as Prefect's page of the run shows it."""

from collections.abc import Sequence
from pathlib import Path

from fkd.methods import method
from flows.outcome import Outcome
from tasks.adapters.markdown import plain_markdown
from tasks.study.results import SCORES


def result_markdown(outcome: Outcome) -> str:
    """Return the trials' means, the champion, its held-out figures, what went wrong, links."""
    problem = outcome.problem()
    parts = [f"# {outcome.name}", "" if problem is None else f"**{plain_markdown(str(problem))}**"]
    if outcome.finding is not None:
        found = (*outcome.finding.broken, *outcome.finding.sentences)
        parts += [plain_markdown(" ".join(found))]
    for column in outcome.columns:
        words = plain_markdown(outcome.words.get(column, column))
        parts += [f"## Means over folds, dependence on {words}", _trials(outcome, column)]
    if outcome.held_out is not None:
        parts += ["## The champion on held-out rows", _held_out(outcome)]
    if outcome.broken:
        parts += [
            "## Broken limits",
            "\n".join(f"- {plain_markdown(text)}" for text in outcome.broken),
        ]
    return "\n\n".join([*filter(None, parts), "## Where it lies", _places(outcome)])


def markdown_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, the first column to the left, all others to the right."""
    rule = ["---", *["---:"] * (len(heading) - 1)]
    lines = [[plain_markdown(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heading, rule, *lines))


def file_link(path: str) -> str:
    """Return a link to a file of the machine on which the run was."""
    place = Path(path).absolute()
    return f"[{plain_markdown(str(place))}](<{place.as_uri()}>)"


def _trials(outcome: Outcome, column: str) -> str:
    """Return the trials' means ± deviations on one measured column."""
    rows = []
    for result in outcome.results:
        declared, chosen = method(result.trial.method), result.trial.key == outcome.champion
        name = outcome.names.get(result.trial.key, declared.title)
        rows.append(
            [
                name + (" ← champion" if chosen else ""),
                f"{result.trial.strength:g}" if declared.strength else "",
                *(
                    f"{result.mean(m, column):.4f} ± {result.std(m, column):.4f}"
                    if result.is_defined(m, column)
                    else "undefined"
                    for m in SCORES
                ),
            ]
        )
    return markdown_table(["method", "strength", *(m.upper() for m in SCORES)], rows)


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
        places["MLflow"] = f"<{outcome.record}>" if web else plain_markdown(outcome.record)
    return "\n".join(f"- {what}: {where}" for what, where in places.items())
