"""Rivals under a shared map: sums over rows give what the rows themselves would."""

import json
import shutil

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from optional import marked
from sklearn.linear_model import Ridge
from sklearn.svm import SVR
from stored_files import stored
from sweep_sample import finite, same_numbers, sweep_config, undisturbed
from training_sample import fit_one, make_training, published_fkl

from configs.load import load_config
from fkd.core.kernels import Kernel
from fkd.methods import Training, method
from fkd.methods.kernel_methods import REFERENCE_ROWS
from flows.fitting import fit_all
from tasks.fit.job import fitted_models
from tasks.kernels import streaming as leaves
from tasks.kernels.shared_map import SharedMap, load_map, shared_encoder, store_map
from tasks.kernels.shared_training import shared_sums, shared_training
from tasks.kernels.streaming import stream_moments
from tasks.plan.training import make_training as make_rows
from tasks.select.study import open_study
from tasks.storage.environment import blas_threads
from tasks.storage.settings import Settings

# concept-erasure compiles one of its functions when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")

MAP = {"kind": "nystroem", "landmarks": 60, "shared": True, "sums": "rows"}
GAMMA, ALPHA, C, EPSILON, GAMMA_S = 0.05, 0.25, 0.5, 0.02, 2.0
MACHINE = {"C": C, "epsilon": EPSILON}
# By method: parameters, at which something is removed.
RIVALS = {
    "krr_fkl": {"grid": {"penalty": [0.0, 0.05]}, "alpha": ALPHA, "gamma_s": GAMMA_S},
    "svr_fkl": {
        "grid": {"penalty": [0.0, 0.05]},
        "gamma_s": GAMMA_S,
        **MACHINE,
        "solver": "batched",
    },
    "leace_nystroem": {"alpha": ALPHA, "fit_intercept": True},
    "svr_leace_nystroem": {**MACHINE, "solver": "batched"},
}
EACH = pytest.mark.parametrize("name", marked(RIVALS))


def study_of(settings, entries, *overrides):
    common = {"approximation": MAP, "gamma": GAMMA}
    methods = json.dumps([{**common, **entry} for entry in entries])
    overrides = ["folds.reserve=0.3", f"methods={methods}", *overrides]
    return open_study(load_config("default", overrides), settings)


def make_study(settings, name, *overrides, **changes):
    return study_of(settings, [{"name": name, **RIVALS[name], **changes}], *overrides)


def fitted(study, label="1"):
    """What every trial says of a fold's test rows, with the rows it was trained on."""
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.all(table)[label]
    training, encoder = shared_training(table, fold, inputs)
    X = encoder.transform(table.take(fold.test))
    with blas_threads(inputs.blas_threads):
        found = [
            f.predict(X) for f in fitted_models(training, study.trials[0].method, study.trials)
        ]
    return np.array(found), training


def explicit(study, label="1"):
    """Features of training and test rows, with target, sensitive columns of the former."""
    table, inputs = study.loaded.table, study.inputs
    fold, encoder = inputs.splits.all(table)[label], shared_encoder(inputs)
    (sums,) = {sums.shared for sums in shared_sums(study.missing())}
    assert isinstance(sums, SharedMap)
    feature_map, train = load_map(store_map(sums)), table.take(fold.train)
    G, new = (
        feature_map.transform(encoder.transform(table.take(r))) for r in (fold.train, fold.test)
    )
    return G, new, train.y, train.S(inputs.sensitive)


@pytest.mark.parametrize("label", ["1", "0.2"])
def test_learning_from_sums_is_the_published_form_on_explicit_features(settings, label):
    study = make_study(settings, "krr_fkl")
    found, training = fitted(study, label)
    G, new, y, S = explicit(study, label)
    for f, mu in zip(found, (0.0, 0.05), strict=True):
        coef = published_fkl(G @ G.T, Kernel("rbf", GAMMA_S).gram(S), y, alpha=ALPHA, mu=mu)
        assert_allclose(f, new @ (G.T @ coef), atol=1e-6)
    assert np.abs(found[0] - found[1]).max() > 0.02
    assert "X" not in vars(training)  # rows were never encoded as one matrix


def test_machines_that_pay_are_those_of_libsvm_on_the_priced_kernel(settings):
    study = make_study(settings, "svr_fkl")
    found, training = fitted(study)
    G, new, y, S = explicit(study)
    n = len(y)
    H = np.eye(n) - 1 / n
    T = np.linalg.cholesky(G.T @ H @ Kernel("rbf", GAMMA_S).gram(S) @ H @ G + 1e-9 * np.eye(60))
    for f, mu in zip(found, (0.0, 0.05), strict=True):
        # ½|w|² + C·mu·|Tᵀw|² is half of wᵀ(I + 2·C·mu·T Tᵀ)w.
        P = np.linalg.inv(np.eye(60) + 2 * C * mu * T @ T.T)
        machine = SVR(kernel="precomputed", **MACHINE, tol=1e-5).fit(G @ P @ G.T, y)
        assert_allclose(f, machine.predict(new @ P @ G.T), atol=0.02)
    assert np.abs(found[0] - found[1]).max() > 0.05
    assert "X" not in vars(training)


@pytest.mark.parametrize("name", marked(["leace_nystroem", "svr_leace_nystroem"]))
def test_erasure_from_sums_is_the_package_on_explicit_features(settings, name):
    from fkd.baselines.erasure import leace

    study = make_study(settings, name)
    (found,), training = fitted(study)
    G, new, y, S = explicit(study)
    erase = leace(G, S)
    ridge = Ridge(alpha=ALPHA)
    machine = SVR(kernel="linear", **MACHINE, tol=1e-5)
    other = (ridge if name == "leace_nystroem" else machine).fit(erase(G), y)
    assert_allclose(
        found, other.predict(erase(new)), atol=1e-6 if name == "leace_nystroem" else 0.02
    )
    plain = (ridge if name == "leace_nystroem" else machine).fit(G, y).predict(new)
    assert np.abs(found - plain).max() > 0.05
    assert "X" not in vars(training)


@EACH
def test_blocks_of_rows_add_up_to_the_same(settings, name, monkeypatch):
    study = make_study(settings, name, approximation={**MAP, "sums": "float64"})
    rows = max(len(cell.rows) for cell in leaves.study_cells(study.inputs))
    found = []
    for blocks in (1, 2, 7):
        monkeypatch.setattr(leaves, "TASK_ROWS", -(-rows // blocks))
        shutil.rmtree(stored(settings, "moments"), ignore_errors=True)
        found.append(fitted(study)[0])
    # Machines stop within a thousandth of their objective.
    atol = 1e-2 if name.startswith("svr") else 1e-6
    assert_allclose(found[1:], [found[0]] * 2, atol=atol)


@EACH
def test_a_setting_does_not_depend_on_its_neighbours(settings, name):
    grid = {**RIVALS[name].get("grid", {}), "approximation": [MAP, {**MAP, "landmarks": 40}]}
    study = make_study(settings, name, grid=grid)
    table, inputs = study.loaded.table, study.inputs
    fold = inputs.splits.all(table)["1"]
    with blas_threads(inputs.blas_threads):
        training, encoder = shared_training(table, fold, inputs)
        X = encoder.transform(table.take(fold.test))
        together = [f.predict(X) for f in fitted_models(training, name, study.trials)]
        alone = [
            next(iter(fitted_models(shared_training(table, fold, inputs)[0], name, [t]))).predict(X)
            for t in study.trials
        ]
    assert_array_equal(together, alone)


@pytest.mark.needs("torch")
def test_networks_take_rows_a_few_batches_at_a_time(settings):
    overrides = [
        "methods=[{name: nn_hgr, epochs: 1, batch_rows: 16, grid: {penalty: [0.0]}}, dummy]"
    ]
    study = open_study(load_config("default", overrides), settings)
    table, inputs = study.loaded.table, study.inputs
    training, encoder = make_rows(table, inputs.splits.all(table)["1"], inputs)
    for trial in study.trials:
        list(fitted_models(training, trial.method, [trial]))
    assert "X" not in vars(training)
    whole = Training(training.X, training.y, training.S, training.seed)
    (ours,), (theirs,) = (
        fitted_models(rows, "nn_hgr", study.trials[:1]) for rows in (training, whole)
    )
    new = encoder.transform(table.take(np.arange(50)))
    assert_array_equal(ours.predict(new), theirs.predict(new))


@pytest.mark.needs("torch", "concept_erasure")
def test_one_pass_serves_every_method_on_a_map(settings):
    others = [{"name": name} for name in ("krr_fkd", "krr_fks", "svr_fks")]
    study = study_of(settings, [*others, *({"name": name, **RIVALS[name]} for name in RIVALS)])
    ((_, functions),) = shared_sums(study.missing()).items()
    assert sorted(f.basis.gamma_s for f in functions) == [GAMMA_S, 10.0]


def here(function, jobs, keep):
    for job in jobs:
        keep(job, function(job))


@pytest.mark.parametrize("weights", [[], ["weights.column=fold"]])
@pytest.mark.parametrize("name", ["krr_fkl", "svr_fkl"])
def test_a_pass_leaves_nothing_for_fits_to_sum(settings, name, weights, monkeypatch):
    study = make_study(settings, name, *weights)
    stream_moments(here, shared_sums(study.missing()))
    monkeypatch.setattr(leaves, "_summed", lambda *_: pytest.fail("summed again"))
    assert np.isfinite(fitted(study)[0]).all()


@pytest.mark.parametrize("name", ["krr_fkl", "svr_fkl"])
@pytest.mark.parametrize("scale", ["none", "n", "n_squared"])
def test_a_price_per_row_is_that_of_the_reference_rows(name, scale):
    p = method(name).parameters(penalty=3.0, penalty_scale=scale, ridges="per_row")
    fixed = method(name).parameters(penalty=3.0, penalty_scale=scale)
    # Beside the mean squared error it is n·mu that counts.
    reference = REFERENCE_ROWS * fixed.published_mu(REFERENCE_ROWS)
    for n in (100, REFERENCE_ROWS, 1_000_000):
        assert n * p.published_mu(n) == pytest.approx(reference, rel=1e-12)
    assert fixed.published_mu(100) == 3.0 / 100 ** ["none", "n", "n_squared"].index(scale)


@pytest.mark.parametrize(
    "name", marked(["svr", "svr_fkd", "svr_fks", "svr_fkl", "svr_leace_nystroem"])
)
def test_a_penalty_per_row_is_that_of_the_reference_rows(rng, name):
    training = make_training(rng)
    per_row = fit_one(name, training, C=0.02, C_rule="per_row").predict(training.X)
    spelt = fit_one(name, training, C=0.02 * REFERENCE_ROWS / 60).predict(training.X)
    assert_allclose(per_row, spelt, rtol=1e-12)
    assert np.abs(fit_one(name, training, C=0.02).predict(training.X) - spelt).max() > 0.01


def _config(*overrides):
    entries = [
        {"name": name, "approximation": MAP, "gamma": GAMMA, **RIVALS[name]} for name in RIVALS
    ]
    return sweep_config(f"methods={json.dumps(entries)}", "folds.reserve=0.3", *overrides)


@pytest.mark.needs("torch", "concept_erasure")
@pytest.mark.timeout(600)
def test_two_workers_give_the_bits_of_one_process(tmp_path):
    config = _config("cluster={workers: 2}")
    settings = Settings(tmp_path / "two", None, None, None)
    assert fit_all([open_study(config, settings)]) == 0
    study = open_study(config, settings)
    assert finite(study)
    assert same_numbers(study, undisturbed(_config(), tmp_path / "one"))
