from dataclasses import replace

import pytest
from dask_process import threads
from own_sample import write_rents
from stored_files import stored
from sweep_process import write_config
from sweep_sample import sweep_config

from configs.load import load_configs
from fkd.methods import methods
from flows.fitting import fit_all
from flows.run import show_plan
from tasks.select.study import open_study

THREADS = threads(1)


@pytest.fixture
def planned(settings, tmp_path, capsys):
    """The words of each run's row, with all that was printed."""

    def plan(config, *overrides):
        show_plan(load_configs(write_config(config, tmp_path), overrides))
        text = capsys.readouterr().out
        lines = [line.split() for line in text.splitlines()]
        rows = [words for words in lines if words and words[0].startswith(config.name)]
        return rows, " ".join(text.split())

    return plan


def test_a_plan_counts_trials_fits_tasks_and_computes_nothing(planned, settings):
    (row,), text = planned(sweep_config(THREADS))
    # 12 trials on two outer and two inner folds, those of one gamma together.
    assert row[:6] == ["sweep", "12", "48", "0", "48", "8"]
    assert float(row[7]) > 0
    assert "nothing is computed" in text
    assert [path.name for path in stored(settings).iterdir()] == ["prepared"]  # the table alone
    assert not settings.experiments.exists()


def test_a_plan_says_what_is_stored_and_why_the_rest_is_not(planned, settings):
    fit_all([open_study(sweep_config(THREADS), settings)])
    (row,), _ = planned(sweep_config(THREADS))
    assert row[:6] == ["sweep", "12", "48", "48", "0", "0"]
    (row,), text = planned(sweep_config(THREADS, lengths=4))
    assert row[:6] == ["sweep", "16", "64", "48", "16", "8"]
    assert "To do: 16 with a new value of iterations" in text


def test_a_plan_names_what_changed_since_the_last_run(planned, settings, monkeypatch):
    fit_all([open_study(sweep_config(THREADS), settings)])
    for change, reason in (
        (("methods.0.ridge=0.5",), "48 with a new value of ridge"),
        (("cluster.blas_threads=2",), "48 the BLAS threads changed"),
        (("data.sample=300",), "48 the data changed"),
        (("methods=[krr]",), "of the new method krr"),
    ):
        assert reason in planned(sweep_config(THREADS), *change)[1]
    declared = methods()["krr_fkd"]
    raised = replace(declared, version=declared.version + 1)
    monkeypatch.setitem(methods(), "krr_fkd", raised)
    told = f"48 krr_fkd is version {raised.version}, was {declared.version}"
    assert told in planned(sweep_config(THREADS))[1]


def test_failed_fits_are_to_do_again(planned, settings):
    config = sweep_config(THREADS)
    study = open_study(config, settings)
    study.store.write_failure(study.missing()[0].record_keys[0], "ValueError: no")
    (row,), _ = planned(config)
    assert row[3:5] == ["0", "48"]


def test_a_sweep_has_a_row_per_run_and_a_search_its_remark(planned):
    plain = sweep_config(THREADS)
    rows, _ = planned(plain, "sweep={seed: [0, 1]}")
    assert [row[0] for row in rows] == ["sweep-0", "sweep-1"]
    _, text = planned(plain, "methods=[{name: krr_fkd, search: {gamma: [0.1, 0.2]}}]")
    assert "winner of a search adds the fits" in text


def test_a_plan_of_an_own_table_says_how_its_rows_were_read(settings, tmp_path, capsys):
    show_plan(load_configs(write_rents(tmp_path, data={"missing": "drop"})))
    text = " ".join(capsys.readouterr().out.split())
    assert "120 rows read" in text
    assert "read as Windows-1252, separated by semicolons, decimal comma" in text
    assert "data.missing: impute keeps them" in text
    assert "Strengths that are not given are added" in text
