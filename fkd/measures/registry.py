"""The measures of dependence, one declaration each.

Scorers, displays, bounds, audits, the drift check and intervals use these declarations. To add a
measure to the library, write its function and declare it here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from fkd.core.arrays import Array
from fkd.core.validation import choice
from fkd.measures.binned import BINNED_OPTIONS, BinnedRows
from fkd.measures.gdp import gdp
from fkd.measures.gedi import gedi
from fkd.measures.hgr import chi2, hgr
from fkd.measures.pairwise import pairwise_fairness


@dataclass(frozen=True)
class Measure:
    """A measure of dependence between predictions and one sensitive column.

    Calling it evaluates its function with its options: ``measure(*measure.columns(y, f, s))``.

    Parameters
    ----------
    name
        Short name, used in results, limits, configurations and for scorers.
    function
        Function of (y_pred, sensitive_features), or of (y_true, y_pred, sensitive_features) if
        `needs_truth`, with the keyword `sample_weight`.
    title
        Name for tables and figures.
    unit
        Unit of the values.
    family
        "independence" compares predictions with s, "separation" given the truth.
    range
        Smallest and largest possible value.
    direction
        "lower" if small values are fair.
    needs_truth
        Whether the first argument is the truth.
    interval
        How the measure is evaluated on subsamples for its interval: "rows" calls the function,
        "binned" counts rows in cells if there are many, "pairs" counts pairs of all subsamples at
        once.
    binned
        The measure of binned rows, a function of `BinnedRows` with the same options.
    options
        Keywords of the function.
    scaled_options
        Keywords that are added if s is already in units of a declared range.
    reported
        Whether runs and audits report it.

    Examples
    --------
    >>> import numpy as np
    >>> from fkd.measures import MEASURES
    >>> s = np.linspace(0, 1, 50)
    >>> gdp = MEASURES["gdp"]
    >>> bool(gdp(2 * s, s) > 0.1), gdp.needs_truth
    (True, False)
    """

    name: str
    function: Callable[..., float | Array]
    title: str
    unit: str
    family: Literal["independence", "separation"]
    range: tuple[float, float]
    direction: Literal["lower", "higher"] = "lower"
    needs_truth: bool = False
    interval: Literal["rows", "binned", "pairs"] = "rows"
    binned: Callable[..., float] | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    scaled_options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    reported: bool = True

    def __call__(self, *columns: Any, **keywords: Any) -> float | Array:
        """Return the measure of (y_pred, s), or of (y_true, y_pred, s) if it needs the truth."""
        return self.function(*columns, **self.options, **keywords)

    def columns(self, y_true: Any, y_pred: Any, sensitive: Any) -> tuple[Any, ...]:
        """Return the positional arguments of the measure."""
        return (y_true, y_pred, sensitive) if self.needs_truth else (y_pred, sensitive)

    @property
    def can_bin(self) -> bool:
        """Whether the measure with its options can be computed from binned rows."""
        return self.binned is not None and all(
            value in BINNED_OPTIONS.get(name, ()) for name, value in self.options.items()
        )

    def of_bins(self, rows: BinnedRows) -> float:
        """Return the measure of binned rows."""
        assert self.binned is not None
        return self.binned(rows, **self.options)

    def scaled(self) -> "Measure":
        """Return the measure for sensitive columns in units of a declared range."""
        return replace(self, options={**self.options, **self.scaled_options})


_DECLARED = (
    Measure(
        "hgr",
        hgr,
        title="HGR",
        unit="correlation",
        family="independence",
        range=(0.0, 1.0),
        interval="binned",
        binned=BinnedRows.hgr,
        scaled_options={"margins": "standard"},
    ),
    # The published grid estimator. It is biased upwards for few rows.
    Measure(
        "gdp",
        gdp,
        title="GDP",
        unit="unit of the prediction",
        family="independence",
        range=(0.0, np.inf),
        interval="binned",
        binned=BinnedRows.gdp,
        scaled_options={"margins": "given"},
    ),
    Measure(
        "pf",
        pairwise_fairness,
        title="pairwise fairness",
        unit="difference of two probabilities",
        family="separation",
        range=(0.0, 1.0),
        needs_truth=True,
        interval="pairs",
    ),
    Measure(
        "gdp_plugin",
        gdp,
        title="GDP (plug-in)",
        unit="unit of the prediction",
        family="independence",
        range=(0.0, np.inf),
        interval="binned",
        binned=BinnedRows.gdp,
        options={"estimator": "plugin"},
        scaled_options={"margins": "given"},
        reported=False,
    ),
    Measure(
        "chi2",
        chi2,
        title="χ²",
        unit="none",
        family="independence",
        range=(0.0, np.inf),
        scaled_options={"margins": "standard"},
        reported=False,
    ),
    Measure(
        "gedi",
        gedi,
        title="GeDI",
        unit="unit of the prediction per unit of s",
        family="independence",
        range=(0.0, np.inf),
        reported=False,
    ),
)

MEASURES: dict[str, Measure] = {measure.name: measure for measure in _DECLARED}
REPORTED: dict[str, Measure] = {name: m for name, m in MEASURES.items() if m.reported}


def get_measure(name: str | Measure) -> Measure:
    """Return the declared measure of this name."""
    if isinstance(name, Measure):
        return name
    known = {"pairwise_fairness": "pf"}.get(name, name)
    return MEASURES[choice("measure", known, tuple(MEASURES))]
