"""How predictions do on new rows beside an earlier sample: error, dependence, curves."""

import warnings
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fkd.core.arrays import Array
from fkd.core.cautions import FairnessWarning
from fkd.measures.bootstrap import check_draws
from fkd.measures.change_values import CurveChange, NumberChange, SampleChanges
from fkd.measures.exchanged_curves import ExchangedCurves
from fkd.measures.exchanged_rows import ERROR_RANK, ExchangedRows, Sample
from fkd.measures.permuted_bands import permuted_bands
from fkd.measures.profiles import ABSOLUTE, ERROR, PREDICTION


def sample_changes(
    before: Sample,
    after: Sample,
    *,
    rng: np.random.Generator,
    names: Sequence[str] = (),
    sensitive_range: ArrayLike | None = None,
    permutations: int = 199,
    level: float = 0.95,
    most_rows: int = 20_000,
) -> SampleChanges:
    """Return what changed between two samples of rows that one model predicts.

    Mean absolute and mean signed error, rank of the signed error, HGR, GDP and PF of every
    sensitive column, mean prediction, signed and absolute error and that rank along it, all under
    one band. Ranks are among all rows of both samples, as shares: their difference is the chance
    that a later row has the greater error than an earlier one, less a half. The band comes from
    exchanging rows between the samples: if both are drawn from one distribution, something is
    called a change in at most a share 1 - level of cases, whatever that distribution is and however
    many quantities there are.
    Rows must be independent of each other, and none of them may have trained the model.

    Parameters
    ----------
    before, after
        Truth (n,), prediction (n,), sensitive columns (n,) or (n, l), at least 30 rows each.
    rng
        Source of the exchanges.
    names
        What the sensitive columns are called; their numbers if not said.
    sensitive_range
        Least and greatest value (l, 2), the unit of s for GDP; by default of all these rows.
    permutations
        How often rows are exchanged; 199 make a level of 0.95 exact.
    level
        Share of samples of one distribution in which nothing is called a change, in (0, 1).
    most_rows
        Of a larger sample so many rows are drawn.

    Returns
    -------
    SampleChanges
        Numbers, curves, the chance of the greatest change.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import sample_changes
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(18, 80, size=600)
    >>> wage = age + rng.normal(size=600)
    >>> then, now = slice(0, 300), slice(300, 600)
    >>> found = sample_changes(
    ...     (wage[then], age[then], age[then]),
    ...     (wage[now] + 3 * (age[now] > 60), age[now], age[now]),
    ...     rng=rng,
    ...     permutations=39,
    ... )
    >>> error = next(curve for curve in found.curves if curve.quantity == "error")
    >>> bool(found.crossed and error.points[error.crossed].min() > 50)
    True
    """
    check_draws(permutations, level)
    if (permutations + 1) * (1 - level) < 1:
        fewest = int(np.ceil(1 / (1 - level))) - 1
        raise ValueError(
            f"permutations must be at least {fewest} for a band of level {level:g}, got "
            f"{permutations}"
        )
    rows = ExchangedRows.of(before, after, rng, most_rows, sensitive_range, tuple(names))
    divisions = _divisions(rows.n_before, len(rows.y), permutations, rng)
    curves = [ExchangedCurves.of(rows.columns, s, divisions) for s in rows.S.T]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairnessWarning)
        sides = np.array([[rows.numbers(side) for side in (d, ~d)] for d in divisions])
    sides = np.concatenate([sides, *(curve.flat for curve in curves)], axis=2)
    differences = sides[:, 1] - sides[:, 0]
    size = np.nan_to_num(np.abs(sides[0])).max(axis=0)
    bands = permuted_bands(differences[0], differences[1:], size, level)
    told = np.column_stack([*sides[0], bands.change, bands.low, bands.high])
    k = len(rows.labels)
    numbers = tuple(
        NumberChange(*label, *_five(line), bool(outside))
        for label, line, outside in zip(rows.labels, told[:k], bands.outside[:k], strict=True)
        if np.isfinite(line).all()
    )
    return SampleChanges(
        numbers,
        tuple(_curve_changes(rows.names, curves, told[k:], bands.outside[k:])),
        bands.chance,
        (rows.n_before, len(rows.y) - rows.n_before),
        level,
    )


def _five(line: Array) -> tuple[float, float, float, float, float]:
    """Return before, after, change, low, high as plain numbers."""
    before, after, change, low, high = line.tolist()
    return before, after, change, low, high


def _divisions(
    n_before: int, n: int, permutations: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Return which rows are on the first side, (r + 1, n): the true division before the others."""
    divisions = np.zeros((permutations + 1, n), dtype=bool)
    divisions[0, :n_before] = True
    for division in divisions[1:]:
        division[rng.permutation(n)[:n_before]] = True
    return divisions


def _curve_changes(
    names: Sequence[str],
    curves: Sequence[ExchangedCurves],
    told: Array,
    outside: NDArray[np.bool_],
) -> Iterator[CurveChange]:
    """Yield the curves of every column, whose points follow each other in what is told."""
    start = 0
    for name, curve in zip(names, curves, strict=True):
        for quantity in (PREDICTION, ERROR, ABSOLUTE, ERROR_RANK):
            part = slice(start, start + len(curve.points))
            before, after, change, low, high = told[part].T
            yield CurveChange(
                quantity, name, curve.points, before, after, change, low, high, outside[part]
            )
            start = part.stop
