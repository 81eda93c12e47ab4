"""The rows of an audit, measured along one sensitive column at a time."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from fkd.core.arrays import Array
from fkd.measures.bootstrap import (
    Bounds,
    Interval,
    IntervalPair,
    bootstrap_interval,
    bootstrap_pair,
    pairwise_interval,
    pairwise_pair,
)
from fkd.measures.gdp import gdp
from fkd.measures.hgr import hgr
from fkd.measures.noise_floor import NoiseFloor, noise_floor
from fkd.measures.pairwise import pairwise_fairness
from fkd.measures.profiles import Profile, StratumProfile, profile_along, profile_within
from fkd.measures.strata import LeftOutStratum, UndefinedMeasureError
from fkd.measures.stratified_intervals import stratified_interval

# No unit of the caller's is known here: GDP takes s by its range, HGR by its deviation.
_HGR: Callable[..., float | Array] = partial(hgr, margins="standard")
_GDP: Callable[..., float | Array] = partial(gdp, margins="range")
_SHARE: Bounds = (0.0, 1.0)
POSITIVE: Bounds = (0.0, np.inf)


@dataclass(frozen=True)
class AuditedColumn:
    """What predictions say of one sensitive column.

    Parameters
    ----------
    scores
        hgr, gdp, pf by name, each with its interval; one that is undefined here is left out.
    other_scores, changes
        Those of the other model, then the first minus the other on the same rows; empty without
        one.
    noise
        HGR of independent columns of as many rows.
    profile
        Means along the column, in the unit of the target.
    within
        The measures within groups of the control columns, averaged by rows; empty without any.
    strata, left_out
        Means by thirds of the column within these groups, then the groups left out.
    """

    name: str
    scores: Mapping[str, Interval]
    other_scores: Mapping[str, Interval]
    changes: Mapping[str, Interval]
    noise: NoiseFloor
    profile: Profile
    within: Mapping[str, Interval] = field(default_factory=dict)
    strata: tuple[StratumProfile, ...] = ()
    left_out: tuple[LeftOutStratum, ...] = ()


@dataclass(frozen=True)
class AuditedRows:
    """Truth with the predictions of one or two models, on the same rows."""

    y: Array
    f: Array
    g: Array | None
    control: Any
    rng: np.random.Generator
    replicates: int
    level: float
    w: Array | None = None  # how many rows each row stands for

    def column(self, name: str, s: Array) -> AuditedColumn:
        """Return everything on one sensitive column."""
        for predicted in (self.f, self.g):
            if predicted is not None:
                # With margins unnamed it warns of rows that it cannot see, here once for all.
                hgr(predicted, s, sample_weight=self.w)
        found = {
            "hgr": self.compared(_HGR, s, bounds=_SHARE),
            "gdp": self.compared(_GDP, s, bounds=POSITIVE),
        }
        # Where no two rows can be compared in both directions the other measures stand.
        with suppress(UndefinedMeasureError):
            found["pf"] = self._pairwise(s)
        strata: tuple[StratumProfile, ...] = ()
        left_out: tuple[LeftOutStratum, ...] = ()
        if self.control is not None:
            strata, left_out = profile_within(
                self.y,
                self.f,
                s,
                control_features=self.control,
                other=self.g,
                level=self.level,
                sample_weight=self.w,
            )
        audited = self.f if self.g is None else self.g
        return AuditedColumn(
            name,
            {measure: pair.first for measure, pair in found.items()},
            {measure: pair.second for measure, pair in found.items() if self.g is not None},
            {measure: pair.difference for measure, pair in found.items() if self.g is not None},
            noise_floor(audited, s, rng=self.rng, measure=_HGR, sample_weight=self.w),
            profile_along(
                self.y,
                self.f,
                s,
                other=self.g,
                rng=self.rng,
                level=self.level,
                sample_weight=self.w,
            ),
            {} if self.control is None else self._within(s, list(found)),
            strata,
            left_out,
        )

    def compared(self, measure: Callable[..., Any], *rows: Array, bounds: Bounds) -> IntervalPair:
        """Return one measure of either model; of one model alone it stands for both."""
        options = {**self._options, "bounds": bounds}
        if self.g is None:
            alone = bootstrap_interval(measure, self.f, *rows, **options)
            return IntervalPair(alone, alone, alone)
        return bootstrap_pair(measure, (self.f, *rows), (self.g, *rows), **options)

    @property
    def _options(self) -> dict[str, Any]:
        """What every interval of the audit has in common."""
        return {
            "rng": self.rng,
            "replicates": self.replicates,
            "level": self.level,
            "sample_weight": self.w,
        }

    def _pairwise(self, s: Array) -> IntervalPair:
        if self.g is None:
            alone = pairwise_interval(self.y, self.f, s, **self._options)
            return IntervalPair(alone, alone, alone)
        return pairwise_pair(self.y, self.f, self.g, s, **self._options)

    def _within(self, s: Array, names: list[str]) -> dict[str, Interval]:
        """Return the measures within groups, with their intervals."""
        known: dict[str, tuple[Callable[..., Any], tuple[Array, ...], Bounds]] = {
            "hgr": (_HGR, (self.f, s), _SHARE),
            "gdp": (_GDP, (self.f, s), POSITIVE),
            "pf": (pairwise_fairness, (self.y, self.f, s), _SHARE),
        }
        return {
            name: stratified_interval(
                known[name][0],
                *known[name][1],
                control_features=self.control,
                bounds=known[name][2],
                **self._options,
            )
            for name in names
        }
