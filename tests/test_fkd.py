import doctest
import importlib

import pytest

import fkd


@pytest.mark.parametrize("name", fkd.__all__)
def test_every_public_name_is_there_with_a_docstring(name):
    assert getattr(fkd, name).__doc__


MODULES = sorted({getattr(fkd, name).__module__ for name in fkd.__all__} - {"fkd.core.validation"})


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module):
    found = doctest.testmod(importlib.import_module(module))
    assert found.attempted > 0
    assert found.failed == 0
