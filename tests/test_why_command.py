"""`fkd why`: a key taken apart."""

import json
import re
from dataclasses import replace

import pytest
from pipeline_fixtures import QUICK
from stored_files import predictions_file, record_file

from configs.errors import UserError
from configs.load import dump_config, load_config
from flows.cli import main
from tasks.adapters.files import write_atomic
from tasks.adapters.store import digest
from tasks.planned.trials import record_key, record_parts
from tasks.planned.versions import Versions
from tasks.study.fit_parts import find_fits, fits_of, nearest_fit, reason_again
from tasks.study.known_runs import identity_of, note_run
from tasks.study.named_runs import find_study
from tasks.study.opening import open_study


@pytest.fixture
def known(quick_study):
    """The quick study as a run that this home remembers."""
    note_run(quick_study)
    write_atomic(quick_study.folder / "config.yaml", dump_config(quick_study.config).encode())
    return quick_study


def why(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main(["why", *words])
    caught = capsys.readouterr()
    return end.value.code, re.sub(r"\s+", " ", caught.out + caught.err)


def test_the_parts_are_what_the_key_is_the_digest_of(known):
    for trial in known.trials:
        for fit in fits_of(known, trial):
            fold = known.inputs.splits.all(known.loaded.table)[fit.split]
            assert fit.key == digest(fit.parts) == record_key(trial, fold, known.inputs)
            assert fit.key in known.store
            assert reason_again(fit) is None


def test_a_trial_by_its_number_shows_parts_and_that_it_is_stored(known, capsys):
    code, told = why(capsys, "quick:2")
    assert code == 0
    assert "KRR-FKD iterations=0" in told
    for part in ("parameters.approximation.landmarks", "version", "rows", "blas_threads"):
        assert part in told
    assert known.loaded.digest[:12] in told
    assert told.count("stored, not computed again") == 5  # three folds, two inner ones


def test_a_key_finds_its_fit(known, capsys):
    fold = known.inputs.splits.outer(known.loaded.table)["1"]
    key = record_key(known.trials[2], fold, known.inputs)
    (fit,) = find_fits(known.settings, key[:10])
    assert (fit.split, fit.trial) == ("1", known.trials[2])
    assert len(find_fits(known.settings, known.trials[0].key)) == 5
    code, told = why(capsys, key[:12])
    assert code == 0
    assert "KRR-FKD iterations=4" in told


def test_a_key_of_an_earlier_version_is_proven_by_its_digest(known):
    fold = known.inputs.splits.outer(known.loaded.table)["0"]
    trial = known.trials[1]
    older = replace(known.inputs, versions=replace(known.inputs.versions, record=1))
    parts = {**record_parts(trial, fold, older), "version": trial.version}
    (fit,) = find_fits(known.settings, digest(parts))
    assert digest(fit.parts) == digest(parts)
    assert "versions.record is 2 now instead of None" in reason_again(fit)
    assert Versions(1, 1, 1).raised() == {}


def test_why_a_fit_would_be_computed_again(known):
    fit = next(iter(fits_of(known, known.trials[1])))
    keeping = replace(known, inputs=replace(known.inputs, predictions="keep"))
    predictions_file(known.store, fit.key).unlink()
    assert reason_again(fit) is None
    assert "predictions: keep asks for them" in reason_again(replace(fit, study=keeping))
    path = record_file(known.store, fit.key)
    whole = path.read_bytes()
    path.unlink()
    assert reason_again(fit) == "nothing is stored under this key"
    known.store.write_failure(fit.key, "ValueError: no")
    assert "it failed (ValueError: no)" in reason_again(fit)
    path.write_bytes(whole)
    assert reason_again(fit) is None  # somebody else has computed it


def test_against_a_configuration_the_part_that_differs_is_named(known, capsys, tmp_path):
    code, told = why(capsys, "quick:3", "default", *_words("seed=1"))
    assert code == 0
    assert "asks for another fit; the nearest is KRR-FKD iterations=4" in told
    assert re.search(r"│ seed │ 0 │ 1 │", told)
    assert re.search(r"│ rows │", told)  # other folds
    assert "parameters" not in told
    code, told = why(capsys, "quick:3", "default", *_words())
    assert "the same fit under the same key: it is stored, not computed again" in told
    code, told = why(capsys, "quick:3", "default", *_words("select=null", "folds.k=3"))
    assert "same fit under the same key" in told


def _words(*more):
    return [word for override in (*QUICK, *more) for word in ("--set", override)]


def test_the_nearest_fit_is_of_the_same_method_with_the_fewest_differences(known):
    fit = next(iter(fits_of(known, known.trials[2])))
    config = load_config(
        "default",
        (
            *QUICK[:3],
            "methods=[dummy, {name: krr_fkd, gamma: 0.3, grid: {iterations: [0, 4]}, "
            "approximation: {kind: nystroem, landmarks: 60}}]",
        ),
    )
    other = nearest_fit(fit, open_study(config, known.settings))
    assert [name for name, *_ in fit.differences(other.parts)] == ["parameters.gamma"]


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("quick:9", "quick has no trial '9'; its trials are 1 Dummy; 2 KRR-FKD iterations=0"),
        ("quik:1", "got 'quik'; the nearest is 'quick'"),
        ("abc", "at least 6 digits"),
        ("abcdef0123", "no run of"),
        ("quick~4:1", "the earliest is quick~0"),
    ],
)
def test_what_is_not_there_is_told(known, capsys, word, sentence):
    code, told = why(capsys, word)
    assert code == 2
    assert sentence in told


def test_a_run_is_found_by_each_of_its_names(known, tmp_path):
    identity = identity_of(known)
    (known.folder / "report.html").touch()
    (known.folder / "tracking.json").write_text(
        json.dumps({"identity": identity, "run_id": "a" * 32, "uri": "x", "experiment_id": "1"})
    )
    (tmp_path / "mine.yaml").write_text(dump_config(known.config))
    words = ("quick", "quick~0", identity[:8], "a" * 32, str(known.folder))
    for word in (*words, str(known.folder / "report.html"), str(tmp_path / "mine.yaml")):
        assert identity_of(find_study(known.settings, word)) == identity, word
    with pytest.raises(UserError, match=r"no config\.yaml lies there"):
        find_study(known.settings, str(tmp_path))
