import pytest

from configs.errors import UserError
from configs.load import load_config

SHARED = "approximation: {kind: nystroem, landmarks: 9, shared: true}"


@pytest.mark.parametrize(
    ("method", "folds", "words"),
    [
        (f"{{name: krr_fkd, {SHARED}}}", "{}", r"folds\.reserve must be above 0.*krr_fkd"),
        (
            "{name: svr_fkd, grid: {approximation: [{kind: fourier, shared: true}]}}",
            "{}",
            r"folds\.reserve must be above 0.*svr_fkd",
        ),
        (
            "{name: krr_fkd, approximation: {shared: true}}",
            "{reserve: 0.1}",
            "must be nystroem or fourier.*'exact'",
        ),
        (f"{{name: krr_fkd, {SHARED}}}", "{reserve: 1.0}", "folds.reserve"),
        (f"{{name: krr_fkd, {SHARED}}}", "{kind: forward, reserve: 0.1}", "forward"),
    ],
)
def test_a_shared_map_without_its_rows_is_refused(method, folds, words):
    with pytest.raises(UserError, match=words):
        load_config("default", [f"methods=[{method}]", f"folds={folds}"])


def test_the_shipped_configuration_shares_one_map():
    config = load_config("nystroem")
    assert config.folds.reserve > 0
    shared = [entry.parameters["approximation"] for entry in config.methods if entry.parameters]
    assert [value["shared"] for value in shared] == [True]
