"""Pieces of a card in markdown; whatever comes from data is plain text in them."""

import re
from collections.abc import Mapping, Sequence

from tasks.adapters.markdown import plain_markdown

OPEN = "Open: nobody has answered this yet."


def facts(known: Mapping[str, str]) -> str:
    """Return names with their values, those that are empty left out."""
    return "\n".join(
        f"- **{name}:** {_cell(value)}" for name, value in known.items() if value.strip()
    )


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [headings, ["---"] * len(headings), *([_cell(c) for c in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def open_questions(questions: Sequence[str]) -> str:
    """Return questions to people, each marked as open."""
    asked = "\n".join(f"{i}. {text} *{OPEN}*" for i, text in enumerate(questions, 1))
    return f"## Open questions\n\nOnly a person can answer these.\n\n{asked}"


def lowered(text: str) -> str:
    """Return markdown whose headings stand below those of a card."""
    return re.sub(r"^(#{1,4}) ", r"#\1 ", text, flags=re.MULTILINE).strip()


def _cell(text: str) -> str:
    """Return a text on one line in which nothing is markup."""
    return plain_markdown(" ".join(text.split()))
