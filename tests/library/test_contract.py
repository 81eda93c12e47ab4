"""One contract of all estimators and methods: weights, units, permutation, clone, routing."""

import pickle

import numpy as np
import pytest
import sklearn
from contract_sample import (
    BATCHES,
    ESTIMATORS,
    METHODS,
    NETWORK,
    answers,
    fitted,
    repeated_rows,
    rows,
)
from estimator_sample import COLUMNS, FirstColumn, not_equivalent
from numpy.testing import assert_allclose, assert_array_equal
from optional import needs
from sklearn.base import clone
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
    baselines,
)
from fkd.baselines.base import LEACE, NEURAL
from fkd.core.predictors import PREDICTORS
from fkd.methods import methods

SUBJECTS = [*ESTIMATORS, *METHODS]
# Solvers stop at a tolerance, networks train in single precision.
CLOSE = {"rtol": 2e-4, "atol": 2e-4}


def permutation(subject, X, y, S, new, S_new):
    """The order of the training rows does not matter."""
    order = np.random.default_rng(1).permutation(len(X))
    return fitted(subject, X[order], y[order], S[order]), S_new


def unit_of_s(subject, X, y, S, new, S_new):
    """Neither unit nor offset of the sensitive columns matters."""
    scale, offset = np.array([64.0, 0.125]), np.array([-300.0, 8.0])
    return fitted(subject, X, y, S * scale + offset), S_new * scale + offset


def read_only(subject, X, y, S, new, S_new):
    """What comes in is not written to."""
    own = [np.array(a) for a in (X, y, S)]
    for a in own:
        a.flags.writeable = False
    return fitted(subject, *own), S_new


def pickled(subject, X, y, S, new, S_new):
    """What is fitted travels to another process."""
    return pickle.loads(pickle.dumps(fitted(subject, X, y, S))), S_new


def cloned(subject, X, y, S, new, S_new):
    """A clone is unfitted, of the same parameters, and fits to the same."""
    model = fitted(subject, X, y, S)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not [name for name in vars(twin) if name.endswith("_") and not name.startswith("_")]
    return fitted(subject, X, y, S), S_new


def stored(subject, X, y, S, new, S_new):
    """A predictor is plain arrays, of numbers or text, from which it comes back."""
    model = fitted(subject, X, y, S)
    predictor = model.expansion() if hasattr(model, "expansion") else model
    assert type(predictor) in PREDICTORS.values()
    arrays = {name: np.asarray(a) for name, a in predictor.arrays().items()}
    assert all(a.dtype.kind in "biufU" for a in arrays.values())
    return type(predictor).from_arrays(arrays), S_new


def weights_for_repeated_rows(subject, X, y, S, new, S_new):
    """A weight is as good as so many rows."""
    _, first, counts = np.unique(X, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    kept = first[order]
    assert len(kept) < len(X)
    return fitted(subject, X[kept], y[kept], S[kept], counts[order]), S_new


def no_weight_for_absent_rows(subject, X, y, S, new, S_new):
    """A row of weight 0 is one that is not there, whatever it holds."""
    others = [np.append(1e3 * a[:7] + 5.0, a, axis=0) for a in (X, y, S)]
    return fitted(subject, *others, np.append(np.zeros(7), np.ones(len(X)))), S_new


PROMISES = {
    "permutation": permutation,
    "unit of s": unit_of_s,
    "read-only": read_only,
    "pickle": pickled,
    "clone": cloned,
    "stored": stored,
    "repeated rows": weights_for_repeated_rows,
    "absent rows": no_weight_for_absent_rows,
}
OF_ESTIMATORS = ("clone", "repeated rows", "absent rows")


def owes(subject, promise):
    """Return whether a promise is one that such a subject can be asked for at all."""
    if promise in OF_ESTIMATORS:
        return subject in ESTIMATORS
    if promise == "stored":
        return subject in METHODS or hasattr(subject.make, "expansion")
    return True


CASES = [
    pytest.param(subject, promise, id=f"{subject}-{promise}", marks=needs(subject.extra))
    for subject in SUBJECTS
    for promise in PROMISES
    if owes(subject, promise)
]


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning", "ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(("subject", "promise"), CASES)
def test_a_promise_is_kept_or_its_breaking_is_declared(rng, subject, promise):
    X, y, S = repeated_rows(rng) if promise == "repeated rows" else rows(rng)
    new, _, S_new = rows(np.random.default_rng(2), n=25)
    known = answers(subject, fitted(subject, X, y, S), new, S_new)
    model, S_seen = PROMISES[promise](subject, X, y, S, new, S_new)
    if promise == "stored" and subject in ESTIMATORS:
        found = model.predict(new)
    else:
        found = answers(subject, model, new, S_seen)
    kept = np.allclose(found, known, **CLOSE)
    assert kept is (promise not in subject.broken), subject.broken.get(promise, "not declared")
    assert np.ptp(known) > 1e-3 or "dummy" in subject.name  # there is something to tell apart


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning", "ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    "subject",
    [
        pytest.param(s, id=str(s), marks=needs(s.extra))
        for s in ESTIMATORS
        if hasattr(s.make, "set_output")
    ],
)
def test_transformers_give_data_frames_where_they_are_asked_for(rng, subject):
    X, _, S = rows(rng)
    plain = clone(subject.make).fit(X, sensitive_features=S)
    model = clone(subject.make).set_output(transform="pandas").fit(X, sensitive_features=S)
    frame = model.transform(X)
    assert frame.columns.tolist() == model.get_feature_names_out().tolist()
    assert_array_equal(frame.to_numpy(), plain.transform(X))
    first = clone(model).fit_transform(X, sensitive_features=S)
    assert_allclose(first.to_numpy(), frame.to_numpy(), atol=1e-6)
    assert len(frame.columns) == len(first.columns)


def test_every_method_and_every_baseline_is_tested():
    assert {subject.name for subject in METHODS} == set(methods())
    kinds = {type(subject.make).__name__ for subject in ESTIMATORS}
    assert set(baselines.__all__) <= kinds
    assert sum(name.startswith("Fair") for name in kinds) == 7  # one is a baseline


def test_whatever_is_declared_broken_has_a_reason_and_a_name():
    for subject in SUBJECTS:
        assert set(subject.broken) <= set(PROMISES)
        assert all(len(reason) > 10 for reason in subject.broken.values())


class Learning(FirstColumn, baselines.FairKernelLearning):
    pass


class Residual(FirstColumn, baselines.ResidualTargetRidge):
    pass


class Projection(FirstColumn, baselines.NullspaceProjection):
    pass


class Erasure(FirstColumn, baselines.LinearErasure):
    pass


class Hgr(FirstColumn, baselines.HgrNetwork):
    why_not_equivalent = BATCHES


class Frem(FirstColumn, baselines.FremNetwork):
    why_not_equivalent = BATCHES


BASELINES = [Learning(), Residual(), Projection()]
if not LEACE.missing():
    BASELINES.append(Erasure())
if not NEURAL.missing():
    # One of the checks asks for a model that has learnt something.
    LEARNT = {**NETWORK, "penalty": 0.01, "epochs": 60, "learning_rate": 0.02}
    BASELINES += [Hgr(**LEARNT), Frem(**LEARNT)]


@pytest.mark.filterwarnings("ignore::fkd.FairnessWarning", "ignore:.*torch.jit:DeprecationWarning")
@parametrize_with_checks(BASELINES, expected_failed_checks=not_equivalent)
def test_baselines_keep_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


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


CHECKED = [
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
@parametrize_with_checks(CHECKED, expected_failed_checks=not_equivalent)
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
