"""Optional packages that some methods need."""

from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Extra:
    """An extra of this project with the packages, by import name, that a method takes from it."""

    name: str
    packages: tuple[str, ...]

    def missing(self) -> tuple[str, ...]:
        """Return the packages that are not installed; none of them is imported."""
        return tuple(package for package in self.packages if find_spec(package) is None)

    def check(self, method: str) -> None:
        """Refuse to go on with a method without the packages."""
        self.require(f"method {method}")

    def require(self, who: str) -> None:
        """Refuse to go on without the packages, naming the command that installs them."""
        if missing := self.missing():
            raise ModuleNotFoundError(
                f"{who} needs {', '.join(missing)}, not installed here; `make neural` "
                f"installs what it needs, so does `pip install '.[{self.name}]'`"
            )


NEURAL = Extra("neural", ("torch",))
LEACE = Extra("erasure", ("torch", "concept_erasure"))
FAIRLEARN = Extra("erasure", ("fairlearn",))
