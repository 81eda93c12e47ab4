"""How the text of an own table is written: encoding, separator, decimal sign."""

import codecs
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import AfterValidator, BeforeValidator

from configs.model import Frozen

AUTO: Final = "auto"
# A bare comma or bar is no YAML value on a command line, so that words are taken too.
_SIGNS = {
    "comma": ",",
    "semicolon": ";",
    "tab": "\t",
    "\\t": "\t",
    "pipe": "|",
    "bar": "|",
    "point": ".",
    "dot": ".",
}
SEPARATOR_WORDS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


def _sign(value: Any) -> Any:
    """Accept the word for a sign."""
    return _SIGNS.get(value, value) if isinstance(value, str) else value


def _words(value: Any) -> Any:
    """Accept one word for a list of them, a number such as -999 for its text."""
    words = value if isinstance(value, list | tuple) else [value]
    return tuple(str(word) if isinstance(word, int | float) else word for word in words)


MissingWords = Annotated[tuple[str, ...], BeforeValidator(_words)]
Separator = Annotated[Literal["auto", ",", ";", "\t", "|"], BeforeValidator(_sign)]
Decimal = Annotated[Literal["auto", ".", ","], BeforeValidator(_sign)]


def check_encoding(value: str) -> str:
    """Refuse what is no encoding of text."""
    if value == AUTO:
        return value
    try:
        "".encode(value)
    except LookupError:
        raise ValueError(
            f"data.encoding must be auto or an encoding such as utf-8, cp1252, iso-8859-15, "
            f"utf-16 or mac-roman, got {value!r}"
        ) from None
    return codecs.lookup(value).name


class FormKeys(Protocol):
    """The keys that say how an own file is written."""

    @property
    def encoding(self) -> str:
        """The codec of a text, or auto."""

    @property
    def separator(self) -> str:
        """What stands between columns, or auto."""

    @property
    def decimal(self) -> str:
        """The decimal sign, or auto."""

    @property
    def missing_words(self) -> tuple[str, ...]:
        """Words for a missing value, besides the usual ones."""


class WrittenForm(Frozen):
    """The same keys alone, for a file of which no run is asked."""

    encoding: Annotated[str, AfterValidator(check_encoding)] = AUTO
    separator: Separator = AUTO
    decimal: Decimal = AUTO
    missing_words: MissingWords = ()
