"""Experiments with less in them: without the networks, or quick ones."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from configs.curve_config import PLAIN
from fkd.methods import method
from fkd.methods.declaration import Method, Published

Tree = dict[str, Any]

QUICK_FOLDS = 3
QUICK_ROWS = 500
QUICK_SEEDS = 2
_QUICK_EPOCHS = 5
_TWIN_ROWS = 2000
_NOT_EMBEDDED = "the embedded file of a quick run has no columns with missing values"


def without(tree: Tree, leave_out: Callable[[Method], str | None]) -> Tree:
    """Return the experiment without the curves for whose method a reason is given."""
    reasons: dict[str, str] = {}
    runs: Tree = {}
    for name, run in tree["runs"].items():
        kept = {}
        for label, entry in run["curves"].items():
            reason = leave_out(method(_entry(entry)["name"]))
            if reason is None:
                kept[label] = entry
            else:
                reasons[label] = reason
        if kept:
            runs[name] = {**run, "curves": kept}
    return {**tree, "runs": runs, "left_out": {**tree.get("left_out", {}), **reasons}}


def is_network(declared: Method) -> bool:
    """Return whether a method trains a neural network."""
    return declared.extra is not None and declared.extra.name == "neural"


def quick(tree: Tree) -> Tree:
    """Return the experiment with fewer rows, folds and points: it shows that all works, no more."""
    runs = {name: _quick_run(run) for name, run in tree["runs"].items()}
    gone = {
        label: _NOT_EMBEDDED
        for name, run in tree["runs"].items()
        for label in run["curves"]
        if label not in runs[name]["curves"]
    }
    left_out = {**tree.get("left_out", {}), **gone}
    return {**tree, "runs": runs, "left_out": left_out, "quick": True}


def _quick_run(run: Tree) -> Tree:
    data = {**run["data"], "sample": QUICK_ROWS}
    if data["problem"] == "crimes":
        data["source"] = "embedded"
    variants = {name: v for name, v in run.get("variants", {}).items() if "missing" not in v}
    seeds = run.get("seeds", [])[:QUICK_SEEDS]
    curves = {
        label: _few_seeds(_quick_entry(entry, data), seeds)
        for label, entry in run["curves"].items()
        if _entry(entry).get("variant", PLAIN) in (PLAIN, *variants)
    }
    folds = {**run.get("folds", {}), "k": QUICK_FOLDS}
    changed = {"data": data, "variants": variants, "folds": folds, "curves": curves}
    return {**run, **changed, **({"seeds": seeds} if seeds else {})}


def _few_seeds(entry: Tree, seeds: list[int]) -> Tree:
    """Return a curve under those of its seeds that the quick run has."""
    if "seeds" not in entry:
        return entry
    return {**entry, "seeds": [seed for seed in entry["seeds"] if seed in seeds]}


def _quick_entry(raw: Any, data: Tree) -> Tree:
    """Return a curve with at most three values on each axis, a network with few epochs."""
    entry = _entry(raw)
    declared = method(entry["name"])
    paper = declared.published.get(data["problem"]) or declared.published.get("acs_income")
    grid: Mapping[str, Sequence[Any]] = entry.get("grid") or {
        name: values for name, values in (paper or Published()).grid.items() if name not in entry
    }
    thin = {name: list(_ends(list(values))) for name, values in grid.items()}
    epochs = {"epochs": _QUICK_EPOCHS} if is_network(declared) else {}
    return {**entry, **epochs, **({"grid": thin} if thin else {})}


def _ends(values: list[Any]) -> list[Any]:
    """Return first, middle, last of a list."""
    return [values[i] for i in sorted({0, len(values) // 2, len(values) - 1})]


def synthetic(tree: Tree, run: str) -> Tree:
    """Return the experiment with one census run on synthetic rows, for want of real ones."""
    changed = {**tree["runs"][run]}
    changed["data"] = {**changed["data"], "source": "synthetic", "twin": {"rows": _TWIN_ROWS}}
    return {**tree, "runs": {**tree["runs"], run: changed}}


def _entry(raw: Any) -> Tree:
    """Return a curve's method as a mapping."""
    return {"name": raw} if isinstance(raw, str) else dict(raw)
