"""Letters that a terminal cannot show, in letters that it can."""

import codecs
import os
import sys
import unicodedata
from contextlib import suppress

_PLAIN = {
    "·": "-",
    "—": "-",
    "–": "-",
    "…": "...",
    "←": "<-",
    "→": "->",
    "±": "+/-",
    "≤": "<=",
    "≥": ">=",
    "×": "x",
    "²": "^2",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "━": "-",
    "╸": "-",
    "╺": "-",
}
_NAME = "fkd.plain"


def speak_any_encoding() -> None:
    """Let text reach a terminal or log of any encoding, letters changed where they must be."""
    codecs.register_error(_NAME, _plain)
    for stream in (sys.stdout, sys.stderr):
        # A stream that a caller has put there may have no encoding at all.
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors=_NAME)  # type: ignore[union-attr]


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Return the plain form of letters that cannot be encoded, with where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(map(_letter, letters)), error.end


def _letter(letter: str) -> str:
    """Return one letter in ASCII: a known form, the letter without its accent, or a mark."""
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return _PLAIN.get(letter) or plain or "?"


def close_broken_output() -> None:
    """Let nothing more be written to a reader who has gone, as `head` does."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
            continue
        with suppress(OSError, ValueError, AttributeError):
            os.dup2(nowhere, stream.fileno())
