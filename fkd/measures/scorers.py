"""The measures as scikit-learn scorers."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.metrics import make_scorer

from fkd.core.arrays import Array
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
NAMES = (*OF_PREDICTION, "pairwise_fairness")


def scorer(measure: str, **options: Any) -> Any:
    """Return a scikit-learn scorer of minus the measure, taken on the worst sensitive column.

    It asks for `sensitive_features` by metadata routing, so a search needs
    `sklearn.set_config(enable_metadata_routing=True)` with
    `search.fit(X, y, sensitive_features=S)`.

    Parameters
    ----------
    measure
        "hgr", "chi2", "gdp", "gedi" or "pairwise_fairness".
    options
        Keywords of that measure, such as `estimator="plugin"`.

    Returns
    -------
    callable
        What `GridSearchCV(scoring=...)` or `cross_validate` takes; greater is fairer.
    """
    if measure not in NAMES:
        raise ValueError(f"measure must be one of {', '.join(NAMES)}, got {measure!r}")
    score = make_scorer(worst_column, greater_is_better=False, measure=measure, **options)
    # Requests can only be set while routing is on; the caller's own setting stays as it is.
    with config_context(enable_metadata_routing=True):
        return score.set_score_request(sensitive_features=True)


def worst_column(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    measure: str,
    sensitive_features: ArrayLike | None = None,
    **options: Any,
) -> float:
    """Return the largest value of the named measure over the sensitive columns."""
    if sensitive_features is None:
        raise TypeError(
            "sensitive_features is missing: call sklearn.set_config(enable_metadata_routing=True), "
            "then pass sensitive_features=... to fit or score"
        )
    if measure == "pairwise_fairness":
        value = pairwise_fairness(y_true, y_pred, sensitive_features, **options)
    else:
        value = OF_PREDICTION[measure](y_pred, sensitive_features, **options)
    return float(np.max(value, axis=None))
