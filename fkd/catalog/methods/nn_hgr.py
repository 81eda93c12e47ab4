"""A neural network that pays for an upper bound of HGR (NN-HGR, Mary et al. 2019)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fkd.catalog.methods.method_declaration import Method, Published
from fkd.catalog.methods.networks import NetworkParameters, fit_networks, network_cost, stack_key
from fkd.core.predictors import Perceptron
from fkd.core.training import Training
from fkd.rivals.network_penalties import hgr_penalty
from fkd.rivals.optional_packages import NEURAL

_CENSUS = Published(grid={"penalty": (0.0, 0.00625, 0.0125, 0.05)})
PUBLISHED = {
    "crimes": Published(grid={"penalty": (0.0, 0.025, 0.1, 0.2, 0.5)}),
    "acs_income": _CENSUS,
    "acs_travel_time": _CENSUS,
}


@dataclass(frozen=True)
class Parameters(NetworkParameters):
    """Those of any network."""


def fit_hgr(training: Training, settings: Sequence[NetworkParameters]) -> Iterator[Perceptron]:
    """Return networks that pay for the chi-squared of their output with S, batch by batch."""
    return fit_networks(training, settings, lambda _: hgr_penalty())


METHOD = Method(
    name="nn_hgr",
    title="NN-HGR",
    parameters=Parameters,
    fit=fit_hgr,
    strength="penalty",
    shared=stack_key,
    published=PUBLISHED,
    extra=NEURAL,
    cost=network_cost,
)
