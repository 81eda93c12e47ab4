"""New rows as a person names them: a file, a pattern of files, keys of the data."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.errors import UserError
from configs.load import parse_config
from configs.overrides import apply_overrides, set_path
from configs.schema import RunConfig
from fkd.catalog.problems.own_table import NAME as OWN

_KEY = re.compile(r"^\w+=")
_PATTERN = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Batch:
    """Rows to be looked at at once: the champion's configuration on other data."""

    label: str
    config: RunConfig


def read_batches(config: RunConfig, named: Sequence[str]) -> list[Batch]:
    """Return the batches of what was named, in its order, files of a pattern by name.

    Parameters
    ----------
    config
        The champion's, of which everything but the data is kept.
    named
        Each a file, a pattern such as `months/2026-*.csv`, or keys of `data` such as
        `states=NJ year=2019`.
    """
    if not named:
        raise UserError(
            "--data must name new rows: a file, a pattern of files in quotes, or keys of the data "
            'such as "states=NJ year=2019".'
        )
    return [batch for text in named for batch in _batches(config, text)]


def _batches(config: RunConfig, text: str) -> list[Batch]:
    """Return the batches of one text."""
    if _KEY.match(text):
        tree = apply_overrides(
            config.model_dump(mode="json"), [f"data.{word}" for word in text.split()]
        )
        return [Batch(text, parse_config(tree, f"--data {text}"))]
    if config.data.problem != OWN:
        raise UserError(
            f"--data must be keys of the data for {config.data.problem}, such as "
            f'"{_example(config)}", got {text!r}; files are for tables of your own.'
        )
    place = located(text)
    return [_of_file(config, path) for path in _files(place)]


def _files(place: str) -> list[str]:
    """Return the files that a whole path or pattern names, by name."""
    if not _PATTERN.search(place):
        return [place]
    root = Path(Path(place).anchor)
    return sorted(str(path) for path in root.glob(str(Path(place).relative_to(root))))


def located(text: str) -> str:
    """Return a file or pattern by its whole path, which means the same in any folder."""
    return text if _KEY.match(text) else str(Path(text).expanduser().absolute())


def _of_file(config: RunConfig, path: str) -> Batch:
    """Return the batch of one file."""
    tree = set_path(config.model_dump(mode="json"), "data.path", path)
    return Batch(Path(path).name, parse_config(tree, f"--data {path}"))


def _example(config: RunConfig) -> str:
    """Return keys that this problem has."""
    return "source=uci" if not config.data.states else "states=NJ year=2019"
