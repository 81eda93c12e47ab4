import pytest

from configs.errors import UserError
from configs.load import load_config
from configs.reproduction import parse_experiment, read_experiment
from configs.run import AUTO_ROWS, SHOWN_TIMES, ClusterConfig, keeps


@pytest.mark.parametrize(
    ("policy", "few", "many"),
    [("auto", True, False), ("keep", True, True), ("drop", False, False)],
)
def test_predictions_of_few_rows_are_kept_unless_told(policy, few, many):
    assert keeps(policy, AUTO_ROWS) is few
    assert keeps(policy, AUTO_ROWS + 1) is many
    # Of the fold that is shown more are kept, yet not any number.
    assert keeps(policy, SHOWN_TIMES * AUTO_ROWS, shown=True) is few
    assert keeps(policy, SHOWN_TIMES * AUTO_ROWS + 1, shown=True) is many


def test_a_word_that_is_no_policy_is_refused():
    with pytest.raises(UserError, match=r"predictions.*'auto', 'keep' or 'drop'"):
        load_config("default", ["predictions=none"])


def test_experiments_keep_the_predictions_that_their_claims_are_judged_by():
    experiment = parse_experiment(read_experiment("E4"))
    configs = [c for run in experiment.runs for c in _runs(experiment, run)]
    assert {config.predictions for config in configs} == {"keep"}


def _runs(experiment, run):
    return experiment.run_configs(run, ClusterConfig()).values()
