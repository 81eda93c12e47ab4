"""Which rows a run uses, cut into which folds."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from configs.nearest import check_name
from fkd.problems.declaration import Problem
from fkd.problems.registry import PROBLEMS


def _as_tuple(value: Any) -> Any:
    """Accept one value where a list of them is meant."""
    return (value,) if isinstance(value, str | int) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]


class DataConfig(BaseModel):
    """The rows of one problem: where they come from, what is removed, what is an input."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    problem: str = "crimes"
    # Empty defaults are replaced by the declared problem's before anything is validated.
    source: str = ""
    """Where the rows come from: embedded or uci for crimes."""
    sensitive: Names = ()
    """Columns whose information is removed from the representation."""
    measure_on: Names = ()
    """Columns on which the fairness measures are taken."""
    drop: Names = ()
    """Columns that are no inputs."""
    scale_on: Literal["train", "all"] = "train"
    """Rows from which the scaler of X is learnt."""

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, raw: Any) -> Any:
        """Write the declared problem's choices where the user made none."""
        if not isinstance(raw, Mapping):
            return raw
        given = {"problem": "crimes", **raw}
        problem = _declared(given["problem"])
        sensitive = _as_tuple(given.get("sensitive", problem.sensitive))
        defaults = {"source": problem.sources[0], "measure_on": sensitive, "drop": sensitive}
        return {**defaults, **given, "sensitive": sensitive}

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        problem = _declared(self.problem)
        check_name(self.source, problem.sources, key="data.source")
        for key in ("sensitive", "measure_on"):
            _check_columns(getattr(self, key), problem.sensitive_options, key=f"data.{key}")
        _check_columns(self.drop, problem.predictors, key="data.drop", may_be_empty=True)
        return self

    @property
    def declaration(self) -> Problem:
        """The declared problem that these rows belong to."""
        return _declared(self.problem)

    @property
    def sensitive_columns(self) -> tuple[str, ...]:
        """Every column that is removed or measured, removed ones first."""
        return tuple(dict.fromkeys(self.sensitive + self.measure_on))


class FoldsConfig(BaseModel):
    """How rows are cut into training and test parts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    k: int = Field(default=5, ge=2)
    kind: Literal["shuffled", "grouped", "forward"] = "shuffled"
    by: str | None = None
    """Column of groups that are never split, or of times that are tested forward."""

    @model_validator(mode="after")
    def _check_by(self) -> Self:
        if self.kind == "grouped" and self.by is None:
            raise ValueError("folds.by must name the column of groups for kind grouped, got none")
        if self.kind == "shuffled" and self.by is not None:
            raise ValueError(f"folds.by has no meaning for kind shuffled, got {self.by!r}")
        return self


def _declared(name: object) -> Problem:
    """Return the problem of that name."""
    return PROBLEMS[check_name(str(name), PROBLEMS, key="data.problem")]


def _check_columns(
    names: tuple[str, ...], valid: tuple[str, ...], *, key: str, may_be_empty: bool = False
) -> None:
    """Refuse unknown, repeated or no columns."""
    for name in names:
        check_name(name, valid, key=key)
    if len(set(names)) < len(names):
        raise ValueError(f"{key} must name each column once, got {list(names)}")
    if not names and not may_be_empty:
        raise ValueError(f"{key} must name at least one column, got none")
