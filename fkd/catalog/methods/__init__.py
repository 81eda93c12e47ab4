"""The registry of methods, collected from the files of this folder."""

import importlib
import pkgutil
from functools import cache

from fkd.catalog.methods.cost import Cost
from fkd.catalog.methods.method_declaration import Method, Published
from fkd.core.feature_maps import Approximation
from fkd.core.training import Training

__all__ = ["Approximation", "Cost", "Method", "Published", "Training", "method", "methods"]


@cache
def methods() -> dict[str, Method]:
    """Return every declared method by name; a file that defines ``METHOD`` declares one."""
    modules = (
        importlib.import_module(f"{__name__}.{info.name}")
        for info in pkgutil.iter_modules(__path__)
    )
    found = [module.METHOD for module in modules if hasattr(module, "METHOD")]
    return {m.name: m for m in sorted(found, key=lambda m: m.name)}


def method(name: str) -> Method:
    """Return the method of that name."""
    try:
        return methods()[name]
    except KeyError:
        raise ValueError(f"method must be one of {', '.join(methods())}, got {name!r}") from None
