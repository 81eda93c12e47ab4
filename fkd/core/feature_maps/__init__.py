"""Feature maps of kernels."""

from fkd.core.feature_maps.feature_map import FeatureMap
from fkd.core.feature_maps.fourier import FourierMap
from fkd.core.feature_maps.identity import IdentityMap
from fkd.core.feature_maps.landmark_maps import ExactMap, NystroemMap
from fkd.core.feature_maps.make import make_map

__all__ = ["ExactMap", "FeatureMap", "FourierMap", "IdentityMap", "NystroemMap", "make_map"]
