"""Make a registered version the champion by a person's decision."""

from configs.errors import UserError
from flows.progress import watcher
from tasks.adapters.registry import CHAMPION, Promotion, promote_version
from tasks.adapters.settings import read_settings
from tasks.study.known_runs import now


def promote_model(model: str, version: int, who: str, why: str) -> None:
    """Move the champion's alias to a version; keep who decided it, when and why."""
    who, why = " ".join(who.split()), " ".join(why.split())
    if not who:
        raise UserError('--who must name the person or body that decides, got "".')
    if not why:
        raise UserError('--why must give the reason of the decision, got "".')
    promote_version(read_settings(), model, version, Promotion(who, why, now()))
    watcher().say(f"models:/{model}@{CHAMPION} is version {version} now")
