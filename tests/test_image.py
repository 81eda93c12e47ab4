"""The image's recipe with its scripts, looked at without an engine that builds it."""

import os
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

from manifests import DEPLOY

BIN = Path(sys.executable).parent


def test_the_image_and_the_scripts_pass_their_linters():
    image = DEPLOY / "image"
    subprocess.run([BIN / "hadolint", image / "Containerfile"], check=True)
    scripts = [
        image / "with-secrets",
        DEPLOY / "compose" / "make-secrets",
        DEPLOY / "slurm" / "sweep.sbatch",
    ]
    subprocess.run([BIN / "shellcheck", *scripts], check=True)
    text = (image / "Containerfile").read_text()
    assert re.search(r"^USER 10001", text, re.MULTILINE)
    assert "HEALTHCHECK" in text
    written = ("HOME", "FKD_HOME", "PREFECT_HOME", "PREFECT_UI_STATIC_DIRECTORY", "MPLCONFIGDIR")
    for name in written:  # the root is read-only
        assert re.search(rf"^(ENV)? +{name}=/(fkd|tmp)\b", text, re.MULTILINE), name
    # The locks of running alone: no tool of the tests gets into the image.
    locks = re.findall(r"pip install .*--require-hashes -r (\S+)", text)
    assert locks == ["requirements.lock", "requirements-deploy.lock"]


def _copied():
    """What the image takes from this repository: each source with its place in the image."""
    for line in (DEPLOY / "image" / "Containerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            *sources, place = line.split()[1:]
            yield from ((source, place) for source in sources)


def test_all_that_the_image_copies_is_there_and_not_ignored():
    root, copied = DEPLOY.parent, list(_copied())
    ignored = (DEPLOY / "image" / "Containerfile.dockerignore").read_text().split()
    assert ignored[0] == "*"
    assert {f"!{source}" for source, _ in copied} == {w for w in ignored if w.startswith("!")}
    for source, place in copied:
        assert (root / source).exists(), source
        if place.startswith("/usr/local/bin"):
            assert os.access(root / source, os.X_OK), source
    # Folders of the wheel, with what its description names.
    told = tomllib.loads((root / "pyproject.toml").read_text())
    needed = {*told["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"], "pyproject.toml"}
    needed |= {told["project"]["readme"], *told["project"]["license-files"]}
    assert needed <= {source for source, _ in copied}


def test_a_container_without_a_server_is_healthy_where_the_package_is_whole(tmp_path):
    script = DEPLOY / "image" / "healthy"

    def code(**given):
        words = [sys.executable, script]
        return subprocess.run(
            words, env={"PATH": "/usr/bin:/bin", **given}, cwd=tmp_path
        ).returncode

    assert code() == 0
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
        assert code(FKD_HEALTH=place) == 0
    assert code(FKD_HEALTH=place) == 1
    assert code(FKD_HEALTH=f"http://{place}/health") == 1


def test_secrets_reach_a_command_as_variables(tmp_path):
    place = tmp_path / "secret"
    place.write_text("s3cr3t with spaces\n")
    script = DEPLOY / "image" / "with-secrets"
    words = [script, "sh", "-c", 'printf "%s|%s|%s" "$A_WORD" "${A_WORD_FILE:-}" "$DASK_X_FILE"']
    given = {"PATH": "/usr/bin:/bin", "A_WORD_FILE": str(place), "DASK_X_FILE": "kept"}
    found = subprocess.run(words, env=given, capture_output=True, text=True, check=True)
    assert found.stdout == "s3cr3t with spaces||kept"
    for content, sentence in ((None, "cannot"), ("", "is empty")):
        place.unlink() if content is None else place.write_text(content)
        found = subprocess.run(words, env=given, capture_output=True, text=True)
        assert found.returncode == 2
        assert sentence in found.stderr
