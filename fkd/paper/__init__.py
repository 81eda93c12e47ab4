"""The paper as printed, with arithmetic to check it by."""

from fkd.paper.kernel_tiles import KernelRows, chunked_dual_path, nystroem_dual_path
from fkd.paper.nystroem_removal import DualPath, nystroem_path, nystroem_weights
from fkd.paper.printed import algorithm_1, recursion
from fkd.paper.ridge_in_passes import DualRidge, DualWeights, dual_ridge

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
