import pandas as pd
from report_sample import make_report

from configs.load import load_config, parse_config
from tasks.fit.job import run_job
from tasks.report.model import report_data
from tasks.report.page import render
from tasks.select.study import open_study


def test_a_report_without_champion_has_no_chosen_trial():
    assert make_report().chosen == make_report().trials[4]
    assert make_report(champion=None).chosen is None


def test_made_up_rows_are_reported_as_such(settings, tmp_path):
    config = load_config(
        "acs_income",
        ["data.source=synthetic", "data.synthetic.rows=1500", "methods=[dummy]", "folds.k=2"],
    )
    study = open_study(config, settings)
    for job in study.missing():
        run_job(job)
    page = render(report_data(study), tmp_path)[0].read_text()
    assert "synthetic" in page.lower()
    assert "sha256 <" not in page


def test_the_words_of_an_own_table_reach_the_whole_page(settings, tmp_path, rng):
    n = 60
    size, age = rng.uniform(20, 120, n), rng.uniform(20, 80, n)
    rent = 10 * size + 3 * age + rng.normal(0, 20, n)
    frame = pd.DataFrame({"size": size, "age": age, "rent": rent})
    frame.to_csv(tmp_path / "rents.csv", index=False)
    data = {
        "problem": "table",
        "path": str(tmp_path / "rents.csv"),
        "target": "rent",
        "sensitive": "age",
        "numeric": ["size"],
    }
    words = {
        "title": "Rents of Berlin",
        "row_noun": "flats",
        "titles": {"rent": "monthly rent", "age": "age of the tenant", "size": "living space"},
        "units": {"rent": "euros"},
        "descriptions": {"size": "without cellar"},
    }
    methods = [{"name": "krr_fkd", "grid": {"iterations": [0, 1]}}]
    rest = {"folds": {"k": 2}, "select": {"inner_folds": 2}, "methods": methods}
    study = open_study(parse_config({"data": data, **rest}, "rents"), settings)
    for job in study.missing():
        run_job(job)
    # Words that come later find the same results.
    study = open_study(parse_config({"data": {**data, **words}, **rest}, "rents"), settings)
    assert not study.missing()
    report = report_data(study)
    page = render(report, tmp_path)[0].read_text()
    assert "predict monthly rent from 1 columns of data on 60 flats (Rents of Berlin)" in page
    assert "HGR on age of the tenant" in page
    assert "MAE of monthly rent in euros" in page
    assert "columns with the highest correlation with it: living space" in page
    assert '<td data-heading="description">without cellar</td>' in page
    assert "units of rent" not in page
