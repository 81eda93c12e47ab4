import re
from dataclasses import replace
from html import unescape

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from configs.load import load_config
from fkd.measures import gdp, hgr, pairwise_fairness
from tasks.fit.job import run_job
from tasks.report.html import LEFT, RIGHT, TOP, WIDTH
from tasks.report.model import report_data
from tasks.report.page import to_html
from tasks.select.champion import candidates, select_champion
from tasks.select.groups import along_study
from tasks.select.judgement import predicted_targets
from tasks.select.results import write_results
from tasks.select.study import open_study


def held_out(study):
    table = study.loaded.table
    return table.take(study.inputs.splits.held_out_fold(table).test)


def trial_of(study, method, strength):
    return next(t for t in study.trials if (t.method, t.strength) == (method, strength))


def plain(text):
    return float(text.replace("−", "-").replace(",", ""))


def tables_of(page):
    """Every table of a page by its caption."""
    found = {}
    for body in re.findall(r"<table>(.*?)</table>", page, flags=re.DOTALL):
        caption = unescape(re.search(r"<caption><span>(.*?)</span>", body, re.DOTALL)[1])
        rows = [
            [
                unescape(re.sub(r"<[^>]+>", "", cell)).strip()
                for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.DOTALL)
            ]
            for row in re.findall(r"<tr[^>]*>(.*?)</tr>", body, flags=re.DOTALL)
        ]
        found[caption] = rows
    return found


@pytest.fixture
def page(quick_study):
    report = report_data(quick_study)
    return to_html(report)


def test_the_decile_table_is_what_the_stored_predictions_say(quick_study, page):
    champion = select_champion(quick_study).trial
    test = held_out(quick_study)
    s = test.sensitive[:, test.sensitive_names.index("racepctblack")]
    frame = pd.DataFrame(
        {
            "s": s,
            "y": test.target,
            "f": predicted_targets(quick_study, champion),
            "g": predicted_targets(quick_study, trial_of(quick_study, "krr_fkd", 0)),
        }
    )
    (rows,) = [
        rows
        for caption, rows in tables_of(page).items()
        if "Equal values are in one group" in caption
    ]
    heading, *lines = rows
    assert sum(int(line[1]) for line in lines) == len(frame) > 600
    start = 0
    ordered = frame.sort_values("s")
    for line in lines:
        own = ordered.iloc[start : start + int(line[1])]
        start += len(own)
        low, _, high = line[0].partition(" to ")
        assert (plain(low), plain(high or low)) == (own.s.min().round(2), own.s.max().round(2))
        wanted = {
            "True value": own.y.mean(),
            "Prediction, nothing removed": own.g.mean(),
            "Prediction, chosen model": own.f.mean(),
            "Signed error, nothing removed": (own.g - own.y).mean(),
            "Signed error, chosen model": (own.f - own.y).mean(),
            "Absolute error, nothing removed": (own.g - own.y).abs().mean(),
            "Absolute error, chosen model": (own.f - own.y).abs().mean(),
            "Change of the prediction": (own.f - own.g).mean(),
        }
        for name, number in wanted.items():
            assert plain(line[heading.index(name)].split(" ")[0]) == pytest.approx(number, abs=6e-4)
    assert 7 <= len(lines) <= 10  # values that are equal stay together


def figure_of(page, title):
    """The lines of a drawn figure by their look, in the values of its axes."""
    start = page.index(f"<h4>{title}</h4>", page.index('<section id="along"'))
    svg = page[start : page.index("</svg>", start)]
    ups = [(float(at), plain(v)) for at, v in re.findall(_UP, svg)]
    acrosses = [(float(at), plain(v)) for at, v in re.findall(_ACROSS, svg)]
    found = {}
    for look, points in re.findall(r'<g class="(\w+)">.*?<polyline points="([^"]+)"/>', svg):
        drawn = np.array([pair.split(",") for pair in points.split()], dtype=float)
        found[look] = np.column_stack([_read(drawn[:, 0], acrosses), _read(drawn[:, 1], ups)])
    return found


_UP = rf'class="grid" d="M{LEFT} ([\d.]+)H{WIDTH - RIGHT}"/><text[^>]*>([^<]+)<'
_ACROSS = rf'class="grid" d="M([\d.]+) {TOP}V[\d.]+"/><text[^>]*>([^<]+)<'


def _read(places, grid):
    """Values at places of a drawing, by the numbers that stand at its grid."""
    (first, low), (last, high) = grid[0], grid[-1]
    return low + (places - first) * (high - low) / (last - first)


def test_the_drawn_curves_are_means_of_the_stored_predictions(quick_study, page):
    test = held_out(quick_study)
    s, y = test.sensitive[:, test.sensitive_names.index("racepctblack")], test.target
    f = predicted_targets(quick_study, select_champion(quick_study).trial)
    g = predicted_targets(quick_study, trial_of(quick_study, "krr_fkd", 0))
    # The window of the documentation, row by row: half of Silverman's, over ranks.
    n = len(s)
    rank = np.array([((s < one).sum() + (s <= one).sum()) / 2 / n for one in s])
    window = 0.5 * np.sqrt(1 / 12) * (3 * n / 4) ** -0.2
    places = np.unique(np.sort(s)[np.linspace(0, n - 1, 41).round().astype(int)])
    at = np.array([rank[s == one][0] for one in places])
    z = (at[:, None] - rank) / window
    W = np.where(np.abs(z) <= 3, np.exp(-(z**2) / 2), 0.0)
    W /= W.sum(axis=1, keepdims=True)
    wanted = {
        "Mean prediction": {"truth": y, "other": g, "model": f},
        "Signed error": {"other": g - y, "model": f - y},
        "Absolute error": {"other": abs(g - y), "model": abs(f - y)},
        "Change of the prediction": {"model": f - g},
    }
    for title, lines in wanted.items():
        found = figure_of(page, title)
        assert {*found} == {*lines}
        for look, values in lines.items():
            assert len(found[look]) == len(places) > 25
            assert_allclose(found[look][:, 0], W @ s, atol=2e-3)
            assert_allclose(found[look][:, 1], W @ values, atol=1e-3)


def test_the_table_of_limits_is_what_the_stored_predictions_say(quick_study, page):
    test = held_out(quick_study)
    s, y = test.sensitive[:, test.sensitive_names.index("racepctblack")], test.target
    inner = {result.trial.key: result for result in candidates(quick_study)}
    for measure in ("hgr", "gdp", "pf"):
        (rows,) = [
            rows
            for caption, rows in tables_of(page).items()
            if f"range of limits on {measure.upper()}," in caption
        ]
        heading, *lines = rows
        assert len(lines) > 1
        for line in lines:
            limit = plain(line[0].removeprefix("from ").strip()) + 6e-4
            kept = [one for one in inner.values() if one.mean(measure, "racepctblack") <= limit]
            chosen = min(kept, key=lambda one: one.mean("mae", "racepctblack")).trial
            f = predicted_targets(quick_study, chosen)
            numbers = {
                "MAE": abs(f - y).mean(),
                "HGR": hgr(f, s, margins="standard"),
                "GDP": gdp(f, s, margins="given"),
                "PF": pairwise_fairness(y, f, s),
            }
            for name, number in numbers.items():
                assert plain(line[heading.index(name)]) == pytest.approx(number, abs=6e-4)


def test_the_table_of_trials_is_what_results_csv_says(quick_study, page, tmp_path):
    write_results(quick_study.results(), quick_study.config.data, tmp_path)
    frame = pd.read_csv(tmp_path / "results.csv")
    (rows,) = [
        rows for caption, rows in tables_of(page).items() if "Press a heading to sort" in caption
    ]
    heading, *lines = rows
    of_trial = frame.groupby(["method", "strength"], sort=False)
    assert len(lines) == len(of_trial) == 3
    for line, (_, own) in zip(lines, of_trial, strict=True):
        for name in ("MAE", "HGR", "GDP", "PF"):
            mean, _, std = line[heading.index(name)].partition(" ± ")
            values = own[name.lower()]
            assert plain(mean) == pytest.approx(values.mean(), abs=6e-4)
            assert plain(std) == pytest.approx(values.std(ddof=0), abs=6e-4)


def test_the_page_says_for_whom_it_errs_instead_of_that_it_does_not_know(page):
    assert "The mean absolute error is largest for share of Black residents" in page
    assert "Change of the prediction" in page
    assert "Leaking function" in page


def test_the_curve_of_the_chosen_model_is_beside_that_with_nothing_removed(quick_study):
    trial = trial_of(quick_study, "krr_fkd", 4)
    found = along_study(quick_study, trial).profiles["racepctblack"]
    mean = found.curves
    assert_allclose(
        mean["gain"].mean, mean["prediction"].mean - mean["other_prediction"].mean, atol=1e-9
    )
    assert found.other_leak.correlation > found.leak.correlation


def test_predictions_are_in_the_unit_of_the_target(quick_study):
    trial = trial_of(quick_study, "krr_fkd", 4)
    table = replace(quick_study.loaded.table, target_range=(100.0, 300.0))
    wide = replace(quick_study, loaded=replace(quick_study.loaded, table=table))
    scaled = predicted_targets(quick_study, trial)
    assert_allclose(predicted_targets(wide, trial), 100 + 200 * scaled)


def test_a_model_that_removes_nothing_stands_alone(quick_study):
    trial = trial_of(quick_study, "krr_fkd", 0)
    assert "gain" not in along_study(quick_study, trial).profiles["racepctblack"].curves


def test_predictions_that_were_not_kept_are_told_of(quick_study):
    known = trial_of(quick_study, "krr_fkd", 4)
    other = known.parameters_json.replace('"iterations": 4', '"iterations": 3')
    trial = replace(known, parameters_json=other)
    assert predicted_targets(quick_study, trial) is None
    found = along_study(quick_study, trial)
    assert found.problems == {"racepctblack": "it has no predictions of the held-out rows"}


def test_strata_and_pairs_come_with_control_and_several_columns(settings):
    config = load_config(
        "default",
        (
            "name=two",
            "folds.k=3",
            "select=null",
            "data.measure_on=[racepctblack, racePctHisp]",
            "data.control=[medIncome]",
            "methods=[{name: krr_fkd, grid: {iterations: [0, 3]}, "
            "approximation: {kind: nystroem, landmarks: 30}}]",
        ),
    )
    study = open_study(config, settings)
    for job in study.missing():
        run_job(job)
    found = along_study(study, trial_of(study, "krr_fkd", 3))
    assert list(found.profiles) == ["racepctblack", "racePctHisp"]
    assert len(found.strata["racepctblack"][0]) == 5  # fifths of a number
    (pair,) = found.pairs
    assert pair.names == ("racepctblack", "racePctHisp")
    rows = sum(group.rows for group in (*pair.groups, *pair.left_out))
    assert rows == held_out(study).n


@pytest.mark.slow
def test_the_error_of_sixty_iterations_falls_on_the_last_fifth(settings):
    """By hand: 80 rows at either end of the held-out fold of the default run."""
    config = load_config("default", ("methods=[{name: svr_fkd, grid: {iterations: [0, 60]}}]",))
    study = open_study(config, settings)
    fold = study.inputs.splits.held_out_fold(study.loaded.table)
    for job in study.missing():
        run_job(job)
    test = study.loaded.table.take(fold.test)
    order = np.argsort(test.S(["racepctblack"])[:, 0], kind="stable")
    error = {
        strength: predicted_targets(study, trial_of(study, "svr_fkd", strength)) - test.target
        for strength in (0, 60)
    }
    last, first = order[-80:], order[:80]
    assert np.abs(error[0][last]).mean() == pytest.approx(0.161, abs=5e-4)
    assert np.abs(error[60][last]).mean() == pytest.approx(0.259, abs=5e-4)
    assert error[60][last].mean() == pytest.approx(-0.227, abs=6e-4)
    assert np.abs(error[0][first]).mean() == pytest.approx(0.054, abs=5e-4)
    assert np.abs(error[60][first]).mean() == pytest.approx(0.071, abs=5e-4)
