"""How much a prediction depends on a continuous sensitive attribute."""

from fkd.measures.bootstrap import bootstrap_difference, bootstrap_interval, bootstrap_pair
from fkd.measures.cells import Nodes
from fkd.measures.change_values import CurveChange, NumberChange, SampleChanges
from fkd.measures.counted_intervals import counted_interval, counted_intervals
from fkd.measures.counted_pairs import counted_floor, counted_pair
from fkd.measures.curves_along import CurveBand, curves_along
from fkd.measures.gdp import gdp
from fkd.measures.gedi import gedi
from fkd.measures.group_means import GroupMeans, means_by_pair, means_by_quantile
from fkd.measures.hgr import chi2, hgr
from fkd.measures.intervals import Interval, IntervalPair
from fkd.measures.leaking_function import LeakingFunction, leaking_function
from fkd.measures.measure_frame import MeasuredGroup, MeasureFrame
from fkd.measures.noise_floor import NoiseFloor, noise_floor
from fkd.measures.pairwise import PairwiseRows, pairwise_fairness, pairwise_rates
from fkd.measures.pairwise_intervals import pairwise_interval, pairwise_pair
from fkd.measures.profiles import (
    Profile,
    StratumProfile,
    profile_along,
    profile_of_pair,
    profile_within,
)
from fkd.measures.recoverability import Recovery, recoverability
from fkd.measures.repeated_rows import survey_weights
from fkd.measures.sample_changes import sample_changes
from fkd.measures.scorers import scorer
from fkd.measures.states import MeasureState
from fkd.measures.strata import StratifiedValue, Stratum, by_stratum
from fkd.measures.stratified_intervals import stratified_interval

# Raised by hand when a measure gives another number on the same rows: stored trials of the old
# version are then computed again.
VERSION = 1

__all__ = [
    "CurveBand",
    "CurveChange",
    "GroupMeans",
    "Interval",
    "IntervalPair",
    "LeakingFunction",
    "MeasureFrame",
    "MeasureState",
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
    "bootstrap_difference",
    "bootstrap_interval",
    "bootstrap_pair",
    "by_stratum",
    "chi2",
    "counted_floor",
    "counted_interval",
    "counted_intervals",
    "counted_pair",
    "curves_along",
    "gdp",
    "gedi",
    "hgr",
    "leaking_function",
    "means_by_pair",
    "means_by_quantile",
    "noise_floor",
    "pairwise_fairness",
    "pairwise_interval",
    "pairwise_pair",
    "pairwise_rates",
    "profile_along",
    "profile_of_pair",
    "profile_within",
    "recoverability",
    "sample_changes",
    "scorer",
    "stratified_interval",
    "survey_weights",
]
