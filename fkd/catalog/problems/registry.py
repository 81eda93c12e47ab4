"""Every declared problem by its name."""

import importlib
import pkgutil
from collections.abc import Mapping
from types import MappingProxyType

from fkd.catalog import problems
from fkd.catalog.problems.problem_declaration import Problem


def _collect() -> dict[str, Problem]:
    """Ask each module beside this one for its PROBLEM, so that a new problem is one new file."""
    package = problems.__name__
    names = sorted(module.name for module in pkgutil.iter_modules(problems.__path__))
    modules = [importlib.import_module(f"{package}.{name}") for name in names if name != "registry"]
    # Modules without one hold what several problems share.
    found = [module.PROBLEM for module in modules if hasattr(module, "PROBLEM")]
    return {problem.name: problem for problem in found}


PROBLEMS: Mapping[str, Problem] = MappingProxyType(_collect())
