"""Measures of dependence between predictions and a continuous sensitive attribute."""

from fkd.measures.binned import BinnedRows
from fkd.measures.columns import Nodes, survey_weights
from fkd.measures.drift import CurveChange, NumberChange, SampleChanges, sample_changes
from fkd.measures.frame import MeasuredGroup, MeasureFrame
from fkd.measures.gdp import gdp
from fkd.measures.gedi import gedi
from fkd.measures.groups import (
    GroupMeans,
    StratifiedValue,
    Stratum,
    by_stratum,
    means_by_pair,
    means_by_quantile,
)
from fkd.measures.hgr import LeakingFunction, chi2, hgr, leaking_function
from fkd.measures.pairwise import PairwiseRows, pairwise_fairness, pairwise_rates
from fkd.measures.profiles import (
    CurveBand,
    Profile,
    StratumProfile,
    curves_along,
    profile_along,
    profile_of_pair,
    profile_within,
)
from fkd.measures.recoverability import Recovery, recoverability
from fkd.measures.registry import MEASURES, REPORTED, Measure, scorer
from fkd.measures.resampling import Comparison, Interval, NoiseFloor, compare, interval, noise_floor

__all__ = [
    "MEASURES",
    "REPORTED",
    "BinnedRows",
    "Comparison",
    "CurveBand",
    "CurveChange",
    "GroupMeans",
    "Interval",
    "LeakingFunction",
    "Measure",
    "MeasureFrame",
    "MeasuredGroup",
    "Nodes",
    "NoiseFloor",
    "NumberChange",
    "PairwiseRows",
    "Profile",
    "Recovery",
    "SampleChanges",
    "StratifiedValue",
    "Stratum",
    "StratumProfile",
    "by_stratum",
    "chi2",
    "compare",
    "curves_along",
    "gdp",
    "gedi",
    "hgr",
    "interval",
    "leaking_function",
    "means_by_pair",
    "means_by_quantile",
    "noise_floor",
    "pairwise_fairness",
    "pairwise_rates",
    "profile_along",
    "profile_of_pair",
    "profile_within",
    "recoverability",
    "sample_changes",
    "scorer",
    "survey_weights",
]
