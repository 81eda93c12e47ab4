"""Terminals of any encoding, paths of any letters, errors of any kind: never a traceback."""

import errno
import os
import resource
import subprocess
import sys

import pytest
from deadlines import patient

from configs.errors import UserError
from flows.errors import CrashError, as_user_error
from flows.messages import _letter
from tasks.storage.settings import ensure_writable

CODE = "from flows.cli import main; main({words!r})"


def _fkd(*words, before="", **environment):
    """The command line, after statements of the test's own."""
    script = f"{before}\n{CODE.format(words=list(words))}"
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        timeout=patient(300),
    )


SAY = """
import flows.status
from rich.console import Console
from flows.messages import RunLog
def show():
    for text in {texts!a}:
        Console(highlight=False).print(text, markup=False)
        RunLog("terminal").log(text)
        RunLog("text").log(text)
flows.status.show_status = show
"""


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C", "LANG": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"LC_ALL": "C"},
    ],
    ids=str,
)
def test_letters_that_a_terminal_lacks_are_written_in_others(environment):
    texts = ["· ← 0.1±0.2, ≤ 3 — Zürich", "\udcff", "日本"]
    done = _fkd("status", before=SAY.format(texts=texts), **environment)
    assert done.returncode == 0, done.stderr
    if environment.get("PYTHONIOENCODING") == "ascii":
        assert done.stdout.splitlines() == [b"- <- 0.1+/-0.2, <= 3 - Zurich", b"?", b"??"]


@pytest.mark.parametrize(("letter", "plain"), [("±", "+/-"), ("é", "e"), ("≤", "<="), ("日", "?")])
def test_letters_in_ascii(letter, plain):
    assert _letter(letter) == plain


@pytest.mark.parametrize("name", ["[/b]", "[bold]", "#", "%41", "a b", "[link=x]"])
def test_letters_of_a_path_are_shown_as_they_are(name, tmp_path):
    home = tmp_path / name / "home"
    done = _fkd("status", FKD_HOME=str(home), COLUMNS="300")
    assert (done.returncode, done.stderr) == (0, b"")
    assert str(home) in done.stdout.decode()


def test_a_question_mark_in_the_home_is_refused(tmp_path):
    with pytest.raises(UserError, match="FKD_HOME must not contain a question mark"):
        ensure_writable(tmp_path / "what?" / "home")
    assert list(tmp_path.iterdir()) == []


CRASH = """
import flows.status
def crash():
    raise KeyError("http://us:hidden@host/path [/b]")
flows.status.show_status = crash
"""


def test_a_crash_of_ours_is_a_sentence_with_exit_code_1():
    done = _fkd("status", before=CRASH)
    assert done.returncode == 1
    (line,) = done.stderr.decode().strip().splitlines()
    assert "fkd failed with KeyError" in line
    assert "[/b]" in line
    assert "--debug" in line
    assert "hidden" not in line


def test_debug_shows_where_it_crashed_but_no_password():
    done = _fkd("status", "--debug", before=CRASH)
    assert done.returncode == 1
    assert b"in crash" in done.stderr
    assert b"hidden" not in done.stderr


def test_a_reader_that_leaves_is_no_crash():
    show = "lambda: print('x' * 10**6)"
    replace = f"import flows.status; flows.status.show_status = {show}"
    script = f"{replace}\n{CODE.format(words=['status'])}"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (2**27, ["status"]),
        (200_000 * 2**10, ["status"]),  # in which OpenBLAS hangs while it is loaded
        (1_100_000 * 2**10, ["run"]),  # in which Dask's threads cannot be started
    ],
)
def test_too_little_memory_is_a_sentence(limit, words, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "flows.cli", *words],
        env={**os.environ, "FKD_HOME": str(tmp_path / "home"), "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        timeout=patient(300),
    )
    assert done.returncode == 2, done.stderr
    assert b"ulimit -v" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_memory_that_ends_while_an_error_is_told_is_told_too():
    crash = "def crash():\n    raise MemoryError\nimport flows.status, flows.cli\n"
    crash += "flows.status.show_status = flows.cli._show = lambda *_: crash()\n"
    done = _fkd("status", before=crash)
    assert done.returncode == 2
    assert b"ulimit -v" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


class _Answer:
    status_code = 503


class _ServerError(Exception):
    response = _Answer()


@pytest.mark.parametrize(
    ("error", "says", "code"),
    [
        (MemoryError(), "no more memory", 2),
        (RuntimeError("can't start new thread"), "no more memory or threads", 2),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "no more memory", 2),
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n", 2),
        (OSError(errno.ENOSPC, "No space left on device"), "Free space", 2),
        (RuntimeError("(sqlite3.OperationalError) database or disk is full"), "Free space", 2),
        (_ServerError("boom"), "status 503", 2),
        (UserError("as it is"), "as it is", 2),
        (ValueError("x"), "fkd failed with ValueError: x", 1),
    ],
)
def test_errors_in_a_persons_words(error, says, code, settings):
    wrapped = RuntimeError("something failed")
    wrapped.__cause__ = error
    for found in [error, *([wrapped] if code == 2 and not isinstance(error, UserError) else [])]:
        told = as_user_error(found)
        assert says in str(told)
        assert told.exit_code == code
        assert isinstance(told, CrashError) == (code == 1)


def test_the_log_of_our_own_server_tells_what_it_lacks(settings):
    settings.prefect.mkdir(parents=True)
    (settings.prefect / "server.log").write_text("Traceback ...\nMemoryError\n")
    assert "no more memory" in str(as_user_error(_ServerError("boom")))
