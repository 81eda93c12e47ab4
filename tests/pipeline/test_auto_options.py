from dataclasses import replace

import pytest
from grown_sample import BASE, grown_study, write_rows

from configs.errors import UserError
from configs.load import load_config
from fkd.core.moments import Rounding
from fkd.methods import Approximation, methods
from fkd.methods.kernel_methods import REFERENCE_ROWS, effective_ridge, least_ridge
from tasks.kernels import auto_options as settling
from tasks.kernels.auto_options import resolve_auto, sum_remarks

PARAMETERS = methods()["krr_fkd"].parameters
SHARED = Approximation("nystroem", 50, shared=True)


@pytest.fixture
def study(tmp_path, settings):
    write_rows(tmp_path / "own.csv", BASE)
    return grown_study(tmp_path / "own.csv", settings)


def ways(study, settings):
    found = resolve_auto(settings, study.inputs, study.loaded.table, 1e12)
    return [setting.approximation.sums for setting in found]


def test_the_precision_of_a_setting_depends_on_its_ridge(study, monkeypatch):
    monkeypatch.setattr(settling, "rounding_of", lambda _: Rounding(1e-6, 1e-9, 1e6))
    small, large = (PARAMETERS(approximation=SHARED, alpha=a, ridge=a) for a in (1e-6, 1.0))
    assert ways(study, [small]) == ["rows"]
    assert ways(study, [large]) == ["float64"]
    assert ways(study, [large, small, large]) == ["float64", "rows", "float64"]


@pytest.mark.parametrize("precision", ["float32", "float64", "rows"])
def test_a_given_precision_is_kept(study, precision):
    asked = PARAMETERS(approximation=replace(SHARED, sums=precision), alpha=1e-9)
    assert ways(study, [asked]) == [precision]
    own = PARAMETERS(approximation=replace(SHARED, shared=False))
    assert ways(study, [own]) == ["auto"]


def test_the_precision_and_its_reason_are_logged(study):
    (remark,) = sum_remarks(study.missing())
    assert remark.startswith(f"one pass over {BASE} rows, kernel values in double precision")
    assert "to a ridge of 0.1" in remark


@pytest.mark.parametrize("n", [1, REFERENCE_ROWS, 10 * REFERENCE_ROWS])
def test_ridges_per_row_are_those_of_the_reference_rows_grown(n):
    fixed, grown = (PARAMETERS(alpha=0.5, ridge=0.2, ridges=rule) for rule in ("fixed", "per_row"))
    assert effective_ridge(0.5, fixed, n) == 0.5
    assert effective_ridge(0.5, grown, n) == pytest.approx(0.5 * n / 4370, rel=1e-15)
    assert least_ridge(fixed, n) == 0.2
    assert least_ridge(grown, n) == pytest.approx(0.2 * n / 4370, rel=1e-15)
    assert least_ridge(grown, REFERENCE_ROWS) == 0.2


def test_ridge_accepts_a_rule():
    short, long = (
        load_config("default", [f"methods=[{{name: krr_fkd, {key}: per_row}}]"])
        for key in ("ridge", "ridges")
    )
    assert short.methods == long.methods
    assert short.methods[0].parameters["ridges"] == "per_row"
    with pytest.raises(UserError, match=r"ridge.*got 'by_row'"):
        load_config("default", ["methods=[{name: krr_fkd, ridge: by_row}]"])
