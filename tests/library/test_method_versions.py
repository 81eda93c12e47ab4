"""A method's numbers change only with its version, which is part of every trial's key."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from optional import marked
from version_sample import COMMAND, outputs, stored

from fkd.methods import method, methods

# concept_erasure compiles a function with it when it is first imported.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")


def _tolerance(name):
    """How far another machine's BLAS may lead, relative to targets of about one."""
    # Networks are trained in single precision, each epoch on top of the last one's rounding.
    return 1e-3 if "neural" in str(method(name).extra) else 1e-7


@pytest.fixture(params=marked(methods()))
def name(request):
    return request.param


def test_numbers_are_those_of_the_declared_version(name):
    entry = stored().get(name)
    assert entry is not None, f"{name} has no stored outputs; store them by `{COMMAND}`"
    assert entry["version"] == method(name).version, f"store the new version's by `{COMMAND}`"
    found = outputs(name)
    assert found.keys() == entry["outputs"].keys()
    for label, values in found.items():
        assert_allclose(
            values,
            entry["outputs"][label],
            rtol=0,
            atol=_tolerance(name),
            err_msg=f"{name} ({label}): raise its version, then `{COMMAND}`",
        )


def test_the_stored_outputs_tell_settings_apart(name):
    found = np.array(list(stored()[name]["outputs"].values()))
    gaps = np.abs(found[:, None] - found[None]).max(axis=2)[np.triu_indices(len(found), k=1)]
    assert (gaps > 10 * _tolerance(name)).all()  # a changed number would be seen


def test_no_stored_method_is_gone():
    assert set(stored()) == set(methods())
