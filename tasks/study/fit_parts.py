"""What the key of a stored fit is made of, what of it is otherwise now."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from configs.errors import UserError
from fkd.methods import method
from tasks.adapters.settings import Settings
from tasks.adapters.store import digest, record_name
from tasks.planned.folds import Fold
from tasks.planned.trials import Trial, record_key, record_parts
from tasks.planned.versions import Versions
from tasks.study.known_runs import known_runs
from tasks.study.opening import Study

FEWEST_DIGITS = 6


@dataclass(frozen=True)
class FoundFit:
    """A fit of a run: one trial on one split.

    Parameters
    ----------
    study, trial, split
        Which fit of which run.
    key
        Under which it is, or was, stored.
    parts
        What that key is the digest of.
    """

    study: Study
    trial: Trial
    split: str
    key: str
    parts: Mapping[str, Any]

    def differences(self, parts: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
        """Return the parts that are otherwise in another key: name, here, there."""
        here, there = flat_parts(self.parts), flat_parts(parts)
        names = dict.fromkeys((*here, *there))
        return [
            (name, here.get(name), there.get(name))
            for name in names
            if here.get(name) != there.get(name)
        ]


def flat_parts(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a key under dotted names."""
    flat: dict[str, Any] = {}
    for name, value in parts.items():
        inner = flat_parts(value) if isinstance(value, Mapping) else None
        flat |= {f"{name}.{k}": v for k, v in inner.items()} if inner else {name: value}
    return flat


def fits_of(study: Study, trial: Trial) -> Iterator[FoundFit]:
    """Yield a trial on every split, by the versions of this code."""
    for split, fold in study.inputs.splits.all(study.loaded.table).items():
        parts = record_parts(trial, fold, study.inputs)
        yield FoundFit(study, trial, split, digest(parts), parts)


def numbered_trial(study: Study, word: str) -> Trial:
    """Return a trial by its number in the run, from 1 on, or by the first digits of its key."""
    if word.isdigit() and 1 <= int(word) <= len(study.trials):
        return study.trials[int(word) - 1]
    alike = [trial for trial in study.trials if trial.key.startswith(word)]
    if len(alike) == 1 and len(word) >= FEWEST_DIGITS:
        return alike[0]
    listed = "; ".join(f"{i} {study.title(t)}" for i, t in enumerate(study.trials[:20], start=1))
    raise UserError(
        f"{study.config.name} has no trial {word!r}; its trials are {listed}"
        f"{'; ...' if len(study.trials) > 20 else ''}: name one by its number or the first "
        "digits of its key."
    )


def find_fits(settings: Settings, key: str) -> list[FoundFit]:
    """Return the fits of this home whose key, or whose trial's key, begins so.

    A key that only an earlier version of the code makes is found too: what it is made of is proven
    by its digest.
    """
    if len(key) < FEWEST_DIGITS:
        raise UserError(f"a key must be told by at least {FEWEST_DIGITS} digits, got {key!r}.")
    runs, _ = known_runs(settings)
    for run in reversed(runs):
        try:
            study = run.open(settings)
        except UserError:
            continue  # its rows are gone, hence nothing says what its keys are
        for trial in study.trials:
            fits = list(fits_of(study, trial))
            found = fits if trial.key.startswith(key) else []
            found = found or [fit for fit in fits if fit.key.startswith(key)]
            found = found or [old for fit in fits for old in _older(fit) if old.key.startswith(key)]
            if found:
                return found
    raise UserError(
        f"no run of {settings.home} has a trial or a fit whose key begins with {key}; `fkd why "
        "RUN:1` names a trial by its number."
    )


def _older(fit: FoundFit) -> Iterator[FoundFit]:
    """Yield a fit under the keys that it had by lower versions of the code."""
    now, inputs = fit.study.inputs.versions, fit.study.inputs
    fold = inputs.splits.all(fit.study.loaded.table)[fit.split]
    ranges = [range(1, top + 1) for top in (*asdict(now).values(), fit.trial.version)]
    for *lower, version in itertools.product(*ranges):
        versions = Versions(*lower)
        if versions == now and version == fit.trial.version:
            continue
        old = replace(inputs, versions=versions)
        parts = {**record_parts(fit.trial, fold, old), "version": version}
        yield FoundFit(fit.study, fit.trial, fit.split, digest(parts), parts)


def nearest_fit(fit: FoundFit, study: Study) -> FoundFit | None:
    """Return the fit of a study that differs in the fewest parts, None where it has no such split.

    Fits of the same method come first.
    """
    folds: dict[str, Fold] = study.inputs.splits.all(study.loaded.table)
    if fit.split not in folds or not study.trials:
        return None
    fold = folds[fit.split]
    others = [
        FoundFit(
            study,
            trial,
            fit.split,
            record_key(trial, fold, study.inputs),
            record_parts(trial, fold, study.inputs),
        )
        for trial in study.trials
    ]
    return min(
        others,
        key=lambda other: (
            other.trial.method != fit.trial.method,
            len(fit.differences(other.parts)),
        ),
    )


def reason_again(fit: FoundFit) -> str | None:
    """Return why a fit would be computed again, None where it would not."""
    store, inputs = fit.study.store, fit.study.inputs
    now = {other.split: other for other in fits_of(fit.study, fit.trial)}[fit.split]
    if fit.key != now.key:
        changed = ", ".join(
            f"{name} is {there} now instead of {here}"
            for name, here, there in fit.differences(now.parts)
        )
        return f"the code has changed since: {changed}"
    if inputs.is_stored(store, fit.key):
        return None  # whoever else has failed at it
    if (cause := store.read_failure(fit.key)) is not None:
        return f"it failed ({cause}); it is tried again by the run's own command"
    if fit.key in store:
        return (
            "its numbers are stored, its predictions are not, and predictions: keep asks for them"
        )
    if store.store.has(record_name(fit.key)):
        current = method(fit.trial.method).version
        return f"what is stored is of another version of records or of the method (now {current})"
    return "nothing is stored under this key"
