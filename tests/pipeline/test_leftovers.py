"""Files of killed processes are removed; those in use are not."""

import os
import signal
import subprocess
import sys
import time

from stored_files import stored

from flows.run import clear_leftovers
from tasks.data.download import Cache
from tasks.storage.files import sweep_leftovers

WRITER = """
import pathlib, sys, threading
from tasks.storage import files

def wait(_):
    print("writing", flush=True)
    threading.Event().wait()

files.os.fsync = wait  # the last moment at which a file is incomplete
files.write_atomic(pathlib.Path(sys.argv[1]) / "store" / "ab" / "record.arrays", b"content")
"""

WORKER = """
import sys, threading
from distributed.diskutils import WorkSpace

folder = WorkSpace(sys.argv[1]).new_work_dir(prefix="worker-")
print("working", flush=True)
threading.Event().wait()
"""


def _begin(script, *words):
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, words)], stdout=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    return process


def _kill(process):
    with process:
        process.send_signal(signal.SIGKILL)


def _make_old(folder, hours=25):
    """Set back the times of all files in a folder."""
    then = time.time() - 3600 * hours
    for path in folder.rglob("*"):
        os.utime(path, (then, then))


def _parts(settings):
    return list(settings.home.rglob("*.part"))


def test_a_file_of_a_killed_writer_is_removed_after_a_day(settings):
    _kill(_begin(WRITER, settings.home))
    assert len(_parts(settings)) == 1
    _make_old(settings.home, hours=23)
    assert sweep_leftovers(settings.home) == 0  # its writer might live
    _make_old(settings.home)
    assert sweep_leftovers(settings.home) == 1
    assert _parts(settings) == []


def test_the_folder_of_an_ended_worker_is_removed(settings):
    scratch = settings.home / "dask" / "dask-scratch-space"
    worker = _begin(WORKER, scratch)
    (folder,) = (path for path in scratch.iterdir() if path.is_dir())
    (folder / "spilled").write_bytes(b"x")
    _make_old(settings.home)
    assert sweep_leftovers(settings.home) == 0
    assert folder.is_dir()
    _kill(worker)
    assert sweep_leftovers(settings.home) == 1
    assert [path for path in scratch.iterdir() if path.name.startswith("worker-")] == []


def test_other_files_are_kept(settings):
    kept = [
        stored(settings, "ab") / "record.arrays",
        settings.experiments / "run" / "notes.part",  # not hidden: a person's
        settings.mlflow / "artifacts" / ".x.part",  # MLflow's
        settings.downloads / "partial" / "file.zip.part",  # to be continued
    ]
    for path in kept:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    _make_old(settings.home)
    assert clear_leftovers() == 0
    assert all(path.exists() for path in kept)


def test_an_old_partial_download_is_removed(settings):
    partial = Cache(settings.downloads).partial_path("file.zip")
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"x")
    then = time.time() - 8 * 24 * 3600
    os.utime(partial, (then, then))
    assert clear_leftovers() == 1


def test_no_home_is_created(settings):
    assert clear_leftovers() == 0
    assert not settings.home.exists()
