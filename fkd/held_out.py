"""What rows that took no part in a fit say of it."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import f as f_distribution

from fkd.arrays import Array, IntArray
from fkd.cautions import caution
from fkd.validation import finite

# Fewer rows than this say nothing about removal; more cost time without saying more.
FEWEST_ROWS = 100
MOST_ROWS = 2000
# Dependence that keeps this share of its size was hardly removed.
_HARDLY = 0.9
# Predictions with less than this share of the target's spread are a constant for all purposes.
_COLLAPSED = 0.01
# Chance at which independent rows would be taken for dependent ones.
_CHANCE = 0.01
_ROWS_PER_GROUP, _MOST_GROUPS = 20, 10


@dataclass(frozen=True)
class HeldOut:
    """A trial fit without some of the training rows, judged on these.

    Dependence is the square root of the share of the predictions' variance that groups of equally
    many rows along s explain, less what chance would explain, on the sensitive column where it is
    largest before the removal.
    """

    rows: int
    dependence_before: float  # of the same machine with nothing removed
    dependence_after: float
    chance: float  # at which independent rows would show the dependence before
    error: float = 0.0  # mean loss of the model, the target in units of its deviation
    dummy_error: float = 0.0  # of the best constant
    noise: float = 0.0  # standard error of the difference of the two
    spread: float = 1.0  # of the predictions, as a share of the target's

    @property
    def collapsed(self) -> bool:
        """Whether the predictions are nearly one number."""
        return self.spread < _COLLAPSED

    def tell(self, iterations: int) -> None:
        """Warn where the model is not what its user may believe."""
        if self.collapsed:
            caution(
                f"the model has collapsed to nearly a constant: its predictions of {self.rows} "
                f"held-out rows spread {self.spread:.1%} as far as the target; use fewer "
                "iterations, a smaller ridge or a weaker regularisation"
            )
        elif iterations and self.chance < _CHANCE and self._hardly_fell():
            caution(
                f"dependence on the sensitive features did not fall on {self.rows} held-out rows: "
                f"{self.dependence_before:.2f} before, {self.dependence_after:.2f} after "
                f"{iterations} iterations; use more iterations, a larger ridge or "
                "center_sensitive=True"
            )
        if self.error - self.dummy_error > 2 * self.noise:
            caution(
                f"the model is worse than a constant on {self.rows} held-out rows: its mean loss "
                f"is {self.error:.3g}, the constant's {self.dummy_error:.3g} (of a target with "
                "deviation one); check fit_intercept, gamma and the scale of the inputs"
            )

    def _hardly_fell(self) -> bool:
        return self.dependence_after > _HARDLY * self.dependence_before


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


def judge_scores(
    before: Array, after: Array, S: Array, losses: tuple[Array, Array], spread: float
) -> HeldOut:
    """Return what held-out rows say of a machine.

    Parameters
    ----------
    before, after
        Scores by the machine without and with the removal, (k, c).
    S
        Sensitive columns, (k, l).
    losses
        Of the machine with the removal, of the best constant, (k,) each.
    spread
        Of the predictions with the removal, as a share of the target's.
    """
    pairs = [(i, j) for i in range(before.shape[1]) for j in range(S.shape[1])]
    found = [dependence(before[:, i], S[:, j]) for i, j in pairs]
    value, chance = max(found)
    i, j = pairs[found.index((value, chance))]
    model, dummy = losses
    return HeldOut(
        rows=len(S),
        dependence_before=value,
        dependence_after=dependence(after[:, i], S[:, j])[0],
        chance=chance,
        error=float(model.mean(axis=0)),
        dummy_error=float(dummy.mean(axis=0)),
        noise=float((model - dummy).std(axis=0) / np.sqrt(len(S))),
        spread=spread,
    )


def judge_recovery(before: Array, after: Array, S: Array) -> HeldOut:
    """Return what held-out rows say of features, from guesses of S (k, l) by ridge regression."""
    total = ((S - S.mean(axis=0)) ** 2).sum(axis=0)
    R2 = [1 - ((S - guess) ** 2).sum(axis=0) / total for guess in (before, after)]
    j = int(R2[0].argmax(axis=0))
    known, left = (float(np.sqrt(max(0.0, r2[j]))) for r2 in R2)
    # Guesses of rows that took no part explain nothing but by chance where there is nothing.
    return HeldOut(len(S), known, left, chance=dependence(before[:, j], S[:, j])[1])


def dependence(f: Array, s: Array) -> tuple[float, float]:
    """Return how strongly the mean of f differs along s, with the chance that it seems to.

    The square root of the share of the variance of f between groups of neighbouring s, less what
    chance would explain: the correlation ratio, adjusted as R² is.
    """
    edges = np.quantile(s, np.linspace(0, 1, _groups(len(s)) + 1)[1:-1])
    group = np.searchsorted(np.unique(edges), s, side="right")
    counts = np.bincount(group)
    sums = np.bincount(group, weights=f - f.mean(axis=0))[counts > 0]
    counts = counts[counts > 0]
    n, k = len(s), len(counts)
    total = float(((f - f.mean(axis=0)) ** 2).sum(axis=0))
    if k < 2 or n <= k or not total > 0:
        return 0.0, 1.0
    between = float((sums**2 / counts).sum(axis=0))
    within = max(total - between, 0.0) / (n - k)
    share = 1 - within * (n - 1) / total
    ratio = (between / (k - 1)) / within if within > 0 else np.inf
    return float(np.sqrt(max(share, 0.0))), float(f_distribution.sf(ratio, k - 1, n - k))


def _groups(n: int) -> int:
    """Return into how many groups n rows are divided."""
    return int(np.clip(n // _ROWS_PER_GROUP, 2, _MOST_GROUPS))
