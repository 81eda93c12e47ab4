"""Prediction problems as declarations, with tables, encoders and stored models.

Each module of this folder declares its problems in a tuple ``PROBLEMS``.
"""

import importlib
import pkgutil

from fkd.problems.declaration import Problem, RowFilter

__all__ = ["PROBLEMS", "Problem", "RowFilter"]


def _declared() -> dict[str, Problem]:
    """Return the problems of all modules by name."""
    modules = [
        importlib.import_module(f"{__name__}.{info.name}")
        for info in pkgutil.iter_modules(__path__)
    ]
    problems = [problem for module in modules for problem in getattr(module, "PROBLEMS", ())]
    names = sorted(problem.name for problem in problems)
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"PROBLEMS must have unique names, got {', '.join(twice)} more than once")
    return {problem.name: problem for problem in sorted(problems, key=lambda p: p.name)}


# Problems by name. `fkd.problems.declaration` declares the problem of a user's table.
PROBLEMS = _declared()
