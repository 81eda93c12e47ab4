"""Every Python block of the README and of docs/ is executed, in order, file by file."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from deadlines import patient

ROOT = Path(__file__).parent.parent
LOOSE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tools/library/README.md")]
DOCUMENTS = sorted([*LOOSE, *(ROOT / "docs").rglob("*.md")])
PACKAGES = ("fkd", "configs", "tasks", "flows")
FENCE = re.compile(r"^```([^\s`]*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(path, language):
    return [body for name, body in FENCE.findall(path.read_text()) if name == language]


def _run(*arguments, cwd):
    """Run Python where the tree that this file stands in comes before anything installed."""
    others = os.environ.get("PYTHONPATH")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), *([others] if others else [])]),
        "FKD_HOME": str(cwd / "home"),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=patient(240),
    )


def _run_blocks(blocks, folder):
    script = folder / "blocks.py"
    script.write_text("\n\n".join(blocks))
    return _run("-W", "error", str(script), cwd=folder)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_python_blocks_run_as_they_stand(path, tmp_path):
    if blocks := _blocks(path, "python"):
        done = _run_blocks(blocks, tmp_path)
        assert done.returncode == 0, done.stderr


def test_documents_are_tried_on_the_tree_they_stand_in(tmp_path, monkeypatch):
    """An fkd that is installed elsewhere, older or newer, is never the one that answers."""
    installed = tmp_path / "installed"
    for package in PACKAGES:
        (installed / package).mkdir(parents=True)
        (installed / package / "__init__.py").write_text("raise ImportError('another fkd')")
    monkeypatch.setenv("PYTHONPATH", str(installed))
    places = "".join(f"import {name}\nprint({name}.__file__)\n" for name in PACKAGES)
    done = _run_blocks([places], tmp_path)
    assert done.returncode == 0, done.stderr
    found = [Path(line).parent for line in done.stdout.split()]
    assert found == [ROOT / name for name in PACKAGES]
    assert "Usage" in _help(tmp_path)


def _help(folder):
    done = _run("-m", "flows.cli", "--help", cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def help_text(tmp_path_factory):
    return _help(tmp_path_factory.mktemp("help"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_commands_in_documents_exist(path, help_text):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in _blocks(path, "bash"):
        for line in block.splitlines():
            words = line.split("#")[0].split()
            if words[:1] == ["make"]:
                assert words[1] in targets, line
            elif words[:1] == ["fkd"]:
                assert words[1].startswith("-") or words[1] in help_text, line


def _source_of(target):
    """Pages of the gallery are made from the examples when the site is built."""
    if target.parent.name != "gallery":
        return target
    examples = ROOT / "docs" / "examples"
    return examples if target.stem == "index" else examples / f"{target.stem}.py"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_to_files_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text()):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert _source_of(path.parent / target).exists(), target
