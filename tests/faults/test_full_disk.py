"""A full disk at any stage: an error that names the folder and the remedy."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from deadlines import patient
from small_disk import fill, small_disk, use_up_files
from stored_files import stored

from configs.errors import UserError
from flows.errors import CrashError, as_user_error
from tasks.fit.job import run_job
from tasks.report.model import report_data
from tasks.report.page import render
from tasks.select.results import write_results
from tasks.select.study import open_study
from tasks.storage.files import full_disk_error, named_disk_errors, write_atomic
from tasks.storage.settings import ensure_writable
from tasks.track.recording import record_trials


@pytest.fixture
def disk(settings, tmp_path):
    """The disk on which FKD_HOME lies."""
    with small_disk(settings.home):
        yield settings.home


def _told(error):
    """What a person is shown; never a crash of ours."""
    found = as_user_error(error)
    assert not isinstance(found, CrashError), found
    assert found.exit_code == 2
    return str(found)


def test_a_full_disk_leaves_no_half_written_file(disk):
    fill(disk)
    with pytest.raises(OSError, match="No space") as caught:
        write_atomic(disk / "store" / "a.npz", bytes(2**20))
    assert f"FKD_HOME ({disk})" in _told(caught.value)
    assert list((disk / "store").iterdir()) == []


@pytest.mark.parametrize("spend", [fill, use_up_files])
def test_a_full_disk_is_told_before_any_work(disk, spend):
    ensure_writable(disk)
    spend(disk)
    with pytest.raises(UserError, match=r"is full|on a disk with free space"):
        ensure_writable(disk)


def _load(study):
    shutil.rmtree(stored(study.settings, "prepared"))
    fill(study.settings.home)
    open_study(study.config, study.settings)


def _fit(study):
    shutil.rmtree(stored(study.settings))
    fill(study.settings.home)
    run_job(study.missing()[0])


def _write(study):
    write_results(study.results(), study.config.data, study.folder)


def _record(study):
    shutil.rmtree(study.settings.mlflow, ignore_errors=True)
    fill(study.settings.home)
    record_trials(study)


def _report(study):
    render(report_data(study), study.folder)


@pytest.mark.parametrize("stage", [_load, _fit, _write, _record, _report])
def test_a_disk_that_fills_up_at_any_stage_is_told(
    stage, disk, quick_config, settings, computed_home
):
    shutil.copytree(computed_home, disk, dirs_exist_ok=True)
    study = open_study(quick_config, settings)
    fill(disk)
    with pytest.raises((OSError, UserError)) as caught:
        stage(study)
    said = _told(caught.value).lower()
    assert str(disk) in said
    assert "full" in said or "no space" in said


def _write_temporary(size):
    with tempfile.TemporaryFile() as file:
        file.write(bytes(size))
        file.flush()


def test_a_full_temporary_folder_is_told(tmp_path, settings, monkeypatch):
    with small_disk(tmp_path / "tmp", size="512k") as folder:
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        assert full_disk_error(settings.home) is None
        fill(folder)
        with pytest.raises(OSError, match="No space") as caught:
            _write_temporary(2**20)
        assert f"the temporary folder ({folder})" in _told(caught.value)
        monkeypatch.setattr(tempfile, "tempdir", None)
        monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(folder)])
        with pytest.raises(FileNotFoundError) as caught:
            tempfile.gettempdir()
        assert "the temporary folder" in _told(caught.value)


def test_the_command_line_says_it_in_one_sentence_with_exit_code_2(tmp_path):
    home = tmp_path / "home"
    with small_disk(home, size="1m"):
        done = subprocess.run(
            [sys.executable, "-m", "flows.cli", "run", "--dry-run"],
            env={**os.environ, "FKD_HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=patient(300),
        )
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert str(home) in line
    assert "Free space" in line


@pytest.mark.parametrize(
    ("code", "cure"),
    [
        (errno.ENOSPC, "Free space"),
        (errno.EDQUOT, "Free space"),
        (errno.EROFS, "with write permission"),
        (errno.EACCES, "with write permission"),
        (errno.EIO, "Check that folder"),
    ],
)
def test_a_fault_of_the_disk_names_the_folder_and_the_cure(code, cure):
    with (
        pytest.raises(UserError, match=f"some/where must be writable.*{cure}"),
        named_disk_errors(Path("some/where")),
    ):
        raise OSError(code, "reason")


def test_other_faults_pass_through():
    with pytest.raises(KeyError), named_disk_errors(Path("x")):
        raise KeyError("y")
