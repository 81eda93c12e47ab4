"""Methods that a configuration refers to by name.

Each module of this folder declares its methods in a tuple ``METHODS``.
"""

import importlib
import pkgutil
from functools import cache

from fkd.core.feature_maps import Approximation
from fkd.core.training import Training
from fkd.methods.declaration import Cost, Method, Published

__all__ = ["Approximation", "Cost", "Method", "Published", "Training", "method", "methods"]


@cache
def methods() -> dict[str, Method]:
    """Return every declared method by name."""
    modules = (
        importlib.import_module(f"{__name__}.{info.name}")
        for info in pkgutil.iter_modules(__path__)
    )
    declared = [m for module in modules for m in getattr(module, "METHODS", ())]
    names = sorted(m.name for m in declared)
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"METHODS must have unique names, got {', '.join(twice)} more than once")
    return {m.name: m for m in sorted(declared, key=lambda m: m.name)}


def method(name: str) -> Method:
    """Return the method of that name."""
    try:
        return methods()[name]
    except KeyError:
        raise ValueError(f"method must be one of {', '.join(methods())}, got {name!r}") from None
