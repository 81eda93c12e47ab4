"""What a shared feature map asks of the rest of a configuration."""

from collections.abc import Iterable, Mapping
from typing import Any

from configs.data import FoldsConfig
from configs.methods import MethodConfig

_KINDS = ("nystroem", "fourier")


def check_shared(methods: Iterable[MethodConfig], folds: FoldsConfig) -> None:
    """Refuse a shared map without rows to make it from, or of a kind that cannot be shared."""
    for entry in methods:
        for value in _approximations(entry):
            if not value["shared"]:
                continue
            if value["kind"] not in _KINDS:
                raise ValueError(
                    f"approximation.kind of {entry.name} must be nystroem or fourier where shared "
                    f"is true, got {value['kind']!r}"
                )
            if not folds.reserve:
                raise ValueError(
                    f"folds.reserve must be above 0 where {entry.name} has a shared map, got 0: "
                    "the map is made from rows that no fold tests on, such as "
                    "--set folds.reserve=0.2"
                )


def _approximations(entry: MethodConfig) -> list[Mapping[str, Any]]:
    """Return every approximation that an entry names."""
    fixed = [entry.parameters["approximation"]] if "approximation" in entry.parameters else []
    axes = [axis.get("approximation", ()) for axis in (entry.grid or {}, entry.search or {})]
    return [*fixed, *(value for axis in axes for value in axis)]
