"""The direction of imports between folders, and the distributions that own them."""

import ast
import importlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest
from deadlines import patient

ROOT = Path(__file__).parent.parent
PACKAGES = ("fkd", "configs", "tasks", "flows")


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _files(folder):
    return sorted((ROOT / folder).rglob("*.py"))


# Folders of two packages, each with those that it may import.
INSIDE = {
    "fkd": {
        "core": (),
        "measures": ("core",),
        "estimators": ("core", "measures"),
        "paper": ("core",),
        "baselines": ("core", "measures"),
        "methods": ("core", "baselines", "paper"),
        "problems": ("core",),
    },
    "tasks": {
        "storage": (),
        "cluster": ("storage",),
        "data": ("storage",),
        "plan": ("storage", "data"),
        "kernels": ("storage", "cluster", "data", "plan"),
        "fit": ("storage", "plan", "kernels"),
        "select": ("storage", "data", "plan", "kernels", "fit"),
        "track": ("storage", "data", "plan", "select"),
        "servers": ("storage", "track"),
        "monitor": ("storage", "cluster", "data", "select", "track"),
        "report": ("storage", "data", "plan", "select", "track", "monitor"),
        "reproduce": ("storage", "plan", "kernels", "fit", "select", "track", "report"),
    },
}


@pytest.mark.parametrize("package", INSIDE)
def test_folders_of_a_package_import_each_other_one_way(package):
    folders, wrong = INSIDE[package], []
    for path in _files(package):
        parts = path.relative_to(ROOT / package).parts
        if len(parts) == 1:
            continue  # the public names
        assert parts[0] in folders, f"{path.relative_to(ROOT)} is in no folder of the list"
        for name in _imports(path):
            whose, _, inside = name.partition(".")
            folder = inside.partition(".")[0]
            if whose == package and folder not in (parts[0], *folders[parts[0]]):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        (
            "fkd",
            {"configs", "tasks", "flows", "prefect", "mlflow", "dask", "distributed", "pydantic"},
        ),
        ("configs", {"tasks", "flows", "prefect", "mlflow", "dask", "distributed"}),
        ("tasks", {"flows", "prefect_dask"}),
    ],
)
def test_imports_go_one_way(folder, forbidden):
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in _files(folder)
        for name in _imports(path)
        if name.split(".")[0] in forbidden
    }
    assert not wrong


@pytest.mark.parametrize("folder", PACKAGES)
def test_each_package_is_ours(folder):
    module = importlib.import_module(folder)
    assert (
        Path(module.__file__).parent.parent
        == Path(importlib.import_module("fkd").__file__).parent.parent
    )
    owners = importlib.metadata.packages_distributions().get(folder, [])
    # An editable install owns no files; a rival in site-packages would show up here.
    assert set(owners) <= {"fkd"}


def test_importing_the_library_pulls_in_no_pipeline():
    unwanted = ("prefect", "mlflow", "dask", "torch")
    script = f"import fkd, sys; print([m for m in {unwanted} if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_no_command_imports_prefect_before_its_environment_is_set():
    script = """
import sys
from flows.cli import app

for name in app:
    if not name.startswith("-"):
        app[name].default_command  # imports its module
print("prefect" in sys.modules)
"""
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=patient(120),
    )
    assert found.stdout.strip() == "False"


def test_no_import_of_ours_touches_the_disk(tmp_path):
    script = "import configs.load, tasks.select.study, tasks.report.page, flows.cli"
    subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=patient(120),
    )
    assert list(tmp_path.iterdir()) == []
