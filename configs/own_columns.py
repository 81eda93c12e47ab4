"""Which columns of an own table are what."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Protocol

from pydantic import BeforeValidator

from configs.nearest import check_name


def _ordered(value: Any) -> Any:
    """Refuse anything but two finite numbers, the smaller one first."""
    pair = value if isinstance(value, list | tuple) else ()
    numbers = [v for v in pair if isinstance(v, int | float) and not isinstance(v, bool)]
    finite = len(pair) == len(numbers) == 2 and all(map(math.isfinite, numbers))
    if not finite or not numbers[0] < numbers[1]:
        raise ValueError(f"must be two numbers [low, high] with low < high, got {value!r}")
    return value


Range = Annotated[tuple[float, float], BeforeValidator(_ordered)]


class OwnColumns(Protocol):
    """The keys under `data` that name an own table's columns."""

    @property
    def path(self) -> str | None:
        """The file."""

    @property
    def target(self) -> str | None:
        """The column to predict."""

    @property
    def sensitive(self) -> tuple[str, ...]:
        """Columns whose information is removed."""

    @property
    def sensitive_columns(self) -> tuple[str, ...]:
        """Columns that are removed or measured."""

    @property
    def numeric(self) -> tuple[str, ...]:
        """Numeric inputs."""

    @property
    def categorical(self) -> tuple[str, ...]:
        """Inputs that are labels."""

    @property
    def keep(self) -> tuple[str, ...]:
        """Columns that are no inputs."""


def check_own_columns(data: OwnColumns) -> None:
    """Refuse a table without a file, a target, inputs; or with a column in two places."""
    for key in ("path", "target", "sensitive"):
        if not getattr(data, key):
            raise ValueError(f"data.{key} must be given for problem table, got none")
    if not data.numeric and not data.categorical:
        raise ValueError("data.numeric or data.categorical must name an input, got none")
    columns = (*data.numeric, *data.categorical, data.target)
    twice = sorted({name for name in columns if name is not None and columns.count(name) > 1})
    if twice:
        raise ValueError(f"a column can be one of numeric, categorical, target, got twice {twice}")
    if data.target in data.sensitive_columns:
        raise ValueError(
            f"data.target must not be a sensitive column, got {data.target!r} for both: a "
            "prediction without what goes along with itself is a constant; name another target"
        )
    _once(data.keep, key="data.keep")


def check_columns(
    names: tuple[str, ...], valid: tuple[str, ...], *, key: str, may_be_empty: bool = False
) -> None:
    """Refuse unknown, repeated or no columns."""
    for name in names:
        check_name(name, valid, key=key)
    _once(names, key=key)
    if not names and not may_be_empty:
        raise ValueError(f"{key} must name at least one column, got none")


def _once(names: Sequence[str], *, key: str) -> None:
    """Refuse a column that is named twice in one list."""
    if len(set(names)) < len(names):
        raise ValueError(f"{key} must name each column once, got {list(names)}")
