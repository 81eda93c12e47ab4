"""Every Python block of the README and of docs/ is executed, in order, file by file."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w+)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(path, language):
    return [body for name, body in FENCE.findall(path.read_text()) if name == language]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_python_blocks_run_as_they_stand(path, tmp_path):
    blocks = _blocks(path, "python")
    if not blocks:
        return
    script = tmp_path / "blocks.py"
    script.write_text("\n\n".join(blocks))
    environment = {**os.environ, "FKD_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_commands_in_documents_exist(path):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    help_text = subprocess.run(
        [sys.executable, "-m", "flows.cli", "--help"], capture_output=True, text=True, check=True
    ).stdout
    for block in _blocks(path, "bash"):
        for line in block.splitlines():
            words = line.split("#")[0].split()
            if words[:1] == ["make"]:
                assert words[1] in targets, line
            elif words[:1] == ["fkd"]:
                assert words[1].startswith("-") or words[1] in help_text, line


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_to_files_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text()):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (path.parent / target).exists(), target
