"""The tool that puts faults into the code, tried on a small tree of its own."""

import ast
from pathlib import Path

import pytest

from mutants.anchors import AnchorError, Index
from mutants.changes import changes, compiles
from mutants.declared import Equivalent, equivalents, named_mutants
from mutants.draw import KINDS, draw
from mutants.mutant import Mutant
from mutants.page import score, write_page
from mutants.seen import SeenMap, files_of_tests
from mutants.tree import Copy
from mutants.trial import Verdict, Verdicts, chosen_tests, try_mutant

ROOT = Path(__file__).parent.parent
SOURCE = '''"""Sums."""


class Sum:
    """A sum with a limit, whose 3 words are no number."""

    def of(self, values: list[int], limit: int = 10) -> int:
        """Return 1 sum."""
        total = 0
        for value in values:
            if value < limit and not value < -1:
                total = total + value
        return max(total, 0) if total else -1


def unused(a, b):
    raise ValueError(f"{a + 1} is wrong")
'''
TEST = """
from fkd.sums import Sum

def test_sum():
    assert Sum().of([1, 2, 30]) == 3
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A tree with one module, a test that runs it, one that does not."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # of which it needs none
    root = tmp_path / "root"
    for room in ("fkd", "configs", "tasks", "flows", "tests"):
        (root / room).mkdir(parents=True)
    (root / "fkd" / "__init__.py").write_text("")
    (root / "fkd" / "sums.py").write_text(SOURCE)
    (root / "tests" / "test_sums.py").write_text(TEST)
    (root / "tests" / "test_other.py").write_text("def test_other():\n    assert True\n")
    (root / "tests" / "conftest.py").write_text("")
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\naddopts = ["-ra"]\n')
    return root


def mutant(root, before, after, tests=()):
    function = Index(root).find("fkd.sums:Sum.of")
    source = function.source.replace(before, after)
    return Mutant("fault", function, before, after, source, tests)


def test_every_entry_of_ours_finds_its_code():
    index = Index(ROOT)
    assert len(named_mutants(index, ROOT)) > 40
    assert all(entry.reason for entry in equivalents(index))


def test_a_function_is_found_after_its_file_has_moved(root):
    before = Index(root).find("fkd.sums:Sum.of")
    (root / "fkd" / "sums.py").rename(root / "tasks" / "adding.py")
    after = Index(root).find("fkd.sums:Sum.of")
    assert after.path == "tasks/adding.py"
    assert after.text == before.text
    assert before.text.startswith("def of(")
    assert before.text.endswith("else -1")


@pytest.mark.parametrize("anchor", ["fkd.sums:Sum.gone", "fkd.sums:sum", "fkd.gone:nothing"])
def test_an_anchor_that_is_gone_is_an_error(root, anchor):
    with pytest.raises(AnchorError, match=f"{anchor} must be a function of the tree"):
        Index(root).find(anchor)


def test_two_candidates_are_an_error_unless_the_text_tells_them_apart(root):
    (root / "fkd" / "sums.py").rename(root / "tasks" / "adding.py")
    (root / "fkd" / "more.py").write_text("class Sum:\n    def of(self):\n        return 2\n")
    with pytest.raises(AnchorError, match=r"fkd\.more:Sum\.of, tasks\.adding:Sum\.of"):
        Index(root).find("fkd.sums:Sum.of")
    assert Index(root).find("fkd.sums:Sum.of", "return 2").path == "fkd/more.py"


def test_changes_are_of_every_kind_and_leave_the_rest_alone(root):
    function = Index(root).find("fkd.sums:Sum.of")
    found = {(c.kind, c.before, c.after) for c in changes(function)}
    assert {kind for kind, _, _ in found} == set(KINDS)
    assert {
        ("comparison", "value < limit", "value <= limit"),
        ("operator", "value < limit and (not value < -1)", "value < limit or not value < -1"),
        ("operator", "not value < -1", "value < -1"),
        ("operator", "total + value", "total - value"),
        ("operator", "-1", "1"),
        ("constant", "10", "11"),
        ("argument", "max(total, 0)", "max(0, total)"),
        ("condition", "total", "not total"),
        ("return", "max(total, 0) if total else -1", "None"),
    } <= found
    assert not any("word" in before or "sum" in before for _, before, _ in found)
    for change in changes(function):
        mutated = change.applied(SOURCE)
        assert compiles(mutated)
        assert ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(SOURCE))
        assert mutated.startswith(SOURCE[: change.start])


def test_words_for_people_are_not_changed(root):
    assert changes(Index(root).find("fkd.sums:unused")) == []


def test_the_draw_is_the_seeds_and_moves_with_the_code(root):
    first, _ = draw(Index(root), seed=1, count=1)
    again, _ = draw(Index(root), seed=1, count=1)
    assert first == again
    (root / "fkd" / "sums.py").rename(root / "flows" / "adding.py")
    (moved,), _ = draw(Index(root), seed=1, count=1)
    assert (moved.before, moved.after) == (first[0].before, first[0].after)
    drawn = {draw(Index(root), seed=s, count=1)[0][0].before for s in range(20)}
    assert len(drawn) > 1


def test_at_most_one_per_function_equal_shares_and_no_equivalent(root):
    many = "".join(
        f"def f{i}(a, b):\n    if a < b + {i}:\n        return max(a, b)\n    return {i}\n\n"
        for i in range(40)
    )
    (root / "fkd" / "many.py").write_text(many)
    index = Index(root)
    drawn, none = draw(index, seed=3, count=24)
    assert none == []
    assert len({m.function.anchor for m in drawn}) == 24
    assert [m.title for m in drawn] == 4 * list(KINDS)
    first = drawn[0]
    known = [Equivalent(first.function.anchor, first.before, first.after, "because")]
    others, equivalent = draw(index, seed=3, count=24, known=known)
    assert [(m.before, why) for m, why in equivalent] == [(first.before, "because")]
    assert first not in others
    assert len(others) == 24


def test_files_that_start_whole_stacks_stand_apart(root):
    (root / "tests" / "test_whole.py").write_text("pytestmark = pytest.mark.stack\n")
    quick = ["tests/test_other.py", "tests/test_sums.py"]
    assert files_of_tests(root) == (quick, ["tests/test_whole.py"])


def test_tests_are_chosen_by_what_they_run_and_verdicts_kept(root, tmp_path):
    copy = Copy(root, tmp_path / "copy")
    seen = SeenMap(root, tmp_path / "seen.json")
    seen.update([copy], tests=files_of_tests(root)[0])
    assert seen.failing() == []
    killed = mutant(root, "value < limit", "value > limit")
    assert chosen_tests(killed, seen) == ["tests/test_sums.py"]
    verdict = try_mutant(killed, copy, seen)
    assert (verdict.killed, verdict.by) == (True, "tests/test_sums.py::test_sum")
    assert (copy.root / "fkd" / "sums.py").read_text() == SOURCE  # put back
    survivor = mutant(root, "else -1", "else -2")
    assert not try_mutant(survivor, copy, seen).killed

    kept = Verdicts(tmp_path / "verdicts", root)
    kept.write(killed, verdict)
    assert kept.read(killed, ["tests/test_sums.py"]) == verdict
    assert kept.read(survivor, ["tests/test_sums.py"]) is None
    (root / "tests" / "test_sums.py").write_text(TEST + "\n")
    assert kept.read(killed, ["tests/test_sums.py"]) is None

    again = SeenMap(root, tmp_path / "seen.json")
    assert not again._is_fresh("tests/test_sums.py", stale=True)
    assert again._is_fresh("tests/test_other.py", stale=False)


def test_a_mutant_that_never_ends_is_killed(root, tmp_path, monkeypatch):
    copy = Copy(root, tmp_path / "copy")
    endless = mutant(root, "total = 0", "while True: pass", ("tests/test_sums.py",))
    monkeypatch.setattr("mutants.trial._MORE", 3.0)
    monkeypatch.setattr(SeenMap, "seconds", lambda *_: 0.0)
    verdict = try_mutant(endless, copy, SeenMap(root, tmp_path / "seen.json"))
    assert verdict.killed
    assert verdict.by == "tests/test_sums.py (time)"


def test_the_page_says_who_killed_what(root, tmp_path):
    page = tmp_path / "page.md"
    killed = (
        mutant(root, "a | b", "a", ("tests/test_sums.py",)),
        Verdict(True, "tests/t.py::x", 1, {}),
    )
    alive = mutant(root, "c", "d"), Verdict(False, "", 1, {})
    write_page(page, [killed], [alive, killed], [(killed[0], "no one can tell")], seed=5)
    text = page.read_text()
    assert "**1 of 1** killed" in text
    assert "**1 of 2** killed, 50%" in text
    assert "`a \\| b` | `a` | t.py x |" in text
    assert "**survived**" in text
    assert "no one can tell" in text
    assert score([]) == 1.0
