"""Weights of training rows in the methods of the catalog."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from training_sample import fit_one, make_training

from fkd import FairKernelRidge
from fkd.core.weights import UNWEIGHTED, RowWeights
from fkd.methods import Approximation, Training, methods

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
