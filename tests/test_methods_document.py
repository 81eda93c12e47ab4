"""docs/reference/methods.md tells of every method, truly."""

import re
from pathlib import Path

import pytest

from fkd.methods import methods

TEXT = (Path(__file__).parents[1] / "docs" / "reference" / "methods.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("| `")
]


def row_of(name):
    found = [row for row in ROWS if f"`{name}`" in row[0]]
    assert len(found) == 1, f"the table of docs/reference/methods.md must have one row of {name}"
    return found[0]


@pytest.mark.parametrize("name", sorted(methods()))
def test_the_table_has_a_true_row_for_every_method(name):
    declared = methods()[name]
    _, _, _, strength, _, needs_s, needs, _ = row_of(name)
    assert strength == (f"`{declared.strength}`" if declared.strength else "none")
    assert needs_s == ("**yes**" if declared.needs_sensitive else "no")
    assert needs == (f"`{declared.extra.name}`" if declared.extra else "core")


def test_the_table_names_nothing_else():
    named = {name for row in ROWS for name in re.findall(r"`(\w+)`", row[0])}
    assert named == set(methods())
