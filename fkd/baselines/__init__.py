"""Methods of other authors as scikit-learn estimators, for comparison."""

from fkd.baselines.erasure import LinearErasure, NullspaceProjection
from fkd.baselines.fkl import FairKernelLearning
from fkd.baselines.networks import FremNetwork, HgrNetwork
from fkd.baselines.residual import ResidualTargetRidge

__all__ = [
    "FairKernelLearning",
    "FremNetwork",
    "HgrNetwork",
    "LinearErasure",
    "NullspaceProjection",
    "ResidualTargetRidge",
]
