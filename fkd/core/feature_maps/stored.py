"""Reduced feature maps as plain arrays."""

from collections.abc import Mapping

import numpy as np

from fkd.core.arrays import AnyArray
from fkd.core.feature_maps.feature_map import FeatureMap
from fkd.core.feature_maps.fourier import FourierMap
from fkd.core.feature_maps.landmark_maps import NystroemMap
from fkd.core.kernels import Kernel


def map_arrays(feature_map: FeatureMap) -> dict[str, AnyArray]:
    """Return the arrays from which `map_from_arrays` makes the same map, bit by bit.

    A map that is made again elsewhere can differ by rounding, hence in its landmarks; moments of
    two maps must never be added.
    """
    if isinstance(feature_map, FourierMap):
        return {"frequencies": feature_map.frequencies, "phases": feature_map.phases}
    if isinstance(feature_map, NystroemMap) and not callable(feature_map.kernel.name):
        k = feature_map.kernel
        return {
            "kernel": np.array(k.name),
            "numbers": np.array([k.gamma, k.degree, k.coef0]),
            "centers": feature_map.centers,
            "factor": feature_map.factor,
        }
    raise ValueError(
        "only Nystroem maps of named kernels or Fourier maps can be stored, "
        f"got {type(feature_map).__name__}; name another approximation"
    )


def map_from_arrays(arrays: Mapping[str, AnyArray]) -> FeatureMap:
    """Return the map whose `map_arrays` these are."""
    if "phases" in arrays:
        return FourierMap(arrays["frequencies"], arrays["phases"])
    gamma, degree, coef0 = arrays["numbers"].tolist()
    kernel = Kernel(str(arrays["kernel"]), gamma, int(degree), coef0)
    # The triangular solves read Fortran order without a copy.
    return NystroemMap(kernel, arrays["centers"], np.asfortranarray(arrays["factor"]))
