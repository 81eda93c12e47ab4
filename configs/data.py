"""The data of a run: problem, source, columns, options of a source, and folds."""

import codecs
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    Strict,
    StringConstraints,
    model_serializer,
    model_validator,
)

from configs.errors import check_name
from fkd.problems import PROBLEMS
from fkd.problems.declaration import TABLE, TABLE_SOURCES, Problem, table_problem
from fkd.problems.encoder import Scale


class Frozen(BaseModel):
    """The base class of all configuration models: immutable, without unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        hide_input_in_errors=True,  # it may hold the address of a webhook
    )


AUTO: Final = "auto"
SEPARATOR_WORDS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
# A bare comma or bar is no YAML value on a command line, so that words are accepted.
_SIGNS = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|", "bar": "|"}
_SIGNS |= {"point": ".", "dot": "."}
_MAX_LENGTH = 80  # characters of a title or unit on an axis

# Texts for people. No number and no key of a stored result depends on them.
METADATA_KEYS = ("title", "description", "row_noun", "titles", "units", "descriptions")


# The options of each source, by problem.
_SOURCES = {**{name: problem.sources for name, problem in PROBLEMS.items()}, TABLE: TABLE_SOURCES}
_OPTIONS = [
    (option, problem, source)
    for problem, sources in _SOURCES.items()
    for source, options in sources.items()
    for option in options
]
_OPTION_KEYS = tuple(dict.fromkeys(option.partition("=")[0] for option, _, _ in _OPTIONS))
_REQUIRED = ("states", "year", "horizon", "synthetic", "path", "target")


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str | int | float) else value


def _listed(value: Any) -> tuple[Any, ...]:
    """Return the names of a key before validation, none if the value is no list of names."""
    value = _as_tuple(value)
    return tuple(value) if isinstance(value, list | tuple) else ()


def _sign(value: Any) -> Any:
    return _SIGNS.get(value, value) if isinstance(value, str) else value


def _encoding(value: str) -> str:
    if value == AUTO:
        return value
    try:
        "".encode(value)
    except LookupError:
        raise ValueError(
            "data.encoding must be auto or an encoding such as utf-8, cp1252, iso-8859-15, utf-16 "
            f"or mac-roman, got {value!r}"
        ) from None
    return codecs.lookup(value).name


def _ordered(pair: tuple[float, float]) -> tuple[float, float]:
    if not pair[0] < pair[1]:
        raise ValueError(f"must be two numbers [low, high] with low < high, got {list(pair)}")
    return pair


def _one_line(text: str) -> str:
    plain = " ".join(text.split())
    if not plain or len(plain) > _MAX_LENGTH or "\n" in text.strip():
        raise ValueError(
            f"must be one line of 1 to {_MAX_LENGTH} characters, got {text!r}; put longer texts "
            "into a description"
        )
    return plain


Names = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
Years = Annotated[tuple[int, ...], BeforeValidator(_as_tuple)]
# Strict, because true is no number.
Range = Annotated[
    tuple[Annotated[float, Strict()], Annotated[float, Strict()]], AfterValidator(_ordered)
]
Line = Annotated[str, AfterValidator(_one_line)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
# -999 becomes "-999".
Words = Annotated[
    tuple[Annotated[str, Field(coerce_numbers_to_str=True)], ...], BeforeValidator(_as_tuple)
]
Horizon = Literal["1-Year", "3-Year", "5-Year"]


class FileFormat(Frozen):
    """The format of a user's file. Options at `auto` are detected."""

    encoding: Annotated[str, AfterValidator(_encoding)] = AUTO
    """Text files: auto is UTF-8, UTF-16 with a byte order mark, else Windows-1252."""
    separator: Annotated[Literal["auto", ",", ";", "\t", "|"], BeforeValidator(_sign)] = AUTO
    """Text files: the separator of columns; auto takes the one that fits the header best."""
    decimal: Annotated[Literal["auto", ".", ","], BeforeValidator(_sign)] = AUTO
    """Numbers in text: the decimal sign; auto infers it from the numbers."""
    missing_words: Words = ()
    """Words that mean a missing value, in addition to the usual ones."""


class SyntheticConfig(Frozen):
    """The size of a synthetic census file."""

    rows: int = Field(default=10_000, ge=1)
    """Persons per state and year."""
    seed: int = Field(default=0, ge=0)


class DataConfig(FileFormat):
    """The rows of a problem: source, columns, preprocessing.

    Options that a source does not declare (`Problem.sources`) are refused.
    """

    problem: str = "crimes"
    # Empty defaults are replaced by those of the declared problem before validation.
    source: str = ""
    """Source of the rows: embedded, uci; census, synthetic; file."""
    states: Names = ()
    """Census: postal codes, or all."""
    year: Years = ()
    """Census: one survey year or several."""
    horizon: Horizon | None = None
    """Census: number of years that one file covers."""
    synthetic: SyntheticConfig | None = None
    """Source synthetic: number of rows and seed."""
    path: str | None = None
    """Problem table: a CSV, TSV, Excel, Parquet or Feather file. A relative path starts at the
    folder of the YAML file."""
    target: str | None = None
    """Problem table: the column to predict."""
    numeric: Names = ()
    """Problem table: numeric inputs."""
    categorical: Names = ()
    """Problem table: categorical inputs."""
    keep: Names = ()
    """Problem table: columns for folds.by that are no inputs."""
    ranges: dict[str, Range] = Field(default_factory=dict)
    """Problem table: smallest and largest valid value by numeric column. Values outside are
    refused. Values inside are valid, even if they look like codes for a missing value."""
    scale: Scale | None = None
    """Scale of numeric inputs; default: as the problem declares, minmax for a table."""
    missing: Literal["drop", "zero", "impute"] = "drop"
    """Crimes, source uci: leave out the columns with missing values, or fill them by 0 (zero).
    Problem table: drop rows without an input, or fill the input by the median of the training rows
    and mark it in an additional column (impute)."""
    faulty: Literal["stop", "skip"] = "stop"
    """Census: stop at a file that cannot be fetched or read, or leave it out and name it in the
    report (skip)."""
    labels: Literal["onehot", "codes"] = "onehot"
    """Census: encode categorical inputs as one column per label, or by their numeric codes."""
    sample: int | None = Field(default=None, ge=2)
    """Number of rows to draw, independent of the seed of the run; default: all."""
    sensitive: Names = ()
    """Columns whose information is removed from the representation."""
    measure_on: Names = ()
    """Columns on which fairness is measured; default: the sensitive columns."""
    control: Names = ()
    """Columns within whose groups the report measures the champion again. All columns of the table
    except the measured ones are valid; the target is cut into groups."""
    drop: Names = ()
    """Columns that are no inputs; default: the sensitive columns."""
    scale_on: Literal["train", "all"] = "train"
    """Rows on which the scaler of the inputs is fitted."""
    title: Line | None = None
    """Problem table: its title in reports; default: the name of the file."""
    description: Text | None = None
    """Problem table: origin and purpose in Markdown, for the datasheet of the report."""
    row_noun: Line | None = None
    """Problem table: the noun for rows, as a plural; default: rows."""
    titles: dict[str, Line] = Field(default_factory=dict)
    """Problem table: title by column, for sentences and axes."""
    units: dict[str, Line] = Field(default_factory=dict)
    """Problem table: unit by column."""
    descriptions: dict[str, Text] = Field(default_factory=dict)
    """Problem table: description by column, for the datasheet of the report."""

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, raw: Any) -> Any:
        """Replace absent keys by the defaults of the problem and its source."""
        if not isinstance(raw, Mapping):
            return raw
        given = {"problem": "crimes", **raw}
        chosen = check_name(str(given["problem"]), (*PROBLEMS, TABLE), key="data.problem")
        problem, sources = PROBLEMS.get(chosen), _SOURCES[chosen]
        given = {"source": next(iter(sources)), **given}
        sensitive = _as_tuple(given.get("sensitive", problem.sensitive if problem else ())) or ()
        own = (*_listed(given.get("numeric")), *_listed(given.get("categorical")))
        inputs = problem.predictors if problem else own
        defaults = {
            "measure_on": sensitive,
            "drop": tuple(name for name in _listed(sensitive) if name in inputs),
        }
        options = sources.get(str(given["source"]), ())
        census = {"states": ("MT",), "year": (2018,), "horizon": "1-Year"}
        for key, value in {**census, "synthetic": SyntheticConfig()}.items():
            if key in options:
                defaults[key] = value
        return {**defaults, **given, "sensitive": sensitive}

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Check the source, its options, and the columns."""
        check_name(self.source, _SOURCES[self.problem], key="data.source")
        self._check_options()
        problem = self.declaration
        if self.problem == TABLE:
            self._check_table()
        for key in ("titles", "units", "descriptions"):
            for name in getattr(self, key):
                check_name(name, problem.columns, key=f"data.{key}")
        for key in ("sensitive", "measure_on"):
            names = getattr(self, key)
            _check_columns(names, problem.sensitive_options, key=f"data.{key}")
            if not names:
                raise ValueError(f"data.{key} must name at least one column, got none")
        _check_columns(self.drop, problem.predictors, key="data.drop")
        self._check_control(problem.columns)
        if self.missing == "impute" and self.scale_on != "train":
            raise ValueError(
                "data.scale_on must be train with data.missing: impute, which takes the medians of "
                f"training rows, got {self.scale_on}"
            )
        if self.horizon is not None:
            expand_states(self.states)
            for year in self.year:
                check_release(year, self.horizon)
        return self

    def _check_options(self) -> None:
        """Refuse options of other sources, and required options without a value."""
        chosen = f"problem {self.problem} with source {self.source}"
        for key in _OPTION_KEYS:
            value = getattr(self, key)
            accepted = (key, f"{key}={value}")
            if not set(accepted).isdisjoint(self.options):
                if key in _REQUIRED and not value:
                    raise ValueError(f"data.{key} must be given for {chosen}, got {value!r}")
            elif value != type(self).model_fields[key].get_default(call_default_factory=True):
                owners = [owner for option, *owner in _OPTIONS if option in accepted]
                both = zip(*owners, strict=True)
                problems, sources = (" or ".join(dict.fromkeys(names)) for names in both)
                shown = list(value) if isinstance(value, tuple) else value
                raise ValueError(
                    f"data.{key}: {shown} applies to problem {problems} with source {sources} "
                    f"only, got {chosen}"
                )

    def _check_table(self) -> None:
        """Check the columns of a user's table."""
        if not self.numeric and not self.categorical:
            raise ValueError("data.numeric or data.categorical must name an input, got none")
        columns = (*self.numeric, *self.categorical, self.target)
        twice = sorted({str(name) for name in columns if columns.count(name) > 1})
        if twice:
            raise ValueError(
                "a column must be listed once under data.numeric, data.categorical and "
                f"data.target, got {twice} twice"
            )
        if self.target in self.sensitive_columns:
            raise ValueError(
                f"data.target must not be a sensitive column, got {self.target!r} for both; a "
                "prediction that does not depend on its target is constant"
            )
        _check_columns(self.keep, self.keep, key="data.keep")
        numbers = dict.fromkeys((str(self.target), *self.sensitive_columns, *self.numeric))
        for name in self.ranges:
            check_name(name, numbers, key="data.ranges")

    def _check_control(self, columns: tuple[str, ...]) -> None:
        """Check that control columns are kept in the table and not measured."""
        left_out = tuple(name for name in self.drop if name not in self.sensitive_columns)
        for name in self.control:
            if name in self.measure_on:
                raise ValueError(
                    f"data.control must not name a measured column, got {name!r}; it hardly varies "
                    "within its own groups"
                )
            if name in left_out:
                raise ValueError(
                    f"data.control must name a column of the table, got {name!r}, which is listed "
                    "under data.drop"
                )
        valid = tuple(name for name in columns if name not in (*self.measure_on, *left_out))
        _check_columns(self.control, valid, key="data.control")

    @model_serializer(mode="wrap")
    def _without_unused(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out options of other sources and empty metadata; put texts at the end."""
        plain: dict[str, Any] = handler(self)
        accepted = {option.partition("=")[0] for option in self.options}
        empty = {key for key in METADATA_KEYS if not plain.get(key)}
        unused = (set(_OPTION_KEYS) - accepted) | empty
        last = {*FileFormat.model_fields, *METADATA_KEYS}
        return {k: plain[k] for k in sorted(plain, key=last.__contains__) if k not in unused}

    @property
    def options(self) -> tuple[str, ...]:
        """The options that the source declares."""
        return _SOURCES[self.problem].get(self.source, ())

    @property
    def declaration(self) -> Problem:
        """The problem of these rows."""
        if self.problem in PROBLEMS:
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
        """The scale of numeric inputs, by default as the problem declares."""
        return self.scale or self.declaration.scale

    @property
    def sensitive_columns(self) -> tuple[str, ...]:
        """All columns that are removed or measured, removed ones first."""
        return tuple(dict.fromkeys(self.sensitive + self.measure_on))


class FoldsConfig(Frozen):
    """The split of rows into training and test folds."""

    k: int = Field(default=5, ge=2)
    """Number of folds; with kind forward at most this many, the latest ones."""
    kind: Literal["shuffled", "grouped", "forward", "growing"] = "shuffled"
    """With kind growing, each row keeps its fold if rows are appended."""
    by: str | None = None
    """Column of groups that are never split, or of times that are tested forward."""
    reserve: float = Field(default=0.0, ge=0, lt=1)
    """Share of the rows that train in every fold; a shared feature map is made from them."""
    base: int | None = Field(default=None, ge=2)
    """Kind growing: number of rows before rows were appended. Reserved rows are among them."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kind == "grouped" and self.by is None:
            raise ValueError("folds.by must name the column of groups for kind grouped, got none")
        if self.kind in ("shuffled", "growing") and self.by is not None:
            raise ValueError(f"folds.by does not apply to kind {self.kind}, got {self.by!r}")
        if (self.kind == "growing") != (self.base is not None):
            raise ValueError(
                "folds.base must be given for kind growing and for no other kind, got kind "
                f"{self.kind} with base {self.base}"
            )
        if self.kind == "forward" and self.reserve:
            raise ValueError(
                f"folds.reserve must be 0 for kind forward, got {self.reserve}; a model that is "
                "tested on an earlier time would be trained on reserved rows of a later time"
            )
        return self


# Postal code and FIPS number of the states with the District of Columbia, then Puerto Rico.
_CODES = """
AL 01 AK 02 AZ 04 AR 05 CA 06 CO 08 CT 09 DE 10 DC 11 FL 12 GA 13 HI 15 ID 16 IL 17 IN 18 IA 19
KS 20 KY 21 LA 22 ME 23 MD 24 MA 25 MI 26 MN 27 MS 28 MO 29 MT 30 NE 31 NV 32 NH 33 NJ 34 NM 35
NY 36 NC 37 ND 38 OH 39 OK 40 OR 41 PA 42 RI 44 SC 45 SD 46 TN 47 TX 48 UT 49 VT 50 VA 51 WA 53
WV 54 WI 55 WY 56 PR 72
"""
_WORDS = _CODES.split()
FIPS = dict(zip(_WORDS[::2], _WORDS[1::2], strict=True))

# First and last year of each horizon.
_YEARS: dict[Horizon, tuple[int, int | None]] = {
    "1-Year": (2005, None),
    "3-Year": (2007, 2013),
    "5-Year": (2009, None),
}


def expand_states(states: tuple[str, ...]) -> tuple[str, ...]:
    """Return postal codes in capitals. "all" means every state with the District of Columbia."""
    if [state.lower() for state in states] == ["all"]:
        return tuple(state for state in FIPS if state != "PR")
    codes = tuple(check_name(state.upper(), FIPS, key="data.states") for state in states)
    if len(set(codes)) < len(codes):
        raise ValueError(f"data.states must name each state once, got {list(states)}")
    return codes


def other_states(states: tuple[str, ...]) -> tuple[str, ...]:
    """Return the states that are not among these, starting after the last one."""
    chosen, every = expand_states(states), list(FIPS)
    start = every.index(chosen[-1]) + 1
    return tuple(s for s in every[start:] + every[:start] if s != "PR" and s not in chosen)


def check_release(year: int, horizon: Horizon) -> None:
    """Raise ValueError for a release that does not exist."""
    if (year, horizon) == (2020, "1-Year"):
        raise ValueError(
            "data.year 2020 has no standard 1-Year release, because the pandemic interrupted the "
            "survey. Choose 2019, 2021 or horizon 5-Year"
        )
    first, last = _YEARS[horizon]
    if year < first or (last is not None and year > last):
        span = f"from {first} on" if last is None else f"{first} to {last}"
        raise ValueError(f"data.year must be one of the {horizon} releases ({span}), got {year}")


def later_releases(year: int, horizon: Horizon, until: int) -> tuple[int, ...]:
    """Return the years after `year` that have, or will have, a release."""
    found = []
    for later in range(year + 1, until + 1):
        with suppress(ValueError):
            check_release(later, horizon)
            found.append(later)
    return tuple(found)


def _check_columns(names: Sequence[str], valid: Sequence[str], *, key: str) -> None:
    """Refuse unknown and repeated columns."""
    for name in names:
        check_name(name, valid, key=key)
    if len(set(names)) < len(names):
        raise ValueError(f"{key} must name each column once, got {list(names)}")
