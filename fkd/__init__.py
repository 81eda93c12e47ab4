"""Fair Kernel Decomposition."""

from fkd.cautions import FairnessWarning
from fkd.decomposition import FairKernelDecomposition
from fkd.discrete import one_hot
from fkd.gaussian_process import FairGaussianProcess
from fkd.kernel_ridge import FairKernelRidge
from fkd.svc import FairSVC
from fkd.svr import FairSVR

__all__ = [
    "FairGaussianProcess",
    "FairKernelDecomposition",
    "FairKernelRidge",
    "FairSVC",
    "FairSVR",
    "FairnessWarning",
    "one_hot",
]

__version__ = "0.1.0"
