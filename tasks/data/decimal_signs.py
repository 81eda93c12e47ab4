"""The decimal sign of each column, decided by all the cells of a file."""

from dataclasses import dataclass, field

from pyarrow import compute as pc

from configs.errors import UserError
from configs.text_form import AUTO, FormKeys
from tasks.data.own_cells import CellColumn, Mask, as_mask
from tasks.data.own_formats import RawColumns


@dataclass
class _Witnesses:
    """The first cells of a column that show a sign, each as its value with its place."""

    point: tuple[str, str] | None = None
    comma: tuple[str, str] | None = None
    doubtful: tuple[str, str] | None = None  # 1.234, which may be either
    doubts: int = 0

    @property
    def sign(self) -> str | None:
        """The decimal sign that the column itself shows, None where it shows none or both."""
        if (self.point is None) == (self.comma is None):
            return None
        return "." if self.comma is None else ","


@dataclass
class DecimalSigns:
    """What the cells seen so far say of the decimal sign; blocks are added in their order."""

    columns: dict[str, _Witnesses] = field(default_factory=dict)

    def add(self, raw: RawColumns, column: CellColumn) -> None:
        """Look at a column's cells in one block of rows."""
        seen = self.columns.setdefault(column.name, _Witnesses())
        doubtful = column.ambiguous
        if raw.lone_point:
            doubtful &= as_mask(pc.match_substring(column.text, ","))
        seen.point = seen.point or _first(raw, column, column.point & ~column.comma)
        seen.comma = seen.comma or _first(raw, column, column.comma & ~column.point)
        seen.doubtful = seen.doubtful or _first(raw, column, doubtful)
        seen.doubts += int(doubtful.sum(axis=0))

    def decided(self, form: FormKeys) -> dict[str, str]:
        """Return the sign of every column, the user's word before what the cells show."""
        if form.decimal != AUTO:
            return dict.fromkeys(self.columns, form.decimal)
        # A column without a fraction goes by the others, if these agree.
        shown = {seen.sign for seen in self.columns.values()} - {None}
        common = shown.pop() if len(shown) == 1 else None
        found = {}
        for name, seen in self.columns.items():
            _refuse_both(name, seen)
            found[name] = seen.sign or common or _default(name, seen)
        return found


def _first(raw: RawColumns, column: CellColumn, where: Mask) -> tuple[str, str] | None:
    """Return the first cell of a mask with its place in the file, None where there is none."""
    if not where.any():
        return None
    row = int(where.argmax())
    return str(column.text[row].as_py()), raw.place(row)


def _default(name: str, seen: _Witnesses) -> str:
    """Return the point, unless that would be a guess."""
    if seen.doubtful is None:
        return "."
    value, place = seen.doubtful
    digits = value.replace(",", "").replace(".", "")
    raise UserError(
        f"column {name} holds {value!r} in {place}, which may be {digits} or "
        f"{value.replace(',', '.')}, and nothing in the file decides ({seen.doubts} such "
        "values); say data.decimal: comma or data.decimal: point."
    )


def _refuse_both(name: str, seen: _Witnesses) -> None:
    """Refuse a column in which both signs are decimal ones."""
    if seen.point and seen.comma:
        first, second = (f"{value!r} in {place}" for value, place in (seen.point, seen.comma))
        raise UserError(
            f"column {name} must have one decimal sign, but holds {first} and {second}; "
            "write them alike in the file."
        )
