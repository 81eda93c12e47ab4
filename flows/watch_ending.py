"""The end of a watch: call the hooks for each look, fail if a band was crossed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from configs.errors import UserError
from configs.hook_config import HooksConfig
from tasks.adapters.hooks import tell
from tasks.watch.watch_values import CROSSED, Watch


class BandCrossedError(UserError):
    """New rows differ from the record, and no promoted refit answers that."""

    exit_code = 3


@dataclass(frozen=True)
class WatchedModel:
    """Whom a watch of a model tells."""

    name: str
    hooks: HooksConfig = field(default_factory=HooksConfig)


def end_watch(watched: WatchedModel, found: Sequence[Watch], page: str) -> None:
    """Call the hooks for each look, then raise if rows crossed without a promoted refit."""
    problems: list[str] = []
    for one in found:
        hook = watched.hooks.on_failure if one.verdict == CROSSED else watched.hooks.on_success
        problems += tell(hook, message_of(one, page))
    left = [one for one in found if one.reasons and (not one.refit or not one.refit.promoted)]
    if left:
        rows = ", ".join(one.rows_from for one in left)
        refits = [f"{one.refit.why}." for one in left if one.refit is not None]
        remedy = refits or [
            "The champion was not changed; add --refit to fit a candidate on old and new rows."
        ]
        text = f"{rows} crossed the band of {watched.name}."
        raise BandCrossedError(" ".join([text, *remedy, *problems]))
    if problems:
        raise UserError(" ".join(dict.fromkeys(problems)))


def message_of(found: Watch, page: str) -> dict[str, Any]:
    """Return what hooks are told of a look."""
    return {
        "name": found.model,
        "state": found.verdict,
        "problem": found.reason if found.reasons else None,
        "version": found.version,
        "rows_from": found.rows_from,
        "rows": found.changes.rows[1],
        "chance": found.changes.chance,
        "refit": None if found.refit is None else found.refit.why,
        "promoted": found.refit is not None and found.refit.promoted,
        "history": page,
    }
