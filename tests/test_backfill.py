"""Grids of states and years: what is planned, what one bad cell does, what is not done again."""

import json

import pytest

from configs.errors import UserError
from flows import backfill as flows_backfill
from flows.backfill import CellsFailedError, fill
from flows.cells import CellEnd, failures, grid, plan_cells, read_end, write_end


class Made:
    """An outcome as far as a cell looks at it."""

    def __init__(self):
        self.paths = {"report": "report.html"}

    def problem(self):
        return None


@pytest.fixture
def computed(monkeypatch):
    """The names of the configurations that were run; those that name Idaho fail."""
    found = []

    def run_all(configs):
        found.extend(config.name for config in configs)
        if "-id-" in configs[0].name:
            raise UserError("the file of Idaho is not there.")
        return [Made()]

    monkeypatch.setattr(flows_backfill, "run_all", run_all)
    monkeypatch.setattr(flows_backfill, "post_markdown", lambda *words: None)
    return found


def _cells(*overrides, states=("MT", "id", "NE"), years=(2018, 2017)):
    return plan_cells("acs_income", states, years, overrides)


def test_cells_are_configurations_of_their_own():
    cells = _cells()
    assert [cell.title for cell in cells[:3]] == ["MT 2018", "ID 2018", "NE 2018"]
    assert [cell.config.name for cell in cells[2:4]] == ["acs_income-ne-2018", "acs_income-mt-2017"]
    assert cells[1].config.data.states == ("ID",)
    assert cells[5].config.data.year == (2017,)
    assert len({cell.config.digest for cell in cells}) == 6


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"states": ("XX",)}, "data.states"),
        ({"states": ()}, "--states must name each of its values once"),
        ({"states": ("MT", "MT")}, "--states must name each"),
        ({"years": (2018, 2018)}, "--years must name each"),
        ({"years": (2020,)}, "no standard 1-Year release"),
    ],
)
def test_a_faulty_grid_is_told_before_any_work(changes, sentence):
    with pytest.raises(UserError, match=sentence):
        _cells(**changes)


@pytest.mark.parametrize(("source", "came"), [("default", "data.source embedded")])
def test_what_has_no_states_is_refused(source, came):
    with pytest.raises(UserError, match=f"census, got {source} with {came}"):
        plan_cells(source, ["MT"], [2018], [])


def test_one_bad_cell_does_not_stop_the_others(settings, computed):
    cells = _cells(years=(2018,))
    with pytest.raises(CellsFailedError, match=r"2 of 3 cells are done; ID 2018: the file") as told:
        fill(cells)
    assert told.value.exit_code == 3
    assert [read_end(cell, settings).state for cell in cells] == ["done", "failed", "done"]
    assert failures(cells, settings) == ["ID 2018: the file of Idaho is not there."]


def test_what_is_done_stays_what_failed_is_tried_again(settings, computed):
    cells = _cells(years=(2018,))
    with pytest.raises(CellsFailedError):
        fill(cells)
    del computed[:]
    with pytest.raises(CellsFailedError):
        fill(cells)
    assert computed == ["acs_income-id-2018"]
    # Another configuration is another grid.
    del computed[:]
    with pytest.raises(CellsFailedError):
        fill(_cells("seed=1", years=(2018,)))
    assert len(computed) == 3


def test_the_grid_shows_states_by_years(settings):
    cells = _cells(years=(2018, 2017))
    write_end(cells[0], CellEnd("done", "a report"), settings)
    write_end(cells[4], CellEnd("failed", "no file"), settings)
    table = grid(cells, settings)
    words = [[str(word) for word in column.cells] for column in table.columns]
    assert words[0] == ["MT", "ID", "NE"]
    states = [[word.partition("]")[2].partition("[")[0] for word in column] for column in words[1:]]
    assert states == [["done", "missing", "missing"], ["missing", "failed", "missing"]]


def test_a_damaged_note_of_a_cell_counts_as_missing(settings):
    (cell,) = _cells(states=("MT",), years=(2018,))
    write_end(cell, CellEnd("done"), settings)
    path = settings.experiments / cell.config.name / "backfill.json"
    path.write_text(path.read_text()[:-5])
    assert read_end(cell, settings) == CellEnd("missing")
    path.write_text(json.dumps([]))
    assert read_end(cell, settings) == CellEnd("missing")
