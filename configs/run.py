"""The configuration of a run: its cluster, weights, selection and hooks."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    SecretStr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from configs.data import METADATA_KEYS, DataConfig, FoldsConfig, Frozen
from configs.errors import UserError, check_name
from configs.methods import MethodConfig
from fkd.measures import REPORTED
from fkd.methods import method

Keeping = Literal["auto", "keep", "drop"]
# 800 kB per fit. Predictions that are not kept are computed again for one model if needed.
AUTO_ROWS = 100_000
# Factor for the held-out fold, whose predictions the judgement and the report read. Each trial has
# one such fold.
SHOWN_TIMES = 10

_KINDS = ("nystroem", "fourier")  # of approximations that can be shared
DEFAULT_KNEE = "gdp"
LOCAL = "local"
# Values that must not be written into reports, logs and tracking servers.
_SECRET_NAME = re.compile(r"(?i)password|passwd|secret|token|credential|api_?key|access_key")
_SECRET_TEXT = re.compile(
    r"(?i)(?:password|passwd|secret|token|api_?key|access_key)\w*\s*[=:]\s*\S|://[^/\s@]*:[^/\s@]+@"
)
_REFERENCE = "env:"

MASK = "***"
_ADDRESS = re.compile(r"(?i)\bhttps?://[^\s'\"<>]*")
_HOST = re.compile(
    r"(?i)(https?://)(?:[^/?#]*@)?([\w.-]+(?::\d+)?|\[[\da-f:.]+\](?::\d+)?)(?=[/?#]|$)"
)


class AdaptConfig(Frozen):
    """The smallest and the largest number of workers of a cluster that adapts to its work."""

    minimum: int = Field(default=1, ge=1)  # a run needs one worker to learn its memory limit
    maximum: int = Field(ge=1)

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.maximum < self.minimum:
            raise ValueError(
                "adapt_kwargs must have minimum at most maximum, got "
                f"{self.minimum} and {self.maximum}"
            )
        return self


class TlsConfig(Frozen):
    """Certificate files in PEM format, relative to the YAML file. Dask's own settings win."""

    ca: str  # the authority that signed all certificates of the cluster
    cert: str  # may contain the key too
    key: str | None = None


class ClusterConfig(Frozen):
    """The Dask cluster that computes the trials, in the words of prefect-dask."""

    cluster_class: str = LOCAL  # "local", or the import path of a Dask cluster class
    cluster_kwargs: dict[str, Any] = Field(default_factory=dict)
    adapt_kwargs: AdaptConfig | None = None
    workers: int | None = Field(default=None, ge=1)  # None: one per core if local, otherwise one
    address: str | None = None  # of a running scheduler, instead of a class
    tls: TlsConfig | None = None
    insecure: bool = False  # accept unencrypted connections beyond this machine
    blas_threads: int = Field(default=1, ge=1)
    time_limit: float = Field(default=3600.0, gt=0)  # seconds per task
    retries: int = Field(default=5, ge=0)  # of a task whose worker died
    worker_timeout: float = Field(default=300.0, gt=0)  # seconds without any worker
    report: bool | None = None  # Dask's performance report; None: of clusters that a run starts

    @model_validator(mode="after")
    def _check_address(self) -> Self:
        """Refuse arguments of a cluster class beside the address of a running scheduler."""
        if self.address is None:
            return self
        for name, given in {
            "cluster_class": self.cluster_class != LOCAL,
            "cluster_kwargs": self.cluster_kwargs,
            "adapt_kwargs": self.adapt_kwargs,
            "workers": self.workers,
        }.items():
            if given:
                raise ValueError(
                    f"{name} must not be given with address, got {getattr(self, name)!r}: the "
                    "scheduler at that address has workers of its own. Remove one of them"
                )
        return self

    @model_validator(mode="after")
    def _check_workers(self) -> Self:
        """Refuse more than one number of workers."""
        given = {
            "workers": self.workers,
            "adapt_kwargs": self.adapt_kwargs,
            "cluster_kwargs.n_workers": self.cluster_kwargs.get("n_workers"),
        }
        names = [name for name, value in given.items() if value is not None]
        if len(names) > 1:
            raise ValueError(f"the number of workers must be given once, got {' and '.join(names)}")
        return self

    @model_validator(mode="after")
    def _check_secrets(self) -> Self:
        """Refuse secrets in the arguments: configurations are stored with every run."""
        for path, name, value in _leaves(self.cluster_kwargs, "cluster_kwargs"):
            if value.startswith(_REFERENCE):
                continue
            if _SECRET_NAME.search(name) or _SECRET_TEXT.search(value):
                raise ValueError(
                    f"{path} must not contain a secret: configurations are stored with every run. "
                    f"Set an environment variable and write {_REFERENCE}NAME"
                )
        return self

    @property
    def most_workers(self) -> int | None:
        """Largest number of workers; None means one per core of this machine."""
        if self.adapt_kwargs is not None:
            return self.adapt_kwargs.maximum
        given = self.workers or self.cluster_kwargs.get("n_workers")
        return given or (None if self.cluster_class == LOCAL else 1)

    def arguments(self, read_secret: Callable[[str], str]) -> dict[str, Any]:
        """Return `cluster_kwargs` with every `env:NAME` replaced by what `read_secret` returns."""
        found: dict[str, Any] = _resolved(self.cluster_kwargs, read_secret)
        return found


def _leaves(value: Any, path: str, name: str = "") -> list[tuple[str, str, str]]:
    """Return path, nearest key and text of every string in nested lists and mappings."""
    if isinstance(value, str):
        return [(path, name, value)]
    if isinstance(value, Mapping):
        # A list of {name: ..., value: ...} is how Kubernetes writes environment variables.
        label = str(value["name"]) if {"name", "value"} == set(value) else None
        nested = [
            _leaves(inner, f"{path}.{key}", label if label and key == "value" else str(key))
            for key, inner in value.items()
        ]
    elif isinstance(value, list | tuple):
        nested = [_leaves(inner, f"{path}.{i}", name) for i, inner in enumerate(value)]
    else:
        return []
    return [leaf for leaves in nested for leaf in leaves]


def _resolved(value: Any, read_secret: Callable[[str], str]) -> Any:
    """Return a value with references to environment variables replaced."""
    if isinstance(value, str):
        return read_secret(value) if value.startswith(_REFERENCE) else value
    if isinstance(value, Mapping):
        return {key: _resolved(inner, read_secret) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_resolved(inner, read_secret) for inner in value]
    return value


def mask_addresses(text: str) -> str:
    """Return a text with each web address reduced to its host. The rest may be a secret."""

    def mask(found: re.Match[str]) -> str:
        host = _HOST.match(found[0])
        # Without a clear host, the supposed host may be part of a password.
        return f"{host[1]}{host[2]}/{MASK}" if host else f"https://{MASK}"

    return _ADDRESS.sub(mask, text)


def is_reference(word: str) -> bool:
    """Return True if a word refers to a secret: env:NAME or file:PATH."""
    # The address of a file, file://..., may be an argument of a program.
    return word.startswith("env:") or (word.startswith("file:") and word[5:7] != "//")


def _check_webhook(value: Any) -> Any:
    """Refuse a value that is no web address, without repeating it."""
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    valid = isinstance(text, str) and (is_reference(text) or re.match(r"(?i)https?://.", text))
    if valid and len(text) > len("file:"):
        return text
    raise ValueError(
        "webhook must be env:NAME, file:PATH or an address that begins with http:// or https://; "
        "the value received is not shown, because it may be a secret"
    )


Webhook = Annotated[
    SecretStr,
    BeforeValidator(_check_webhook),
    PlainSerializer(lambda secret: mask_addresses(secret.get_secret_value()), return_type=str),
]
Words = Annotated[
    tuple[str, ...],
    PlainSerializer(lambda words: [mask_addresses(word) for word in words], return_type=list[str]),
]


class HookConfig(Frozen):
    """A command, a webhook, or both, which get the result of a run.

    The address, or a word of the command, may be env:NAME or file:PATH. An object of this class
    holds the given values. Serialized forms, such as config.yaml, have masked addresses.
    """

    command: Words = Field(default=(), repr=False)
    """Program with arguments. It gets the result as JSON on its standard input."""
    webhook: Webhook | None = None
    """Address to which the result is posted as JSON."""
    timeout: float = Field(default=30.0, gt=0)
    """Seconds for the command, and for the webhook."""

    @property
    def address(self) -> str | None:
        """The given address of the webhook."""
        return None if self.webhook is None else self.webhook.get_secret_value()


class HooksConfig(Frozen):
    """The hooks of a run by its result."""

    on_success: HookConfig = Field(default_factory=HookConfig)
    on_failure: HookConfig = Field(default_factory=HookConfig)

    def values(self) -> Iterator[tuple[str, str]]:
        """Yield each given address and word with its key."""
        for key, hook in (("on_success", self.on_success), ("on_failure", self.on_failure)):
            yield from ((f"hooks.{key}.command", word) for word in hook.command)
            if hook.address is not None:
                yield f"hooks.{key}.webhook", hook.address


def check_schedule_overrides(overrides: Iterable[str]) -> None:
    """Raise UserError if a change by `--set` would store an address in Prefect's database."""
    for text in overrides:
        path, _, value = text.partition("=")
        if path.strip().startswith("hooks") and mask_addresses(value) != value:
            raise UserError(
                f"--set {path.strip()} of a schedule must not contain an address, because it is "
                "stored in Prefect's database. Write env:NAME or file:PATH, or set the address in "
                "the configuration file."
            )


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
    check_name(name, REPORTED, key="the measure")
    return name


Measure = Annotated[str, AfterValidator(_known_measure)]


def _known_measures(value: dict[str, float]) -> dict[str, float]:
    """Refuse a limit on an unknown measure, or outside its range."""
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
