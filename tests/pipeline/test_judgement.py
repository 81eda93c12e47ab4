"""What can be guessed before and after removal: features of one map, with and without removal."""

import json

import numpy as np
import pytest
from optional import marked
from training_sample import make_training

from fkd.measures import recoverability
from fkd.methods import Method, method, methods
from tasks.plan.trials import Trial
from tasks.select import judgement
from tasks.select.judgement import recover

# concept-erasure compiles one of its functions when it is imported.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")

REPRESENTING = [name for name, declared in methods().items() if declared.represent]
QUICK = {"nn_frem": {"epochs": 3, "batch_rows": 40}}


def _trial(declared, **parameters):
    setting = declared.parameters(**QUICK.get(declared.name, {}), **parameters)
    return Trial(declared.name, declared.version, json.dumps(declared.describe(setting)), "key")


@pytest.mark.parametrize("name", marked(n for n in REPRESENTING if method(n).strength))
def test_with_nothing_removed_as_much_is_guessed_after_as_before(rng, name):
    declared, training = method(name), make_training(rng, n=120)
    # One column is small enough to be removed whole from the inputs of the linear method.
    new = make_training(rng, n=100)
    strength = declared.strength
    found = recover(_trial(declared, **{strength: 0}), training, new.X, new.S[:, :1])
    removed = recover(_trial(declared, **{strength: 3}), training, new.X, new.S[:, :1])
    assert [probe.before for probe in found] == [probe.after for probe in found]
    assert [probe.before for probe in removed] == [probe.before for probe in found]
    assert [probe.after for probe in removed] != [probe.after for probe in found]


@pytest.mark.parametrize("name", marked(n for n in REPRESENTING if not method(n).strength))
def test_without_a_strength_the_features_before_are_those_that_are_erased(rng, name):
    from fkd.baselines.erasure import leace

    declared, training = method(name), make_training(rng, n=120)
    new, p = make_training(rng, n=100), declared.parameters()
    learnt_on = declared.features_before(training, p, training.X)
    before = declared.features_before(training, p, new.X)
    erased = leace(learnt_on, training.S)(before)
    np.testing.assert_allclose(declared.represent(training, p, new.X), erased, atol=1e-6)
    probes = recover(_trial(declared), training, new.X, new.S[:, :1])
    untouched = recoverability(before, new.S[:, :1], random_state=training.seed)
    assert [probe.before for probe in probes] == [probe.after for probe in untouched]
    assert all(probe.before > probe.after + 0.1 for probe in probes)


def test_a_representation_must_say_what_it_was_before():
    plain = method("leace")
    with pytest.raises(ValueError, match="unremoved of leace must be given"):
        Method("leace", "", plain.parameters, plain.fit, represent=plain.represent)


def test_a_method_without_representation_has_nothing_to_guess_from(rng):
    training = make_training(rng)
    assert recover(_trial(method("krr")), training, training.X, training.S) == ()


def test_probes_look_at_as_many_rows_as_they_are_told(quick_study, monkeypatch):
    test = quick_study.loaded.table
    assert judgement.probed_rows(test, 0) is test
    monkeypatch.setattr(judgement, "MAX_ROWS", 50)
    seen = judgement.probed_rows(test, 0)
    assert seen.n == 50
    known = {row.tobytes() for row in test.numeric}
    assert all(row.tobytes() in known for row in seen.numeric)
    assert (judgement.probed_rows(test, 0).target == seen.target).all()
    assert (judgement.probed_rows(test, 1).target != seen.target).any()
