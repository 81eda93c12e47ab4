"""The list of semantic mutants names code and tests that exist."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
MUTANTS = yaml.safe_load((ROOT / "tools" / "semantic_mutants.yaml").read_text())


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["name"])
def test_a_mutant_changes_one_place(mutant):
    text = (ROOT / mutant["file"]).read_text()
    assert text.count(mutant["replace"]) == 1
    changed = text.replace(mutant["replace"], mutant["by"])
    compile(changed, mutant["file"], "exec")
    assert all(list((ROOT / "tests").rglob(name)) for name in mutant["tests"])
