"""What is made beside fits: found by the steps that need it, never in their way."""

import json
import threading
import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest
from stored_files import stored
from sweep_sample import sweep_config

from configs.methods import MethodConfig
from flows import foresight as module
from flows.desk import Desk, distinct
from flows.fitting import fit_all
from flows.foresight import Foresight, deciding_keys, is_foreseen
from tasks.adapters.settings import Settings
from tasks.adapters.store import record_name
from tasks.planned.trials import record_key
from tasks.study import champion as champion_module
from tasks.study import counted_ends, row_facts
from tasks.study.champion import select_champion
from tasks.study.evaluate import run_job
from tasks.study.opening import open_study

PATIENCE = 60.0
MAP = {"kind": "nystroem", "landmarks": 60, "shared": True}
GRID = {"alpha": [0.1, 1.0], "iterations": [0, 2]}
ENTRY = {"name": "krr_fkd", "gamma": 0.05, "approximation": MAP, "grid": GRID}


def config_of(*overrides, entry=ENTRY):
    """Embedded Crimes under a shared map; folds 0, 1, 2, the inner ones of 0."""
    methods = f"methods={json.dumps([entry])}"
    return sweep_config(methods, "folds.reserve=0.3", *overrides, k=3)


@pytest.fixture(autouse=True)
def _many_rows(monkeypatch):
    """Let the rows of Crimes be very many."""
    monkeypatch.setattr(counted_ends, "BINNED_FROM", 100)


@pytest.fixture
def study(settings):
    return open_study(config_of(), settings)


def champions(study):
    """The champions that the store has."""
    folder = stored(study.settings, "champions")
    return sorted(folder.iterdir()) if folder.exists() else []


def rows_kept(study):
    """The facts of rows that the store has."""
    folder = stored(study.settings, "rows")
    return sorted(folder.iterdir()) if folder.exists() else []


def run_until(desk, foresight, last):
    """Run the jobs of a desk as far as the last one, as a run hears of them."""
    for job in desk.jobs[: desk.jobs.index(last) + 1]:
        desk.hear(job, run_job(job))
        desk.done(job)
        foresight.done(job)
    settle(foresight)


def settle(foresight):
    """Wait until all is made that was asked for so far."""
    foresight._thread.submit(int).result(PATIENCE)


def split_of(study, desk):
    """The last job that decides the champion, and one that does not."""
    deciding = study.inputs.splits.deciding(study.loaded.table)
    last = [job for job in desk.jobs if job.split in deciding][-1]
    return last, [job for job in desk.jobs if job.split not in deciding][-1]


def test_a_champion_is_made_before_the_fits_that_do_not_decide_it(study, monkeypatch):
    desk = Desk([study])
    decided, other = split_of(study, desk)
    assert desk.jobs.index(decided) + 2 < len(desk.jobs)
    with Foresight() as foresight:
        foresight.expect(desk.studies, desk.jobs)
        before = desk.jobs[desk.jobs.index(decided) - 1]
        run_until(desk, foresight, before)
        assert champions(study) == []
        desk.hear(decided, run_job(decided))
        desk.done(decided)
        foresight.done(decided)
        settle(foresight)
    assert len(champions(study)) == 1
    assert len(rows_kept(study)) == 1
    assert other.record_keys[0] not in study.store
    for job in desk.jobs:
        run_job(job)
    monkeypatch.setattr(champion_module, "_make", lambda *_: pytest.fail("made again"))
    monkeypatch.setattr(row_facts, "strongest_proxies", lambda *_: pytest.fail("made again"))
    assert select_champion(study.again()).bundle.input_columns
    assert row_facts.row_facts(study.again()).median == row_facts.row_facts(study).median


def test_what_was_foreseen_is_what_would_be_selected(study, tmp_path, monkeypatch):
    desk = Desk([study])
    with Foresight() as foresight:
        foresight.expect(desk.studies, desk.jobs)
        run_until(desk, foresight, desk.jobs[-1])
    (kept,) = champions(study)
    plain = open_study(study.config, Settings(tmp_path / "plain", None, None, None))
    for job in plain.missing():
        run_job(job)
    other = select_champion(plain)
    assert other.key in kept.name
    monkeypatch.setattr(champion_module, "_make", lambda *_: pytest.fail("made again"))
    one = select_champion(study.again())
    assert (one.key, one.trial) == (other.key, other.trial)
    assert one.judgement == other.judgement


def test_a_fit_that_fails_later_leaves_another_champion(study):
    desk = Desk([study])
    with Foresight() as foresight:
        foresight.expect(desk.studies, desk.jobs)
        run_until(desk, foresight, desk.jobs[-1])
    (kept,) = champions(study)
    foreseen = select_champion(study.again())
    assert foreseen.key in kept.name
    fold = study.inputs.splits.outer(study.loaded.table)["2"]
    lost = record_name(record_key(foreseen.trial, fold, study.inputs))
    assert study.store.store.remove(lost)
    again = open_study(study.config, study.settings)
    assert select_champion(again).trial != foreseen.trial
    assert len(champions(study)) == 2


def test_nobody_is_foreseen_whom_the_held_out_fold_does_not_know(study):
    for job in study.missing():
        run_job(job)
    best = select_champion(study.again())
    held_out = study.inputs.splits.held_out_fold(study.loaded.table)
    assert study.store.store.remove(record_name(record_key(best.trial, held_out, study.inputs)))
    for path in champions(study):
        path.unlink()
    champion_module.foresee_champion(open_study(study.config, study.settings))
    (kept,) = champions(study)
    assert best.key not in kept.name


@pytest.mark.parametrize("fault", ["row_facts", "foresee_champion"])
def test_a_fault_beside_fits_is_left_to_the_step_that_needs_it(study, monkeypatch, fault):
    met = []

    def failing(*arguments):
        met.append(threading.current_thread())
        raise OSError("no room")

    monkeypatch.setattr(module, fault, failing)
    desk = Desk([study])
    with Foresight() as foresight:
        foresight.expect(desk.studies, desk.jobs)
        run_until(desk, foresight, desk.jobs[-1])
        assert met != []
    assert threading.current_thread() not in met
    assert select_champion(study.again()).trial in study.trials


def test_a_fault_is_met_again_by_who_selects(study, monkeypatch):
    met = []

    def failing(*arguments):
        met.append(threading.current_thread())
        raise RuntimeError("no judgement")

    monkeypatch.setattr(champion_module, "judge", failing)
    desk = Desk([study])
    with Foresight() as foresight:
        foresight.expect(desk.studies, desk.jobs)
        run_until(desk, foresight, desk.jobs[-1])
    assert champions(study) == []
    assert len(met) == 1
    with pytest.raises(RuntimeError, match="no judgement"):
        select_champion(study.again())
    assert met[0] is not met[1] is threading.current_thread()


@pytest.mark.parametrize(
    ("overrides", "entry"),
    [
        (["select=null"], ENTRY),
        (["weights.column=fold"], ENTRY),
        ([], {**ENTRY, "approximation": {**MAP, "shared": False}}),
        (
            [],
            {
                "name": "krr_fkd",
                "approximation": MAP,
                "search": {"gamma": [0.02, 0.05]},
                "grid": {"iterations": [0, 2]},
            },
        ),
        (
            [],
            {
                "name": "svr_fkd",
                "gamma": 0.05,
                "approximation": MAP,
                "grid": {"C": [0.5], "iterations": [0, 2]},
                "solver": "batched",
            },
        ),
    ],
    ids=["no policy", "weights", "exact", "search", "machines"],
)
def test_nothing_is_foreseen_that_is_dear_or_not_yet_known(settings, overrides, entry):
    study = open_study(config_of(*overrides, entry=entry), settings)
    assert not is_foreseen(study)


def test_nothing_is_foreseen_whose_strengths_may_grow(study, monkeypatch):
    assert is_foreseen(study)
    monkeypatch.setattr(MethodConfig, "grows", lambda *_: True)
    assert not is_foreseen(study)


def test_nothing_is_foreseen_of_few_rows(study, monkeypatch):
    assert is_foreseen(study)
    monkeypatch.setattr(counted_ends, "BINNED_FROM", 10**6)
    assert not is_foreseen(study)


def test_a_run_on_a_cluster_has_its_champion_when_its_fits_are_there(study, monkeypatch):
    config = config_of("cluster={workers: 2}")
    assert fit_all([open_study(config, study.settings)]).failed == 0
    assert len(champions(study)) == 1
    monkeypatch.setattr(champion_module, "_make", lambda *_: pytest.fail("made again"))
    select_champion(open_study(config, study.settings))


def test_warnings_that_one_side_sets_aside_come_back(study, monkeypatch):
    entered, left, gone = threading.Event(), threading.Event(), threading.Event()
    before = list(warnings.filters)

    def first_to_come(study):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            entered.set()
            assert left.wait(PATIENCE)
        gone.set()

    monkeypatch.setattr(module, "row_facts", first_to_come)
    with Foresight() as foresight:
        foresight.expect([study], study.missing())
        assert entered.wait(PATIENCE)
        with warnings.catch_warnings():  # goes last, with what the first has set aside
            left.set()
            assert gone.wait(PATIENCE)
    assert list(warnings.filters) == before


@pytest.fixture
def slow(monkeypatch):
    """What is made beside fits takes until it is let; which has begun, which was made."""
    found = SimpleNamespace(begun=threading.Event(), let=threading.Event(), made=[])

    def make(study):
        found.begun.set()
        assert found.let.wait(PATIENCE)
        found.made.append(study)

    monkeypatch.setattr(module, "row_facts", make)
    return found


def _end_beside(foresight, study, slow):
    """End a run while the first of several things is made beside it."""
    with foresight:
        foresight.expect([study] * 3, study.missing())
        assert slow.begun.wait(PATIENCE)
        raise KeyboardInterrupt


def test_who_ends_a_run_waits_for_nothing(study, slow):
    foresight = Foresight()
    with pytest.raises(KeyboardInterrupt):
        _end_beside(foresight, study, slow)
    assert slow.made == []
    slow.let.set()
    foresight._thread.shutdown(wait=True)
    assert len(slow.made) == 1  # what has not begun is not made


def test_when_fits_are_there_only_what_has_begun_is_waited_for(study, slow, capsys):
    with Foresight() as foresight:
        foresight.expect([study] * 3, study.missing())
        assert slow.begun.wait(PATIENCE)
        threading.Timer(0.3, slow.let.set).start()
    assert len(slow.made) == 1
    assert "the champion is being judged" in capsys.readouterr().err


def test_a_store_apart_knows_what_was_known_and_hears_nothing_later(study):
    jobs = study.missing()
    study.store.hear(run_job(jobs[0]))
    apart = study.apart()
    assert apart.store.read_all(jobs[0].record_keys).keys() == {*jobs[0].record_keys}
    sent = [replace(record, key="ab" + "0" * 62) for record in run_job(jobs[1])[:1]]
    study.store.hear(sent)
    assert sent[0].key in study.store
    assert sent[0].key not in apart.store
    assert apart.made is not study.made


def test_fits_that_decide_champions_come_first(study):
    (job, *_), inputs = study.missing(), study.inputs
    labels = ["0", "1", "2", "2.0", "2.1"]
    jobs = [replace(job, split=label, record_keys=(label,) * len(job.trials)) for label in labels]
    # As of folds forward in time, whose newest is held out.
    found = distinct(jobs, {inputs: {"2", "2.0", "2.1"}})
    assert [job.split for job in found] == ["2", "2.0", "2.1", "0", "1"]
    assert inputs.splits.deciding(study.loaded.table) == {"0", "0.0", "0.1"}


def test_each_table_has_its_own_newest_fold(study):
    """Two tables under the same folds forward in time, one of three years, one of four."""
    (job, *_), other = study.missing(), replace(study.inputs, table_digest="another")
    jobs = [
        replace(job, inputs=inputs, split=label, record_keys=(f"{label}{i}",) * len(job.trials))
        for i, inputs in enumerate((study.inputs, other))
        for label in ("0", "1", "2")
    ]
    found = distinct(jobs, {study.inputs: {"1"}, other: {"2"}})
    assert [(job.split, job.inputs is other) for job in found[:2]] == [("1", False), ("2", True)]


def test_all_that_chooses_and_judges_decides(study):
    table, inputs = study.loaded.table, study.inputs
    labels = {
        label
        for label, fold in inputs.splits.all(table).items()
        if record_key(study.trials[0], fold, inputs) in deciding_keys(study)
    }
    assert labels == {"0", "0.0", "0.1"}
    assert len(deciding_keys(study)) == 3 * len(study.trials)
