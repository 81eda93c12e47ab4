"""How workers are asked for where a queue or an operator starts them."""

import re
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from configs.model import Frozen

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
