"""The configuration of a run."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from configs.cluster import ClusterConfig
from configs.data import METADATA_KEYS, DataConfig, FoldsConfig, Frozen
from configs.errors import check_name
from configs.hooks import HooksConfig
from configs.methods import MethodConfig
from fkd.measures import MEASURES, REPORTED
from fkd.methods import method

Keeping = Literal["auto", "keep", "drop"]
# 800 kB per fit. Predictions that are not kept are computed again for one model if needed.
AUTO_ROWS = 100_000
# Factor for the held-out fold, whose predictions the judgement and the report read. Each trial has
# one such fold.
SHOWN_TIMES = 10
_KINDS = ("nystroem", "fourier")  # of approximations that can be shared
DEFAULT_KNEE = "gdp"


def keeps(policy: Keeping, rows: int, *, shown: bool = False) -> bool:
    """Return True if predictions of a split are kept.

    Parameters
    ----------
    policy
        Value of `predictions` in the configuration.
    rows
        Number of test rows.
    shown
        True for the held-out fold.
    """
    if policy == "auto":
        return rows <= AUTO_ROWS * (SHOWN_TIMES if shown else 1)
    return policy == "keep"


def _approximations(entry: MethodConfig) -> list[Mapping[str, Any]]:
    """Return all approximations of an entry."""
    fixed = [entry.parameters["approximation"]] if "approximation" in entry.parameters else []
    axes = [axis.get("approximation", ()) for axis in (entry.grid or {}, entry.search or {})]
    return [*fixed, *(value for axis in axes for value in axis)]


class WeightsConfig(Frozen):
    """A column of sample weights and the parts in which they count."""

    column: str
    """Column of the table: PWGTP of the census, or one of data.keep of an own table."""
    removal: bool = True
    """Use the weights in the removal."""
    fit: bool = True
    """Use the weights in the fit."""
    measures: bool = True
    """Use the weights in measures of test rows."""

    @model_validator(mode="after")
    def _check_use(self) -> Self:
        """Refuse weights without a use."""
        if not (self.removal or self.fit or self.measures):
            raise ValueError(
                "weights must be used in removal, fit or measures, got false for each. Set one of "
                "them, or leave out weights"
            )
        return self

    def counts_in(self, part: str) -> bool:
        """Return True if a part of a fit uses the weights."""
        return {"removal": self.removal, "fit": self.fit}.get(part, False)

    def text(self) -> str:
        """Return the column and its uses as text."""
        used = [name for name in ("removal", "fit", "measures") if getattr(self, name)]
        return f"{self.column} in {', '.join(used)}"

    @property
    def train(self) -> bool:
        """True if fits depend on the weights."""
        return self.removal or self.fit


def _known_measure(name: str) -> str:
    """Refuse an unknown measure."""
    if name in MEASURES and name not in REPORTED:
        raise ValueError(
            f"the measure must be one that runs report ({', '.join(REPORTED)}), got {name!r}, "
            "whose declaration in fkd/measures/registry.py has reported=False"
        )
    check_name(name, REPORTED, key="the measure")
    return name


Measure = Annotated[str, AfterValidator(_known_measure)]


def _known_measures(value: dict[str, float]) -> dict[str, float]:
    """Refuse a limit on an unknown measure, or outside of 0 to 1."""
    for name, limit in value.items():
        unit = REPORTED[_known_measure(name)].unit
        if not 0 <= limit <= 1:
            share = "share of the target's range (divide a limit in the target's unit by it)"
            raise ValueError(
                f"a limit on {name} must lie between 0 and 1 (a "
                f"{share if unit == 'prediction' else unit}), got {limit:g}"
            )
    return value


Limits = Annotated[dict[str, float], AfterValidator(_known_measures)]


class SelectConfig(Frozen):
    """Choice of the champion: the knee of a measure against error, or least error under limits."""

    minimise: Literal["mae"] = "mae"
    subject_to: Limits = Field(default_factory=dict)
    knee_of: Measure | None = None
    inner_folds: int = Field(default=4, ge=2)

    @model_validator(mode="before")
    @classmethod
    def _fill_knee(cls, value: Any) -> Any:
        """Use the knee of GDP by default: the least error alone would remove nothing."""
        if isinstance(value, dict) and not {"minimise", "subject_to", "knee_of"} & value.keys():
            return {**value, "knee_of": DEFAULT_KNEE}
        return value

    @model_validator(mode="after")
    def _check_policy(self) -> Self:
        """Refuse a knee beside limits."""
        if self.knee_of and self.subject_to:
            raise ValueError(
                f"select takes either knee_of or subject_to, got knee_of={self.knee_of!r} "
                f"with subject_to={self.subject_to!r}"
            )
        return self


class TrackingConfig(Frozen):
    """Names in MLflow; the default is the name of the run."""

    experiment: str | None = None
    model: str | None = None


class RunConfig(Frozen):
    """Configuration of a run."""

    name: str = Field(default="run", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")
    seed: int = Field(default=0, ge=0, lt=2**32)
    data: DataConfig = Field(default_factory=DataConfig)
    folds: FoldsConfig = Field(default_factory=FoldsConfig)
    methods: tuple[MethodConfig, ...] = Field(min_length=1)
    # None: each row counts once.
    weights: WeightsConfig | None = None
    cluster: ClusterConfig = Field(default_factory=ClusterConfig)
    # None: no champion is selected, and no inner folds are computed.
    select: SelectConfig | None = Field(default_factory=SelectConfig)
    tracking: TrackingConfig = Field(default_factory=TrackingConfig)
    hooks: HooksConfig = Field(default_factory=HooksConfig)
    # Upper limits of the champion's measures on the held-out rows.
    gate: Limits = Field(default_factory=dict)
    # The rule by which predictions of test rows are stored. No number depends on it.
    predictions: Keeping = "auto"

    @model_validator(mode="after")
    def _fill_parameters(self) -> Self:
        """Fill in the parameters whose defaults depend on the problem."""
        written = tuple(entry.on(self.data.problem) for entry in self.methods)
        object.__setattr__(self, "methods", written)
        return self

    @model_validator(mode="after")
    def _check_shared_maps(self) -> Self:
        """Refuse a shared map without reserved rows, or of a kind that cannot be shared."""
        for entry in self.methods:
            for value in _approximations(entry):
                if value["shared"] and value["kind"] not in _KINDS:
                    raise ValueError(
                        f"approximation.kind of {entry.name} must be nystroem or fourier if shared "
                        f"is true, got {value['kind']!r}"
                    )
                if value["shared"] and not self.folds.reserve:
                    raise ValueError(
                        f"folds.reserve must be above 0 if {entry.name} has a shared map, got 0. "
                        "The map is computed from reserved rows, which no fold tests on. Use for "
                        "instance --set folds.reserve=0.2"
                    )
        return self

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        """Refuse an absent column of weights, and methods that cannot use the weights."""
        weights = self.weights
        if weights is None:
            return self
        kept = self.data.declaration.extra
        if not kept:
            raise ValueError(
                f"weights.column must be a kept column, got {weights.column!r}, but the table "
                "keeps none. Add it to data.keep"
            )
        check_name(weights.column, kept, key="weights.column")
        for name in dict.fromkeys(entry.name for entry in self.methods):
            weighs = method(name).weighs
            if weights.train and weighs == "nothing":
                raise ValueError(
                    f"methods must support sample weights if weights are given, got {name}, which "
                    "does not. Leave it out, or use weights in measures only: "
                    "weights.removal=false and weights.fit=false"
                )
            if weighs == "both" and weights.removal != weights.fit:
                raise ValueError(
                    f"weights.removal and weights.fit must be equal for {name}, which removes and "
                    f"fits in one step, got {weights.removal} and {weights.fit}".lower()
                )
        return self

    @model_serializer(mode="wrap")
    def _without_absent_weights(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out `weights` if there are none."""
        plain: dict[str, Any] = handler(self)
        if self.weights is None:
            plain.pop("weights", None)
        return plain

    @model_validator(mode="after")
    def _check_inner_folds(self) -> Self:
        """Refuse a search or a gate without inner folds."""
        searched = any(entry.search is not None for entry in self.methods)
        if self.select is None and (searched or self.gate):
            raise ValueError(
                f"select must not be null: {'a search' if searched else 'a gate'} needs the inner "
                "folds"
            )
        return self

    @property
    def inner_folds(self) -> int:
        """Number of inner folds, 0 without selection."""
        return 0 if self.select is None else self.select.inner_folds

    @property
    def experiment(self) -> str:
        """Name of the MLflow experiment."""
        return self.tracking.experiment or self.name

    @property
    def model(self) -> str:
        """Name of the registered model."""
        return self.tracking.model or self.experiment

    @property
    def digest(self) -> str:
        """Digest of everything that decides the numbers, without cluster, tracking and hooks."""
        around: Any = {
            **dict.fromkeys(("tracking", "hooks", "gate", "predictions"), True),
            # Of the cluster, only the BLAS threads decide numbers.
            "cluster": ClusterConfig.model_fields.keys() - {"blas_threads"},
            "data": {*METADATA_KEYS, "ranges"},
        }
        plain = self.model_dump(mode="json", exclude=around)
        if path := plain["data"].get("path"):
            plain["data"]["path"] = PurePath(path).name
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]
