"""Runs that keep no predictions: every number, the champion and the report are the same."""

import re
import shutil

import pytest
from dask_process import threads
from flow_stages import run_stages
from own_sample import rents, write_rents
from pipeline_fixtures import QUICK
from stored_files import predictions_file, stored
from tracking_server import warm_mlflow

from configs import run as keeping
from configs.errors import UserError
from configs.load import load_config
from flows.fitting import fit_all
from flows.run import show_plan
from tasks.fit.job import run_job
from tasks.plan.trials import record_key
from tasks.reproduce.resample import stored_predictions
from tasks.select import judgement as held_out
from tasks.select.champion import select_champion
from tasks.select.groups import within_groups
from tasks.select.judgement import without_removal
from tasks.select.study import open_study
from tasks.storage.settings import Settings

THREADS = threads(1)
RUN = (*QUICK, "data.control=[medIncome]", THREADS)
DROP, KEEP = "predictions=drop", "predictions=keep"


def predictions(study):
    """The files of predictions that trials have."""
    return list(stored(study.settings).glob("??/*.arrays"))


def without_champion(study):
    """The same study, opened after its stored champion was removed."""
    shutil.rmtree(stored(study.settings, "champions"))
    return open_study(study.config, study.settings)


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same run with and without predictions, each in a home of its own."""
    found = {}
    for policy in ("keep", "drop"):
        home = tmp_path_factory.mktemp(policy) / "home"
        warm_mlflow(home / "mlflow", tmp_path_factory.getbasetemp())
        config = load_config("default", [*RUN, f"predictions={policy}"])
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("FKD_HOME", str(home))
            (outcome,) = run_stages(config)
        found[policy] = open_study(config, Settings(home, None, None, None)), outcome
    return found


def test_a_run_keeps_predictions_or_none_as_it_is_told(runs):
    (kept, _), (dropped, outcome) = runs["keep"], runs["drop"]
    assert len(predictions(kept)) == kept.size() == 15
    assert predictions(dropped) == []
    assert dropped.missing() == []
    assert outcome.failures == {}
    assert outcome.notices == ()


def test_no_number_depends_on_whether_predictions_are_kept(runs):
    (kept, one), (dropped, other) = runs["keep"], runs["drop"]
    assert dropped.config.digest == kept.config.digest
    for inner in (False, True):
        pairs = zip(kept.results(inner=inner), dropped.results(inner=inner), strict=True)
        for a, b in pairs:
            assert [r.key for r in a.records] == [r.key for r in b.records]
            assert [r.measures for r in a.records] == [r.measures for r in b.records]
            assert [r.predicted for r in a.records] == [r.predicted for r in b.records]
    before, after = select_champion(kept), select_champion(dropped)
    assert before.key == after.key
    assert before.judgement == after.judgement
    assert before.judgement.reference is not None
    assert within_groups(kept, before) == within_groups(dropped, after)
    assert one.finding == other.finding


def test_the_report_is_the_same_but_for_times_and_places(runs):
    texts = []
    for study, _ in runs.values():
        page = (study.folder / "report.html").read_text()
        assert "Within groups of" in page
        # The tables of results: numbers with their intervals.
        texts.append(re.findall(r"<td[^>]*>([^<]*\d\.\d{3}[^<]*)</td>", page))
    assert len(texts[0]) > 20
    assert _numbers(texts[0]) == _numbers(texts[1])


def _numbers(cells):
    """Cells without those that tell how long something took."""
    return [cell for cell in cells if not cell.rstrip().endswith("s")]


def test_judging_fits_the_reference_again_and_nothing_else(runs, monkeypatch):
    study = without_champion(runs["drop"][0])
    fitted = []
    real = held_out.fitted_models

    def noted(training, name, trials):
        fitted.extend(trials)
        return real(training, name, trials)

    monkeypatch.setattr(held_out, "fitted_models", noted)
    champion = select_champion(study)
    assert fitted == [champion.trial, without_removal(study, champion.trial)]
    assert predictions(study) == []  # nor are they put where none are wanted


def test_auto_drops_beyond_its_number_of_rows_which_is_said(settings, monkeypatch, capsys):
    config = load_config("default", RUN)

    def kept(split, limit):
        """Whether predictions of the next job on a split are kept, whose number of rows is."""
        study = open_study(config, settings)
        monkeypatch.setattr(keeping, "AUTO_ROWS", limit)
        rows = len(study.inputs.splits.all(study.loaded.table)[split].test)
        before = len(predictions(study))
        run_job(next(job for job in study.missing() if job.split == split))
        return rows, len(predictions(study)) > before

    rows, found = kept("1", 10**6)
    assert found
    assert kept("1", rows - 1) == (rows, False)
    shown, found = kept("0", -(-rows // keeping.SHOWN_TIMES))
    assert found  # the held-out fold's, which judgement and report read
    assert kept("0", (shown - 1) // keeping.SHOWN_TIMES) == (shown, False)
    study = open_study(config, settings)
    assert not {"0", "1"} & {job.split for job in study.missing()}
    monkeypatch.setattr(keeping, "AUTO_ROWS", 100)
    monkeypatch.setattr("flows.fitting.AUTO_ROWS", 100)
    before = len(predictions(study))
    fit_all([study])
    assert len(predictions(study)) == before
    said = f"predictions of more than 100 test rows are not kept (here up to {shown})"
    assert said in capsys.readouterr().err
    assert fit_all([study.again()]) == 0
    assert "predictions" not in capsys.readouterr().err  # of fits that are all there


def test_of_many_rows_that_were_kept_some_are_predicted_again(quick_study, monkeypatch):
    first = select_champion(quick_study)
    monkeypatch.setattr(held_out, "COMPARED_ROWS", 50)
    seen = []
    real = held_out.predict_rows

    def noted(trials, predictors, encoder, rows, inputs):
        seen.append(rows.n)
        return real(trials, predictors, encoder, rows, inputs)

    monkeypatch.setattr(held_out, "predict_rows", noted)
    assert select_champion(without_champion(quick_study)).judgement == first.judgement
    assert seen == [50]
    fold = quick_study.inputs.splits.held_out_fold(quick_study.loaded.table)
    key = record_key(first.trial, fold, quick_study.inputs)
    wrong = quick_study.store.predictions(key)
    wrong[-1] += 1e-3
    quick_study.store.write_predictions(quick_study.store.read(key), wrong)
    with pytest.raises(RuntimeError, match="must predict what its trial predicted"):
        select_champion(without_champion(quick_study))


def test_damaged_predictions_of_the_reference_are_made_again_and_put_back(quick_study):
    first = select_champion(quick_study)
    plain = without_removal(quick_study, first.trial)
    fold = quick_study.inputs.splits.held_out_fold(quick_study.loaded.table)
    key = record_key(plain, fold, quick_study.inputs)
    before = quick_study.store.predictions(key)
    flip(predictions_file(quick_study.store, key))
    assert select_champion(without_champion(quick_study)).judgement == first.judgement
    assert quick_study.store.predictions(key).tobytes() == before.tobytes()


def with_policy(study, policy):
    return open_study(load_config("default", [*QUICK, policy]), study.settings)


def test_keep_computes_again_what_has_no_predictions(quick_study, monkeypatch, capsys):
    lost = predictions(quick_study)[0]
    lost.unlink()
    assert with_policy(quick_study, "predictions=auto").missing() == []
    assert with_policy(quick_study, DROP).missing() == []
    study = with_policy(quick_study, KEEP)
    ((key,),) = (job.record_keys for job in study.missing())
    assert predictions_file(study.store, key) == lost
    assert len(study.results()) == 3  # the record's numbers hold all the while
    show_plan([load_config("default", [*QUICK, KEEP])])
    assert "1 without the predictions that shall be kept" not in capsys.readouterr().out
    config = load_config("default", [*QUICK, KEEP, THREADS])
    assert fit_all([open_study(config, study.settings)]) == 0
    assert study.missing() == []
    assert study.store.predictions(key) is not None
    assert "1 in 1 tasks to compute" in capsys.readouterr().err
    lost.unlink()
    show_plan([load_config("default", [*QUICK, KEEP])])
    assert "1 without the predictions that shall be kept" in capsys.readouterr().out


def test_runs_of_one_sweep_may_differ_in_what_they_keep(settings, capsys):
    drop, keep = (
        open_study(load_config("default", [*QUICK, THREADS, f"name={name}", policy]), settings)
        for name, policy in (("first", DROP), ("second", KEEP))
    )
    assert fit_all([drop, keep]) == 0
    assert len(predictions(keep)) == keep.size()
    assert keep.missing() == drop.missing() == []
    said = capsys.readouterr().err
    assert said.count("to compute") == said.count("15 in 10 tasks to compute") == 1


def test_predictions_that_an_experiment_needs_are_named_where_they_are_damaged(quick_study):
    path = predictions(quick_study)[0]
    flip(path)
    with pytest.raises(UserError, match=rf"predictions of record {path.stem[:12]}"):
        stored_predictions(quick_study.store, path.stem)
    study = with_policy(quick_study, KEEP)
    ((key,),) = (job.record_keys for job in study.missing())
    assert predictions_file(study.store, key) == path


def test_a_grid_grows_alike_whether_predictions_are_kept(tmp_path):
    strengths = []
    for policy in ("keep", "drop"):
        entry = {"name": "krr_fkd", "approximation": {"kind": "nystroem", "landmarks": 3}}
        source = write_rents(tmp_path, rows=rents(200), methods=[entry], folds={"k": 2})
        config = load_config(source, [THREADS, f"predictions={policy}", "select=null"])
        study = open_study(config, Settings(tmp_path / policy, None, None, None))
        assert fit_all([study]) == 0
        strengths.append([trial.strength for trial in study.again().trials])
    assert strengths[0] == strengths[1]
    assert strengths[0][-1] == 16  # nothing is left to remove
