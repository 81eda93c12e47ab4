import numpy as np
import pytest
import sklearn
from estimator_sample import COLUMNS, FirstColumn, not_equivalent
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fkd import (
    FairGaussianProcess,
    FairKernelDecomposition,
    FairKernelRidge,
    FairKernelShrinkage,
    FairSVC,
    FairSVR,
)


class Decomposition(FirstColumn, FairKernelDecomposition):
    why_not_equivalent = COLUMNS


class Shrinkage(FirstColumn, FairKernelShrinkage):
    why_not_equivalent = COLUMNS


class Ridge(FirstColumn, FairKernelRidge):
    pass


class Regressor(FirstColumn, FairSVR):
    pass


class Process(FirstColumn, FairGaussianProcess):
    pass


class Classifier(FirstColumn, FairSVC):
    pass


ESTIMATORS = [
    Decomposition(iterations=2),
    Ridge(iterations=2, alpha=0.1),
    Regressor(iterations=2, tol=1e-10),
    Process(iterations=2),
    Classifier(iterations=2, tol=1e-10),
    Shrinkage(penalty=10.0),
    Ridge(removal="shrinkage", penalty=0.1, alpha=0.1),
    Regressor(removal="shrinkage", penalty=0.1, tol=1e-10),
    Process(removal="shrinkage", penalty=0.1),
    Classifier(removal="shrinkage", penalty=0.1, tol=1e-10),
]


# The checks' rows know nothing of fairness: some of them ask for warnings, rightly.
@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=not_equivalent)
def test_the_contract_of_scikit_learn_is_kept(estimator, check):
    check(estimator)


def pipeline(model):
    return make_pipeline(StandardScaler(), model)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("model", [FairKernelRidge(), FairSVR(), FairGaussianProcess(), FairSVC()])
def test_a_pipeline_routes_the_sensitive_features(rng, model):
    X = rng.normal(size=(60, 3))
    y = X[:, 1] > 0 if isinstance(model, FairSVC) else X[:, 1]
    fitted = pipeline(model).fit(X, y, sensitive_features=X[:, 0])
    assert fitted.score(X, y) > 0.5


@pytest.mark.usefixtures("routing")
def test_a_grid_search_splits_the_sensitive_features_with_the_rows(rng):
    X = rng.normal(size=(60, 3))
    search = GridSearchCV(
        pipeline(FairKernelRidge()),
        {"fairkernelridge__iterations": [0, 3], "fairkernelridge__alpha": [0.1, 10.0]},
        cv=3,
    )
    search.fit(X, X[:, 0] + X[:, 1], sensitive_features=X[:, 0])
    # The target is half sensitive: leaving it in predicts better.
    assert search.best_params_["fairkernelridge__iterations"] == 0
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.usefixtures("routing")
def test_a_grid_search_cuts_a_precomputed_kernel_both_ways(rng):
    X = rng.normal(size=(60, 3))
    model = FairKernelRidge(kernel="precomputed")
    search = GridSearchCV(model, {"iterations": [0, 3]}, cv=3)
    search.fit(rbf_kernel(X), X[:, 0] + X[:, 1], sensitive_features=X[:, 0])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_ == {"iterations": 0}


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("model", [FairKernelRidge(), FairSVR(), FairGaussianProcess(), FairSVC()])
def test_a_pipeline_that_forgets_them_is_told(rng, model):
    X = rng.normal(size=(20, 3))
    with pytest.raises(TypeError, match="enable_metadata_routing=True"):
        pipeline(model).fit(X, np.arange(20) % 2)
