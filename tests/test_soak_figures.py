import json

import soak_figures


def test_a_case_is_kept_once_with_the_day_and_the_load(tmp_path, monkeypatch):
    monkeypatch.setattr(soak_figures, "RESULTS", tmp_path / "soak.json")
    soak_figures.keep("F13", "two workers", differing=3)
    soak_figures.keep("F2", "driver", kills=8)
    soak_figures.keep("F13", "two workers", differing=0)
    rows = json.loads((tmp_path / "soak.json").read_text())
    assert [(row["fault"], row.get("differing")) for row in rows] == [("F2", None), ("F13", 0)]
    assert {"day", "load", "cores"} <= set(rows[0])
