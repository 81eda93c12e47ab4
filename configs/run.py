"""The configuration of a run."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from configs.data import METADATA_KEYS, DataConfig, FoldsConfig
from configs.errors import check_name
from configs.hooks import HooksConfig
from configs.methods import MethodConfig
from configs.model import Frozen
from fkd.measures import REPORTED
from fkd.methods import method

_WALLTIME = re.compile(r"(?:(\d+)-)?(\d{1,3}):([0-5]\d):([0-5]\d)")
_MEMORY = re.compile(r"[1-9]\d*(?:\.\d+)?(?:[KMGT]i?)?B")
_QUANTITY = re.compile(r"[1-9]\d*(?:\.\d+)?(?:[KMGT]i?)?")
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_WORD = re.compile(r"[\w.@/:+-]+")


def _form(pattern: re.Pattern[str], rule: str) -> AfterValidator:
    """Return a validator of texts that must have a form, which it can tell."""

    def check(text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"must be {rule}, got {text!r}")
        return text

    return AfterValidator(check)


def _one_line(text: str) -> str:
    """Refuse what would begin another line of the job's script."""
    if "\n" in text or "\r" in text or not text.strip():
        raise ValueError(f"must be one line that is not empty, got {text!r}")
    return text


def _clock(value: Any) -> Any:
    """Return seconds as SLURM writes them: YAML reads 12:00:00 without quotes as 43200."""
    if type(value) is not int or value < 1:
        return value
    return f"{value // 3600:02d}:{value // 60 % 60:02d}:{value % 60:02d}"


Word = Annotated[str, _form(_WORD, "one word")]
Line = Annotated[str, AfterValidator(_one_line)]
Label = Annotated[str, _form(_LABEL, "a name of lower-case letters, digits and hyphens")]
Walltime = Annotated[
    str, BeforeValidator(_clock), _form(_WALLTIME, "HH:MM:SS, D-HH:MM:SS or seconds")
]


class AdaptConfig(Frozen):
    """Between how many workers a cluster breathes with its work."""

    minimum: int = Field(default=1, ge=1)  # a run begins with one, which tells its memory
    maximum: int = Field(ge=1)

    @model_validator(mode="after")
    def _a_range(self) -> Self:
        """Refuse a range that has no number in it."""
        if self.maximum < self.minimum:
            raise ValueError(
                f"adapt must have minimum at most maximum, got {self.minimum} and {self.maximum}"
            )
        return self


class SlurmConfig(Frozen):
    """One job of the queue, which is one worker with `blas_threads` cores."""

    partition: Word | None = None  # None: the site's default
    account: Word | None = None
    walltime: Walltime = "04:00:00"
    memory: Annotated[str, _form(_MEMORY, "a size such as 4GiB")] = "4GiB"
    interface: Word | None = None  # the network by which workers reach the driver, such as ib0
    python: Word | None = None  # of the nodes, where it is not the driver's
    logs: str | None = None  # a folder that nodes see; None: in FKD_HOME
    prologue: tuple[Line, ...] = ()  # shell lines before the worker, such as "module load python"
    directives: tuple[Line, ...] = ()  # further options of sbatch, such as "--qos=long"

    @property
    def seconds(self) -> int:
        """How long one job may run."""
        found = _WALLTIME.fullmatch(self.walltime)
        assert found is not None
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


class KubernetesConfig(Frozen):
    """One pod, which is one worker with `blas_threads` cores; secrets by their names alone."""

    image: Word  # with this package in it
    namespace: Label = "fkd"
    memory: Annotated[str, _form(_QUANTITY, "a quantity such as 4Gi")] = "4Gi"
    service_account: Label | None = None
    secret: Label | None = None  # environment variables of the pods, such as keys of the store
    tls_secret: Label | None = None  # with ca.crt, tls.crt and tls.key, as cert-manager makes it
    volume_claim: Label | None = None  # mounted as FKD_HOME, where the store is a folder


def check_kind(
    kind: str,
    workers: int | None,
    adapt: AdaptConfig | None,
    slurm: SlurmConfig,
    kubernetes: KubernetesConfig | None,
) -> None:
    """Refuse keys that a kind of cluster would ignore, or that it lacks."""
    if workers is not None and adapt is not None:
        raise ValueError(
            "workers is a fixed number, adapt a range: give one of them, got "
            f"workers={workers} with adapt={adapt.minimum} to {adapt.maximum}"
        )
    if adapt is not None and kind in ("threads", "address"):
        raise ValueError(f"adapt needs a cluster whose workers we start, got kind={kind!r}")
    if slurm != SlurmConfig() and kind != "slurm":
        raise ValueError(f"slurm must be given only when kind is 'slurm', got kind={kind!r}")
    if (kubernetes is not None) != (kind == "kubernetes"):
        raise ValueError(
            "kubernetes (at least its image) must be given exactly when kind is 'kubernetes', "
            f"got kind={kind!r}"
        )


class TlsConfig(Frozen):
    """Files in PEM form, beside the YAML that names them; Dask's own settings win."""

    ca: str  # the authority by whom all certificates of the cluster are signed
    cert: str  # ours, which may hold the key too
    key: str | None = None


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
