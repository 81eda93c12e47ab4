from configs.load import load_config
from tasks.report.gather import report_data
from tasks.report.page import render
from tasks.study.evaluate import run_job
from tasks.study.opening import open_study


def test_made_up_rows_are_reported_as_such(settings, tmp_path):
    config = load_config(
        "acs_income",
        ["data.source=synthetic", "data.twin.rows=1500", "methods=[dummy]", "folds.k=2"],
    )
    study = open_study(config, settings)
    for job in study.missing():
        run_job(job)
    page = render(report_data(study), tmp_path).html.read_text()
    assert "synthetic" in page.lower()
    assert "sha256 <" not in page
