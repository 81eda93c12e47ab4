import pytest

import flows.reproduction_flow
from configs.schema import ClusterConfig
from flows.reproduced import IncompleteError, Reproduced
from tasks.reproduction.story import Story
from tasks.reproduction.verdicts import WORDS


@pytest.fixture
def story(monkeypatch):
    monkeypatch.setattr(Story, "count", lambda self, word: WORDS.index(word))
    return Story(**{**dict.fromkeys(Story.__annotations__, ""), "name": "E3", "title": "Maps [b]"})


@pytest.mark.parametrize("problems", [("E2: no memory.", "E3: 2 fits failed"), ()])
def test_a_flow_in_which_something_could_not_be_done_fails(monkeypatch, story, problems):
    made = Reproduced(None, (story,), problems)
    monkeypatch.setattr(flows.reproduction_flow, "tell_all", lambda trees, cluster: made)
    if not problems:
        assert flows.reproduction_flow.reproduce.fn([{"name": "E3"}], ClusterConfig()) == made
        return
    with pytest.raises(IncompleteError, match=r"E2: no memory\. E3: 2 fits failed") as caught:
        flows.reproduction_flow.reproduce.fn([{"name": "E3"}], ClusterConfig())
    assert caught.value.found == made
    assert caught.value.exit_code == 4


def test_the_claims_are_shown_on_the_page_and_on_the_terminal(story, tmp_path, capsys):
    made = Reproduced(tmp_path / "a [b]" / "page.html", (story,), ("E2: no memory.",))
    counts = " | ".join(map(str, range(len(WORDS))))
    text = made.markdown()
    assert f"| E3 Maps \\[b\\] | {counts} |" in text
    assert "- E2: no memory." in text
    assert made.page.as_uri() in text
    made.show(3.0)
    assert str(made.page) in capsys.readouterr().out
