"""Fair Kernel Decomposition."""

import fkd.alone  # first: refuses a package that two distributions have written  # noqa: F401
from fkd.core.sensitive_basis import one_hot
from fkd.core.validation import FairnessWarning
from fkd.estimators.gaussian_process import FairGaussianProcess
from fkd.estimators.ridge import FairKernelRidge
from fkd.estimators.svc import FairSVC
from fkd.estimators.svr import FairSVR
from fkd.estimators.transformers import FairKernelDecomposition, FairKernelShrinkage
from fkd.measures.auditing import Audit, audit

__all__ = [
    "Audit",
    "FairGaussianProcess",
    "FairKernelDecomposition",
    "FairKernelRidge",
    "FairKernelShrinkage",
    "FairSVC",
    "FairSVR",
    "FairnessWarning",
    "audit",
    "one_hot",
]

__version__ = "0.3.0"
