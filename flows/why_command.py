"""The command that says what the key of a trial is made of."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from configs.load import load_config
from flows.command_options import Overrides
from tasks.adapters.settings import read_settings
from tasks.study.fit_parts import (
    FoundFit,
    find_fits,
    fits_of,
    flat_parts,
    nearest_fit,
    numbered_trial,
    reason_again,
)
from tasks.study.named_runs import find_study
from tasks.study.opening import open_study

_LONGEST = 60


def explain_trial(trial: str, config: str | None = None, /, *, overrides: Overrides = ()) -> None:
    """Say what a trial's key is made of, why it would be computed again.

    Parameters
    ----------
    trial
        The first digits of a key, or RUN:NUMBER, such as crimes:3 for the third trial of the run
        crimes; RUN may be a YAML file too.
    config
        A YAML file, or the name of a shipped one, in which the same fit is looked for: what differs
        is told.
    """
    settings = read_settings()
    run, _, word = trial.rpartition(":")
    if run:
        study = find_study(settings, run)
        fits = list(fits_of(study, numbered_trial(study, word)))
    else:
        fits = find_fits(settings, trial)
    console = Console(highlight=False)
    first = fits[0]
    console.print(
        f"[bold]{escape(first.study.title(first.trial))}[/bold] of {first.study.config.name}, "
        f"trial {first.trial.key[:12]}"
    )
    if config is None:
        _show_parts(console, first)
        for fit in fits:
            reason = reason_again(fit)
            told = "stored, not computed again" if reason is None else f"to compute: {reason}"
            line = f"split {fit.split}  {fit.key[:12]}  {told}"
            console.print(escape(line), soft_wrap=True)
        return
    asked = open_study(load_config(config, overrides), settings)
    _show_differences(console, first, nearest_fit(first, asked), asked.config.name)


def _show_parts(console: Console, fit: FoundFit) -> None:
    """Print what the key is the digest of; rows are those of the split."""
    table = Table("part of the key", "value", title=f"split {fit.split}", title_justify="left")
    for name, value in flat_parts(fit.parts).items():
        table.add_row(escape(name), escape(_short(value)))
    console.print(table)


def _show_differences(console: Console, fit: FoundFit, other: FoundFit | None, name: str) -> None:
    """Print which parts differ from the nearest fit of a configuration."""
    if other is None:
        console.print(f"{escape(name)} has no split {fit.split}, so nothing of it is used there.")
        return
    differing = fit.differences(other.parts)
    if not differing:
        reason = reason_again(other)
        told = "it is stored, not computed again" if reason is None else f"to compute: {reason}"
        console.print(escape(f"{name} has the same fit under the same key: {told}"), soft_wrap=True)
        return
    console.print(
        escape(f"{name} asks for another fit; the nearest is {other.study.title(other.trial)}:"),
        soft_wrap=True,
    )
    table = Table("part of the key", "here", f"in {name}")
    for part, here, there in differing:
        table.add_row(escape(part), escape(_short(here)), escape(_short(there)))
    console.print(table)


def _short(value: Any) -> str:
    """Return a part as a few words; digests by their first digits."""
    text = "absent" if value is None else str(value)
    if len(text) == 64 and all(digit in "0123456789abcdef" for digit in text):
        return text[:12]
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
