from dataclasses import replace

import pytest

import flows.reproduce
from configs.run import ClusterConfig
from flows.reproduce import IncompleteError, Reproduced
from tasks.reproduce.claims import COUNTS, Verdict
from tasks.reproduce.result import ExperimentResult


@pytest.fixture
def story(monkeypatch):
    monkeypatch.setattr(ExperimentResult, "count", lambda self, as_: COUNTS.index(as_))
    empty = dict.fromkeys(ExperimentResult.__annotations__, "")
    return ExperimentResult(**{**empty, "name": "E3", "title": "Maps [b]"})


@pytest.mark.parametrize("problems", [("E2: no memory.", "E3: 2 fits failed"), ()])
def test_a_flow_in_which_something_could_not_be_done_fails(monkeypatch, story, problems):
    made = Reproduced(None, (story,), problems)
    monkeypatch.setattr(flows.reproduce, "_judge", lambda trees, cluster: made)
    if not problems:
        assert flows.reproduce.reproduce.fn([{"name": "E3"}], ClusterConfig()) == made
        return
    with pytest.raises(IncompleteError, match=r"E2: no memory\. E3: 2 fits failed") as caught:
        flows.reproduce.reproduce.fn([{"name": "E3"}], ClusterConfig())
    assert caught.value.found == made
    assert caught.value.exit_code == 4


def test_the_claims_are_shown_on_the_page_and_on_the_terminal(story, tmp_path, capsys):
    made = Reproduced(tmp_path / "a [b]" / "page.html", (story,), ("E2: no memory.",))
    counts = " | ".join(map(str, range(len(COUNTS))))
    text = made.markdown()
    assert f"| E3 Maps \\[b\\] | {counts} |" in text
    assert "- E2: no memory." in text
    assert made.page.as_uri() in text
    made.show(3.0)
    assert str(made.page) in capsys.readouterr().out


def test_the_error_and_the_reading_are_named_where_the_run_was_started(story, capsys):
    told = replace(
        story,
        title="Stability of the printed recursion",
        reading={"drop": []},
        verdicts=[Verdict("c", "so", "section 4.1", "holds", rmse_verdict="fails")],
    )
    made = Reproduced(None, (told, told), ())
    text = made.markdown()
    assert text.count("Data keys unlike the published ones: data.drop=[].") == 1
    assert "0 hold by MAE and by RMSE, 2 by MAE alone" in text
    assert "added here" not in text  # none of them is ours
    made.show(1.0)
    said = capsys.readouterr().out
    assert "2 by MAE alone" in " ".join(said.split())
    assert "…" not in said
