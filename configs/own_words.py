"""What people call an own table, its rows, its columns."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from configs.model import Frozen
from configs.nearest import check_name

_LONGEST = 80  # characters of a title or unit, which stand on axes and in sentences


def _one_line(text: str) -> str:
    """Refuse a text that cannot stand in a sentence or on an axis."""
    plain = " ".join(text.split())
    if not plain or len(plain) > _LONGEST or "\n" in text.strip():
        raise ValueError(
            f"must be one line of 1 to {_LONGEST} characters, as it stands in sentences and on "
            f"axes, got {text!r}; a description may be longer"
        )
    return plain


def _some_text(text: str) -> str:
    """Refuse an empty description."""
    if not text.strip():
        raise ValueError("must hold some text, got none; leave the key out instead")
    return text.strip()


Line = Annotated[str, AfterValidator(_one_line)]
Text = Annotated[str, AfterValidator(_some_text)]


class OwnWords(Frozen):
    """Words for people; no number and no key of a stored result depends on them."""

    title: Line | None = None
    """Problem table: what reports call the table; its file's name if not said."""
    description: Text | None = None
    """Problem table: where it comes from, what it is for; markdown, for the report's datasheet."""
    row_noun: Line | None = None
    """Problem table: what a row is, in the plural; rows if not said."""
    titles: dict[str, Line] = Field(default_factory=dict)
    """Problem table: what sentences and axes call a column, by its name."""
    units: dict[str, Line] = Field(default_factory=dict)
    """Problem table: in what a column is counted, by its name."""
    descriptions: dict[str, Text] = Field(default_factory=dict)
    """Problem table: what a column means, by its name, for the report's datasheet."""


WORD_KEYS = tuple(OwnWords.model_fields)


def check_words(words: OwnWords, columns: tuple[str, ...], *, own: bool) -> None:
    """Refuse words for a declared problem, or for a column that the table does not have."""
    for key in WORD_KEYS:
        if getattr(words, key) and not own:
            raise ValueError(
                f"data.{key} has a meaning for problem table only, the other problems have words "
                "of their own"
            )
    for key in ("titles", "units", "descriptions"):
        for name in getattr(words, key):
            check_name(name, columns, key=f"data.{key}")


def words_last(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys with the words behind all others; those that were not given are left out."""
    given = {key: plain[key] for key in WORD_KEYS if plain.get(key)}
    return {**{key: value for key, value in plain.items() if key not in WORD_KEYS}, **given}
