"""The paper as printed, with arithmetic to check it by."""

from fkd.paper.algorithm1 import algorithm_1, recursion
from fkd.paper.algorithm2 import (
    DualPath,
    DualRidge,
    DualWeights,
    KernelRows,
    chunked_dual_path,
    dual_ridge,
    nystroem_dual_path,
    nystroem_path,
    nystroem_weights,
)

__all__ = [
    "DualPath",
    "DualRidge",
    "DualWeights",
    "KernelRows",
    "algorithm_1",
    "chunked_dual_path",
    "dual_ridge",
    "nystroem_dual_path",
    "nystroem_path",
    "nystroem_weights",
    "recursion",
]
