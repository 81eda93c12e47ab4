"""Which columns of an own table are what."""

import codecs
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Protocol, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from configs.errors import check_name
from configs.model import Frozen
from fkd.problems import PROBLEMS
from fkd.problems.declaration import Problem
from fkd.problems.encoder import Scale
from fkd.problems.own_table import NAME as TABLE
from fkd.problems.own_table import table_problem


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


_LONGEST = 80  # characters of a title or unit, which stand on axes and in sentences


def _one_line(text: str) -> str:
    """Refuse a text that cannot stand in a sentence or on an axis."""
    plain = " ".join(text.split())
    if not plain or len(plain) > _LONGEST or "\n" in text.strip():
        raise ValueError(
            f"must be one line of 1 to {_LONGEST} characters, as it stands in sentences and on "
            f"axes, got {text!r}; a description may be longer"
        )
    return plain


def _some_text(text: str) -> str:
    """Refuse an empty description."""
    if not text.strip():
        raise ValueError("must hold some text, got none; leave the key out instead")
    return text.strip()


Line = Annotated[str, AfterValidator(_one_line)]
Text = Annotated[str, AfterValidator(_some_text)]


class OwnWords(Frozen):
    """Words for people; no number and no key of a stored result depends on them."""

    title: Line | None = None
    """Problem table: what reports call the table; its file's name if not said."""
    description: Text | None = None
    """Problem table: where it comes from, what it is for; markdown, for the report's datasheet."""
    row_noun: Line | None = None
    """Problem table: what a row is, in the plural; rows if not said."""
    titles: dict[str, Line] = Field(default_factory=dict)
    """Problem table: what sentences and axes call a column, by its name."""
    units: dict[str, Line] = Field(default_factory=dict)
    """Problem table: in what a column is counted, by its name."""
    descriptions: dict[str, Text] = Field(default_factory=dict)
    """Problem table: what a column means, by its name, for the report's datasheet."""


WORD_KEYS = tuple(OwnWords.model_fields)


def check_words(words: OwnWords, columns: tuple[str, ...], *, own: bool) -> None:
    """Refuse words for a declared problem, or for a column that the table does not have."""
    for key in WORD_KEYS:
        if getattr(words, key) and not own:
            raise ValueError(
                f"data.{key} has a meaning for problem table only, the other problems have words "
                "of their own"
            )
    for key in ("titles", "units", "descriptions"):
        for name in getattr(words, key):
            check_name(name, columns, key=f"data.{key}")


def words_last(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys with the words behind all others; those that were not given are left out."""
    given = {key: plain[key] for key in WORD_KEYS if plain.get(key)}
    return {**{key: value for key, value in plain.items() if key not in WORD_KEYS}, **given}


AUTO: Final = "auto"
# A bare comma or bar is no YAML value on a command line, so that words are taken too.
_SIGNS = {
    "comma": ",",
    "semicolon": ";",
    "tab": "\t",
    "\\t": "\t",
    "pipe": "|",
    "bar": "|",
    "point": ".",
    "dot": ".",
}
SEPARATOR_WORDS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


def _sign(value: Any) -> Any:
    """Accept the word for a sign."""
    return _SIGNS.get(value, value) if isinstance(value, str) else value


def _words(value: Any) -> Any:
    """Accept one word for a list of them, a number such as -999 for its text."""
    words = value if isinstance(value, list | tuple) else [value]
    return tuple(str(word) if isinstance(word, int | float) else word for word in words)


MissingWords = Annotated[tuple[str, ...], BeforeValidator(_words)]
Separator = Annotated[Literal["auto", ",", ";", "\t", "|"], BeforeValidator(_sign)]
Decimal = Annotated[Literal["auto", ".", ","], BeforeValidator(_sign)]


def check_encoding(value: str) -> str:
    """Refuse what is no encoding of text."""
    if value == AUTO:
        return value
    try:
        "".encode(value)
    except LookupError:
        raise ValueError(
            f"data.encoding must be auto or an encoding such as utf-8, cp1252, iso-8859-15, "
            f"utf-16 or mac-roman, got {value!r}"
        ) from None
    return codecs.lookup(value).name


class FormKeys(Protocol):
    """The keys that say how an own file is written."""

    @property
    def encoding(self) -> str:
        """The codec of a text, or auto."""

    @property
    def separator(self) -> str:
        """What stands between columns, or auto."""

    @property
    def decimal(self) -> str:
        """The decimal sign, or auto."""

    @property
    def missing_words(self) -> tuple[str, ...]:
        """Words for a missing value, besides the usual ones."""


class WrittenForm(Frozen):
    """The same keys alone, for a file of which no run is asked."""

    encoding: Annotated[str, AfterValidator(check_encoding)] = AUTO
    separator: Separator = AUTO
    decimal: Decimal = AUTO
    missing_words: MissingWords = ()


Horizon = Literal["1-Year", "3-Year", "5-Year"]

# Postal code and FIPS number of the states with the District of Columbia, then Puerto Rico.
_CODES = """
AL 01 AK 02 AZ 04 AR 05 CA 06 CO 08 CT 09 DE 10 DC 11 FL 12 GA 13 HI 15 ID 16 IL 17 IN 18 IA 19
KS 20 KY 21 LA 22 ME 23 MD 24 MA 25 MI 26 MN 27 MS 28 MO 29 MT 30 NE 31 NV 32 NH 33 NJ 34 NM 35
NY 36 NC 37 ND 38 OH 39 OK 40 OR 41 PA 42 RI 44 SC 45 SD 46 TN 47 TX 48 UT 49 VT 50 VA 51 WA 53
WV 54 WI 55 WY 56 PR 72
"""
_WORDS = _CODES.split()
FIPS = dict(zip(_WORDS[::2], _WORDS[1::2], strict=True))

# First and last year of each horizon; the 3-Year files ended with 2013.
_YEARS: dict[Horizon, tuple[int, int | None]] = {
    "1-Year": (2005, None),
    "3-Year": (2007, 2013),
    "5-Year": (2009, None),
}


def expand_states(states: tuple[str, ...]) -> tuple[str, ...]:
    """Return postal codes in capitals; "all" means every state with the District of Columbia."""
    if [state.lower() for state in states] == ["all"]:
        return tuple(state for state in FIPS if state != "PR")
    codes = tuple(check_name(state.upper(), FIPS, key="data.states") for state in states)
    if len(set(codes)) < len(codes):
        raise ValueError(f"data.states must name each state once, got {list(states)}")
    return codes


def later_releases(year: int, horizon: Horizon, until: int) -> tuple[int, ...]:
    """Return the years after one in which there is, or will be, a release."""
    found = []
    for later in range(year + 1, until + 1):
        try:
            check_release(later, horizon)
        except ValueError:
            continue
        found.append(later)
    return tuple(found)


def other_states(states: tuple[str, ...]) -> tuple[str, ...]:
    """Return the states that are not among these, those behind the last one first."""
    chosen = expand_states(states)
    every = expand_states(("all",))
    start = list(FIPS).index(chosen[-1]) + 1
    around = [*list(FIPS)[start:], *list(FIPS)[:start]]
    return tuple(state for state in around if state in every and state not in chosen)


def check_release(year: int, horizon: Horizon) -> None:
    """Raise ValueError for a release that does not exist."""
    if (year, horizon) == (2020, "1-Year"):
        raise ValueError(
            "data.year 2020 has no standard 1-Year release (the pandemic broke the survey off, the "
            "Census Bureau published experimental weights only); take 2019, 2021 or horizon 5-Year"
        )
    first, last = _YEARS[horizon]
    if year < first or (last is not None and year > last):
        span = f"from {first} on" if last is None else f"{first} to {last}"
        raise ValueError(f"data.year must lie in the {horizon} releases, {span}, got {year}")


def check_control(
    control: tuple[str, ...],
    columns: tuple[str, ...],
    *,
    measured: tuple[str, ...],
    dropped: tuple[str, ...],
) -> None:
    """Refuse columns that the table will not have, and those that the measures are about.

    Parameters
    ----------
    control
        The names under `data.control`.
    columns
        Every column of the problem.
    measured
        The columns of `data.measure_on`.
    dropped
        The columns of `data.drop`.
    """
    for name in control:
        if name in measured:
            raise ValueError(
                f"data.control must not name a measured column, got {name!r}: within its groups "
                "there is next to nothing left to measure; name a column that may decide"
            )
        if name in dropped:
            raise ValueError(
                f"data.control must name a column that the table keeps, got {name!r}, which "
                "data.drop leaves out"
            )
    kept = tuple(name for name in columns if name not in (*measured, *dropped))
    check_columns(control, kept, key="data.control", may_be_empty=True)


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
