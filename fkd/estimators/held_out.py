"""What rows that took no part in a fit say of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import f as f_distribution
from scipy.stats import rankdata

from fkd.core.arrays import Array, IntArray
from fkd.core.validation import finite, warn_user

# Fewer rows than this say nothing about removal; more cost time without saying more.
FEWEST_ROWS = 100
MOST_ROWS = 2000
# Predictions with less than this share of the target's spread are a constant for all purposes.
_COLLAPSED = 0.01
# Dependence that keeps this share of its size was hardly removed, or not by much.
_HARDLY, _HALF = 0.9, 0.5
# Chance at which independent rows would be taken for dependent ones.
_CHANCE = 0.01
# Errors that differ by less, of a target with deviation one, do so by rounding.
_ROUNDING = 1e-6
_ROWS_PER_GROUP, _MOST_GROUPS = 20, 10


@dataclass(frozen=True)
class HeldOut:
    """A trial fit without some of the training rows, judged on these.

    Dependence is the square root of the share of the predictions' variance that groups of equally
    many rows along s explain, less what chance would explain; of several sensitive columns it is
    that of which most is to be told. Rows count by their weights in errors, once in
    a dependence.
    """

    rows: int
    dependence_before: float  # of the same machine with nothing removed
    dependence_after: float
    chance: float  # at which independent rows would show the dependence after
    error: float = 0.0  # mean loss of the model, the target in units of its deviation
    dummy_error: float = 0.0  # of the best constant
    noise: float = 0.0  # standard error of the difference of the two

    def tell(self, how_much: str = "", cure: str = "") -> None:
        """Warn where the model is not what its user may believe.

        Parameters
        ----------
        how_much, cure
            What was removed, what would remove more; nothing where nothing was.
        """
        found = _left_over(self.dependence_before, self.dependence_after)
        if how_much and self.chance < _CHANCE and found:
            warn_user(
                f"{found} on {self.rows} held-out rows: {self.dependence_before:.2f} before, "
                f"{self.dependence_after:.2f} {how_much}; use {cure}"
            )
        gap = self.error - self.dummy_error
        if gap > max(2 * self.noise, _ROUNDING * max(self.dummy_error, 1.0)):
            warn_user(
                f"the model is worse than a constant on {self.rows} held-out rows: its mean loss "
                f"is {self.error:.3g}, the constant's {self.dummy_error:.3g} (of a target with "
                "deviation one); check fit_intercept, gamma and the scale of the inputs"
            )


def _left_over(before: float, after: float) -> str:
    """Return what is to be said of the dependence that is left, nothing where it is little."""
    if _HARDLY * after > before:
        return "dependence on the sensitive features rose"
    if after > _HARDLY * before:
        return "dependence on the sensitive features did not fall"
    if after > _HALF * before:
        return "dependence on the sensitive features fell by less than half"
    return ""


def _worst(known: Sequence[float], left: Sequence[float], chances: Sequence[float]) -> int:
    """Return which of several dependences to tell of: the largest that is to be told, else any."""
    told = [
        c < _CHANCE and bool(_left_over(b, a)) for b, a, c in zip(known, left, chances, strict=True)
    ]
    return max(range(len(left)), key=lambda k: (told[k], left[k], known[k]))


def tell_collapse(spread: float, causes: str) -> None:
    """Warn of predictions of the training rows that are nearly one number.

    Parameters
    ----------
    spread
        Of the predictions, as a share of the target's.
    causes
        What the machine's user may look at.
    """
    if spread < _COLLAPSED:
        warn_user(
            f"the model has collapsed to nearly a constant: its predictions of the training rows "
            f"spread {spread:.1%} as far as the target; check {causes} and the scale of the "
            "inputs, or remove less"
        )


def sample_rows(n: int) -> IntArray:
    """Return rows that stand for all n, in order: at most as many as a trial looks at."""
    return np.sort(np.random.default_rng(0).permutation(n)[:MOST_ROWS])


def split_rows(n: int, share: float) -> tuple[IntArray, IntArray] | None:
    """Return rows to fit on with rows to hold out, None where these are too few.

    The same rows for the same n: whether a fit is told of something must not be a matter of luck.
    """
    if not 0 <= finite("held_out", share) < 1:
        raise ValueError(f"held_out must lie in [0, 1), got {share}; 0 skips the trial fit")
    if share == 0 or n < FEWEST_ROWS:
        return None
    order = np.random.default_rng(0).permutation(n)[:MOST_ROWS]
    held = max(1, round(share * len(order)))
    return np.sort(order[held:]), np.sort(order[:held])


def judge_scores(before: Array, after: Array, S: Array, losses: tuple[Array, Array]) -> HeldOut:
    """Return what held-out rows say of a machine.

    Parameters
    ----------
    before, after
        Scores by the machine without and with the removal, (k, c).
    S
        Sensitive columns, (k, l).
    losses
        Of the machine with the removal, of the best constant, (k,) each.
    """
    pairs = [(i, j) for i in range(after.shape[1]) for j in range(S.shape[1])]
    known = [dependence(before[:, i], S[:, j])[0] for i, j in pairs]
    left, chances = zip(*(dependence(after[:, i], S[:, j]) for i, j in pairs), strict=True)
    # One of many pairs looks dependent by chance more often.
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


def weighed_losses(model: Array, dummy: Array, w: Array | None) -> tuple[Array, Array]:
    """Return losses of rows of weights w, whose plain mean is their weighted one."""
    if w is None:
        return model, dummy
    share = w / w.mean(axis=0)
    return model * share, dummy * share


def judge_recovery(before: Array, after: Array, S: Array) -> HeldOut:
    """Return what held-out rows say of features, from guesses of S (k, l) by ridge regression."""
    total = ((S - S.mean(axis=0)) ** 2).sum(axis=0)
    known, left = (
        np.sqrt(np.maximum(1 - ((S - guess) ** 2).sum(axis=0) / total, 0.0))
        for guess in (before, after)
    )
    l = S.shape[1]
    chances = [min(1.0, l * dependence(after[:, j], S[:, j])[1]) for j in range(l)]
    j = _worst(known.tolist(), left.tolist(), chances)
    return HeldOut(len(S), float(known[j]), float(left[j]), chances[j])


def dependence(f: Array, s: Array) -> tuple[float, float]:
    """Return how strongly the mean of f differs along s, with the chance that it seems to.

    The square root of the share of the variance of f between groups of neighbouring s, less what
    chance would explain: the correlation ratio, adjusted as R² is.
    """
    # By the middle of tied ranks: equal s are in one group, whatever their code.
    share = (rankdata(s) - 0.5) / len(s)
    group = np.floor(share * _groups(len(s))).astype(np.intp)
    counts = np.bincount(group)
    sums = np.bincount(group, weights=f - f.mean(axis=0))[counts > 0]
    counts = counts[counts > 0]
    n, k = len(s), len(counts)
    total = float(((f - f.mean(axis=0)) ** 2).sum(axis=0))
    if k < 2 or n <= k or not total > 0:
        return 0.0, 1.0
    between = float((sums**2 / counts).sum(axis=0))
    within = max(total - between, 0.0) / (n - k)
    explained = 1 - within * (n - 1) / total
    ratio = (between / (k - 1)) / within if within > 0 else np.inf
    return float(np.sqrt(max(explained, 0.0))), float(f_distribution.sf(ratio, k - 1, n - k))


def _groups(n: int) -> int:
    """Return into how many groups n rows are divided."""
    return int(np.clip(n // _ROWS_PER_GROUP, 2, _MOST_GROUPS))
