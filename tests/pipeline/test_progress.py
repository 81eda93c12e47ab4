"""The text of a progress bar on a terminal."""

import re

from rich.console import Console

from flows import messages


def test_elapsed_and_left_follow_their_times(monkeypatch):
    console = Console(force_terminal=True, width=100, record=True, highlight=False)
    monkeypatch.setattr(messages, "console", console)
    with messages.RunLog("terminal").progress("fits", 4) as advance:
        advance(1)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.export_text())
    assert re.search(r"\d:\d\d:\d\d elapsed, [-0-9:]+ left", shown), shown
