"""Read new rows from files, patterns of files, or keys of the data."""

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
    """Rows of one check: the configuration of the champion with other data."""

    label: str
    config: RunConfig


@dataclass(frozen=True)
class NextBatch:
    """The first year or state after those of the champion that was not checked."""

    label: str

    def choices(self, config: RunConfig) -> list[Batch]:
        """Return the batches of the years or states after those of a configuration, in order."""
        (key,) = _NEXT.findall(self.label)
        data = config.data
        values: Sequence[object] = other_states(data.states)
        if key == "year":
            today = datetime.datetime.now(tz=datetime.UTC).year
            values = later_releases(max(data.year), data.horizon or "1-Year", today)
        return [_from_keys(config, _NEXT.sub(f"{key}={one}", self.label)) for one in values]


def read_batches(config: RunConfig, named: Sequence[str]) -> list[Batch | NextBatch]:
    """Return the batches of new rows in the given order, files of a pattern by name.

    Parameters
    ----------
    config
        The configuration of the champion, of which the data are replaced.
    named
        Each a file, a pattern such as `months/2026-*.csv`, or keys of `data` such as
        `states=NJ year=2019`; `next` is the next year or state that was not checked.
    """
    if not named:
        raise UserError(
            "--data must name new rows: a file, a pattern of files in quotes, or keys of the data "
            'such as "states=NJ year=2019".'
        )
    batches: list[Batch | NextBatch] = []
    for text in named:
        if _NEXT.search(text):
            batches.append(_next_batch(config, text))
        elif _KEY.match(text):
            batches.append(_from_keys(config, text))
        else:
            batches += _from_files(config, text)
    return batches


def absolute_path(text: str) -> str:
    """Return a file or pattern with its absolute path; keys of the data are unchanged."""
    return text if _KEY.match(text) else str(Path(text).expanduser().absolute())


def _from_keys(config: RunConfig, text: str) -> Batch:
    """Return the batch of keys of the data."""
    words = [f"data.{word}" for word in text.split()]
    tree = apply_overrides(config.model_dump(mode="json"), words)
    return Batch(text, parse_config(tree, f"--data {text}"))


def _next_batch(config: RunConfig, text: str) -> NextBatch:
    """Return the batch of the next year or state; raise an error if there is none."""
    keys = _NEXT.findall(text)
    if len(keys) > 1:
        raise UserError(
            f"--data {text} must leave one thing open, got {' and '.join(keys)}. Name a state or a "
            "year, or use one --data for each."
        )
    if not config.data.states:
        raise UserError(
            f"--data {text} is for census files, which have a state and a year. The champion was "
            f"chosen on {config.data.problem}. Name "
            f"{'files by a pattern in quotes' if config.data.path else 'other keys'}."
        )
    batch = NextBatch(text)
    if not batch.choices(config):
        raise UserError(
            f"--data {text} has nothing to come. The champion was chosen on "
            f"{', '.join(config.data.states)} of {max(config.data.year)}, {config.data.horizon}. "
            "Name states or a year."
        )
    return batch


def _from_files(config: RunConfig, text: str) -> list[Batch]:
    """Return the batches of a file or of the files that match a pattern, by name."""
    if config.data.path is None:
        source = list(config.data.declaration.sources)[-1]
        example = "states=NJ year=2019" if config.data.states else f"source={source}"
        raise UserError(
            f"--data must be keys of the data for {config.data.problem}, such as "
            f'"{example}", got {text!r}. Files are for tables of your own.'
        )
    paths = [absolute_path(text)]
    if _PATTERN.search(paths[0]):
        root = Path(Path(paths[0]).anchor)
        paths = sorted(str(path) for path in root.glob(str(Path(paths[0]).relative_to(root))))
    batches = []
    for path in paths:
        tree = set_path(config.model_dump(mode="json"), "data.path", path)
        batches.append(Batch(Path(path).name, parse_config(tree, f"--data {path}")))
    return batches
