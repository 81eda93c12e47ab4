"""The measures of dependence, one declaration each, and scorers of them for scikit-learn.

Scorers, displays, bounds, audits, the drift check and intervals use these declarations. To add a
measure to the library, write its function and declare it here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.metrics import make_scorer

from fkd.core.arrays import AnyArray, Array
from fkd.core.validation import choice
from fkd.measures.binned import BINNED_OPTIONS, BinnedRows
from fkd.measures.dcor import dcor, dcor_of_bins
from fkd.measures.gdp import gdp
from fkd.measures.gedi import gedi
from fkd.measures.hgr import chi2, hgr
from fkd.measures.pairwise import PairwiseRows, pairwise_fairness


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
    label
        Short form for tables and figures.
    title
        Full name.
    meaning
        One sentence for readers of a report.
    unit
        Unit of the values: "prediction" if they are in units of the prediction.
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
    group_options
        Keywords that are added within a group of rows.
    prepare
        Function of (y_true, sensitive_features, sample_weight) that returns a function of y_pred,
        if work can be shared by several predictions of the same rows.
    reported
        Whether runs and audits report it, and configurations may limit it.
    noise_floor
        Whether runs and audits report its value on shuffled rows.
    decimals
        Decimals in tables.
    undefined
        Why the measure may be undefined, empty if it never is.
    version
        Increase it if the measure changes its value on the same rows. Runs then measure stored
        predictions again.

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
    label: str
    title: str
    meaning: str
    unit: str
    family: Literal["independence", "separation"]
    range: tuple[float, float]
    direction: Literal["lower", "higher"] = "lower"
    needs_truth: bool = False
    interval: Literal["rows", "binned", "pairs"] = "rows"
    binned: Callable[..., float] | None = None
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    scaled_options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    group_options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    prepare: Callable[[Array, Array, Array | None], Callable[[Array], float | Array]] | None = None
    reported: bool = True
    noise_floor: bool = False
    decimals: int = 3
    undefined: str = ""
    version: int = 1

    def __post_init__(self) -> None:
        # Limits are upper bounds, and intervals are cut at 0.
        if self.reported and (self.range[0] != 0 or self.direction != "lower"):
            raise ValueError(
                f"the range of the reported measure {self.name} must begin at 0, and small values "
                f"must be fair, got {self.range} and direction {self.direction!r}. Return the "
                "absolute value"
            )

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

    def within_groups(self) -> "Measure":
        """Return the measure for the rows of a group, whose attribute may span a short range."""
        return replace(self, options={**self.options, **self.group_options})

    def on_rows(
        self, y_true: Array, sensitive: Array, sample_weight: Array | None = None
    ) -> Callable[[Array], float]:
        """Return the measure as a function of the prediction of these rows."""
        if self.prepare is not None:
            prepared = self.prepare(y_true, sensitive, sample_weight)
            return lambda y_pred: float(prepared(y_pred))

        def value(y_pred: Array) -> float:
            columns = self.columns(y_true, y_pred, sensitive)
            return float(self(*columns, sample_weight=sample_weight))

        return value


_DECLARED = (
    Measure(
        "hgr",
        hgr,
        label="HGR",
        title="maximal correlation",
        meaning="The strongest correlation that any reshaping of prediction and attribute can "
        "reach: 0 means independent, 1 means that one determines the other.",
        unit="correlation",
        family="independence",
        range=(0.0, 1.0),
        interval="binned",
        binned=BinnedRows.hgr,
        scaled_options={"margins": "standard"},
        group_options={"margins": "standard"},
        noise_floor=True,
    ),
    # The published grid estimator. It is biased upwards for few rows.
    Measure(
        "gdp",
        gdp,
        label="GDP",
        title="generalised demographic parity",
        meaning="How far the average prediction at one value of the attribute lies from the "
        "overall average, averaged over the attribute; on the scale of the target.",
        unit="prediction",
        family="independence",
        range=(0.0, np.inf),
        interval="binned",
        binned=BinnedRows.gdp,
        scaled_options={"margins": "given"},
        # A window in units of the whole range would span a narrow group and hide dependence there.
        group_options={"margins": "range"},
        decimals=4,
    ),
    Measure(
        "pf",
        pairwise_fairness,
        label="PF",
        title="pairwise fairness",
        meaning="Of two cases with different true values, how much the chance to be ranked "
        "correctly depends on which of the two has more of the attribute: 0 means not at all.",
        unit="difference of two probabilities",
        family="separation",
        range=(0.0, 1.0),
        needs_truth=True,
        interval="pairs",
        prepare=lambda y, s, w: PairwiseRows(y, s, sample_weight=w).fairness,
        undefined="too few pairs of rows differ in target and sensitive column in both directions",
    ),
    Measure(
        "gdp_plugin",
        gdp,
        label="GDP (plug-in)",
        title="demographic parity at the sample points",
        meaning="GDP with a bandwidth that follows the spread of the attribute, as a check on GDP.",
        unit="prediction",
        family="independence",
        range=(0.0, np.inf),
        interval="binned",
        binned=BinnedRows.gdp,
        options={"estimator": "plugin"},
        scaled_options={"margins": "given"},
        reported=False,
        decimals=4,
    ),
    Measure(
        "chi2",
        chi2,
        label="χ²",
        title="chi-squared divergence",
        meaning="The divergence of the joint distribution from the product of its margins.",
        unit="none",
        family="independence",
        range=(0.0, np.inf),
        scaled_options={"margins": "standard"},
        reported=False,
    ),
    Measure(
        "dcor",
        dcor,
        label="dCor",
        title="distance correlation",
        meaning="How well distances between predictions follow distances in the attribute: "
        "0 means independent, 1 means that one is a straight line in the other.",
        unit="correlation",
        family="independence",
        range=(0.0, 1.0),
        interval="binned",
        binned=dcor_of_bins,
        noise_floor=True,
        reported=False,
    ),
    Measure(
        "gedi",
        gedi,
        label="GeDI",
        title="generalised disparate impact",
        meaning="The slope of the straight line that predicts the prediction from the attribute.",
        unit="prediction per unit of s",
        family="independence",
        range=(0.0, np.inf),
        reported=False,
        decimals=4,
    ),
)

MEASURES: dict[str, Measure] = {measure.name: measure for measure in _DECLARED}
REPORTED: dict[str, Measure] = {name: m for name, m in MEASURES.items() if m.reported}
# The measure that the leaking function attains.
LEAKING = "hgr"


def get_measure(name: str | Measure) -> Measure:
    """Return the declared measure of this name."""
    if isinstance(name, Measure):
        return name
    known = {"pairwise_fairness": "pf"}.get(name, name)
    return MEASURES[choice("measure", known, tuple(MEASURES))]


def scorer(measure: str, **options: Any) -> Any:
    """Return a scikit-learn scorer of minus the measure on the worst sensitive column.

    The scorer requests `sensitive_features` and `sample_weight` by metadata routing: call
    `sklearn.set_config(enable_metadata_routing=True)` and
    `search.fit(X, y, sensitive_features=S)`. To use weights only for fitting, call
    `.set_score_request(sample_weight=False)`.

    Parameters
    ----------
    measure
        Name of a declared measure: "hgr", "gdp", "pf" (or "pairwise_fairness"), "gdp_plugin",
        "chi2" or "gedi".
    options
        Keywords of that measure, such as `estimator="plugin"`.

    Returns
    -------
    callable
        A value for `GridSearchCV(scoring=...)` or `cross_validate`. Greater is fairer.

    Notes
    -----
    Text labels are converted to indicators of one class. With two classes the choice does not
    matter. With more, the class with the largest value counts.

    Examples
    --------
    >>> import numpy as np
    >>> import sklearn
    >>> from sklearn.linear_model import Ridge
    >>> from fkd.measures import scorer
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> model = Ridge().fit(X, X[:, 0])
    >>> fairness = scorer("pf")
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     value = fairness(model, X, X[:, 0], sensitive_features=X[:, 1])
    >>> bool(-0.2 < value <= 0)
    True
    """
    known = get_measure(measure).name
    score = make_scorer(worst_column, greater_is_better=False, measure=known, **options)
    # Requests can only be set while routing is enabled. The caller's setting is restored.
    with config_context(enable_metadata_routing=True):
        return score.set_score_request(sensitive_features=True, sample_weight=True)


def worst_column(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    measure: str,
    sensitive_features: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    **options: Any,
) -> float:
    """Return the largest value of the named measure over the sensitive columns."""
    if sensitive_features is None:
        raise TypeError(
            "sensitive_features is missing: call sklearn.set_config(enable_metadata_routing=True), "
            "then pass sensitive_features=... to fit or score"
        )
    declared = get_measure(measure)
    options = {**declared.options, **options, "sample_weight": sample_weight}
    values = [
        declared.function(*declared.columns(truth, prediction, sensitive_features), **options)
        for truth, prediction in _as_numbers(np.asarray(y_true), np.asarray(y_pred), declared)
    ]
    return max(float(np.max(value, axis=None)) for value in values)


def _as_numbers(y: AnyArray, f: AnyArray, measure: Measure) -> list[tuple[Any, Any]]:
    """Return truth and prediction, with text labels as indicators of one class each."""
    if f.dtype.kind not in "OUS":
        return [(y, f)]
    if f.ndim != 1 or y.shape != f.shape:
        raise ValueError(f"y_pred must be one class per row, got shape {f.shape}")
    classes = np.unique(np.concatenate([y.astype(str), f.astype(str)]))
    # Of two classes the second is enough. A class without true rows has no pairs to compare.
    compared = classes[-1:] if len(classes) <= 2 else classes
    found = [
        ((y.astype(str) == c).astype(float), (f.astype(str) == c).astype(float)) for c in compared
    ]
    return [pair for pair in found if not measure.needs_truth or np.ptp(pair[0]) > 0] or found[:1]
