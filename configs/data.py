"""Which rows a run uses, cut into which folds."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from configs.census import Horizon, check_release, expand_states
from configs.control import check_control
from configs.model import Frozen
from configs.nearest import check_name
from configs.own_columns import Range, check_columns, check_own_columns
from configs.own_words import OwnWords, check_words, words_last
from configs.text_form import AUTO, Decimal, MissingWords, Separator, check_encoding
from fkd.problems import PROBLEMS
from fkd.problems.declaration import Problem
from fkd.problems.encoder import Scale
from fkd.problems.own_table import NAME as TABLE
from fkd.problems.own_table import table_problem


def _as_tuple(value: Any) -> Any:
    """Accept one value where a list of them is meant."""
    return (value,) if isinstance(value, str | int) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
Years = Annotated[tuple[int, ...], BeforeValidator(_as_tuple)]

_CENSUS_KEYS = ("states", "year", "horizon")
_FORM_KEYS = ("encoding", "separator", "decimal", "missing_words")
_TABLE_KEYS = ("path", "target", "numeric", "categorical", "keep", "ranges", *_FORM_KEYS)


class TwinConfig(Frozen):
    """The size of a synthetic census file."""

    rows: int = Field(default=10_000, ge=1)
    """Persons per state and year."""
    seed: int = Field(default=0, ge=0)


class DataConfig(OwnWords):
    """The rows of one problem: where they come from, what is removed, what is an input."""

    problem: str = "crimes"
    # Empty defaults are replaced by the declared problem's before anything is validated.
    source: str = ""
    """Where rows come from: embedded, uci; census, synthetic; file."""
    states: Names = ()
    """Census: postal codes, or all."""
    year: Years = ()
    """Census: one survey year or several."""
    horizon: Horizon | None = None
    """Census: years that one file covers."""
    twin: TwinConfig | None = None
    """Source synthetic: how many rows of which seed."""
    path: str | None = None
    """Problem table: a CSV, TSV, Excel, Parquet or Feather file, beside the YAML that names it."""
    target: str | None = None
    """Problem table: the column to predict."""
    numeric: Names = ()
    """Problem table: numeric inputs."""
    categorical: Names = ()
    """Problem table: inputs that are labels."""
    keep: Names = ()
    """Problem table: columns for folds.by that are no inputs."""
    encoding: Annotated[str, AfterValidator(check_encoding)] = AUTO
    """Problem table, text: auto is UTF-8, UTF-16 by its mark, else Windows-1252."""
    separator: Separator = AUTO
    """Problem table, text: what stands between columns; auto goes by the header."""
    decimal: Decimal = AUTO
    """Problem table, text: the decimal sign; auto goes by the numbers."""
    missing_words: MissingWords = ()
    """Problem table: words that mean a missing value, besides the usual ones."""
    ranges: dict[str, Range] = Field(default_factory=dict)
    """Problem table: the least and the greatest valid value of a number column, by its name. Values
    outside are refused; values inside are real, even if they look like codes for a missing value.
    """
    scale: Literal["minmax", "none", "zscore"] | None = None
    """How numeric inputs are scaled; as the problem declares if not said, a table's by minmax."""
    missing: Literal["drop", "zero", "impute"] = "drop"
    """Crimes, source uci: columns with missing values are left out, or filled by 0 (zero).
    Problem table: rows without an input are dropped, or the gap is filled by the median of the
    training rows and marked in a column of its own (impute)."""
    faulty: Literal["stop", "skip"] = "stop"
    """Census: a state's file that cannot be had or read stops the run by name, or is left out and
    named in the report (skip)."""
    labels: Literal["onehot", "codes"] = "onehot"
    """Census: inputs that are labels as one column per label, or as the numbers of their codes."""
    sample: int | None = Field(default=None, ge=2)
    """Use so many rows, drawn once without regard to the run's seed; all if not said."""
    sensitive: Names = ()
    """Columns whose information is removed from the representation."""
    measure_on: Names = ()
    """Columns on which the fairness measures are taken; by default the sensitive ones."""
    control: Names = ()
    """Columns within whose groups the report measures the chosen model once more; none by default.
    Any column of the table but the measured ones; groups of the target go by its name."""
    drop: Names = ()
    """Columns that are no inputs; by default the sensitive ones."""
    scale_on: Literal["train", "all"] = "train"
    """Rows from which the scaler of X is learnt."""

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, raw: Any) -> Any:
        """Write the declared problem's choices where the user made none."""
        if not isinstance(raw, Mapping):
            return raw
        given = {"problem": "crimes", **raw}
        name = check_name(str(given["problem"]), (*PROBLEMS, TABLE), key="data.problem")
        problem = PROBLEMS.get(name)
        sources = problem.sources if problem else ("file",)
        sensitive = _as_tuple(given.get("sensitive", problem.sensitive if problem else ())) or ()
        defaults = {
            "source": sources[0],
            "measure_on": sensitive,
            "drop": _inputs(sensitive, given),
        }
        if "census" in sources:
            defaults |= {"states": ("MT",), "year": (2018,), "horizon": "1-Year"}
        if given.get("source") == "synthetic":
            defaults |= {"twin": TwinConfig()}
        return {**defaults, **given, "sensitive": sensitive}

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Hold the keys against the problem they belong to."""
        _refuse_idle(self, _CENSUS_KEYS, self.problem.startswith("acs_"), "the census problems")
        _refuse_idle(self, _TABLE_KEYS, self.problem == TABLE, "problem table")
        _refuse_idle(self, ("twin",), self.source == "synthetic", "source synthetic")
        if self.problem == TABLE:
            check_own_columns(self)
            numbers = dict.fromkeys((self.target or "", *self.sensitive_columns, *self.numeric))
            for name in self.ranges:
                check_name(name, numbers, key="data.ranges")
        check_words(self, self.declaration.columns, own=self.problem == TABLE)
        _check_alternatives(self)
        problem = self.declaration
        check_name(self.source, problem.sources, key="data.source")
        for key in ("sensitive", "measure_on"):
            check_columns(getattr(self, key), problem.sensitive_options, key=f"data.{key}")
        check_columns(self.drop, problem.predictors, key="data.drop", may_be_empty=True)
        gone = tuple(name for name in self.drop if name not in self.sensitive_columns)
        check_control(self.control, problem.columns, measured=self.measure_on, dropped=gone)
        if self.horizon is not None:
            expand_states(self.states)
            for year in self.year:
                check_release(year, self.horizon)
        return self

    @model_serializer(mode="wrap")
    def _without_idle(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what is idle, such as how text is read: old digests stay what they were."""
        plain = words_last(handler(self))
        if not self.control:
            plain.pop("control", None)
        if self.faulty == "stop":
            plain.pop("faulty", None)
        if not self.ranges:
            plain.pop("ranges", None)
        if self.problem == TABLE:
            return plain
        return {key: value for key, value in plain.items() if key not in _FORM_KEYS}

    @property
    def declaration(self) -> Problem:
        """The declared problem that these rows belong to."""
        if self.problem != TABLE:
            problem = PROBLEMS[self.problem]
            return problem.with_incomplete() if self.missing == "zero" else problem
        return table_problem(
            path=self.path or "",
            target=self.target or "",
            sensitive=self.sensitive_columns,
            numeric=self.numeric,
            categorical=self.categorical,
            extra=self.keep,
            scale=self.scale or "minmax",
            title=self.title or "",
            description=self.description or "",
            row_noun=self.row_noun or "",
            titles=self.titles,
            units=self.units,
            descriptions=self.descriptions,
        )

    @property
    def input_scale(self) -> Scale:
        """How numeric inputs are scaled: the user's word, else the problem's."""
        return self.scale or self.declaration.scale

    @property
    def sensitive_columns(self) -> tuple[str, ...]:
        """Every column that is removed or measured, removed ones first."""
        return tuple(dict.fromkeys(self.sensitive + self.measure_on))


class FoldsConfig(Frozen):
    """How rows are cut into training and test parts."""

    k: int = Field(default=5, ge=2)
    """Number of folds; forward in time: at most so many, the latest ones."""
    kind: Literal["shuffled", "grouped", "forward", "growing"] = "shuffled"
    """Growing: every row keeps its fold when rows are added behind the others."""
    by: str | None = None
    """Column of groups that are never split, or of times that are tested forward."""
    reserve: float = Field(default=0.0, ge=0, lt=1)
    """Share of the rows that train in every fold: a shared feature map is made from them."""
    base: int | None = Field(default=None, ge=2)
    """Kind growing: rows that the table had first; reserved rows are among them."""

    @model_validator(mode="after")
    def _check_by(self) -> Self:
        if self.kind == "grouped" and self.by is None:
            raise ValueError("folds.by must name the column of groups for kind grouped, got none")
        if self.kind in ("shuffled", "growing") and self.by is not None:
            raise ValueError(f"folds.by has no meaning for kind {self.kind}, got {self.by!r}")
        if (self.kind == "growing") != (self.base is not None):
            raise ValueError(
                "folds.base must say how many rows the table had first exactly where kind is "
                f"growing, got kind {self.kind} with base {self.base}"
            )
        if self.kind == "forward" and self.reserve:
            raise ValueError(
                f"folds.reserve must be 0 for kind forward, got {self.reserve}: reserved rows of a "
                "later time would train a model that is tested on an earlier one"
            )
        return self


def _inputs(sensitive: Any, given: Mapping[str, Any]) -> Any:
    """Return the sensitive columns that would otherwise be inputs."""
    if given["problem"] != TABLE or not isinstance(sensitive, tuple | list):
        return sensitive
    named = (*_as_tuple(given.get("numeric", ())), *_as_tuple(given.get("categorical", ())))
    return tuple(name for name in sensitive if name in named)


def _refuse_idle(data: DataConfig, keys: tuple[str, ...], used: bool, owner: str) -> None:
    """Refuse keys that would be ignored, or census keys left empty."""
    for key in keys:
        value = getattr(data, key)
        if not used and value not in ((), {}, None, AUTO):
            raise ValueError(f"data.{key} has a meaning for {owner} only, got {value!r}")
        if used and keys is _CENSUS_KEYS and not value:
            raise ValueError(f"data.{key} must not be empty for {owner}, got {value!r}")


def _check_alternatives(data: DataConfig) -> None:
    """Refuse another preprocessing where there is nothing to process that way."""
    if data.missing == "impute" and data.problem != TABLE:
        raise ValueError(
            f"data.missing: impute has a meaning for problem table only, got {data.problem}"
        )
    if data.missing == "impute" and data.scale_on != "train":
        raise ValueError(
            "data.missing: impute takes medians of training rows alone, so data.scale_on must be "
            f"train, got {data.scale_on}"
        )
    if data.missing == "zero" and data.source != "uci":
        raise ValueError(
            f"data.missing: {data.missing} needs problem crimes with source uci, whose file has "
            f"columns with missing values, got {data.problem} with source {data.source}"
        )
    if data.faulty != "stop" and not data.problem.startswith("acs_"):
        raise ValueError(
            f"data.faulty: {data.faulty} has a meaning for the census problems only, got problem "
            f"{data.problem}"
        )
    if data.labels != "onehot" and not data.problem.startswith("acs_"):
        raise ValueError(
            f"data.labels: {data.labels} has a meaning for the census problems only, got problem "
            f"{data.problem}"
        )
