"""The measures as scikit-learn scorers."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.metrics import make_scorer

from fkd.core.arrays import AnyArray
from fkd.measures.registry import Measure, get_measure


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
