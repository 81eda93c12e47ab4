"""Fair Kernel Decomposition."""

from fkd.decomposition import FairKernelDecomposition
from fkd.kernel_ridge import FairKernelRidge
from fkd.svr import FairSVR

__all__ = ["FairKernelDecomposition", "FairKernelRidge", "FairSVR"]

__version__ = "0.1.0"
