import numpy as np
import pytest
from fkd.methods.networks import stack_key
from numpy.testing import assert_array_equal
from training_sample import fit_one, make_training

from fkd.core.predictors import PREDICTORS
from fkd.methods import method

pytestmark = pytest.mark.needs("torch")

NETWORKS = ("nn_frem", "nn_hgr", "nn_hgr_l")
QUICK = {"epochs": 3, "batch_rows": 40}


@pytest.mark.parametrize("name", NETWORKS)
def test_settings_come_back_in_order_whatever_is_trained_together(rng, name):
    training = make_training(rng)
    declared = method(name)
    settings = [
        declared.parameters(penalty=penalty, learning_rate=rate, **QUICK)
        for penalty in (0.5, 0.0)
        for rate in (0.001, 0.01)
    ]
    together = [f.predict(training.X) for f in declared.fit(training, settings)]
    alone = [fit_one(name, training, **vars(p)).predict(training.X) for p in settings]
    assert_array_equal(together, alone)


def test_more_settings_than_a_stack_holds_are_trained_all_the_same(rng, monkeypatch):
    monkeypatch.setattr("fkd.methods.networks.LARGEST_STACK", 2)
    training = make_training(rng)
    declared = method("nn_hgr")
    settings = [declared.parameters(penalty=0.1 * k, **QUICK) for k in range(5)]
    together = [f.predict(training.X) for f in declared.fit(training, settings)]
    assert_array_equal(
        together[4], fit_one("nn_hgr", training, penalty=0.4, **QUICK).predict(training.X)
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_that_differ_by_their_price_are_one_task(name):
    declared = method(name)
    cheap, dear, slow = (
        declared.shared(declared.parameters(**p))
        for p in ({}, {"penalty": 1.0}, {"learning_rate": 0.1})
    )
    assert cheap == dear != slow


def test_networks_of_different_methods_are_never_one_task():
    assert len({stack_key(method(name).parameters()) for name in NETWORKS}) == 3


@pytest.mark.parametrize(
    ("name", "widths"), [("nn_hgr", (100, 80)), ("nn_hgr_l", (250, 230)), ("nn_frem", (100, 80))]
)
def test_the_published_widths_are_the_default(rng, name, widths):
    f = fit_one(name, make_training(rng), epochs=1)
    assert [W.shape[1] for W in f.weights] == [*widths, 1]
    assert type(f) is PREDICTORS["perceptron"]


@pytest.mark.parametrize(("name", "penalty"), [("nn_hgr", 2.0), ("nn_frem", 5.0)])
def test_a_price_lowers_the_dependence_on_every_column(rng, name, penalty):
    training = make_training(rng, n=300)
    options = {"epochs": 60, "batch_rows": 100, "first_width": 20, "second_width": 10}
    plain = fit_one(name, training, **options).predict(training.X)
    fair = fit_one(name, training, penalty=penalty, **options).predict(training.X)
    before, after = (np.abs([np.corrcoef(f, s)[0, 1] for s in training.S.T]) for f in (plain, fair))
    assert (after < 0.7 * before).all()
    assert before.min() > 0.1


def test_the_representation_of_frem_is_its_hidden_layer(rng):
    training = make_training(rng)
    declared = method("nn_frem")
    p = declared.parameters(penalty=1.0, **QUICK)
    Z = declared.represent(training, p, training.X)
    f = fit_one("nn_frem", training, penalty=1.0, **QUICK)
    assert Z.shape == (60, 80)
    assert_array_equal(Z @ f.weights[-1][:, 0] + f.biases[-1], f.predict(training.X))


@pytest.mark.parametrize("name", NETWORKS)
def test_the_cost_of_a_training_grows_with_what_it_does(name):
    declared = method(name)
    one = declared.cost([declared.parameters()], 1000, 100)
    two = declared.cost([declared.parameters(), declared.parameters(penalty=1.0)], 1000, 100)
    wide = declared.cost([declared.parameters(first_width=1000)], 1000, 100)
    assert two.flops == 2 * one.flops
    assert wide.flops > 1.5 * one.flops
    assert wide.bytes > one.bytes
