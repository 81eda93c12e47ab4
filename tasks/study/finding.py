"""What a run found, in the words of terminal, report, MLflow."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The chosen model against the same one with nothing removed."""

    word: str  # nothing removed, fell, rose, within noise ...; with "limit broken" where it is so
    broken: tuple[str, ...]  # one sentence per limit that held-out rows break
    sentences: tuple[str, ...]  # what was chosen, what it changed, what that cost
