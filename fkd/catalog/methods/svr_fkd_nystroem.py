"""SVR-FKD whose removal uses the paper's Nystroem inverse (Algorithm 2)."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from fkd.catalog.methods import svr_fkd
from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.method_declaration import Method
from fkd.catalog.methods.nystroem_inverse import inverse_landmarks, removed_columns
from fkd.core.feature_maps import FeatureMap, KernelSettings
from fkd.core.predictors import Predictor
from fkd.core.removal import RemovalPath
from fkd.core.svr import SVRSetting, fit_svr
from fkd.core.training import KnownRemoval, Training
from fkd.paper.nystroem_removal import nystroem_path


@dataclass(frozen=True)
class Parameters:
    """Those of SVR-FKD, with the share of the rows that stand for all in the inverse."""

    iterations: int = number(0, at_least=0)
    fraction: float = number(0.25, above=0, at_most=1)
    gamma: float = number(0.05, above=0)
    C: float = number(0.75, above=0)
    epsilon: float = number(0.01, at_least=0)
    ridge: float = number(0.05, above=0)
    center_sensitive: bool = False


def _fit(training: Training, settings: Sequence[Parameters]) -> Iterator[Predictor]:
    """Yield the predictors as soon as each is fitted, settings of one fraction from one path."""
    for _, members in groupby(settings, key=_shared):
        group = list(members)
        kernel = KernelSettings(gamma=group[0].gamma)
        path = KnownRemoval(_path(training, training.feature_map(kernel), group))
        wanted = [SVRSetting(kernel, path, p.iterations, p.C, p.epsilon) for p in group]
        yield from (model.predictor for model in fit_svr(training, wanted))


def _shared(p: Parameters) -> Hashable:
    """Return the key of a path, which settings of any length share."""
    return ("nystroem inverse", p.gamma, p.ridge, p.fraction, p.center_sensitive)


def _path(training: Training, feature_map: FeatureMap, group: Sequence[Parameters]) -> RemovalPath:
    """Return the removal path with the approximate inverse, landmarks drawn once."""
    return nystroem_path(
        np.concatenate(list(feature_map.training_blocks(training.X))),
        removed_columns(training, group[0]),
        ridge=group[0].ridge,
        iterations=max(p.iterations for p in group),
        landmarks=inverse_landmarks(training, group[0]),
    )


METHOD = Method(
    name="svr_fkd_nystroem",
    title="SVR-FKD, Nystroem inverse",
    parameters=Parameters,
    fit=_fit,
    strength="iterations",
    shared=_shared,
    published=svr_fkd.METHOD.published,
)
