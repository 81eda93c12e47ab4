"""Checks on held-out rows: the trial fit, and the choice of a strength by a bound.

A trial compares dependence with and without removal, and the error with that of a constant. A bound
on a measure chooses the smallest strength at which held-out predictions satisfy it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from scipy.stats import f as f_distribution
from scipy.stats import rankdata
from sklearn.model_selection import KFold

from fkd.core.arrays import Array, IntArray
from fkd.core.validation import finite, not_negative, warn_user
from fkd.measures.registry import REPORTED
from fkd.measures.resampling import Interval, interval

# Fewest rows for a trial, and most rows that it uses: more cost time without being more certain.
FEWEST_ROWS = 100
MOST_ROWS = 2000
# Predictions with less than this share of the spread of the target count as constant.
_COLLAPSED = 0.01
# Dependence that keeps these shares of its size was hardly removed, or by less than half.
_HARDLY, _HALF = 0.9, 0.5
# Significance level of the dependence that is left.
_CHANCE = 0.01
# Smaller differences of errors, of a target with unit deviation, are rounding errors.
_ROUNDING = 1e-6
# Smaller deviations, as a share of the largest prediction, are rounding errors: it is a constant.
_CONSTANT = 1e-10
_ROWS_PER_GROUP, _MOST_GROUPS = 20, 10


@dataclass(frozen=True)
class HeldOut:
    """Result of a trial fit on the rows that it left out.

    Dependence is the adjusted correlation ratio: the square root of the share of the variance of
    the predictions that groups of equally many rows along s explain, minus the share expected by
    chance. For several sensitive columns it is that of the worst one. Rows count by their weights
    in errors, and once in a dependence.
    """

    rows: int
    dependence_before: float  # of the same machine without removal
    dependence_after: float
    chance: float  # p-value of the dependence after removal
    error: float = 0.0  # mean loss of the model, the target in units of its deviation
    dummy_error: float = 0.0  # of the best constant
    noise: float = 0.0  # standard error of the difference of the two

    def warn(self, strength: str = "", remedy: str = "") -> None:
        """Warn of dependence that is left, and of a model that is worse than a constant.

        Parameters
        ----------
        strength, remedy
            Descriptions of what was removed and of what would remove more. Without them dependence
            is not judged.
        """
        found = _left_over(self.dependence_before, self.dependence_after)
        if strength and self.chance < _CHANCE and found:
            warn_user(
                f"{found} on {self.rows} held-out rows: {self.dependence_before:.2f} before, "
                f"{self.dependence_after:.2f} {strength}. Use {remedy}"
            )
        gap = self.error - self.dummy_error
        if gap > max(2 * self.noise, _ROUNDING * max(self.dummy_error, 1.0)):
            warn_user(
                f"the model is worse than a constant on {self.rows} held-out rows: its mean loss "
                f"is {self.error:.3g}, the constant's {self.dummy_error:.3g} (of a target with "
                "deviation one). Check fit_intercept, gamma and the scale of the inputs"
            )


def _left_over(before: float, after: float) -> str:
    """Describe the dependence that is left; the text is empty if it is small."""
    if _HARDLY * after > before:
        return "dependence on the sensitive features rose"
    if after > _HARDLY * before:
        return "dependence on the sensitive features hardly fell"
    if after > _HALF * before:
        return "dependence on the sensitive features fell by less than half"
    return ""


def _worst(known: Sequence[float], left: Sequence[float], chances: Sequence[float]) -> int:
    """Return the index of the largest dependence that needs a warning, or of the largest one."""
    notable = [
        c < _CHANCE and bool(_left_over(b, a)) for b, a, c in zip(known, left, chances, strict=True)
    ]
    return max(range(len(left)), key=lambda k: (notable[k], left[k], known[k]))


def warn_collapse(spread: float, causes: str) -> None:
    """Warn if predictions of the training rows are nearly constant.

    Parameters
    ----------
    spread
        Deviation of the predictions as a share of that of the target.
    causes
        Parameters to check.
    """
    if spread < _COLLAPSED:
        warn_user(
            f"the model has collapsed to nearly a constant: its predictions of the training rows "
            f"spread {spread:.1%} as far as the target. Check {causes} and the scale of the "
            "inputs, or remove less"
        )


def sample_rows(n: int) -> IntArray:
    """Return a sorted sample of n rows, at most as many as a trial uses."""
    return np.sort(np.random.default_rng(0).permutation(n)[:MOST_ROWS])


def split_rows(n: int, share: float) -> tuple[IntArray, IntArray] | None:
    """Return rows to fit on and rows to hold out, None if they are too few.

    The split depends on n only, so that repeated fits issue the same warnings.
    """
    if not 0 <= finite("held_out", share) < 1:
        raise ValueError(f"held_out must be in [0, 1), got {share}. 0 skips the trial fit")
    if share == 0 or n < FEWEST_ROWS:
        return None
    order = np.random.default_rng(0).permutation(n)[:MOST_ROWS]
    held = max(1, round(share * len(order)))
    return np.sort(order[held:]), np.sort(order[:held])


def judge_scores(before: Array, after: Array, S: Array, losses: tuple[Array, Array]) -> HeldOut:
    """Return the result of a trial from scores of the held-out rows.

    Parameters
    ----------
    before, after
        Scores without and with removal, (k, c).
    S
        Sensitive columns, (k, l).
    losses
        Losses of the model with removal and of the best constant, (k,) each.
    """
    pairs = [(i, j) for i in range(after.shape[1]) for j in range(S.shape[1])]
    scale = float(max(np.abs(before).max(), np.abs(after).max()))
    known = [dependence(before[:, i], S[:, j], scale)[0] for i, j in pairs]
    left, chances = zip(*(dependence(after[:, i], S[:, j], scale) for i, j in pairs), strict=True)
    # Bonferroni correction over the pairs.
    chances = tuple(min(1.0, len(pairs) * chance) for chance in chances)
    worst = _worst(known, left, chances)
    model, dummy = losses
    return HeldOut(
        rows=len(S),
        dependence_before=known[worst],
        dependence_after=left[worst],
        chance=chances[worst],
        error=float(model.mean(axis=0)),
        dummy_error=float(dummy.mean(axis=0)),
        noise=float((model - dummy).std(axis=0) / np.sqrt(len(S))),
    )


def weighted_losses(model: Array, dummy: Array, w: Array | None) -> tuple[Array, Array]:
    """Return losses scaled such that their plain mean is the mean with weights w."""
    if w is None:
        return model, dummy
    share = w / w.mean(axis=0)
    return model * share, dummy * share


def judge_recovery(before: Array, after: Array, S: Array) -> HeldOut:
    """Return the result of a trial from predictions of S (k, l) by ridge regression on features."""
    total = ((S - S.mean(axis=0)) ** 2).sum(axis=0)
    known, left = (
        np.sqrt(np.maximum(1 - ((S - predicted) ** 2).sum(axis=0) / total, 0.0))
        for predicted in (before, after)
    )
    l = S.shape[1]
    scale = float(np.abs(S).max())
    chances = [min(1.0, l * dependence(after[:, j], S[:, j], scale)[1]) for j in range(l)]
    j = _worst(known.tolist(), left.tolist(), chances)
    return HeldOut(len(S), float(known[j]), float(left[j]), chances[j])


def dependence(f: Array, s: Array, scale: float) -> tuple[float, float]:
    """Return the adjusted correlation ratio of f along s and its p-value (an F test).

    The ratio is the square root of the share of the variance of f between groups of neighbouring
    s, adjusted for chance as R² is. It is 0 if f is constant up to rounding errors of `scale`.
    """
    # Mid-ranks: rows with equal s are in one group.
    share = (rankdata(s) - 0.5) / len(s)
    group = np.floor(share * _groups(len(s))).astype(np.intp)
    counts = np.bincount(group)
    sums = np.bincount(group, weights=f - f.mean(axis=0))[counts > 0]
    counts = counts[counts > 0]
    n, k = len(s), len(counts)
    total = float(((f - f.mean(axis=0)) ** 2).sum(axis=0))
    if k < 2 or n <= k or not total > n * (_CONSTANT * scale) ** 2:
        return 0.0, 1.0
    between = float((sums**2 / counts).sum(axis=0))
    within = max(total - between, 0.0) / (n - k)
    explained = 1 - within * (n - 1) / total
    ratio = (between / (k - 1)) / within if within > 0 else np.inf
    return float(np.sqrt(max(explained, 0.0))), float(f_distribution.sf(ratio, k - 1, n - k))


def _groups(n: int) -> int:
    """Return the number of groups of n rows."""
    return int(np.clip(n // _ROWS_PER_GROUP, 2, _MOST_GROUPS))


FOLDS = 5
_FEWEST_ROWS = 50
_REPLICATES = 200
# Penalties to try: the first ones change hardly anything, the last ones leave hardly anything.
_PENALTIES = (0.0, *(10.0 ** (k / 3) for k in range(-3, 13)))
_LENGTHS = 16


@dataclass(frozen=True)
class KeptBound:
    """The strength that a bound chose, with the measures on held-out predictions.

    Every row is predicted by a model that was fitted without it. GDP is in units of the range of
    the training target.
    """

    strength: float
    values: Mapping[str, Interval]  # of each bounded measure, at this strength
    tried: Mapping[float, Mapping[str, float]]  # each measure at each strength, weakest first


def strengths_to_try(iterations: int | None) -> list[float]:
    """Return ascending lengths of a path up to `iterations`, or penalties if it is None."""
    if iterations is None:
        return list(_PENALTIES)
    lengths = np.unique(np.geomspace(1, max(iterations, 1), num=_LENGTHS).round().astype(int))
    return [0, *(int(m) for m in lengths if m <= iterations)]


def validate_bounds(unfairness: Any) -> dict[str, float]:
    """Return the parameter `unfairness` as bounds by measure."""
    if not isinstance(unfairness, Mapping) or not unfairness:
        raise ValueError(
            "unfairness must map a measure to its bound, such as {'gdp': 0.01}, "
            f"got {unfairness!r}. None is no bound"
        )
    if unknown := [name for name in unfairness if name not in REPORTED]:
        raise ValueError(f"unfairness must name {', '.join(REPORTED)}, got {unknown[0]!r}")
    return {name: not_negative(f"unfairness of {name}", b) for name, b in unfairness.items()}


def inner_folds(n: int) -> list[tuple[IntArray, IntArray]]:
    """Return training rows and held-out rows of each fold; every row is held out once."""
    if n < _FEWEST_ROWS:
        raise ValueError(
            f"unfairness needs at least {_FEWEST_ROWS} training rows to choose a strength on "
            f"folds of them, got {n}. Set a strength instead"
        )
    return list(KFold(FOLDS, shuffle=True, random_state=0).split(np.empty(n)))


def choose_strength(
    bounds: Mapping[str, float], strengths: Sequence[float], scores: Array, y: Array, S: Array
) -> KeptBound:
    """Return the first strength at which every measure is within its bound.

    Measures are not monotone in the strength: a larger one may violate a bound again.

    Parameters
    ----------
    bounds
        Bounds by measure.
    strengths, scores
        Strengths in ascending order, scores of the held-out rows (n, strengths, c).
    y, S
        Target (n,), sensitive columns (n, l).
    """
    unit = float(np.ptp(y)) or 1.0
    found = {
        strength: {name: _largest(name, scores[:, i] / unit, y, S) for name in bounds}
        for i, strength in enumerate(strengths)
    }
    tried = {
        strength: {name: value for name, (value, _) in largest.items()}
        for strength, largest in found.items()
    }
    for strength, largest in found.items():
        if all(tried[strength][name] <= bound for name, bound in bounds.items()):
            values = {}
            for name, (_, columns) in largest.items():
                rng = np.random.default_rng(0)
                values[name] = interval(REPORTED[name], *columns, rng=rng, replicates=_REPLICATES)
            return KeptBound(strength, values, tried)
    raise ValueError(_unreachable_message(bounds, tried))


def _unreachable_message(
    bounds: Mapping[str, float], tried: Mapping[float, Mapping[str, float]]
) -> str:
    """Return an error message with the smallest value that any strength reaches."""
    least = {name: min(found[name] for found in tried.values()) for name in bounds}
    name = max(bounds, key=lambda name: least[name] - bounds[name])
    if least[name] <= bounds[name]:
        return (
            f"unfairness must have bounds that one strength satisfies, got {dict(bounds)}. Each "
            "is satisfied by some strength, but no strength satisfies all. Raise one of them"
        )
    return (
        f"unfairness of {name} must be at least {least[name]:.3g}, the smallest value of "
        f"{len(tried)} strengths up to {max(tried):g} on held-out rows, got {bounds[name]:g}. "
        "Raise it, change the basis, or allow a path more iterations"
    )


def _largest(name: str, scores: Array, y: Array, S: Array) -> tuple[float, tuple[Array, ...]]:
    """Return the largest value of a measure among scores and sensitive columns, and its columns."""
    measure = REPORTED[name]
    columns = [measure.columns(y, f, s) for f in scores.T for s in S.T]
    return max(((float(measure(*own)), own) for own in columns), key=itemgetter(0))
