"""The schema of one run: one YAML file, one reproducible record."""

import hashlib
import json
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

from configs.cluster_kinds import AdaptConfig, KubernetesConfig, SlurmConfig, check_kind
from configs.data import DataConfig, FoldsConfig
from configs.encryption import TlsConfig
from configs.hook_config import HooksConfig
from configs.keeping import Keeping
from configs.methods import MethodConfig
from configs.model import Frozen
from configs.nearest import check_name
from configs.own_words import WORD_KEYS
from configs.shared import check_shared
from configs.weighting import WeightsConfig, check_weights
from fkd.measures import REPORTED

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


class ClusterConfig(Frozen):
    """Where the trials are computed."""

    kind: Literal["local", "threads", "address", "slurm", "kubernetes"] = "local"
    workers: int | None = Field(default=None, ge=1)  # None: one per core here, one elsewhere
    adapt: AdaptConfig | None = None  # as many as the work needs, instead of a fixed number
    blas_threads: int = Field(default=1, ge=1)
    address: str | None = None
    tls: TlsConfig | None = None  # None: Dask's own settings, else certificates of our making
    memory_limit: str = "auto"  # per local worker, as Dask reads it
    time_limit: float = Field(default=3600.0, gt=0)  # seconds for one task
    retries: int = Field(default=5, ge=0)  # of a task whose worker died
    report: bool | None = None  # Dask's performance report; None: of a cluster that is ours alone
    worker_wait: float = Field(default=300.0, gt=0)  # seconds without any worker that end a run
    slurm: SlurmConfig = Field(default_factory=SlurmConfig)
    kubernetes: KubernetesConfig | None = None

    @model_validator(mode="before")
    @classmethod
    def _address_implies_kind(cls, value: Any) -> Any:
        """Let an address alone say which kind is meant."""
        if isinstance(value, dict) and value.get("address") and "kind" not in value:
            return {**value, "kind": "address"}
        return value

    @model_validator(mode="after")
    def _address_only_with_its_kind(self) -> Self:
        """Refuse an address that would be ignored, or a missing one."""
        if (self.kind == "address") != (self.address is not None):
            raise ValueError(
                f"address must be given exactly when kind is 'address', got kind={self.kind!r} "
                f"with address={self.address!r}"
            )
        return self

    @model_validator(mode="after")
    def _certificates_are_used(self) -> Self:
        """Refuse certificates that would be ignored."""
        if self.tls is not None and self.kind == "threads":
            raise ValueError("tls has no meaning for kind 'threads', which talk in memory")
        return self

    @model_validator(mode="after")
    def _kinds_have_their_keys(self) -> Self:
        """Refuse keys that a kind would ignore, or that it lacks."""
        check_kind(self.kind, self.workers, self.adapt, self.slurm, self.kubernetes)
        if self.kind == "slurm" and self.slurm.seconds < self.time_limit:
            raise ValueError(
                f"slurm.walltime must be at least time_limit ({self.time_limit:g} s), or SLURM "
                f"ends a task before we do, got {self.slurm.walltime}"
            )
        return self

    @property
    def most_workers(self) -> int | None:
        """How many workers there will be at most, None where it is one per core of this machine."""
        if self.adapt is not None:
            return self.adapt.maximum
        return self.workers or (1 if self.kind in ("slurm", "kubernetes") else None)

    @model_serializer(mode="wrap")
    def _without_idle_kinds(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what other kinds of clusters need."""
        plain: dict[str, Any] = handler(self)
        for name in ("slurm", "kubernetes"):
            if self.kind != name:
                plain.pop(name, None)
        if self.adapt is None:
            plain.pop("adapt", None)
        return plain


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
        return self._digest(exclude={**around, "cluster": _PLACE, "data": {*WORD_KEYS, "ranges"}})

    def _digest(self, exclude: Any) -> str:
        """Return 16 hexadecimal digits of the canonical JSON."""
        plain = self.model_dump(mode="json", exclude=exclude)
        if path := plain["data"]["path"]:
            plain["data"]["path"] = PurePath(path).name
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


_AROUND = ("tracking", "hooks", "gate", "predictions")
# Of a cluster, only the threads of a task decide numbers.
_PLACE = set(ClusterConfig.model_fields) - {"blas_threads"}
