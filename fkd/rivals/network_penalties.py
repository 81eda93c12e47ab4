"""What the batches of the neural rivals pay for, without importing PyTorch before it is needed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fkd.rivals.neural.training import Penalty


def hgr_penalty() -> "Penalty":
    """Return chi-squared of the output with S, of Mary et al. (2019)."""
    from fkd.rivals.neural.penalties import chi2

    return lambda _, f, S: chi2(f, S)


def frem_penalty(bandwidth_s: float, bandwidth_z: float) -> "Penalty":
    """Return the integral probability metric of the hidden layer, of Kong et al. (2025)."""
    from fkd.rivals.neural.penalties import eipm

    return lambda Z, _, S: eipm(Z, S, bandwidth_s=bandwidth_s, bandwidth_z=bandwidth_z)
