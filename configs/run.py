"""The configuration of a run."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from configs.cluster import ClusterConfig
from configs.data import METADATA_KEYS, DataConfig, FoldsConfig
from configs.errors import check_name
from configs.hooks import HooksConfig
from configs.methods import MethodConfig
from configs.model import Frozen
from fkd.measures import REPORTED
from fkd.methods import method

Keeping = Literal["auto", "keep", "drop"]
# 800 kB a fit. What reads predictions makes those of one model again where there are none.
AUTO_ROWS = 100_000
# Those of the held-out fold are read: judgement and report would fit again what shows them. A trial
# has one such fold, so that they take no more than all its folds do at that limit.
SHOWN_TIMES = 10


def keeps(policy: Keeping, rows: int, *, shown: bool = False) -> bool:
    """Return whether predictions of so many test rows are kept.

    Parameters
    ----------
    policy
        What was asked for.
    rows
        How many the split tests on.
    shown
        Whether the split is the held-out fold.
    """
    if policy == "auto":
        return rows <= AUTO_ROWS * (SHOWN_TIMES if shown else 1)
    return policy == "keep"


_KINDS = ("nystroem", "fourier")


def check_shared(methods: Iterable[MethodConfig], folds: FoldsConfig) -> None:
    """Refuse a shared map without rows to make it from, or of a kind that cannot be shared."""
    for entry in methods:
        for value in _approximations(entry):
            if not value["shared"]:
                continue
            if value["kind"] not in _KINDS:
                raise ValueError(
                    f"approximation.kind of {entry.name} must be nystroem or fourier where shared "
                    f"is true, got {value['kind']!r}"
                )
            if not folds.reserve:
                raise ValueError(
                    f"folds.reserve must be above 0 where {entry.name} has a shared map, got 0: "
                    "the map is made from rows that no fold tests on, such as "
                    "--set folds.reserve=0.2"
                )


def _approximations(entry: MethodConfig) -> list[Mapping[str, Any]]:
    """Return every approximation that an entry names."""
    fixed = [entry.parameters["approximation"]] if "approximation" in entry.parameters else []
    axes = [axis.get("approximation", ()) for axis in (entry.grid or {}, entry.search or {})]
    return [*fixed, *(value for axis in axes for value in axis)]


class WeightsConfig(Frozen):
    """A column of weights, with what they count in."""

    column: str
    """A kept column of the table: PWGTP of the census, one of data.keep of an own table."""
    removal: bool = True
    """Whether they count in what is removed."""
    fit: bool = True
    """Whether they count in what is fitted to the rest."""
    measures: bool = True
    """Whether they count in every measure that is taken of test rows."""

    @model_validator(mode="after")
    def _counts_somewhere(self) -> Self:
        """Refuse weights that would count nowhere."""
        if not (self.removal or self.fit or self.measures):
            raise ValueError(
                "weights must count in removal, fit or measures, got false for each; set one of "
                "them, or leave out weights"
            )
        return self

    def counts_in(self, part: str) -> bool:
        """Return whether they count in one part of a fit; elsewhere 0 is still an absent row."""
        return {"removal": self.removal, "fit": self.fit}.get(part, False)

    def told(self) -> str:
        """Return column and uses in a few words."""
        used = [name for name in ("removal", "fit", "measures") if getattr(self, name)]
        return f"{self.column} in {', '.join(used)}"

    @property
    def train(self) -> bool:
        """Whether fits depend on them."""
        return self.removal or self.fit


def check_weights(
    weights: WeightsConfig, data: DataConfig, methods: Iterable[MethodConfig]
) -> None:
    """Refuse a column that the table does not keep, and methods that cannot weigh rows so."""
    kept = data.declaration.extra
    if not kept:
        raise ValueError(
            f"weights.column must be a column that the table keeps, got {weights.column!r}, but it "
            "keeps none; name it under data.keep"
        )
    check_name(weights.column, kept, key="weights.column")
    for name in dict.fromkeys(entry.name for entry in methods):
        weighs = method(name).weighs
        if weights.train and weighs == "nothing":
            raise ValueError(
                f"methods must be such as can weigh rows where weights are given, got {name}, "
                "which cannot; leave it out, or weigh measures alone by weights.removal=false "
                "with weights.fit=false"
            )
        if weighs == "both" and weights.removal != weights.fit:
            raise ValueError(
                f"weights.removal and weights.fit must be equal where methods name {name}, which "
                f"removes and fits in one, got {weights.removal} and {weights.fit}".lower()
            )


DEFAULT_KNEE = "gdp"


def _known_measure(name: str) -> str:
    """Refuse a measure that is not declared."""
    check_name(name, REPORTED, key="the measure")
    return name


Measure = Annotated[str, AfterValidator(_known_measure)]


def _known_measures(value: dict[str, float]) -> dict[str, float]:
    """Refuse a limit on something that is not measured, or on another scale than it is."""
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
    """How the champion is chosen: the knee of GDP against error, or least error under limits."""

    minimise: Literal["mae"] = "mae"
    subject_to: Limits = Field(default_factory=dict)
    knee_of: Measure | None = None
    inner_folds: int = Field(default=4, ge=2)

    @model_validator(mode="before")
    @classmethod
    def _a_knee_unless_told(cls, value: Any) -> Any:
        """Let no policy mean the knee of GDP: the least error alone would remove nothing."""
        if isinstance(value, dict) and not {"minimise", "subject_to", "knee_of"} & value.keys():
            return {**value, "knee_of": DEFAULT_KNEE}
        return value

    @model_validator(mode="after")
    def _one_policy(self) -> Self:
        """Refuse a knee with limits: they would contradict each other."""
        if self.knee_of and self.subject_to:
            raise ValueError(
                f"select takes either knee_of or subject_to, got knee_of={self.knee_of!r} "
                f"with subject_to={self.subject_to!r}"
            )
        return self


class TrackingConfig(Frozen):
    """Names in MLflow; they default to the run's name."""

    experiment: str | None = None
    model: str | None = None


class RunConfig(Frozen):
    """Everything that decides a run's numbers, with where it is computed."""

    name: str = Field(default="run", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")
    seed: int = Field(default=0, ge=0, lt=2**32)
    data: DataConfig = Field(default_factory=DataConfig)
    folds: FoldsConfig = Field(default_factory=FoldsConfig)
    methods: tuple[MethodConfig, ...] = Field(min_length=1)
    # None: every row counts once.
    weights: WeightsConfig | None = None
    cluster: ClusterConfig = Field(default_factory=ClusterConfig)
    # None: no champion is wanted, so that no inner folds are computed either.
    select: SelectConfig | None = Field(default_factory=SelectConfig)
    tracking: TrackingConfig = Field(default_factory=TrackingConfig)
    hooks: HooksConfig = Field(default_factory=HooksConfig)
    # Greatest value of each measure that the champion may have on the held-out rows.
    gate: Limits = Field(default_factory=dict)
    # Of each fit's test rows, beside its numbers. They take room, they decide nothing.
    predictions: Keeping = "auto"

    @field_validator("name")
    @classmethod
    def _no_folder_trick(cls, value: str) -> str:
        """Keep the folder of that name inside its parent."""
        if ".." in value:
            raise ValueError(f"name must not contain '..', got {value!r}")
        return value

    @model_validator(mode="after")
    def _methods_say_their_form(self) -> Self:
        """Write out whether S is centred and a constant fitted, which depends on the problem."""
        written = tuple(entry.on(self.data.problem) for entry in self.methods)
        object.__setattr__(self, "methods", written)
        return self

    @model_validator(mode="after")
    def _shared_maps_have_rows(self) -> Self:
        """Refuse a shared feature map that has no rows of its own."""
        check_shared(self.methods, self.folds)
        return self

    @model_validator(mode="after")
    def _rows_can_be_weighed(self) -> Self:
        """Refuse weights that the table does not keep, or that a method cannot use."""
        if self.weights is not None:
            check_weights(self.weights, self.data, self.methods)
        return self

    @model_serializer(mode="wrap")
    def _without_idle_weights(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out weights where there are none: digests of before stay what they were."""
        plain: dict[str, Any] = handler(self)
        if self.weights is None:
            plain.pop("weights", None)
        return plain

    @model_validator(mode="after")
    def _search_has_inner_folds(self) -> Self:
        """Refuse a search without the inner folds on which it is decided."""
        searched = any(entry.search is not None for entry in self.methods)
        if self.select is None and (searched or self.gate):
            raise ValueError(
                f"select must not be null where {'a search' if searched else 'a gate'} needs the "
                "inner folds"
            )
        return self

    @property
    def inner_folds(self) -> int:
        """Folds of the held-out fold's training rows, 0 where nothing is chosen."""
        return 0 if self.select is None else self.select.inner_folds

    @property
    def experiment(self) -> str:
        """The MLflow experiment's name."""
        return self.tracking.experiment or self.name

    @property
    def model(self) -> str:
        """The registered model's name."""
        return self.tracking.model or self.experiment

    @property
    def digest(self) -> str:
        """Digest of all that decides the numbers: not where they are computed or kept."""
        around = dict.fromkeys(_AROUND, True)
        return self._digest(
            exclude={**around, "cluster": _PLACE, "data": {*METADATA_KEYS, "ranges"}}
        )

    def _digest(self, exclude: Any) -> str:
        """Return 16 hexadecimal digits of the canonical JSON."""
        plain = self.model_dump(mode="json", exclude=exclude)
        if path := plain["data"].get("path"):
            plain["data"]["path"] = PurePath(path).name
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


_AROUND = ("tracking", "hooks", "gate", "predictions")
# Of a cluster, only the threads of a task decide numbers.
_PLACE = set(ClusterConfig.model_fields) - {"blas_threads"}
