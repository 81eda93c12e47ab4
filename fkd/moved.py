"""Import paths of version 0.1, which lead to where the modules live now."""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

MOVED = {
    "arrays": "core.arrays",
    "bundle": "catalog.bundle",
    "catalog.methods.extras": "rivals.optional_packages",
    "chunked": "paper.kernel_tiles",
    "correction": "core.linear_correction",
    "decomposition": "estimators.decomposition",
    "discrete": "estimators.discrete",
    "encoding": "catalog.encoder",
    "erasure": "rivals.linear_erasure",
    "expansion": "core.predictors",
    "fair_kernel_learning": "rivals.fair_kernel_learning",
    "feature_maps": "core.feature_maps",
    "gaussian_process": "estimators.gaussian_process",
    "kernel_ridge": "estimators.kernel_ridge",
    "kernels": "core.kernels",
    "labels": "catalog.labels",
    "landmarks": "core.feature_maps.landmarks",
    "linalg": "core.linalg",
    "literal": "paper",
    "measures.checks": "measures.columns",
    "methods": "catalog.methods",
    "methods.extras": "rivals.optional_packages",
    "methods.declaration": "catalog.methods.method_declaration",
    "methods.removal": "catalog.methods.kernel_settings",
    "moments": "core.moments",
    "neural": "rivals.neural",
    "pareto": "measures.pareto",
    "path": "core.removal_path",
    "perceptron": "core.perceptron",
    "predictions": "catalog.predictions",
    "problems": "catalog.problems",
    "problems.declaration": "catalog.problems.problem_declaration",
    "reference": "paper.reference",
    "removal": "estimators.removal_estimator",
    "ridge": "core.fair_ridge",
    "svc": "estimators.support_vector_classification",
    "svr": "estimators.support_vector_regression",
    "table": "catalog.table",
    "validation": "core.border",
}


class Signposts(importlib.abc.MetaPathFinder):
    """Finds ``fkd.path`` where ``fkd.core.removal_path`` is: one module under two names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where a module of an old name is loaded from, None for all others."""
        new = _new_name(fullname)
        return importlib.util.spec_from_loader(fullname, _Signpost(new)) if new else None


class _Signpost(importlib.abc.Loader):
    """Gives the module of another name."""

    def __init__(self, new: str) -> None:
        self.module = importlib.import_module(new)
        self.spec = self.module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return the module, which has been executed under its own name."""
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module back its own spec, over which the import system wrote the old name's."""
        module.__spec__ = self.spec


def _new_name(fullname: str) -> str:
    """Return the new name of ``fkd.OLD`` or of a module inside it, empty for all others."""
    package, _, rest = fullname.partition(".")
    if package != "fkd":
        return ""
    if rest in MOVED:
        return f"fkd.{MOVED[rest]}"
    old, _, inside = rest.partition(".")
    return f"fkd.{MOVED[old]}.{inside}" if old in MOVED else ""


def put_up() -> None:
    """Let old import paths work."""
    if not any(isinstance(finder, Signposts) for finder in sys.meta_path):
        # First: through an old package's folder its modules would be found a second time.
        sys.meta_path.insert(0, Signposts())
