"""The Dask cluster of a configuration."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from configs.data import Frozen

LOCAL = "local"
# Values that must not be written into reports, logs and tracking servers.
_SECRET_NAME = re.compile(
    r"(?i)password|passwd|pwd|secret|token|credential|(api|access|account)_?key|^auth$"
)
_SECRET_TEXT = re.compile(
    r"(?i)(?:password|passwd|secret|token|api_?key|access_key)\w*\s*[=:]\s*\S|://[^/\s@]*:[^/\s@]+@"
)
_REFERENCE = "env:"


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
        """Check the form of an address, and refuse arguments of a cluster class beside it."""
        if self.address is None:
            return self
        scheme, _, rest = self.address.rpartition("://")
        if scheme in ("http", "https") or (
            scheme in ("", "tcp", "tls") and not re.search(r":\d+$", rest)
        ):
            raise ValueError(
                f"address must be tcp://HOST:PORT or tls://HOST:PORT, got {self.address!r}"
            )
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
    """Return path, nearest key and text of every string and number in lists and mappings."""
    if isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return [(path, name, str(value))]
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
