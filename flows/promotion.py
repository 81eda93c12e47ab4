"""A person's word that another version shall be the champion."""

import getpass
from datetime import UTC, datetime

from configs.errors import UserError
from flows.progress import watcher
from tasks.adapters.registry import CHAMPION, promote_version
from tasks.adapters.settings import read_settings


def promote_model(model: str, version: int, why: str) -> None:
    """Move the champion's alias to a version, keeping who did it, when, for which reason."""
    reason = " ".join(why.split())
    if not reason:
        raise UserError('--why must say why this version shall be the champion, got "".')
    tags = {
        "fkd.promoted_by": _person(),
        "fkd.promoted_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "fkd.promoted_why": reason,
    }
    promote_version(read_settings(), model, version, tags)
    watcher().say(f"models:/{model}@{CHAMPION} is version {version} now")


def _person() -> str:
    """Return who is asking, as far as this machine knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no name for this user in a container
        return "unknown"
