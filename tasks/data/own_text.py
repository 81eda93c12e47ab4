"""How the text of an own table is written: its encoding, its separator, its header."""

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from configs.errors import UserError
from configs.text_form import AUTO, SEPARATOR_WORDS, FormKeys

_PIECE = 2**20
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_TITLES = {"utf-8": "UTF-8", "utf-16": "UTF-16", "cp1252": "Windows-1252"}
# Decodes most of what an office program of the West writes; five of its bytes mean nothing.
_FALLBACK = "cp1252"


@dataclass(frozen=True)
class TextForm:
    """What must be known of a text before its columns can be read.

    Parameters
    ----------
    encoding
        The name of the codec.
    separator
        What stands between two columns.
    header
        The names in the line that has them.
    lines_before
        Lines above that one.
    """

    encoding: str
    separator: str
    header: tuple[str, ...]
    lines_before: int = 0

    def told(self) -> str:
        """Return the form in words."""
        encoding = _TITLES.get(self.encoding, self.encoding)
        return f"{encoding}, separated by {SEPARATOR_WORDS[self.separator]}"


def find_form(path: Path, data: FormKeys, wanted: Sequence[str]) -> TextForm:
    """Return the form of a text file: the user's word, else what the file itself shows.

    Parameters
    ----------
    path
        The file, compressed or not.
    data
        May name encoding and separator.
    wanted
        Columns that the header should have: the separator is the one that finds most of them.
    """
    encoding = _encoding(path, data.encoding)
    text = next(_decoded(path, encoding), "").removeprefix("\ufeff")
    if "\0" in text:
        raise UserError(
            f"{path} holds zero bytes, so it is no text in {encoding}; if it is UTF-16 without its "
            "mark, say data.encoding: utf-16-le."
        )
    # Excel's own way to name the separator.
    named = text[:4].lower() == "sep=" and text[4:5] in SEPARATOR_WORDS
    before = int(named)
    if named:
        text = text.partition("\n")[2]
    if text.strip() and "\n" not in text and "\r" not in text:
        raise UserError(f"{path} must have rows below its line of column names, got none of them.")
    candidates: Sequence[str] = tuple(SEPARATOR_WORDS)
    if data.separator != AUTO:
        candidates = (data.separator,)
    headers = {sign: _header(text, sign) for sign in candidates}
    best = max(candidates, key=lambda sign: (_found(headers[sign], wanted), len(headers[sign])))
    return TextForm(encoding, best, headers[best], before)


def _found(header: Sequence[str], wanted: Sequence[str]) -> int:
    return len(set(wanted) & set(header))


def _header(text: str, separator: str) -> tuple[str, ...]:
    """Return the names in the first line under a separator."""
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        return tuple(next((line for line in lines if line), ()))
    except csv.Error:
        return ()


def _encoding(path: Path, asked: str) -> str:
    """Return the codec by which the whole file can be decoded."""
    if asked != AUTO:
        if fault := _fault(path, asked):
            raise UserError(
                f"{path} must be {asked}, as data.encoding says, but {fault}; name another one, or "
                "leave it at auto."
            )
        return asked
    start = next(_pieces(path), b"")[:4]
    marked = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
    for encoding in [marked] if marked else ["utf-8", _FALLBACK]:
        fault = _fault(path, encoding)
        if not fault:
            return encoding
    raise UserError(
        f"{path} is neither UTF-8 nor Windows-1252, since {fault}; name its encoding by "
        "data.encoding, such as cp850 or mac-roman."
    )


def _fault(path: Path, encoding: str) -> str:
    """Return where a file cannot be decoded, empty where all of it can."""
    decoder = codecs.getincrementaldecoder(encoding)()
    lines = 1
    for piece in (*_pieces(path), b""):
        try:
            lines += decoder.decode(piece, final=not piece).count("\n")
        except UnicodeDecodeError as error:
            lines += error.object[: error.start].count(b"\n")
            return f"line {lines} has the byte 0x{error.object[error.start]:02x}"
    return ""


def _decoded(path: Path, encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)()
    for piece in _pieces(path):
        yield decoder.decode(piece)


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked where its name says that it is packed."""
    with pa.input_stream(str(path)) as stream:
        while piece := stream.read(_PIECE):
            yield piece
