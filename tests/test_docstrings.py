"""Docstrings of public objects document all parameters and have an example that runs."""

import doctest
import importlib
import inspect
import re
import warnings

import matplotlib as mpl
import pytest
from optional import needs

from fkd.baselines.base import LEACE, NEURAL, KernelBaseline
from fkd.baselines.networks import NetworkRegressor
from fkd.estimators.base import FairEstimator, FairPredictor
from fkd.estimators.transformers import FairKernelTransformer

MODULES = ("fkd", "fkd.measures", "fkd.baselines", "fkd.plot")
PUBLIC = [
    pytest.param(getattr(importlib.import_module(module), name), id=f"{module}.{name}")
    for module in MODULES
    for name in importlib.import_module(module).__all__
    if callable(getattr(importlib.import_module(module), name))  # not the dicts of measures
]
OPTIONAL = {"LinearErasure": LEACE, "HgrNetwork": NEURAL, "FremNetwork": NEURAL}
every_object = pytest.mark.parametrize("thing", PUBLIC)


def section(text, title):
    """Return the lines below a heading, up to the next."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", text, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def explained_names(text, title):
    """Return the names that a section explains."""
    lines = re.findall(r"^(\S[^\n]*)$", section(text, title), re.MULTILINE)
    return {name.strip("*` ") for line in lines for name in line.split(" : ")[0].split(",")}


@every_object
def test_it_stands_alone(thing):
    text = inspect.getdoc(thing)
    assert text.split("\n\n")[0].rstrip().endswith("."), "the first sentence"
    assert not re.search(r"\bAs in `|their own docstring|see `Removal", text)
    assert not re.search(r"^\s*\{\w+\}$", text, re.MULTILINE), "a placeholder is left"


@every_object
def test_every_parameter_is_explained(thing):
    if inspect.isclass(thing) and issubclass(thing, Warning):
        return
    parameters = inspect.signature(thing).parameters
    missing = set(parameters) - explained_names(inspect.getdoc(thing), "Parameters")
    # Classes that users do not construct document their fields as attributes.
    missing -= explained_names(inspect.getdoc(thing), "Attributes")
    assert not missing


@pytest.mark.parametrize(
    "thing",
    [
        pytest.param(*case.values, id=case.id, marks=needs(OPTIONAL.get(case.values[0].__name__)))
        for case in PUBLIC
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore:.*torch.jit:DeprecationWarning")
def test_its_example_runs(thing):
    mpl.use("Agg")
    assert ">>> " in section(inspect.getdoc(thing), "Examples")
    runner = doctest.DocTestRunner(verbose=False)
    found = doctest.DocTestFinder(recurse=False).find(thing, thing.__name__, globs={})
    with warnings.catch_warnings():
        for test in found:
            runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
    assert runner.tries > 0


@pytest.mark.parametrize(
    "base",
    [FairEstimator, FairPredictor, FairKernelTransformer, KernelBaseline, NetworkRegressor],
)
def test_shared_sentences_are_used(base):
    texts = [inspect.getdoc(thing.values[0]) for thing in PUBLIC]
    # Lines that end the description of a parameter or attribute.
    endings = re.findall(r"^ +(\S.*)(?=\n\S|\n\n|\Z)", inspect.getdoc(base), re.MULTILINE)
    assert endings
    for ending in endings:
        assert any(ending in text for text in texts), ending


FITTED = ["strength_", "effective_iterations_", "held_out_", "n_features_in_"]


@pytest.mark.parametrize("thing", [p for p in PUBLIC if p.id.startswith("fkd.Fair")])
def test_all_estimators_document_the_fitted_attributes(thing):
    if not issubclass(thing, Warning):
        assert set(FITTED) <= explained_names(inspect.getdoc(thing), "Attributes")
