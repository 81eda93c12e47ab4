"""Rows of a shared map that cannot be used: one sentence that names them, exit code 2."""

import json
from dataclasses import replace

import numpy as np
import pytest
from dask_process import in_threads
from grown_sample import BASE, COLUMNS, grown_study, write_rows
from stored_files import stored

from configs.errors import UserError
from flows import fitting
from flows.cli import main
from flows.errors import as_user_error
from flows.outcome import Outcome
from tasks.data.load import prepared_name
from tasks.kernels.shared_map import shared_encoder
from tasks.plan.trials import cached_table


@pytest.fixture
def study(tmp_path, settings):
    write_rows(tmp_path / "own.csv", BASE)
    found = grown_study(tmp_path / "own.csv", settings)
    threads = in_threads(workers=1)
    return replace(found, config=found.config.model_copy(update={"cluster": threads}))


def reserved(study):
    return study.inputs.splits.reserved(study.loaded.table)


def table_file(study):
    return stored(study.settings, prepared_name(study.inputs.table_digest))


def with_nan(study, place, row=None):
    """Spoil one row, of those that are not reserved if it is not said which."""
    row = np.setdiff1d(np.arange(BASE), reserved(study))[7] if row is None else row
    value = study.loaded.table.numeric[row, 1].tobytes()
    content = place.read_bytes()
    assert content.count(value) == 1
    place.write_bytes(content.replace(value, np.float64(np.nan).tobytes()))


def test_a_spoilt_row_of_a_block_fails_by_name_and_ends_the_run(study):
    """What happens to a table after its seal was checked is found where rows are taken."""
    says = "column b must hold finite numbers"
    with_nan(study, table_file(study))
    cached_table.cache_clear()
    assert fitting.fit_all([study]) > 0
    assert all(says in cause for cause in study.failures().values())
    problem = Outcome.of(study, "report.html", ()).problem()
    assert problem.exit_code == 2
    assert says in str(problem)
    assert "The same command tries them again" in str(problem)


def test_a_table_that_goes_away_meanwhile_is_a_sentence(study):
    table_file(study).unlink()
    cached_table.cache_clear()
    with pytest.raises(FileNotFoundError) as caught:
        cached_table(study.settings, study.inputs.table_digest)
    told = as_user_error(caught.value)
    assert (told.exit_code, str(told).startswith("The prepared table ")) == (2, True)
    assert "absent or damaged" in str(told)
    assert str(told).endswith("then run the same command.")


def test_a_spoilt_row_that_landmarks_come_from_ends_the_run(study):
    with_nan(study, table_file(study), reserved(study)[3])
    cached_table.cache_clear()
    shared_encoder.cache_clear()
    with pytest.raises(UserError) as caught:
        shared_encoder(study.inputs)
    message = str(caught.value)
    assert "must not be changed, but column b must hold finite numbers" in message
    assert message.endswith("Remove it, then run the same command.")


@pytest.mark.parametrize(
    ("rows", "reserve", "says"),
    [
        ("different", 0.05, "folds.reserve must reserve at least as many rows as there are"),
        ("flat", 0.3, "rows from which landmarks are chosen must differ in their inputs"),
    ],
)
def test_a_run_that_has_no_landmarks_ends_before_any_work(
    tmp_path, monkeypatch, capsys, rows, reserve, says
):
    source = tmp_path / "own.csv"
    write_rows(source, BASE)
    if rows == "flat":
        lines = [f"{i / BASE},{(7 * i % BASE) / BASE},{i}.0,1.0,2.0,k" for i in range(BASE)]
        source.write_text("\n".join([",".join(COLUMNS), *lines, ""]))
    reduced = {"kind": "nystroem", "landmarks": 50, "shared": True}
    config = {
        "name": "own",
        "data": {
            "problem": "table",
            "path": str(source),
            "target": "y",
            "sensitive": ["s"],
            "numeric": ["a", "b"],
            "categorical": ["kind"],
        },
        "folds": {"k": 3, "reserve": reserve},
        "methods": [{"name": "krr_fkd", "approximation": reduced}],
    }
    (tmp_path / "own.yaml").write_text(json.dumps(config))
    monkeypatch.setenv("FKD_HOME", str(tmp_path / "home"))
    with pytest.raises(SystemExit) as ended:
        main(["run", str(tmp_path / "own.yaml"), "--dry-run"])
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip()
    assert says in said
    assert len(said.splitlines()) == 1
