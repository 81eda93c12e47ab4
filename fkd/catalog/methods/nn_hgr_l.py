"""NN-HGR with wider layers (NN-HGR-L)."""

from dataclasses import dataclass

from fkd.catalog.methods.bounds import number
from fkd.catalog.methods.method_declaration import Method
from fkd.catalog.methods.networks import NetworkParameters, network_cost, stack_key
from fkd.catalog.methods.nn_hgr import PUBLISHED, fit_hgr
from fkd.rivals.optional_packages import NEURAL


@dataclass(frozen=True)
class Parameters(NetworkParameters):
    """Those of any network, with larger widths."""

    first_width: int = number(250, at_least=1)
    second_width: int = number(230, at_least=1)


METHOD = Method(
    name="nn_hgr_l",
    title="NN-HGR-L",
    parameters=Parameters,
    fit=fit_hgr,
    strength="penalty",
    shared=stack_key,
    published=PUBLISHED,
    extra=NEURAL,
    cost=network_cost,
)
