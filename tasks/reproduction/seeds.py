"""One run under several seeds: its curves joined, told apart again, agreed upon."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from configs.curve_config import CurvesConfig
from tasks.reproduction.curves import Curve, Curves, curves_of
from tasks.reproduction.verdict import Word
from tasks.study.opening import Study


def seeded_curves(
    studies: Mapping[int, Mapping[str, Study]], config: CurvesConfig
) -> dict[str, Curve]:
    """Return the first seed's curves, each with its repeats under the others.

    Parameters
    ----------
    studies
        The run's variants, by seed.
    config
        Which curve is drawn on which of them, under which seeds.
    """
    drawn = {seed: config.under(seed) for seed in studies}
    found = {seed: curves_of(variants, drawn[seed]) for seed, variants in studies.items()}
    first, *others = studies
    joined = {
        label: _joined(curve, {s: found[s] for s in others if label in drawn[s].curves})
        for label, curve in found[first].items()
    }
    # A setting that no two seeds have in common is no result.
    return {label: curve for label, curve in joined.items() if curve.merged.results}


def _joined(curve: Curve, others: Mapping[int, Curves]) -> Curve:
    """Return a curve with its repeats; what any seed lacks is missing."""
    label, whole = curve.label, len(curve.results) + curve.missing
    repeats = tuple(curves[label] for curves in others.values() if label in curves)
    lost = whole * (len(others) - len(repeats))
    missing = curve.missing + lost + sum(repeat.missing for repeat in repeats)
    return replace(curve, repeats=repeats, missing=missing)


def by_seed(curves: Curves, labels: Iterable[str]) -> list[dict[str, Curve]]:
    """Return these curves seed by seed, under the seeds that all of them have."""
    apart = {label: curves[label].by_seed for label in labels if label in curves}
    first, *others = apart.values()
    common = [seed for seed in first if all(seed in other for other in others)]
    return [{label: found[seed] for label, found in apart.items()} for seed in common]


def word_over_seeds(word: Word, true: int, seeds: int) -> Word:
    """Return the verdict of all seeds together: unclear where one of them says otherwise."""
    if (word == "holds" and true < seeds) or (word == "fails" and true > 0):
        return "unclear"
    return word
