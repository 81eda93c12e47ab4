"""How a watch ends: hooks hear of each look, what crossed without a successor is an error."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from configs.errors import UserError
from configs.hook_config import HooksConfig
from tasks.adapters.hooks import tell
from tasks.watch.watch_values import CROSSED, Watch


class BandCrossedError(UserError):
    """New rows are not like the record, and what was fitted to them was not promoted."""

    exit_code = 3


@dataclass(frozen=True)
class WatchedModel:
    """Whom a watch of a model tells."""

    name: str
    hooks: HooksConfig = field(default_factory=HooksConfig)


def end_watch(watched: WatchedModel, found: Sequence[Watch], page: str) -> None:
    """Tell the hooks of each look, a crossed one as a failure; raise what has no successor."""
    problems: list[str] = []
    for one in found:
        hook = watched.hooks.on_failure if one.verdict == CROSSED else watched.hooks.on_success
        problems += tell(hook, message_of(one, page))
    left = [one.rows_from for one in found if one.refit is not None and not one.refit.promoted]
    if left:
        text = (
            f"{', '.join(left)} crossed the band of {watched.name}, and what was fitted there is "
            "no champion; see above."
        )
        raise BandCrossedError(" ".join([text, *problems]))
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
