"""An MLflow server behind a password: whoever has none is told, nothing computed is lost."""

from collections import Counter

import pytest
from dask_process import threads
from sweep_process import fkd, warm_home, write_config
from sweep_sample import sweep_config
from tracking_server import mlflow_server, recorded_trials, warm_mlflow

from tasks.select.study import open_study
from tasks.storage.settings import Settings

pytestmark = pytest.mark.stack

PASSWORD = "a-long-password-of-this-test"
USER = {"MLFLOW_TRACKING_USERNAME": "us"}
RIGHT = {**USER, "MLFLOW_TRACKING_PASSWORD": PASSWORD}


def _server(folder, base, password):
    users = folder / "users.ini"
    users.write_text(
        "[mlflow]\ndefault_permission = NO_PERMISSIONS\nadmin_username = us\n"
        f"database_uri = sqlite:///{folder / 'users.db'}\n"
    )
    return mlflow_server(
        f"sqlite:///{warm_mlflow(folder / 'server', base)}",
        folder,
        *("--app-name", "basic-auth"),
        MLFLOW_AUTH_CONFIG_PATH=str(users),
        MLFLOW_AUTH_ADMIN_PASSWORD=password,
        MLFLOW_FLASK_SERVER_SECRET_KEY="of this test",
    )


@pytest.fixture
def server(tmp_path, tmp_path_factory):
    with _server(tmp_path, tmp_path_factory.getbasetemp(), PASSWORD) as found:
        found.start()
        yield found


def test_without_the_password_all_is_kept_and_with_it_all_is_recorded_once(
    server, tmp_path, tmp_path_factory, monkeypatch
):
    config = sweep_config(
        threads(2),
        name="guarded",
    )
    home = warm_home(tmp_path / "home", tmp_path_factory.getbasetemp())
    there = {"MLFLOW_TRACKING_URI": server.uri}
    wrong = {**there, **USER, "MLFLOW_TRACKING_PASSWORD": "not-the-one"}

    def refused(*words, **environment):
        code, said = fkd(home, *words, **environment)
        assert (code, "Traceback" in said, "not-the-one" in said) == (2, False, False), said
        told = " ".join(said.split())
        assert f"MLflow at {server.uri} refused the login (401)" in told, said
        assert "MLFLOW_TRACKING_PASSWORD" in told
        return told

    refused("run", write_config(config, tmp_path), **wrong)
    settings = Settings(home, mlflow_tracking_uri=server.uri)
    study = open_study(config, settings)
    assert study.missing() == []
    assert (study.folder / "report.html").exists()
    refused("sync", **there)  # with no password at all
    refused("score", "models:/guarded@champion", __file__, "--out", "x.parquet", **wrong)
    assert "login refused" in refused("status", **wrong)

    code, said = fkd(home, "sync", **there, **RIGHT)
    assert (code, "guarded: 12 new trial runs" in said) == (0, True), said
    code, said = fkd(home, "status", **there, **RIGHT)
    assert (code, "up" in said.split()) == (0, True), said
    for name, value in RIGHT.items():
        monkeypatch.setenv(name, value)
    assert Counter(recorded_trials(settings, "guarded")) == {t.key: 1 for t in study.trials}


def test_the_password_that_everybody_knows_is_refused(tmp_path, tmp_path_factory):
    with (
        _server(tmp_path, tmp_path_factory.getbasetemp(), "password1234") as server,
        pytest.raises(AssertionError, match="ended by itself"),
    ):
        server.start()
