"""Ridge and support vector methods with every removal, against dense formulas and estimators."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from shrinkage_sample import GAMMA, bent, covariances, factor, rbf, shrunk_gram, unit
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVR
from training_sample import fit_one, make_training

from fkd import FairKernelRidge, FairSVR
from fkd.core import training as training_module
from fkd.core.conditioning import Functions
from fkd.core.feature_maps import KernelSettings
from fkd.core.sensitive_basis import BasisSettings, SplineBasis
from fkd.core.weights import UNWEIGHTED, RowWeights
from fkd.methods import Approximation, Training, method, methods


def test_it_is_kernel_ridge_regression(rng):
    training = make_training(rng)
    new = rng.uniform(size=(7, 4))
    other = KernelRidge(kernel="rbf", gamma=0.7, alpha=0.1).fit(training.X, training.y)
    ours = fit_one("krr", training, gamma=0.7, alpha=0.1)
    # The condition of K + alpha·I is below n / alpha = 600.
    assert_allclose(ours.predict(new), other.predict(new), rtol=1e-10)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("kind", ["exact", "nystroem", "fourier"])
def test_krr_is_krr_fkd_without_removal(rng, kind, fit_intercept):
    training = make_training(rng)
    common = {"fit_intercept": fit_intercept, "approximation": Approximation(kind, 20)}
    plain = fit_one("krr", training, **common)
    fair = fit_one("krr_fkd", training, iterations=0, **common)
    assert_array_equal(plain.predict(training.X), fair.predict(training.X))


def test_an_intercept_leaves_no_mean_residual(rng):
    training = make_training(rng)
    residual = training.y - fit_one("krr", training, fit_intercept=True).predict(training.X)
    assert abs(residual.mean()) < 1e-12
    residual = training.y - fit_one("krr", training).predict(training.X)
    assert abs(residual.mean()) > 1e-4  # without one it does


def test_all_alphas_share_one_map_with_the_fair_methods(rng):
    training = make_training(rng)
    krr, fair = method("krr"), method("krr_fkd")
    list(krr.fit(training, [krr.parameters(alpha=a) for a in (0.1, 1.0)]))
    list(fair.fit(training, [fair.parameters(iterations=2)]))
    assert len([key for key in training._cache if isinstance(key, KernelSettings)]) == 1
    assert krr.shared(krr.parameters()) == fair.shared(fair.parameters())


def test_it_is_support_vector_regression(rng):
    training = make_training(rng)
    new = rng.uniform(size=(7, 4))
    other = SVR(gamma=0.7, C=2.0, epsilon=0.05).fit(training.X, training.y)
    ours = fit_one("svr", training, gamma=0.7, C=2.0, epsilon=0.05)
    # libsvm stops within 1e-3 of the optimum, on a kernel that it rounds differently.
    assert_allclose(ours.predict(new), other.predict(new), atol=2e-3)


@pytest.mark.parametrize("kind", ["exact", "nystroem"])
def test_svr_is_svr_fkd_without_removal(rng, kind):
    training = make_training(rng)
    approximation = Approximation(kind, 20)
    plain = fit_one("svr", training, approximation=approximation)
    fair = fit_one("svr_fkd", training, iterations=0, approximation=approximation)
    assert_array_equal(plain.predict(training.X), fair.predict(training.X))


@pytest.mark.parametrize("problem", ["crimes", "acs_income", "acs_travel_time"])
def test_its_published_parameters_are_those_of_the_fair_machine(problem):
    (plain,) = method("svr").settings(problem, {}, None)
    fair = method("svr_fkd").settings(problem, {}, None)[0]
    names = ("gamma", "C", "epsilon")
    assert [getattr(plain, n) for n in names] == [getattr(fair, n) for n in names]


def test_a_setting_does_not_depend_on_its_neighbours(rng):
    training = make_training(rng)
    svr = method("svr")
    settings = [svr.parameters(C=C, gamma=g) for g in (0.1, 0.5) for C in (0.5, 2.0)]
    together = [f.predict(training.X) for f in svr.fit(training, settings)]
    alone = [next(iter(svr.fit(training, [p]))).predict(training.X) for p in settings]
    assert_array_equal(together, alone)


APPROXIMATIONS = [Approximation(), Approximation("nystroem", 60), Approximation("fourier", 60)]


def bent_training(rng, n=300):
    """Rows whose s has the range [0, 1], as prepared tables have it."""
    X, y, s = bent(rng, n)
    return Training(X, y, unit(s), 0)


@pytest.mark.parametrize("approximation", APPROXIMATIONS, ids=lambda a: a.kind)
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_ridge_with_a_penalty_is_fair_kernel_learning(rng, approximation, fit_intercept):
    training = bent_training(rng)
    common = {"gamma_s": 3.0, "approximation": approximation, "fit_intercept": fit_intercept}
    ours = fit_one("krr_fks", training, penalty=40.0, **common)
    theirs = fit_one("krr_fkl", training, penalty=40.0 / 300, **common)
    plain = fit_one("krr_fkl", training, penalty=0.0, **common)
    assert_allclose(ours.predict(training.X), theirs.predict(training.X), atol=1e-6)
    assert np.abs(ours.predict(training.X) - plain.predict(training.X)).max() > 0.1


def test_several_columns_price_their_kernel_together(rng):
    training = make_training(rng, n=300)
    ours = fit_one("krr_fks", training, penalty=40.0, gamma_s=0.05, fit_intercept=False)
    theirs = fit_one("krr_fkl", training, penalty=40.0 / 300, gamma_s=0.05)
    assert_allclose(ours.predict(training.X), theirs.predict(training.X), atol=1e-5)


@pytest.mark.parametrize("name", ["krr", "svr"])
@pytest.mark.parametrize("approximation", APPROXIMATIONS, ids=lambda a: a.kind)
def test_no_penalty_is_where_the_path_starts(rng, name, approximation):
    training = bent_training(rng)
    common = {"approximation": approximation}
    free = {"fit_intercept": True} if name == "krr" else {}
    ours = fit_one(f"{name}_fks", training, penalty=0.0, **common, **free)
    plain = fit_one(f"{name}_fkd", training, iterations=0, **common, **free)
    assert_array_equal(ours.predict(training.X), plain.predict(training.X))


ESTIMATORS = {
    "krr": (FairKernelRidge, {"alpha": 0.25}),
    "svr": (FairSVR, {"C": 0.75, "epsilon": 0.01}),
}
# Both stop at libsvm's tolerance, from targets that differ by a constant.
CLOSE = {"krr": 1e-7, "svr": 5e-3}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("setting", [{"basis": "rbf"}, {"basis": "splines"}, {"basis": "columns"}])
def test_a_penalty_is_that_of_the_estimators(rng, name, setting):
    training = bent_training(rng)
    kind, own = ESTIMATORS[name]
    fitted = kind(gamma=GAMMA, removal="shrinkage", penalty=20.0, held_out=0, **own, **setting)
    fitted.fit(training.X, training.y, sensitive_features=training.S)
    ours = fit_one(f"{name}_fks", training, penalty=20.0, gamma=GAMMA, **own, **setting)
    assert_allclose(ours.predict(training.X), fitted.predict(training.X), atol=CLOSE[name])


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("basis", ["rbf", "splines"])
def test_a_path_over_a_basis_is_that_of_the_estimators(rng, name, basis):
    training = bent_training(rng)
    kind, own = ESTIMATORS[name]
    fitted = kind(gamma=GAMMA, iterations=2, ridge=5.0, basis=basis, held_out=0, **own)
    fitted.fit(training.X, training.y, sensitive_features=training.S)
    free = {"fit_intercept": True} if name == "krr" else {}
    wanted = {"iterations": 2, "ridge": 5.0, "gamma": GAMMA, **own, **free}
    ours = fit_one(f"{name}_fkd", training, basis=basis, **wanted)
    # A path takes whole what the last landmark adds, of which rounding leaves six digits.
    assert_allclose(ours.predict(training.X), fitted.predict(training.X), atol=5e-3)
    columns = fit_one(f"{name}_fkd", training, center_sensitive=True, **wanted)
    assert np.abs(columns.predict(training.X) - ours.predict(training.X)).max() > 0.1


@pytest.mark.parametrize("name", ["krr_fks", "svr_fks"])
def test_beyond_the_target_nothing_covaries(rng, name):
    training = bent_training(rng)
    B, Z = (SplineBasis.from_rows(c)(c) for c in (training.S, training.y[:, None]))
    beyond = B - Z @ np.linalg.lstsq(Z, B, rcond=None)[0]
    left = {
        given: fit_one(name, training, penalty=1e9, basis="splines", given=given).predict(
            training.X
        )
        for given in ("none", "y")
    }
    plain = fit_one(name, training).predict(training.X)
    assert np.linalg.norm(covariances(plain, beyond)) > 1e-3
    assert np.linalg.norm(covariances(left["y"], beyond)) < 1e-6
    assert np.linalg.norm(covariances(left["y"], B)) > 1e-2
    assert np.linalg.norm(covariances(left["none"], B)) < 1e-6


SETTINGS = {
    "krr_fks": [
        {"penalty": penalty, "gamma_s": g, "alpha": alpha, "given": given, "fit_intercept": free}
        for penalty in (9.0, 0.0)
        for g in (10.0, 0.5)
        for alpha, free in ((0.25, True), (1.0, False))
        for given in ("y", "none")
    ],
    "svr_fks": [
        {"penalty": penalty, "gamma_s": g, "C": C, "basis": basis}
        for penalty in (9.0, 0.0)
        for g in (10.0, 0.5)
        for C, basis in ((0.75, "rbf"), (0.1, "columns"))
    ],
    "krr_fkd": [
        {"iterations": m, "basis": basis, "gamma_s": g, "calibrate": calibrate}
        for m in (3, 0)
        for g in (10.0, 0.5)
        for basis in ("rbf", "columns", "splines")
        for calibrate in ("median", "mean")
    ],
    "svr_fkd": [
        {"iterations": m, "basis": basis, "gamma_s": g}
        for m in (3, 0)
        for g in (10.0, 0.5)
        for basis in ("rbf", "columns")
    ],
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_shrinkage_does_not_depend_on_its_neighbours(rng, name):
    training, declared = bent_training(rng, 90), method(name)
    settings = [declared.parameters(**setting) for setting in SETTINGS[name]]
    together = [f.predict(training.X) for f in declared.fit(training, settings)]
    for found, p in zip(together, settings, strict=True):
        fresh = Training(training.X, training.y, training.S, 0)
        assert_array_equal(found, next(iter(declared.fit(fresh, [p]))).predict(training.X))


@pytest.mark.parametrize("name", ["krr_fks", "svr_fks"])
@pytest.mark.parametrize(
    ("change", "decompositions"),
    [
        ({}, 1),
        ({"gamma_s": 3.0}, 2),
        ({"basis": "splines"}, 2),
        ({"given": "y"}, 2),
        ({"gamma": 0.1}, 2),
    ],
)
def test_penalties_of_the_same_functions_share_one_decomposition(
    rng, monkeypatch, name, change, decompositions
):
    computed = []
    shrinkage = training_module.shrinkage
    monkeypatch.setattr(
        training_module, "shrinkage", lambda *args: computed.append(1) or shrinkage(*args)
    )
    p, training = method(name).parameters, bent_training(rng, 90)
    list(method(name).fit(training, [p(penalty=0.0), p(**change, penalty=1.0), p(penalty=50.0)]))
    assert len(computed) == decompositions


def test_paths_of_other_functions_are_other_paths(rng):
    training = bent_training(rng, 90)
    p = method("krr_fkd").parameters

    def path_of(training, setting):
        removal, _ = setting.removal(training, setting.kernel)
        return removal

    assert path_of(training, p()) == path_of(training, p(gamma_s=3.0))  # columns have no width
    settings = [p(), p(basis="rbf"), p(basis="rbf", gamma_s=3.0), p(basis="splines")]
    assert len({path_of(training, one) for one in settings}) == 4
    assert path_of(training, p()).functions is None
    found = path_of(training, p(basis="rbf", gamma_s=3.0)).functions
    assert found == Functions(BasisSettings("rbf", 3.0))


@pytest.mark.parametrize("name", ["krr_fks", "svr_fks"])
def test_what_a_machine_sees_are_the_shrunk_features(rng, name):
    training, declared = bent_training(rng), method(name)
    p = declared.parameters(penalty=2.0, gamma=GAMMA)
    mu = 2.0 * 300 / 0.25 if name == "krr_fks" else 2 * 0.75 * 300 * 2.0 / training.y.std(axis=0)
    B, K = factor(rbf(training.S, training.S, 10.0)), rbf(training.X, training.X)
    seen = declared.represent(training, p, training.X)
    assert_allclose(seen @ seen.T, shrunk_gram(K, B, mu), atol=1e-6)
    assert declared.functions(p) == Functions(BasisSettings("rbf", 10.0), "none")


@pytest.mark.parametrize("name", ["krr_fks", "krr_fkd"])
@pytest.mark.parametrize("approximation", APPROXIMATIONS, ids=lambda a: a.kind)
def test_a_calibrated_ridge_has_the_median_of_its_errors_at_zero(rng, name, approximation):
    training = bent_training(rng)
    training.y[:100] += rng.exponential(5.0, size=100)
    strength = {"penalty": 20.0} if name == "krr_fks" else {"iterations": 2}
    found = {
        calibrate: fit_one(
            name, training, calibrate=calibrate, approximation=approximation, **strength
        ).predict(training.X)
        for calibrate in ("mean", "median")
    }
    assert abs(np.median(training.y - found["median"])) < 1e-12
    assert abs(np.median(training.y - found["mean"])) > 0.05
    assert np.ptp(found["median"] - found["mean"]) < 1e-12  # a constant apart
    errors = {kind: np.abs(training.y - f).mean(axis=0) for kind, f in found.items()}
    assert errors["median"] < errors["mean"]


def test_functions_are_decided_by_the_rows_they_are_given(rng):
    """Of other rows they know nothing but what they are asked of them."""
    S, y = rng.uniform(0.4, 0.6, size=(80, 1)), rng.normal(size=80)
    for kind in ("rbf", "splines"):
        columns = Functions(BasisSettings(kind), "y").columns(S, y)
        B, Z = columns(S, y)
        assert_allclose(B.mean(axis=0), 0, atol=1e-14)
        assert_allclose(Z.mean(axis=0), 0, atol=1e-14)
        new, other = rng.uniform(size=(30, 1)), rng.normal(size=30)
        far, _ = columns(new, other)
        assert_allclose(columns(new[:7], other[:7])[0], far[:7], atol=1e-10)
    # The width is counted in the fixed range, not in that of these rows.
    B, Z = Functions(BasisSettings("rbf", 10.0)).columns(S, y)(S, y)
    K = rbf(S, S, 10.0)
    H = np.eye(80) - 1 / 80
    assert_allclose(B @ B.T, H @ K @ H, atol=1e-8)
    assert Z is None


@pytest.mark.parametrize(
    ("name", "setting"), [("krr_fks", {}), ("svr_fks", {}), ("krr_fkd", {"basis": "rbf"})]
)
def test_without_reserved_rows_no_functions_are_shared(rng, name, setting):
    training = bent_training(rng, 30)
    shared = Approximation("nystroem", 5, shared=True)
    with pytest.raises(ValueError, match=r"approximation\.shared must be False.*folds\.reserve"):
        fit_one(name, training, approximation=shared, **setting)
    with pytest.raises(ValueError, match=r"approximation\.shared must be False.*folds\.reserve"):
        training.basis_moments(
            KernelSettings(gamma=0.1, approximation=shared), Functions(BasisSettings())
        )


# By method: parameters at which something is removed, how far machines stop from their optimum.
WEIGHED = {
    "dummy": ({}, 1e-12),
    "median_dummy": ({}, 1e-12),
    "krr": ({"gamma": 0.5}, 1e-7),
    "krr_fkd": ({"gamma": 0.5, "iterations": 3, "calibrate": "median"}, 1e-6),
    "krr_fks": ({"gamma": 0.5, "penalty": 5.0, "given": "y"}, 1e-6),
    "krr_fkl": ({"gamma": 0.5, "penalty": 0.3, "penalty_scale": "n"}, 1e-6),
    "residual_y": ({"gamma": 0.5}, 1e-6),
    "svr": ({"gamma": 0.5}, 5e-3),
    "svr_fkd": ({"gamma": 0.5, "iterations": 3}, 5e-3),
    "svr_fks": ({"gamma": 0.5, "penalty": 5.0}, 5e-3),
    "svr_fkl": ({"gamma": 0.5, "penalty": 0.3, "penalty_scale": "n"}, 5e-3),
    "svr_inlp": ({"gamma": 0.5, "iterations": 1}, 5e-3),
}
ALL = pytest.mark.parametrize("name", WEIGHED)


def weighed(training, removal=None, fit=None):
    weights = RowWeights(removal, fit)
    return Training(training.X, training.y, training.S, training.seed, weights=weights)


@pytest.fixture
def training(rng):
    found = make_training(rng)
    # As in the pipeline: sensitive columns in units of their range.
    S = (found.S - found.S.min(axis=0)) / np.ptp(found.S, axis=0)
    return Training(found.X, found.y, S, 0)


@pytest.fixture
def w(training):
    # Heavy where the target is high: every mean moves.
    return np.where(training.y > np.median(training.y), 3.0, 1.0)


def test_every_method_that_says_so_is_tried():
    assert set(WEIGHED) == {name for name, one in methods().items() if one.weighs != "nothing"}


@ALL
def test_whole_weights_are_repeated_rows(name, training, w):
    setting, atol = WEIGHED[name]
    again = np.repeat(np.arange(len(w)), w.astype(int))
    repeated = Training(training.X[again], training.y[again], training.S[again], 0)
    ours = fit_one(name, weighed(training, w, w), **setting).predict(training.X)
    assert_allclose(ours, fit_one(name, repeated, **setting).predict(training.X), atol=atol)
    plain = fit_one(name, training, **setting).predict(training.X)
    assert np.abs(ours - plain).max(axis=0) > 4 * atol


@ALL
def test_rows_that_count_once_give_the_same_bits(name, training):
    setting, _ = WEIGHED[name]
    expected = fit_one(name, training, **setting).predict(training.X)
    assert_array_equal(fit_one(name, weighed(training), **setting).predict(training.X), expected)


@ALL
def test_weights_of_one_are_no_weights(name, training):
    setting, _ = WEIGHED[name]
    ones = np.ones(len(training.y))
    found = fit_one(name, weighed(training, ones, ones), **setting).predict(training.X)
    assert_allclose(found, fit_one(name, training, **setting).predict(training.X), atol=1e-10)


@pytest.mark.parametrize("name", ["krr_fkd", "krr_fks", "svr_fkd", "svr_fks", "svr_inlp"])
def test_removal_and_fit_are_weighed_each_by_itself(name, training, w):
    setting, atol = WEIGHED[name]
    strength = methods()[name].strength
    kinds = (), ("removal",), ("fit",), ("removal", "fit")
    trained = [weighed(training, **dict.fromkeys(kind, w)) for kind in kinds]
    found = [fit_one(name, one, **setting).predict(training.X) for one in trained]
    for i, a in enumerate(found):
        for b in found[i + 1 :]:
            assert np.abs(a - b).max(axis=0) > 2 * atol
    # Where nothing is removed the weights of a removal say nothing.
    none, removal, fit, both = (
        fit_one(name, one, **{**setting, strength: 0}).predict(training.X) for one in trained
    )
    assert_array_equal(removal, none)
    assert_array_equal(both, fit)


@pytest.mark.parametrize("weigh", ["both", "removal", "fit"])
def test_a_method_fits_what_its_estimator_fits(training, w, weigh):
    common = {"gamma": 0.5, "alpha": 0.3, "iterations": 3}
    model = FairKernelRidge(**common, ridge=0.1, weigh=weigh, held_out=0)
    model.fit(training.X, training.y, sensitive_features=training.S, sample_weight=w)
    rows = RowWeights.from_weights(w, weigh)
    fair = {"ridge": 0.1, "fit_intercept": True, "center_sensitive": True}
    found = fit_one("krr_fkd", weighed(training, rows.removal, rows.fit), **common, **fair)
    assert_allclose(found.predict(training.X), model.predict(training.X), atol=1e-7)


@pytest.mark.parametrize("name", ["svr", "svr_fkd", "svr_fks"])
def test_machines_in_passes_are_weighed_like_those_of_libsvm(name, training, w, monkeypatch):
    monkeypatch.setattr("fkd.core.feature_maps.BLOCK_ROWS", 16)
    setting, _ = WEIGHED[name]
    common = {**setting, "approximation": Approximation("nystroem", 20)}
    rows = weighed(training, w, w)
    passes, libsvm = (
        fit_one(name, rows, **common, solver=solver).predict(training.X)
        for solver in ("batched", "libsvm")
    )
    plain = fit_one(name, training, **common, solver="batched").predict(training.X)
    assert_allclose(passes, libsvm, atol=5e-3)
    assert np.abs(passes - plain).max(axis=0) > 2e-2


def test_parts_of_equal_weights_share_their_sums(w):
    assert [UNWEIGHTED.alike_part(part) for part in ("fit", "removal", "once")] == ["fit"] * 3
    both, removal, fit = (RowWeights.from_weights(w, kind) for kind in ("both", "removal", "fit"))
    assert [both.alike_part(part) for part in ("fit", "removal", "once")] == ["fit", "fit", "once"]
    assert [removal.alike_part(p) for p in ("fit", "removal", "once")] == ["fit", "removal", "fit"]
    assert [fit.alike_part(p) for p in ("fit", "removal", "once")] == ["fit", "removal", "removal"]


def test_rows_of_weight_zero_are_absent():
    w = np.array([2.0, 0.0, 1.0, 0.0, 3.0])
    here = (w > 0).astype(float)
    for weights in (RowWeights(w, w), RowWeights(w, here), RowWeights(here, w)):
        assert weights.present(np.array([4, 3, 2, 1])).tolist() == [4, 2]
    assert UNWEIGHTED.present(np.array([4, 3])).tolist() == [4, 3]


# Both scale the target for themselves; libsvm stops at its tolerance.
CASES = {
    "krr_fkd": (FairKernelRidge, {"iterations": 3, "ridge": 0.5, "alpha": 0.3}, 1e-10),
    "krr_fks": (FairKernelRidge, {"penalty": 20.0, "alpha": 0.3}, 1e-10),
    "svr_fkd": (FairSVR, {"iterations": 3, "ridge": 0.5, "C": 0.75, "epsilon": 0.05}, 1e-3),
    "svr_fks": (FairSVR, {"penalty": 20.0, "C": 0.75, "epsilon": 0.05}, 1e-3),
}
MAPS = {
    "exact": {},
    "nystroem": {"approximation": "nystroem", "landmarks": 40},
    "fourier": {"approximation": "fourier", "landmarks": 40},
}


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(200, 4))
    s = X[:, 0] + 0.3 * rng.normal(size=200)
    s = (s - s.min(axis=0)) / np.ptp(s)
    return X, X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=200), s


@pytest.mark.parametrize("approximation", MAPS)
@pytest.mark.parametrize("name", CASES)
def test_an_estimator_predicts_as_the_named_method(rows, name, approximation):
    X, y, s = rows
    estimator, setting, tolerance = CASES[name]
    removal = "path" if "iterations" in setting else "shrinkage"
    fitted = estimator(
        gamma=0.2,
        removal=removal,
        random_state=0,
        held_out=0,
        **setting,
        **MAPS[approximation],
    ).fit(X, y, sensitive_features=s)
    if removal == "path":
        setting = {**setting, "center_sensitive": True}
    if estimator is FairKernelRidge:
        setting = {**setting, "fit_intercept": True}
    declared, reduced = (
        method(name),
        Approximation(*MAPS[approximation].values()),
    )
    p = declared.parameters(gamma=0.2, approximation=reduced, **setting)
    (predictor,) = declared.fit(Training(X, y, s[:, None], 0), [p])
    assert_allclose(fitted.predict(X), predictor.predict(X), atol=tolerance * np.ptp(y))
