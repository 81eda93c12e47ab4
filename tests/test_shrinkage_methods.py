"""Methods that shrink, or cut functions of s: `krr_fks`, `svr_fks`, `krr_fkd`, `svr_fkd`."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from shrinkage_sample import GAMMA, bent, covariances, factor, rbf, shrunk_gram, unit
from training_sample import fit_one, make_training

from fkd import FairKernelRidge, FairSVR
from fkd.core import training as training_module
from fkd.core.conditioning import Functions
from fkd.core.feature_maps import KernelSettings
from fkd.core.sensitive_basis import BasisSettings, SplineBasis
from fkd.methods import Approximation, Training, method

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
def test_a_setting_does_not_depend_on_its_neighbours(rng, name):
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
