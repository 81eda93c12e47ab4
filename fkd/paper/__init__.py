"""The algorithms of the paper as printed, and a reference in integer arithmetic."""

from fkd.paper.algorithm1 import algorithm_1
from fkd.paper.algorithm2 import (
    DualPath,
    DualRidge,
    DualWeights,
    KernelRows,
    chunked_dual_path,
    dual_ridge,
    nystroem_path,
)

__all__ = [
    "DualPath",
    "DualRidge",
    "DualWeights",
    "KernelRows",
    "algorithm_1",
    "chunked_dual_path",
    "dual_ridge",
    "nystroem_path",
]
