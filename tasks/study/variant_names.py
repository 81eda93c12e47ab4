"""One name for each variant of a method, so that no two curves are called the same."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fkd.methods import method
from tasks.planned.trials import Trial
from tasks.study.results import other_parameters

_MOST = 8  # variants of one method that figures and tables can keep apart
_KIND = "approximation.kind"


def variant_names(trials: Iterable[Trial]) -> dict[str, str]:
    """Return by trial key the method's title, with the parameters that tell its variants apart.

    Trials that differ in strength only are one variant. Where there are too many, as a search
    makes them, those of a single strength share a name.
    """
    by_method: dict[str, list[Trial]] = {}
    for trial in trials:
        by_method.setdefault(trial.method, []).append(trial)
    return {
        key: name for name_, own in by_method.items() for key, name in _names(name_, own).items()
    }


def shown_parameters(trial: Trial) -> dict[str, Any]:
    """Return the parameters that say something: an exact kernel has no landmarks."""
    approximation = trial.parameters.get("approximation", {})
    exact = approximation.get("kind") == "exact"
    return {
        name: value
        for name, value in other_parameters(trial).items()
        if not (exact and name.startswith("approximation."))
    }


def _names(name: str, trials: Sequence[Trial]) -> dict[str, str]:
    """Return the names of one method's trials by key."""
    title = method(name).title
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(repr(sorted(shown_parameters(trial).items())), []).append(trial)
    if len(groups) == 1:
        return {trial.key: title for trial in trials}
    apart = list(groups.values())
    rest = ""
    if len(apart) > _MOST:
        apart = [group for group in apart if len(group) > 1]
        rest = f"{title} (other settings)"
        if not 0 < len(apart) <= _MOST:
            apart, rest = [], title
    variants = [shown_parameters(group[0]) for group in groups.values()]
    found = {trial.key: rest for trial in trials}
    for group in apart:
        label = f"{title} ({_differences(shown_parameters(group[0]), variants)})"
        found |= {trial.key: label for trial in group}
    return found


def _differences(own: Mapping[str, Any], variants: Sequence[Mapping[str, Any]]) -> str:
    """Return the parameters that not all variants share, as one of them has them."""
    told = []
    for name in (name for name in own if _differs(name, variants)):
        # The kind of an approximation says by itself what it is.
        label = "" if name == _KIND else f"{name.rpartition('.')[2]} "
        told.append(f"{label}{_value(own[name])}")
    return ", ".join(told) or "exact"


def _differs(name: str, variants: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a parameter tells variants apart; only an exact kernel lacks some."""
    values = [repr(variant[name]) for variant in variants if name in variant]
    return len(set(values)) > 1 or (name == _KIND and len(values) < len(variants))


def _value(value: Any) -> str:
    """Return a parameter's value as people write it."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:g}" if isinstance(value, int | float) else str(value)
