"""`fkd score` with a model that a run has registered."""

import re

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.tracking import MlflowClient
from numpy.testing import assert_allclose
from pyarrow import parquet
from tracking_server import warm_mlflow

from configs.errors import UserError
from flows.cli import main
from tasks.select.champion import select_champion
from tasks.storage.files import pack_npz, sha256, unpack_npz
from tasks.track.client import tracking_uri
from tasks.track.recording import record_champion, record_files, record_trials
from tasks.track.registry import (
    BUNDLE_TAG,
    Promotion,
    addressed,
    fetch_bundle,
    load_model,
    promote_version,
)


def fkd(*words):
    with pytest.raises(SystemExit) as end:
        main(["score", *map(str, words)])
    return end.value.code


@pytest.fixture
def registered(quick_study, tmp_path_factory, tmp_path, monkeypatch):
    """A study whose champion is registered as quick, its rows as a file without s and target."""
    warm_mlflow(quick_study.settings.mlflow, tmp_path_factory.getbasetemp())
    monkeypatch.chdir(tmp_path)
    record_trials(quick_study)
    record_champion(quick_study)
    bundle = select_champion(quick_study).bundle
    table = quick_study.loaded.table
    places = [table.numeric_names.index(name) for name in bundle.input_columns]
    frame = pd.DataFrame(table.numeric[:, places], columns=list(bundle.input_columns))
    frame.to_csv("rows.csv", index_label="id")
    return quick_study, bundle, frame


def told(capsys):
    caught = capsys.readouterr()
    return re.sub(r"\s+", " ", caught.out + caught.err)


def test_the_champion_scores_a_file(registered, capsys):
    study, bundle, frame = registered
    assert fkd("models:/quick@champion", "rows.csv", "--out", "p.parquet", "--keep", "id") == 0
    found = parquet.read_table("p.parquet")
    assert_allclose(found["prediction"].to_numpy(), bundle.predict(frame), rtol=1e-12)
    assert found["id"].to_pylist() == [str(i) for i in range(len(frame))]
    assert set(found["model"].to_pylist()) == {"quick/1"}
    said = told(capsys)
    assert "1,993 rows scored by models:/quick/1 (bundle" in said
    # It has learnt on some of these rows: others may lie beyond them.
    table = study.loaded.table
    train = table.take(study.inputs.splits.held_out_fold(table).train)
    low, high = train.numeric.min(axis=0), train.numeric.max(axis=0)
    outside = ((table.numeric < low) | (table.numeric > high)).any(axis=0)
    beyond = {name for name, out in zip(table.numeric_names, outside, strict=True) if out}
    assert beyond
    assert {name for name in bundle.input_columns if f"column {name}:" in said} == beyond


def test_the_digest_is_that_of_the_registered_file(registered):
    study, bundle, _ = registered
    found = fetch_bundle(study.settings, "models:/quick/1")
    (stored,) = study.settings.mlflow.rglob("bundle.npz")
    assert found.digest == sha256(stored.read_bytes())
    assert found.bundle().ranges.tolist() == bundle.ranges.tolist()
    # A second call finds its copy; a damaged one is written again.
    (copy,) = study.settings.home.rglob(f"{found.digest}.npz")
    copy.write_bytes(b"damaged")
    with pytest.raises(FileNotFoundError, match="absent or damaged"):
        found.bundle()
    assert fetch_bundle(study.settings, "models:/quick@champion") == found
    assert found.bundle().input_columns == bundle.input_columns


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("models:/quik@champion", "got 'quik'; the nearest is 'quick'"),
        ("models:/quick@champoin", "got 'champoin'; the nearest is 'champion'"),
        ("models:/quick/7", "a version of quick must be one of 1, got '7'"),
        ("quick", "models:/NAME@champion"),
        ("models:/other/1", "must be a model that `fkd run` registered"),
    ],
)
def test_a_model_that_is_not_there_is_told(registered, capsys, tmp_path, address, sentence):
    study = registered[0]
    if "other" in address:
        (tmp_path / "files").mkdir()
        (tmp_path / "files" / "MLmodel").write_text("flavors: {}\n")
        uri = tracking_uri(study.settings)
        client = MlflowClient(uri, uri)
        client.create_registered_model("other")
        client.create_model_version("other", (tmp_path / "files").as_uri())
    assert fkd(address, "rows.csv", "--out", "p.parquet") == 2
    assert sentence in told(capsys)
    assert not (tmp_path / "p.parquet").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--set", "seed=3"), "--set must name keys under data here"),
        (("--set", "data.decimal=semi"), "encoding, separator, decimal, missing_words"),
        (("--set", "data.target=y"), "encoding, separator, decimal, missing_words"),
        (("--workers", "2", "--cluster", "tcp://127.0.0.1:1"), "got workers 2 and cluster"),
        (("--missing", "zero"), "--missing"),
    ],
)
def test_other_words_are_told(registered, capsys, words, sentence):
    assert fkd("models:/quick@champion", "rows.csv", "--out", "p.parquet", *words) == 2
    assert sentence in told(capsys)


def test_a_column_that_the_model_needs_is_named(registered, capsys):
    frame = registered[2]
    frame.drop(columns=["population"]).to_csv("rows.csv")
    assert fkd("models:/quick@champion", "rows.csv", "--out", "p.parquet") == 2
    assert "got 'population'" in told(capsys)


def test_nothing_is_registered_yet(settings, tmp_path_factory, tmp_path, monkeypatch, capsys):
    warm_mlflow(settings.mlflow, tmp_path_factory.getbasetemp())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("a\n1\n")
    assert fkd("models:/quick@champion", "rows.csv", "--out", "p.parquet") == 2
    assert "no registered model 'quick', nor any other" in told(capsys)


def client_of(study):
    return MlflowClient(tracking_uri(study.settings), tracking_uri(study.settings))


def rewrite(study, factor):
    """Multiply the coefficients in the registered file; return its bytes."""
    (path,) = study.settings.mlflow.rglob("bundle.npz")
    arrays = unpack_npz(path.read_bytes())
    arrays["predictor.coef"] = arrays["predictor.coef"] * factor
    path.write_bytes(pack_npz(arrays))
    return path.read_bytes()


AUDIT = ("audit", "rows.csv", "--target", "population", "--sensitive", "householdsize")


@pytest.mark.parametrize(
    "words",
    [
        ("score", "models:/quick@champion", "rows.csv", "--out", "p.parquet"),
        (*AUDIT, "--model", "models:/quick@champion"),
        (*AUDIT, "--model", "models:/quick/latest"),
        ("watch", "quick", "--data", "source=uci"),
    ],
    ids=["score", "audit", "audit latest", "watch"],
)
def test_a_changed_bundle_is_refused(registered, tmp_path, capsys, words):
    study = registered[0]
    record_files(study)
    rewrite(study, 1.5)
    with pytest.raises(SystemExit) as end:
        main(list(words))
    said = told(capsys)
    assert end.value.code == 2
    assert "models:/quick/" in said
    assert "sha256" in said
    assert not (tmp_path / "p.parquet").exists()


def test_a_served_model_refuses_a_changed_bundle(registered):
    study, bundle, frame = registered
    with addressed(study.settings):
        served = mlflow.pyfunc.load_model("models:/quick@champion")
        assert_allclose(served.predict(frame), bundle.predict(frame), rtol=1e-12)
        rewrite(study, 1.5)
        with pytest.raises(ValueError, match="sha256"):
            mlflow.pyfunc.load_model("models:/quick@champion")


def test_a_changed_bundle_is_neither_promoted_nor_loaded_as_the_latest(registered):
    study = registered[0]
    rewrite(study, 1.5)
    with pytest.raises(UserError, match="sha256"):
        promote_version(study.settings, "quick", 1, Promotion("ann", "none", "2026-05-04"))
    assert "why" not in client_of(study).get_model_version("quick", "1").tags
    with pytest.raises(UserError, match=BUNDLE_TAG):
        load_model(study.settings, "models:/quick/latest")


def test_a_version_without_a_checksum_is_refused_and_registered_anew(registered, capsys):
    study, client = registered[0], client_of(registered[0])
    client.delete_model_version_tag("quick", "1", BUNDLE_TAG)
    assert fkd("models:/quick@champion", "rows.csv", "--out", "p.parquet") == 2
    assert "fkd.bundle" in told(capsys)
    with pytest.raises(UserError, match=BUNDLE_TAG):
        load_model(study.settings, "models:/quick/1")
    record_champion(study)
    assert client.get_model_version_by_alias("quick", "champion").version == 2
    assert fkd("models:/quick@champion", "rows.csv", "--out", "p.parquet") == 0


def test_a_model_with_nan_coefficients_is_refused(registered, tmp_path, capsys):
    study = registered[0]
    data = rewrite(study, np.nan)
    client_of(study).set_model_version_tag("quick", "1", BUNDLE_TAG, sha256(data))
    assert fkd("models:/quick@champion", "rows.csv", "--out", "p.parquet") == 2
    said = told(capsys)
    assert "models:/quick/1" in said
    assert "predictor.coef" in said
    assert not (tmp_path / "p.parquet").exists()
