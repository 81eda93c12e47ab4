"""Versions of what decides numbers beside a method: part of every key, compared on every worker."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from configs.errors import UserError
from fkd import measures
from fkd.problems import encoder
from tasks.adapters import store


@dataclass(frozen=True)
class Versions:
    """Each is raised by hand, when the same input would give another number."""

    measures: int
    encoder: int
    record: int  # of what a stored trial consists

    def raised(self, *names: str) -> dict[str, dict[str, int]]:
        """Return what enters a key: first versions do not, so that keys of before stay."""
        found = {
            name: version
            for name, version in asdict(self).items()
            if version != 1 and (not names or name in names)
        }
        return {"versions": found} if found else {}

    def check(self, planned: Mapping[str, int], own: Mapping[str, int]) -> None:
        """Raise where this process computes by other versions than the one that planned.

        Parameters
        ----------
        planned, own
            Versions of methods by name: those of the plan, those of this process.
        """
        asked = {**asdict(self), **planned}
        here = {**asdict(own_versions()), **own}
        other = [f"{name} {here[name]} instead of {asked[name]}" for name in asked]
        other = [text for text, name in zip(other, asked, strict=True) if here[name] != asked[name]]
        if other:
            raise UserError(
                "A worker must compute by the versions of the run that asks it, but it has "
                f"{', '.join(other)}; install the same fkd on all workers, then start them again."
            )


def own_versions() -> Versions:
    """Return the versions of this process's code."""
    return Versions(measures.VERSION, encoder.VERSION, store.SCHEMA)
