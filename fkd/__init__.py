"""Fair Kernel Decomposition."""

import fkd.alone  # first: refuses a package that two distributions have written  # noqa: F401
from fkd.core.validation import FairnessWarning
from fkd.estimators.decomposition import FairKernelDecomposition
from fkd.estimators.discrete import one_hot
from fkd.estimators.gaussian_process import FairGaussianProcess
from fkd.estimators.kernel_ridge import FairKernelRidge
from fkd.estimators.kernel_shrinkage import FairKernelShrinkage
from fkd.estimators.support_vector_classification import FairSVC
from fkd.estimators.support_vector_regression import FairSVR
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
