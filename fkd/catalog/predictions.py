"""Predictions of several models on the same rows."""

from collections.abc import Sequence

import numpy as np

from fkd.core.arrays import BLOCK_ROWS, Array, Rows, row_blocks
from fkd.core.kernels import Kernel, KernelColumns
from fkd.core.predictors import KernelExpansion, Predictor


def predict_all(predictors: Sequence[Predictor], X: Rows) -> list[Array]:
    """Return each model's predictions, the same bits that its own `predict` gives.

    Models on the same centres read each kernel block once: it costs as much as hundreds of them.
    """
    alike: dict[object, list[int]] = {}
    for i, predictor in enumerate(predictors):
        alike.setdefault(_kernel_key(predictor, i), []).append(i)
    found: dict[int, Array] = {}
    for members in alike.values():
        if len(members) == 1:
            found[members[0]] = predictors[members[0]].predict(X)
        else:
            found.update(
                zip(members, _expansions([predictors[i] for i in members], X), strict=True)
            )
    return [found[i] for i in range(len(predictors))]


def _kernel_key(predictor: Predictor, i: int) -> object:
    """Return what models must have in common to share kernel blocks."""
    if type(predictor) is not KernelExpansion:
        return i
    p = predictor
    return p.kernel, p.gamma, p.degree, p.coef0, id(p.centers)


def _expansions(predictors: Sequence[Predictor], X: Rows) -> list[Array]:
    """Return the predictions of kernel expansions on one set of centres."""
    group = [p for p in predictors if isinstance(p, KernelExpansion)]
    first = group[0]
    k = Kernel(first.kernel, first.gamma, first.degree, first.coef0)
    columns, n = KernelColumns(k, first.centers), X.shape[0]
    out = np.empty((len(group), n))
    for rows in row_blocks(n, BLOCK_ROWS):
        K = columns(X[rows])
        for values, p in zip(out, group, strict=True):
            # One product per model: a product with several columns would round by their number.
            values[rows] = K @ p.coef
    return [values + p.intercept for values, p in zip(out, group, strict=True)]
