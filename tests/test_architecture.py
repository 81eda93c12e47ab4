"""The rooms: who may import whom, whose packages these are."""

import ast
import importlib
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest
from deadlines import patient

ROOT = Path(__file__).parent.parent
ROOMS = ("fkd", "configs", "tasks", "flows")


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _files(room):
    return sorted((ROOT / room).rglob("*.py"))


# The rooms inside two packages: each may import those that stand before it in its list.
INSIDE = {
    "fkd": {
        "core": (),
        "measures": ("core",),
        "estimators": ("core", "measures"),
        "paper": ("core",),
        "rivals": ("core", "measures"),
        "plot": ("core", "measures"),
        "catalog": ("core", "measures", "estimators", "paper", "rivals"),
    },
    "tasks": {
        "adapters": (),
        "data": ("adapters",),
        "planned": ("adapters", "data"),
        "blocks": ("adapters", "data", "planned"),
        "study": ("adapters", "data", "planned", "blocks"),
        "watch": ("adapters", "data", "planned", "blocks", "study"),
        "report": ("adapters", "data", "planned", "blocks", "study", "watch"),
        "reproduction": ("adapters", "data", "planned", "blocks", "study", "watch", "report"),
    },
}


@pytest.mark.parametrize("package", INSIDE)
def test_rooms_inside_a_package_know_each_other_one_way(package):
    rooms, wrong = INSIDE[package], []
    for path in _files(package):
        parts = path.relative_to(ROOT / package).parts
        if len(parts) == 1:
            continue  # the public names, the signposts to where modules were
        assert parts[0] in rooms, f"{path.relative_to(ROOT)} stands in no room of the list"
        for name in _imports(path):
            whose, _, inside = name.partition(".")
            room = inside.partition(".")[0]
            if whose == package and room not in (parts[0], *rooms[parts[0]]):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert not wrong


@pytest.mark.parametrize("package", ["fkd", "tasks"])
def test_nothing_stands_outside_the_rooms(package):
    loose = {path.name for path in (ROOT / package).glob("*.py")}
    assert loose == (
        {"__init__.py", "alone.py", "moved.py"} if package == "fkd" else {"__init__.py"}
    )


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_is_called_like_another_or_like_its_folder(room):
    names = [path.stem for path in _files(room) if path.stem != "__init__"]
    folders = {path.parent.name for path in _files(room)} - {room}
    assert not {name for name in names if names.count(name) > 1}
    assert not folders & set(names)


def _definitions():
    """Yield the public classes of all rooms by name; each method's parameters are its own."""
    for room in ROOMS:
        for path in _files(room):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and node.name != "Parameters":
                    yield node.name, path.relative_to(ROOT).as_posix()


def test_no_two_classes_share_a_name():
    found = {}
    for name, path in _definitions():
        found.setdefault(name, []).append(path)
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}


@pytest.mark.parametrize(
    ("pattern", "home"),
    [
        (r"@ U\b.*\) @ U\.T", "fkd/core/linalg.py"),  # the projection of rows
        (r"^(Int|Any)?Array = ", "fkd/core/arrays.py"),
        (r"^_?BLOCK_ROWS = ", "fkd/core/arrays.py"),
        (r"S / ridge - ", "fkd/paper/nystroem_removal.py"),  # Algorithm 2
    ],
)
def test_what_is_one_thing_is_written_once(pattern, home):
    found = {
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in _files(room)
        if re.search(pattern, path.read_text(), re.MULTILINE)
    }
    assert found == {home}


def _importers(package):
    found = [
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in _files(room)
        if any(name == package or name.startswith(package + ".") for name in _imports(path))
    ]
    return set(found)


@pytest.mark.parametrize(
    ("room", "forbidden"),
    [
        (
            "fkd",
            {"configs", "tasks", "flows", "prefect", "mlflow", "dask", "distributed", "pydantic"},
        ),
        ("configs", {"tasks", "flows", "prefect", "mlflow", "dask", "distributed"}),
        ("tasks", {"flows", "prefect_dask"}),
    ],
)
def test_imports_go_one_way(room, forbidden):
    wrong = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in _files(room)
        for name in _imports(path)
        if name.split(".")[0] in forbidden
    }
    assert not wrong


@pytest.mark.parametrize(
    ("package", "homes"),
    [
        ("distributed", {"tasks/adapters/cluster.py", "tasks/adapters/clusters/own_cluster.py"}),
        ("dask_jobqueue", {"tasks/adapters/clusters/slurm_jobs.py"}),
        ("dask_kubernetes", {"tasks/adapters/clusters/pod_resources.py"}),
        ("kr8s", {"tasks/adapters/clusters/kubernetes_pods.py"}),
        # The served model's file is MLflow's own: it runs where fkd's pipeline is not installed.
        (
            "mlflow",
            {
                "tasks/adapters/tracking.py",
                "tasks/adapters/timed_client.py",
                "tasks/adapters/parent_claim.py",
                "tasks/adapters/trial_claims.py",
                "tasks/adapters/registry.py",
                "tasks/adapters/served_model.py",
            },
        ),
    ],
)
def test_a_framework_is_known_in_one_place(package, homes):
    assert _importers(package) == homes


@pytest.mark.parametrize("room", ROOMS)
def test_each_package_is_ours(room):
    module = importlib.import_module(room)
    assert (
        Path(module.__file__).parent.parent
        == Path(importlib.import_module("fkd").__file__).parent.parent
    )
    owners = importlib.metadata.packages_distributions().get(room, [])
    # An editable install owns no files; a rival in site-packages would show up here.
    assert set(owners) <= {"fkd"}


def test_importing_the_library_pulls_in_no_pipeline():
    unwanted = ("prefect", "mlflow", "dask", "torch")
    script = f"import fkd, sys; print([m for m in {unwanted} if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("room", ROOMS)
def test_every_module_says_in_one_sentence_what_it_is(room):
    faults = []
    for path in _files(room):
        first = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0]
        if not first.endswith(".") or re.search(r"\band\b", first):
            faults.append(f"{path.relative_to(ROOT)}: {first!r}")
    assert not faults


def test_no_import_of_ours_touches_the_disk(tmp_path):
    script = "import configs.load, tasks.study.opening, tasks.report.page, flows.cli"
    subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=patient(120),
    )
    assert list(tmp_path.iterdir()) == []


def test_numbers_that_cut_stand_in_one_place():
    pattern = re.compile(r"(?<![\w.])1e-\d+")
    wrong = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _files("fkd")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        # A named constant carries its reason beside it.
        if pattern.search(line)
        and not re.match(r"\s*_?[A-Z][A-Z_]+(: \w+)? = ", line)
        and path.name != "linalg.py"
        and not line.lstrip().startswith(("#", '"'))
    ]
    assert not wrong
