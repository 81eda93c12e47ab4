"""Application and library: one version, two build files, never both in one environment."""

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from fkd import __version__
from tools.wheels.build import build
from tools.wheels.environment import WheelError
from tools.wheels.library_tests import files_needed, library_tests

ROOT = Path(__file__).parent.parent
APPLICATION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LIBRARY_FILES = files_needed(ROOT / "tests")
LIBRARY = tomllib.loads((ROOT / "tools" / "library" / "pyproject.toml").read_text())["project"]


def test_the_version_is_that_of_the_newest_changes():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == __version__
    assert not {"version"} & APPLICATION.keys() & LIBRARY.keys()  # both read it from fkd


def test_the_library_needs_three_packages_as_the_application_does():
    needs = LIBRARY["dependencies"]
    assert {re.split(r"[<>=]", need)[0] for need in needs} == {"numpy", "scipy", "scikit-learn"}
    assert set(needs) <= set(APPLICATION["dependencies"])
    known = {*APPLICATION["dependencies"]}.union(*APPLICATION["optional-dependencies"].values())
    assert set().union(*LIBRARY["optional-dependencies"].values()) <= known
    assert "scripts" not in LIBRARY


def test_both_have_the_same_licence():
    assert (ROOT / "tools" / "library" / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()


@pytest.mark.parametrize("name", ["fkd", "fkd-core"])
def test_a_wheel_ships_the_data_of_the_library(tmp_path, name):
    with zipfile.ZipFile(build(name, tmp_path)) as wheel:
        shipped = {file.filename for file in wheel.infolist()}
    assert {"fkd/data/crimes.csv.gz", "fkd/data/crimes.md", "fkd/py.typed"} <= shipped


def test_an_archive_that_yields_another_wheel_is_noticed(tmp_path, monkeypatch):
    project = tmp_path / "project"
    (project / "fkd").mkdir(parents=True)
    (project / "fkd" / "__init__.py").write_text("")
    text = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    text += '[project]\nname = "fkd-core"\nversion = "1"\n'
    text += '[tool.hatch.build.targets.wheel]\npackages = ["fkd"]\n'
    (project / "pyproject.toml").write_text(text)
    monkeypatch.setitem(build.__globals__["PROJECTS"], "fkd-core", project)
    assert build("fkd-core", tmp_path / "good").name.startswith("fkd_core-1-")
    (project / "fkd" / "left.py").write_text("")
    text += '[tool.hatch.build.targets.sdist]\nexclude = ["left.py"]\n'
    (project / "pyproject.toml").write_text(text)
    with pytest.raises(WheelError, match="must yield"):
        build("fkd-core", tmp_path / "bad")


# Both distributions in one environment; `make wheels` does the same with the real wheels and pip.


def _import_beside(folder, *names, command=("-c", "import fkd; print(fkd.__version__)")):
    """Import fkd where these distributions, and no others of ours, are said to be installed."""
    for name in names:
        info = folder / f"{name.replace('-', '_')}-0.2.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.2.0\n")
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_one_distribution_is_imported(tmp_path):
    assert _import_beside(tmp_path, "fkd").stdout.strip() == __version__


def test_two_distributions_refuse_to_be_imported_and_name_the_cure(tmp_path):
    done = _import_beside(tmp_path, "fkd", "fkd-core")
    assert done.returncode == 1
    said = done.stderr.strip().splitlines()[-1]
    assert said.startswith("ImportError: fkd must come from one distribution")
    assert "fkd 0.2.0 and fkd-core 0.2.0 are installed" in said
    assert "`pip uninstall --yes fkd fkd-core`" in said


def test_the_command_of_two_distributions_says_it_in_a_sentence(tmp_path):
    done = _import_beside(
        tmp_path, "fkd", "fkd-core", command=("-m", "flows.cli", "run", "--dry-run")
    )
    assert done.returncode == 2, done.stderr
    shown = " ".join((done.stdout + done.stderr).split())
    assert "fkd must come from one distribution" in shown
    assert "fault of fkd" not in shown


# Which tests are the library's.


@pytest.mark.parametrize(
    ("text", "is_library"),
    [
        ("from fkd import one_hot", True),
        ("import numpy", False),
        ("from fkd import one_hot\nfrom tasks.data import load", False),
        ("import fkd\ndef test_a():\n    import configs.load", False),
        ("import fkd\nCOMMAND = ['-m', 'flows.cli']", False),
        ("import fkd\ndef test_a(settings): pass", False),
        ("import fkd\nfrom hypothesis import settings\n@settings()\ndef test_a(rng): pass", True),
        ("import fkd\nfrom pathlib import Path\nR = Path(__file__).parent.parent", False),
        ("import fkd\nfrom pathlib import Path\nR = Path(__file__).parent", True),
        ("import fkd\nimport a_sample", False),
        ("import fkd\nimport b_sample", True),
    ],
)
def test_a_test_is_the_library_s_if_nothing_in_it_speaks_of_the_pipeline(
    tmp_path, text, is_library
):
    fixture = "@pytest.fixture\ndef settings(): pass\n\ndef rng(): pass\n"
    (tmp_path / "pipeline_fixtures.py").write_text(fixture)
    (tmp_path / "a_sample.py").write_text("import c_sample")
    (tmp_path / "b_sample.py").write_text("import fkd")
    (tmp_path / "c_sample.py").write_text("import flows.cli")
    (tmp_path / "test_it.py").write_text(text)
    # The same in a subfolder, whose files import samples of the folder above.
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "test_it.py").write_text(text)
    found = [tmp_path / "library" / "test_it.py", tmp_path / "test_it.py"]
    assert library_tests(tmp_path) == (found if is_library else [])
    if "b_sample" in text:
        assert tmp_path / "b_sample.py" in files_needed(tmp_path)


def _imported(path):
    """Yield what a file imports, but for what it skips itself without."""
    text = path.read_text()
    skipped = set(re.findall(r'importorskip\(\s*"(\w+)', text))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
        else:
            continue
        yield from {name.split(".")[0] for name in names} - skipped


@pytest.mark.parametrize("path", LIBRARY_FILES, ids=lambda path: path.name)
def test_the_library_s_tests_import_what_its_extra_test_installs(path):
    needs = [*LIBRARY["dependencies"], *LIBRARY["optional-dependencies"]["test"]]
    installed = {re.split(r"[<>=]", need)[0].replace("-", "_") for need in needs}
    installed |= {"fkd", "sklearn", "threadpoolctl", *sys.stdlib_module_names}
    samples = {file.stem for file in LIBRARY_FILES}
    # The networks' tests ask in their first lines whether PyTorch is there, or their samples do.
    optional = {"torch", "fairlearn", "numba", "concept_erasure", "maxcorr"}
    assert not set(_imported(path)) - installed - samples - optional


def test_the_library_s_tests_are_collected_where_there_is_no_pipeline(tmp_path):
    """As they stand in `make wheels`, but without an install: imports of the pipeline fail."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "fkd").symlink_to(ROOT / "fkd")
    for path in LIBRARY_FILES:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(exist_ok=True)
        copy.symlink_to(path)
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    script = (
        "import importlib.util, sys, pytest\n"
        "PIPELINE = {'tasks', 'flows', 'configs', 'prefect', 'mlflow', 'distributed', 'pydantic'}\n"
        "real = importlib.util.find_spec\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in PIPELINE:\n"
        "            raise ModuleNotFoundError(name)\n"
        "importlib.util.find_spec = lambda n, p=None: None if n in PIPELINE else real(n, p)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "sys.exit(pytest.main(['--collect-only', '-q', '-p', 'no:cacheprovider', 'tests']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "test_algorithm1.py" in done.stdout
