"""The site's parts that do not need Sphinx: examples, words of the reference, links."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "docs"))

from links import broken_links, main  # noqa: E402
from reference_words import as_text, is_elsewhere  # noqa: E402

import fkd  # noqa: E402
import fkd.baselines  # noqa: E402
import fkd.datasets  # noqa: E402
import fkd.measures  # noqa: E402
import fkd.plot  # noqa: E402
from fkd.core import moments  # noqa: E402

EXAMPLES = sorted((ROOT / "docs" / "examples").glob("plot_*.py"))


def test_there_are_nine_examples():
    assert len(EXAMPLES) == 9


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_at_most_25_lines_of_code(path):
    text = path.read_text()
    rest = text.splitlines()[ast.parse(text).body[0].end_lineno :]
    assert len([line for line in rest if line.strip() and not line.lstrip().startswith("#")]) <= 25


@pytest.mark.parametrize(
    "name", ["fkd", "fkd.measures", "fkd.plot", "fkd.baselines", "fkd.datasets"]
)
def test_the_reference_lists_every_public_name(name):
    text = (ROOT / "docs" / "api" / "index.md").read_text()
    section = text.split(f".. currentmodule:: {name}\n")[1].split("```")[0]
    listed = re.findall(r"^   (\w+)$", section, re.MULTILINE)
    module = sys.modules[name]
    # Dictionaries have no docstring of their own; the text above the list names them.
    assert listed == [n for n in module.__all__ if not isinstance(getattr(module, n), dict)]


def _pins(lock):
    return dict(re.findall(r"^([\w.-]+)==([^ ;]+)", (ROOT / lock).read_text(), re.MULTILINE))


LOCKS = {
    "requirements-dev.lock": ["dev"],
    "requirements-deploy.lock": ["deploy"],
    "requirements-docs.lock": ["docs"],
    "requirements-neural.lock": ["erasure", "fast"],
}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_its_extras_in_the_versions_of_the_others(lock):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    needed = {re.split(r"[\[<>=]", need)[0] for extra in LOCKS[lock] for need in extras[extra]}
    pinned, ours = _pins(lock), _pins("requirements.lock")
    assert needed - {"torch"} <= set(pinned)
    assert (ROOT / lock).read_text().count("--hash=sha256:") > len(pinned)
    both = set(pinned) & set(ours)
    assert both
    assert {name: pinned[name] for name in both} == {name: ours[name] for name in both}


def test_both_builds_of_torch_are_locked_with_hashes():
    for name in ("requirements-torch.lock", "requirements-torch-cpu.lock"):
        assert "torch" in _pins(name)
        assert "--hash=sha256:" in (ROOT / name).read_text()


def test_make_run_installs_no_tool_of_the_tests():
    pinned, tests = set(_pins("requirements.lock")), set(_pins("requirements-dev.lock"))
    assert {"prefect", "mlflow", "hatchling", "editables"} <= pinned < tests
    assert not {"pytest", "playwright", "ruff", "mypy", "moto", "uv", "torch"} & pinned


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("|w|² is the norm", r"\|w\|² is the norm"),
        ("`held_out_` of `fit`", "``held_out_`` of ``fit``"),
        ("names ending in held_out_ or m_", r"names ending in held_out\_ or m\_"),
        ("mu*T", r"mu\*T"),
        ("K_nq stays, ``|a|`` too", "K_nq stays, ``|a|`` too"),
        (">>> a_ = b | c_", ">>> a_ = b | c_"),
        ("see [1]_ and :func:`a_`", "see [1]_ and :func:`a_`"),
        ("    coef_ : Array", r"    coef\_ : Array"),
    ],
)
def test_words_of_a_docstring_mean_themselves(written, read):
    lines = [written]
    as_text(None, "function", "f", None, None, lines)
    assert lines == [read]


def test_the_reference_leaves_out_what_is_documented_elsewhere():
    def left_out(what, name, obj):
        return is_elsewhere(None, what, name, obj, False, None)

    assert left_out("class", "get_params", fkd.FairSVC.get_params)
    assert left_out("class", "set_fit_request", fkd.FairSVC.set_fit_request)
    assert left_out("module", "gdp", fkd.measures.gdp)
    assert left_out("class", "fit", fkd.FairSVC.fit) is None
    assert left_out("module", "Moments", moments.Moments) is None


@pytest.fixture
def site(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "template.html").write_text('<a href="{{ gone }}">')
    (tmp_path / "sub" / "page.html").write_text('<h1 id="top">a</h1><img src="../a%20b.png">')
    (tmp_path / "a b.png").write_text("")
    (tmp_path / "index.html").write_text(
        '<a href="sub/page.html#top"></a><a href="https://example.org/gone"></a><a href="#"></a>'
    )
    return tmp_path


def test_links_that_lead_somewhere_pass(site, capsys):
    assert list(broken_links(site)) == []
    assert main(str(site)) == 0
    assert "2 pages, 0 broken" in capsys.readouterr().out


@pytest.mark.parametrize(
    "link", ["gone.html", "sub/page.html#gone", "#gone", "sub/gone.png", "../outside.html"]
)
def test_a_link_that_leads_nowhere_is_named(site, capsys, link):
    (site.parent / "outside.html").write_text("")
    (site / "sub" / "more.html").write_text(f'<a href="{"" if link[0] == "#" else "../"}{link}">')
    assert [line for line in broken_links(site) if link in line]
    assert main(str(site)) == 1
    assert link in capsys.readouterr().err


def test_an_empty_site_is_no_site(tmp_path):
    assert main(str(tmp_path)) == 1
