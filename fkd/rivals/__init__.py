"""Other people's methods, to compare with."""

from fkd.rivals.input_transformers import LinearErasure, NullspaceProjection
from fkd.rivals.kernel_learning_regressor import FairKernelLearning
from fkd.rivals.network_regressors import FremNetwork, HgrNetwork
from fkd.rivals.residual_target import ResidualTargetRidge

__all__ = [
    "FairKernelLearning",
    "FremNetwork",
    "HgrNetwork",
    "LinearErasure",
    "NullspaceProjection",
    "ResidualTargetRidge",
]
