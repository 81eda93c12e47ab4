"""Read new rows from files, patterns of files, or options of the data."""

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from configs.data import later_releases, other_states
from configs.errors import UserError
from configs.load import apply_overrides, parse_config, set_path
from configs.run import RunConfig

_KEY = re.compile(r"^\w+=")
_PATTERN = re.compile(r"[*?\[]")
_NEXT = re.compile(r"(?<!\S)(year|states)=next(?!\S)")


@dataclass(frozen=True)
class Batch:
    """Rows to be looked at at once: the champion's configuration on other data."""

    label: str
    config: RunConfig


@dataclass(frozen=True)
class NextBatch:
    """Rows that are named by what comes next: the first of several that was not looked at."""

    label: str

    def choices(self, config: RunConfig) -> list[Batch]:
        """Return what may come next after the rows of a configuration, in order."""
        (key,) = _NEXT.findall(self.label)
        return [
            _of_keys(config, _NEXT.sub(f"{key}={one}", self.label)) for one in _next(config, key)
        ]


def read_batches(config: RunConfig, named: Sequence[str]) -> list[Batch | NextBatch]:
    """Return the batches of what was named, in its order, files of a pattern by name.

    Parameters
    ----------
    config
        The champion's, of which everything but the data is kept.
    named
        Each a file, a pattern such as `months/2026-*.csv`, or keys of `data` such as
        `states=NJ year=2019`; of year or states, `next` is the next one not looked at.
    """
    if not named:
        raise UserError(
            "--data must name new rows: a file, a pattern of files in quotes, or keys of the data "
            'such as "states=NJ year=2019".'
        )
    return [batch for text in named for batch in _batches(config, text)]


def _batches(config: RunConfig, text: str) -> Sequence[Batch | NextBatch]:
    """Return the batches of one text."""
    if _NEXT.search(text):
        return [_checked_next(config, text)]
    if _KEY.match(text):
        return [_of_keys(config, text)]
    if config.data.path is None:
        raise UserError(
            f"--data must be keys of the data for {config.data.problem}, such as "
            f'"{_example(config)}", got {text!r}; files are for tables of your own.'
        )
    place = located(text)
    return [_of_file(config, path) for path in _files(place)]


def _of_keys(config: RunConfig, text: str) -> Batch:
    """Return the batch of keys of the data."""
    words = [f"data.{word}" for word in text.split()]
    tree = apply_overrides(config.model_dump(mode="json"), words)
    return Batch(text, parse_config(tree, f"--data {text}"))


def _checked_next(config: RunConfig, text: str) -> NextBatch:
    """Return the batch of what comes next; refuse where nothing can."""
    keys = _NEXT.findall(text)
    if len(keys) > 1:
        raise UserError(
            f"--data {text} must leave one thing open, got {' and '.join(keys)}; name a state or a "
            "year, or look at either by its own --data."
        )
    if not config.data.states:
        raise UserError(
            f"--data {text} is for census files, which have a state and a year; the champion was "
            f"chosen on {config.data.problem}; name "
            f"{'files by a pattern in quotes' if config.data.path else 'other keys'}."
        )
    batch = NextBatch(text)
    if not batch.choices(config):
        raise UserError(
            f"--data {text} has nothing to come: the champion was chosen on "
            f"{', '.join(config.data.states)} of {max(config.data.year)}, {config.data.horizon}; "
            "name states or a year."
        )
    return batch


def _next(config: RunConfig, key: str) -> Sequence[object]:
    """Return the states or years behind those of a configuration."""
    data = config.data
    if key == "states":
        return other_states(data.states)
    today = datetime.datetime.now(tz=datetime.UTC).year
    return later_releases(max(data.year), data.horizon or "1-Year", today)


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
    if config.data.states:
        return "states=NJ year=2019"
    return f"source={list(config.data.declaration.sources)[-1]}"
