"""More strength means less dependence at a higher price, for every method that has a strength."""

import numpy as np
import pytest
from optional import marked
from scipy.stats import spearmanr
from sklearn.model_selection import KFold

from fkd import measures
from fkd.datasets import read_crimes
from fkd.methods import Training, method, methods
from fkd.problems.crimes import CRIMES, PREDICTORS

# The networks learn their price early: fifteen epochs show what five hundred show.
FEWER = {"epochs": 15}
# A network that collapsed under its price still wiggles by the rounding of its training, which HGR,
# blind to scale, would take for a signal. Nobody could act on less than this share of the range.
DECIMALS = 4
NETWORKS = ("nn_frem", "nn_hgr", "nn_hgr_l")
# The printed form equals krr_fkd (test_paper_methods.py), for a hundred times its cost.
WITH_STRENGTH = sorted({n for n, m in methods().items() if m.strength} - {"krr_fkd_printed"})


@pytest.fixture(scope="module")
def fold():
    columns = read_crimes()
    X = np.column_stack([columns[name] for name in PREDICTORS if name != "racepctblack"])
    y, s = columns[CRIMES.target], columns["racepctblack"]
    train, test = next(iter(KFold(5, shuffle=True, random_state=0).split(X)))
    return Training(X[train], y[train], s[train, None], 0), X[test], y[test], s[test]


def curve(fold, name, fixed):
    """Strength, HGR, GDP, MAE over the paper's grid."""
    training, X, y, s = fold
    declared = method(name)
    settings = declared.settings("crimes", fixed, None)
    rows = np.hstack([X, s[:, None]]) if declared.needs_sensitive else X
    found = []
    for p, fitted in zip(settings, declared.fit(training, settings), strict=True):
        f = np.round(fitted.predict(rows), decimals=DECIMALS)
        found.append(
            (declared.strength_of(p), measures.hgr(f, s), measures.gdp(f, s), np.abs(f - y).mean())
        )
    return np.array(found)


def assert_trades(found):
    strength, hgr, gdp, mae = found.T
    assert spearmanr(strength, hgr).statistic < -0.5
    assert spearmanr(strength, gdp).statistic < -0.5
    assert spearmanr(strength, mae).statistic > 0.5


@pytest.mark.parametrize("name", marked(WITH_STRENGTH))
def test_strength_buys_fairness_for_accuracy(fold, name):
    assert_trades(curve(fold, name, FEWER if name in NETWORKS else {}))


@pytest.mark.slow
@pytest.mark.needs("torch")
@pytest.mark.parametrize("name", NETWORKS)
def test_strength_buys_fairness_for_accuracy_after_all_epochs(fold, name):
    assert_trades(curve(fold, name, {}))
