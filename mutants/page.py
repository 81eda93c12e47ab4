"""The result as a page of the documentation."""

from collections.abc import Sequence
from pathlib import Path

from mutants.mutant import Mutant
from mutants.trial import Verdict

Tried = tuple[Mutant, Verdict]
WANTED = 0.9  # share of the drawn ones that must be killed


def write_page(
    path: Path,
    named: Sequence[Tried],
    drawn: Sequence[Tried],
    equivalent: Sequence[tuple[Mutant, str]],
    *,
    seed: int,
) -> None:
    """Write what became of every mutant; nothing in it changes as long as code and tests do not."""
    path.write_text(
        "\n".join(
            [
                "# Mutants",
                "",
                "Small faults put into the code on purpose; a test must fail for each. "
                "`make mutants` wrote this page.",
                "",
                f"- named: **{_killed(named)} of {len(named)}** killed",
                f"- drawn (seed {seed}): **{_killed(drawn)} of {len(drawn)}** killed, "
                f"{score(drawn):.0%}",
                "",
                "The named ones are declared in `mutants/named.yaml`. The drawn ones are a sample "
                "over all functions of `fkd`, `configs`, `tasks`, `flows`: as many changed "
                "operators, comparisons, conditions, constants, arguments and return values, at "
                "most one per function. Those that change nothing anybody could see are listed "
                "below with the reason, and replaced by the next ones of the draw.",
                "",
                "## Named",
                "",
                "| what | function | instead of | it reads | killed by |",
                "|---|---|---|---|---|",
                *(_row(m.title, m, v) for m, v in named),
                "",
                "## Drawn",
                "",
                "| kind | function | instead of | it reads | killed by |",
                "|---|---|---|---|---|",
                *(_row(m.title, m, v) for m, v in drawn),
                "",
                "## Equivalent",
                "",
                "| function | instead of | it reads | why no test can tell |",
                "|---|---|---|---|",
                *(
                    f"| `{m.function.anchor}` | {_code(m.before)} | {_code(m.after)} | {why} |"
                    for m, why in equivalent
                ),
                "",
            ]
        )
    )


def score(tried: Sequence[Tried]) -> float:
    """Return the share that was killed."""
    return _killed(tried) / len(tried) if tried else 1.0


def _killed(tried: Sequence[Tried]) -> int:
    return sum(verdict.killed for _, verdict in tried)


def _row(title: str, mutant: Mutant, verdict: Verdict) -> str:
    by = verdict.by.removeprefix("tests/").partition("[")[0].replace("::", " ")
    told = by if verdict.killed else "**survived**"
    place = f"`{mutant.function.anchor}`"
    return f"| {title} | {place} | {_code(mutant.before)} | {_code(mutant.after)} | {told} |"


def _code(text: str) -> str:
    """Return code for a cell of a table: one line, not too long."""
    line = " ".join(text.split())
    line = line if len(line) <= 70 else line[:67] + "..."
    return f"`{line}`".replace("|", "\\|")
