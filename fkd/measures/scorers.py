"""The measures as scikit-learn scorers."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.metrics import make_scorer

from fkd.core.arrays import AnyArray, Array
from fkd.measures.gdp import gdp
from fkd.measures.gedi import gedi
from fkd.measures.hgr import chi2, hgr
from fkd.measures.pairwise import pairwise_fairness

OF_PREDICTION: dict[str, Callable[..., float | Array]] = {
    "chi2": chi2,
    "gdp": gdp,
    "gedi": gedi,
    "hgr": hgr,
}
NAMES = (*OF_PREDICTION, "pf")
_LONG = {"pairwise_fairness": "pf"}  # the name of the function, besides that of the measure


def scorer(measure: str, **options: Any) -> Any:
    """Return a scikit-learn scorer of minus the measure, taken on the worst sensitive column.

    It asks for `sensitive_features`, and for `sample_weight` where there is some, by metadata
    routing, so a search needs `sklearn.set_config(enable_metadata_routing=True)` with
    `search.fit(X, y, sensitive_features=S)`. Weights in the fit alone are had by
    `.set_score_request(sample_weight=False)`.

    Parameters
    ----------
    measure
        "hgr", "chi2", "gdp", "gedi" or "pf" ("pairwise_fairness" is the same).
    options
        Keywords of that measure, such as `estimator="plugin"`.

    Returns
    -------
    callable
        What `GridSearchCV(scoring=...)` or `cross_validate` takes; greater is fairer.

    Notes
    -----
    Classes that are words are compared as being of a class or not: of two classes it does not
    matter which one, of more than two the class counts of which the measure is largest.

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
    known = _LONG.get(measure, measure) if isinstance(measure, str) else measure
    if known not in NAMES:
        raise ValueError(f"measure must be one of {', '.join(NAMES)}, got {measure!r}")
    score = make_scorer(worst_column, greater_is_better=False, measure=known, **options)
    # Requests can only be set while routing is on; the caller's own setting stays as it is.
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
    options = {**options, "sample_weight": sample_weight}
    values = [
        _measured(measure, truth, prediction, sensitive_features, options)
        for truth, prediction in _as_numbers(np.asarray(y_true), np.asarray(y_pred), measure)
    ]
    return max(values)


def _measured(measure: str, y: Any, f: Any, S: Any, options: dict[str, Any]) -> float:
    """Return the largest value over the sensitive columns."""
    if measure == "pf":
        value = pairwise_fairness(y, f, S, **options)
    else:
        value = OF_PREDICTION[measure](f, S, **options)
    return float(np.max(value, axis=None))


def _as_numbers(y: AnyArray, f: AnyArray, measure: str) -> list[tuple[Any, Any]]:
    """Return truth with prediction as they are, or as indicators of classes that are words."""
    if f.dtype.kind not in "OUS":
        return [(y, f)]
    if f.ndim != 1 or y.shape != f.shape:
        raise ValueError(f"y_pred must be one class per row, got shape {f.shape}")
    classes = np.unique(np.concatenate([y.astype(str), f.astype(str)]))
    # Of two classes the second says all. A class that no row has leaves no pairs to compare.
    told = classes[-1:] if len(classes) <= 2 else classes
    found = [((y.astype(str) == c).astype(float), (f.astype(str) == c).astype(float)) for c in told]
    return [pair for pair in found if measure != "pf" or np.ptp(pair[0]) > 0] or found[:1]
