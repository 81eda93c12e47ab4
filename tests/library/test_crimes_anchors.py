"""Agreement with numbers that were measured before on UCI's own file, in its own order."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from optional import mirror
from sklearn.model_selection import KFold
from training_sample import fit_one

from fkd import measures
from fkd.methods import Training
from fkd.problems.crimes import CRIMES, PREDICTORS
from tasks.data.sources import read_communities

SENSITIVE = "racepctblack"
NAMES = ("mae", "hgr", "gdp", "gdp_plugin", "pf")
CENTRED = {"center_sensitive": True}


pytestmark = pytest.mark.needs("mirror")


@pytest.fixture(scope="module")
def fold():
    """Training rows with test rows of fold 0; the methods share their kernel."""
    columns = read_communities(mirror() / "uci" / "communities.data").numbers
    X = np.column_stack([columns[name] for name in PREDICTORS if name != SENSITIVE])
    y, s = columns[CRIMES.target], columns[SENSITIVE]
    train, test = next(iter(KFold(5, shuffle=True, random_state=0).split(X)))
    return Training(X[train], y[train], s[train, None], 0), X[test], y[test], s[test]


def measured(f, y, s):
    return (
        np.abs(f - y).mean(),
        measures.hgr(f, s),
        measures.gdp(f, s),
        measures.gdp(f, s, estimator="plugin"),
        measures.pairwise_fairness(y, f, s),
    )


@pytest.mark.parametrize(
    ("name", "parameters", "expected"),
    [
        ("krr", {}, (0.0966, 0.591, 0.0562, 0.1107, 0.298)),
        ("svr", {}, (0.0925, 0.583, 0.0565, 0.1100, 0.301)),
        ("krr_fkl", {"penalty": 0.05}, (0.1046, 0.490, 0.0386, 0.0781, 0.210)),
        ("krr_fkl", {"penalty": 1.0}, (0.1447, 0.169, 0.0069, 0.0188, 0.063)),
        ("svr_fkd", {"iterations": 1}, (0.0934, 0.568, 0.0552, 0.1075, 0.290)),
        ("svr_fkd", {"iterations": 5}, (0.1007, 0.481, 0.0465, 0.0931, 0.221)),
        ("svr_fkd", {"iterations": 30}, (0.1064, 0.451, 0.0397, 0.0802, 0.203)),
        ("svr_fkd", {"iterations": 60}, (0.1250, 0.380, 0.0174, 0.0402, 0.105)),
        ("svr_fkd", {"iterations": 30, **CENTRED}, (0.1258, 0.376, 0.0145, 0.0355, 0.086)),
        ("svr_fkd", {"iterations": 60, **CENTRED}, (0.1408, 0.243, 0.0111, 0.0247, 0.080)),
        ("krr_fkd", {"iterations": 5, "ridge": 0.05}, (0.1037, 0.496, 0.0463, 0.0929, 0.205)),
    ],
)
def test_a_method_gives_the_numbers_of_its_anchor(fold, name, parameters, expected):
    training, X, y, s = fold
    found = measured(fit_one(name, training, **parameters).predict(X), y, s)
    assert_allclose(found, expected, rtol=0.05, err_msg=", ".join(NAMES))


def test_the_truth_gives_the_numbers_of_its_anchor(fold):
    _, _, y, s = fold
    assert_allclose(measured(y, y, s), (0, 0.514, 0.0627, 0.1234, 0), rtol=0.05, atol=1e-12)
