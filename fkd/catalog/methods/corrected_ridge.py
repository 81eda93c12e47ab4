"""Kernel ridge regression on corrected inputs."""

from collections.abc import Iterator, Sequence

import numpy as np

from fkd.catalog.methods.plain_ridge import OnRidge, plain_ridge
from fkd.core.predictors import CorrectedExpansion, LinearCorrection
from fkd.core.training import Training


def corrected_ridges(
    training: Training, correction: LinearCorrection, settings: Sequence[OnRidge]
) -> Iterator[CorrectedExpansion]:
    """Yield one ridge regression per setting, each on the corrected inputs.

    A correction that looks at more columns than there are inputs looks at the sensitive ones, which
    stand behind the inputs.
    """
    wide = len(correction.mean) > training.X.shape[1]
    rows = np.hstack([training.X, training.S]) if wide else training.X
    corrected = Training(correction(rows), training.y, training.S, training.seed)
    for p in settings:
        inner = plain_ridge(corrected, p)
        yield CorrectedExpansion(inner, correction)
