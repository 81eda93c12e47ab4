"""Experiments of the paper: runs, curves, figures, claims."""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from importlib.resources import files
from itertools import product
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from configs.cluster import ClusterConfig
from configs.data import DataConfig, FoldsConfig, Frozen, Names
from configs.errors import UserError, check_name
from configs.load import explain, parse_config, read_yaml
from configs.methods import MethodConfig
from configs.run import Measure, RunConfig, TrackingConfig
from fkd.measures import REPORTED
from fkd.methods import method
from fkd.methods.declaration import Method, Published
from fkd.problems import PROBLEMS


def _known_score(name: str) -> str:
    """Refuse a score that is neither an error nor a declared measure."""
    check_name(name, ("mae", "mse", *REPORTED), key="the score")
    return name


Score = Annotated[str, AfterValidator(_known_score)]
Error = Literal["mae", "rmse"]
"""The error by which two curves are compared. The paper uses mae; rmse weights large errors."""
Part = Literal["all", "strong", "weak"]


class _Claim(Frozen):
    """The fields of every claim."""

    says: str
    """The statement as text. {run} is replaced by the title of the data set."""
    source: str = "ours"
    """The place in the paper, or "ours"."""
    runs: Names = ()
    """The runs on which it is judged; default: all."""
    curve: str
    """The curve that the statement is about."""
    column: str | None = None
    """The measured column; default: the first one."""


class _FrontClaim(_Claim):
    """A comparison of two curves at equal values of a measure."""

    than: str
    measure: Measure
    part: Part = "all"
    """The half of the measure's range. Strong regularisation is the fairer half."""


class Better(_FrontClaim):
    """The curve has less error than another at equal values of a measure."""

    rule: Literal["better"]


class NotBetter(_FrontClaim):
    """The curve has no less error than another at equal values of a measure."""

    rule: Literal["not_better"]
    margin: float = Field(default=0.02, ge=0, lt=1)
    """A difference below this share of the better curve's gain on the dummy counts as none."""


class MorePronounced(_FrontClaim):
    """The curve's advantage over another is greater in one measure than in a second."""

    rule: Literal["more_pronounced"]
    beside: Measure


class _LeastErrorClaim(_Claim):
    """A comparison with the least error of another curve."""

    than: str
    at: float | None = None
    """The strength at which the curve's error is taken; default: that of its least error."""


class Equal(_LeastErrorClaim):
    """The curve's error equals the least error of another curve, up to a margin."""

    rule: Literal["equal"]
    margin: float = Field(default=0.02, gt=0)


class LessError(_LeastErrorClaim):
    """The curve's error is below the least error of another curve."""

    rule: Literal["less_error"]


class Near(_Claim):
    """Two curves agree setting by setting, up to a share of the second one's range."""

    rule: Literal["near"]
    to: str
    measure: Measure
    margin: float = Field(default=0.1, gt=0)


class Trend(_Claim):
    """A score rises or falls along the curve, by Kendall's rank correlation with its order."""

    rule: Literal["trend"]
    of: Score
    direction: Literal["up", "down"]


class Change(_Claim):
    """A score rises, falls, or does not fall from one strength to another."""

    rule: Literal["change"]
    of: Score
    start: float
    stop: float
    direction: Literal["up", "down", "not_down"]
    margin: float = Field(default=0.02, ge=0)
    """For not_down: a fall below this share of the score's greatest value counts as none."""


class Faster(_Claim):
    """From strength 0 to a common strength the measure falls further than on another curve."""

    rule: Literal["faster"]
    than: str
    measure: Measure
    at: float


class Optimal(_Claim):
    """One setting of the curve has the least error of all, or nearly so."""

    rule: Literal["optimal"]
    at: dict[str, float]
    by: Literal["mae", "mse"]
    margin: float = Field(default=0.01, ge=0)
    """An error that exceeds the least one by less than this share counts as equal."""


class Agree(_Claim):
    """Two curves predict the same numbers, setting by setting, up to a strength."""

    rule: Literal["agree"]
    to: str
    tolerance: float = Field(gt=0)
    up_to: float


Claim = Annotated[
    Better
    | NotBetter
    | MorePronounced
    | Equal
    | LessError
    | Near
    | Trend
    | Change
    | Faster
    | Optimal
    | Agree,
    Field(discriminator="rule"),
]

_SPREAD = ("curve", "than", "to", "measure", "beside", "of")
_MEASURES = ("measure", "beside", "of")


def spread(raw: Any) -> list[Any]:
    """Return one claim for each combination of the keys that are lists.

    `says` may contain such a key in braces. The validation refuses a value that is no mapping.
    """
    if not isinstance(raw, Mapping):
        return [raw]
    # An empty list would remove the claim. The validation refuses it.
    lists = {key: raw[key] for key in _SPREAD if isinstance(raw.get(key), list) and raw[key]}
    return [
        {**raw, **chosen, "says": _named(raw.get("says"), chosen)}
        for values in product(*lists.values())
        for chosen in [dict(zip(lists, values, strict=True))]
    ]


def _named(says: Any, chosen: Mapping[str, Any]) -> Any:
    """Return the statement with the chosen values, measures in capitals."""
    if isinstance(says, str):
        for key, value in chosen.items():
            says = says.replace(f"{{{key}}}", value.upper() if key in _MEASURES else str(value))
    return says


PLAIN = "plain"  # the default variant of a curve
Seeds = tuple[Annotated[int, Field(ge=0)], ...]


class CurveConfig(Frozen):
    """A line of a figure: a method with its grid, on the run's data or a variant of them."""

    method: MethodConfig
    variant: str = PLAIN
    seeds: Seeds = ()
    """The seeds of the run that the curve uses, including the first one; default: all."""

    @model_validator(mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """Separate the variant and the seeds from the entry of the method."""
        if not isinstance(value, Mapping):
            return {"method": value}
        own = {name: value[name] for name in ("variant", "seeds") if name in value}
        return {"method": {k: v for k, v in value.items() if k not in own}, **own}


class CurvesConfig(Frozen):
    """One data set with the curves that are drawn on it."""

    title: str
    data: DataConfig
    variants: dict[str, DataConfig] = Field(default_factory=dict)
    """Keys of `data` that differ, by variant. The rows must be the same."""
    folds: FoldsConfig = Field(default_factory=FoldsConfig)
    seeds: Seeds = ()
    """Seeds of folds and methods; default: the seed of the experiment."""
    recoverability: bool = False
    """True: measure how well the features of the curves predict the sensitive columns."""
    curves: dict[str, CurveConfig] = Field(min_length=1)
    """The lines of the figure by the label that claims use."""

    @model_validator(mode="before")
    @classmethod
    def _merge_variants(cls, raw: Any) -> Any:
        """Complete each variant by the keys of `data`, before defaults are filled in."""
        if not isinstance(raw, Mapping) or not isinstance(raw.get("variants"), Mapping):
            return raw
        variants = {name: {**raw["data"], **keys} for name, keys in raw["variants"].items()}
        return {**raw, "variants": variants}

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse unknown variants, and seeds that repeat or would test different rows."""
        for curve in self.curves.values():
            check_name(curve.variant, (PLAIN, *self.variants), key="curves.variant")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds must be different numbers, got {list(self.seeds)}")
        if len(self.seeds) > 1 and (self.folds.kind == "forward" or self.folds.reserve):
            raise ValueError(
                f"seeds must be one where folds are forward in time or reserve rows, got "
                f"{list(self.seeds)}: every seed has to test the same rows in other folds"
            )
        for label, curve in self.curves.items():
            if curve.seeds and (
                not set(curve.seeds) <= set(self.seeds) or self.seeds[0] not in curve.seeds
            ):
                raise ValueError(
                    f"curves.seeds of {label} must be some of the run's {list(self.seeds)}, its "
                    f"first among them, got {list(curve.seeds)}"
                )
        return self

    def used_variants(self) -> tuple[str, ...]:
        """Return the variants that the curves use."""
        return tuple(dict.fromkeys(curve.variant for curve in self.curves.values()))

    def variant_data(self, variant: str) -> DataConfig:
        """Return the data of a variant."""
        return self.variants.get(variant, self.data)

    def under(self, seed: int) -> Self:
        """Return the run with the curves that use a seed."""
        drawn = {
            label: curve
            for label, curve in self.curves.items()
            if not curve.seeds or seed in curve.seeds
        }
        return self.model_copy(update={"curves": drawn})


# Keys of `data` that the paper does not specify.
READING_KEYS = ("drop", "missing", "labels", "scale", "scale_on", "year", "horizon")
_PUBLISHED = "its values are the same already"
_LONGEST = 40  # of a folder's name


def read_otherwise(tree: dict[str, Any], reading: Mapping[str, Any]) -> dict[str, Any]:
    """Return the experiment with keys of `data` set on every run that they change.

    A run to which a key does not apply, or that has these values already, is left out with the
    claims on it. Verdicts on the published values are therefore not counted twice.
    """
    for key in reading:
        try:
            check_name(key, READING_KEYS, key="a key of data for --set of fkd reproduce")
        except ValueError as error:
            raise UserError(f"{error}; the files of the experiments set the others.") from None
    changed, unread = dict[str, Any](), dict[str, str]()
    for name, run in tree["runs"].items():
        why = _unread(run["data"], reading)
        if why:
            unread[name] = why
        else:
            changed[name] = {**run, "data": {**run["data"], **reading}}
    if not changed:
        reasons = "; ".join(dict.fromkeys(unread.values()))
        raise UserError(
            f"{tree['name']} has no run that {reading_words(reading)} would change: {reasons}."
        )
    claims = [kept for claim in tree.get("claims", []) for kept in _on(claim, changed)]
    return {**tree, "runs": changed, "claims": claims, "reading": dict(reading), "unread": unread}


def reading_words(reading: Mapping[str, Any]) -> str:
    """Return changed keys of `data` as `--set` takes them."""
    return ", ".join(f"data.{key}={_plain(value)}" for key, value in reading.items())


def reading_slug(reading: Mapping[str, Any]) -> str:
    """Return changed keys of `data` as part of a file name."""
    words = [
        f"{key}-{_plain(value).strip('[]') or 'none'}" for key, value in sorted(reading.items())
    ]
    slug = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(words)).strip("-")
    if len(slug) <= _LONGEST:
        return slug
    # Two shortened names could be equal without the digest.
    return f"{slug[: _LONGEST - 9]}-{hashlib.sha256(slug.encode()).hexdigest()[:8]}"


def _unread(data: Mapping[str, Any], reading: Mapping[str, Any]) -> str:
    """Return the reason why keys do not change a run's data, an empty text if they do."""
    try:
        found = parse_config({"methods": ["dummy"], "data": {**data, **reading}}, "--set").data
    except UserError as error:
        return str(error).removeprefix("--set: ").rstrip(".")
    return _PUBLISHED if found == DataConfig.model_validate(data) else ""


def _on(claim: Any, runs: Mapping[str, Any]) -> list[Any]:
    """Return the claim on the remaining runs, nothing if none of its runs remains."""
    if not isinstance(claim, Mapping) or not claim.get("runs"):
        return [claim]
    named = [claim["runs"]] if isinstance(claim["runs"], str) else claim["runs"]
    kept = [run for run in named if run in runs]
    return [{**claim, "runs": kept}] if kept else []


def _plain(value: Any) -> str:
    """Return a value as `--set` takes it."""
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(str, value)) + "]"
    return str(value)


_FOLDER = "paper"


class FigureConfig(Frozen):
    """The figure of an experiment."""

    kind: Literal["fronts", "errors", "differences"] = "fronts"
    """Error against measures; error along a grid; distance of predictions along the strength."""
    measures: tuple[Measure, ...] = ("hgr", "gdp", "pf")
    along: str = "gamma"
    """Errors: the parameter on the axis."""
    of: Literal["mae", "mse"] = "mse"
    """Errors: the error on the other axis."""


class ExperimentConfig(Frozen):
    """An experiment: its question, runs, figure and claims."""

    name: str
    title: str
    question: str
    seed: int = Field(default=0, ge=0)
    runs: dict[str, CurvesConfig] = Field(min_length=1)
    figure: FigureConfig = Field(default_factory=FigureConfig)
    claims: tuple[Claim, ...] = ()
    quick: bool = False
    """True for the quick form, which is stored separately."""
    left_out: dict[str, str] = Field(default_factory=dict)
    """The reason why a curve is not computed, by label. Claims on it are not judged."""
    reading: dict[str, Any] = Field(default_factory=dict)
    """Keys of `data` with other values than in the file."""
    unread: dict[str, str] = Field(default_factory=dict)
    """Runs that these keys do not change, with the reason. They are not judged again."""

    @field_validator("claims", mode="before")
    @classmethod
    def _spread_claims(cls, raw: Any) -> Any:
        """Replace a claim that contains lists by one claim per combination."""
        return [one for claim in raw for one in spread(claim)] if isinstance(raw, list) else raw

    @model_validator(mode="after")
    def _claims_name_curves(self) -> Self:
        """Refuse a claim on an unknown run, curve or column."""
        for claim in self.claims:
            for run in claim.runs:
                check_name(run, self.runs, key="claims.runs")
            for run in claim.runs or tuple(self.runs):
                for key in ("curve", "than", "to"):
                    if named := getattr(claim, key, None):
                        known = (*self.runs[run].curves, *self.left_out)
                        check_name(named, known, key=f"claims.{key} on {run}")
                if claim.column:
                    check_name(claim.column, self.runs[run].data.measure_on, key="claims.column")
        return self

    @model_validator(mode="after")
    def _figure_names_a_parameter(self) -> Self:
        """Refuse an axis that some curve does not have."""
        if self.figure.kind == "errors":
            for run in self.runs.values():
                for curve in run.curves.values():
                    known = [f.name for f in fields(method(curve.method.name).parameters)]
                    check_name(self.figure.along, known, key="figure.along")
        return self

    @property
    def collection(self) -> str:
        """The collection of its page. Quick runs and other values of `data` have their own."""
        words = ["paper", *(["quick"] if self.quick else [])]
        return "-".join([*words, *([reading_slug(self.reading)] if self.reading else [])])

    @property
    def prefix(self) -> str:
        """The beginning of the names of its runs."""
        return f"{self.collection}-{self.name}"

    def seeds_of(self, run: str) -> tuple[int, ...]:
        """Return the seeds of a run, by default the seed of the experiment."""
        return self.runs[run].seeds or (self.seed,)

    def run_configs(
        self, run: str, cluster: ClusterConfig, seed: int | None = None
    ) -> dict[str, RunConfig]:
        """Return the configuration of a run by variant, without selection.

        Each seed has a name of its own, and the curves that use it.
        """
        chosen = self.seeds_of(run)[0] if seed is None else seed
        found = self.runs[run].under(chosen)
        words = [self.prefix, run, *([f"seed-{chosen}"] if chosen != self.seed else [])]
        return {
            variant: RunConfig(
                name="-".join([*words, *([variant] if variant != PLAIN else [])]),
                seed=chosen,
                data=found.variant_data(variant),
                folds=found.folds,
                methods=tuple(c.method for c in found.curves.values() if c.variant == variant),
                cluster=cluster,
                select=None,
                tracking=TrackingConfig(experiment=self.prefix),
                predictions="keep",  # claims are judged on draws of the pooled test rows
            )
            for variant in found.used_variants()
        }


def experiment_names() -> tuple[str, ...]:
    """Return the names of the shipped experiments in order."""
    found = files("configs").joinpath(_FOLDER).iterdir()
    names = (f.name.removesuffix(".yaml") for f in found if f.name.endswith(".yaml"))
    # E10 comes after E9.
    return tuple(sorted(names, key=lambda name: (len(name), name)))


def read_experiment(name: str) -> dict[str, Any]:
    """Return the content of the file of a shipped experiment."""
    try:
        check_name(name, experiment_names(), key="an experiment")
    except ValueError as error:
        raise UserError(f"{error}; `all` selects every experiment.") from None
    text = files("configs").joinpath(_FOLDER, f"{name}.yaml").read_text(encoding="utf-8")
    tree: dict[str, Any] = read_yaml(text)
    return {"name": name, **tree}


def statements(tree: Mapping[str, Any]) -> list[str]:
    """Return the statements of an experiment. Its methods need not be installed."""
    titles = {run: found["title"] for run, found in tree["runs"].items()}
    claims = [claim for raw in tree["claims"] for claim in spread(raw)]
    found = []
    for claim in claims:
        runs = claim.get("runs") or list(titles)
        for run in [runs] if isinstance(runs, str) else runs:
            found.append(claim["says"].replace("{run}", titles[run]))
    return found


def parse_experiment(tree: dict[str, Any]) -> ExperimentConfig:
    """Return the validated experiment of a plain tree."""
    try:
        return ExperimentConfig.model_validate(tree)
    except ValidationError as error:
        raise UserError(explain(error, f"experiment {tree.get('name')}", tree)) from error


Tree = dict[str, Any]

QUICK_FOLDS = 3
QUICK_ROWS = 500
QUICK_SEEDS = 2
_QUICK_EPOCHS = 5
_SYNTHETIC_ROWS = 2000
_NOT_EMBEDDED = "the embedded file of a quick run has no columns with missing values"


def without(tree: Tree, leave_out: Callable[[Method], str | None]) -> Tree:
    """Return the experiment without the curves for which `leave_out` returns a reason."""
    reasons: dict[str, str] = {}
    runs: Tree = {}
    for name, run in tree["runs"].items():
        kept = {}
        for label, entry in run["curves"].items():
            reason = leave_out(method(_entry(entry)["name"]))
            if reason is None:
                kept[label] = entry
            else:
                reasons[label] = reason
        if kept:
            runs[name] = {**run, "curves": kept}
    return {**tree, "runs": runs, "left_out": {**tree.get("left_out", {}), **reasons}}


def is_network(declared: Method) -> bool:
    """Return True if a method trains a neural network."""
    return declared.extra is not None and declared.extra.name == "neural"


def quick(tree: Tree) -> Tree:
    """Return the experiment with fewer rows, folds and points, to test that it runs."""
    runs = {name: _quick_run(run) for name, run in tree["runs"].items()}
    gone = {
        label: _NOT_EMBEDDED
        for name, run in tree["runs"].items()
        for label in run["curves"]
        if label not in runs[name]["curves"]
    }
    left_out = {**tree.get("left_out", {}), **gone}
    return {**tree, "runs": runs, "left_out": left_out, "quick": True}


def _quick_run(run: Tree) -> Tree:
    data = {**run["data"], "sample": QUICK_ROWS}
    problem = PROBLEMS.get(data["problem"])
    if problem is not None and "embedded" in problem.sources:
        data["source"] = "embedded"
    variants = {name: v for name, v in run.get("variants", {}).items() if "missing" not in v}
    seeds = run.get("seeds", [])[:QUICK_SEEDS]
    curves = {
        label: _quick_entry(entry, data, seeds)
        for label, entry in run["curves"].items()
        if _entry(entry).get("variant", PLAIN) in (PLAIN, *variants)
    }
    folds = {**run.get("folds", {}), "k": QUICK_FOLDS}
    changed = {"data": data, "variants": variants, "folds": folds, "curves": curves}
    return {**run, **changed, **({"seeds": seeds} if seeds else {})}


def _quick_entry(raw: Any, data: Tree, seeds: list[int]) -> Tree:
    """Return a curve with fewer seeds, at most three values per axis, and few epochs."""
    entry = _entry(raw)
    declared = method(entry["name"])
    paper = declared.published.get(data["problem"]) or declared.published.get("acs_income")
    grid: Mapping[str, Sequence[Any]] = entry.get("grid") or {
        name: values for name, values in (paper or Published()).grid.items() if name not in entry
    }
    # The first, the middle and the last value.
    thin = {
        name: [values[i] for i in sorted({0, len(values) // 2, len(values) - 1})]
        for name, values in grid.items()
    }
    changed: Tree = {"grid": thin} if thin else {}
    if is_network(declared):
        changed["epochs"] = _QUICK_EPOCHS
    if "seeds" in entry:
        changed["seeds"] = [seed for seed in entry["seeds"] if seed in seeds]
    return {**entry, **changed}


def synthetic(tree: Tree, run: str) -> Tree:
    """Return the experiment with one census run on synthetic rows."""
    changed = {**tree["runs"][run]}
    size = {"source": "synthetic", "synthetic": {"rows": _SYNTHETIC_ROWS}}
    changed["data"] = {**changed["data"], **size}
    return {**tree, "runs": {**tree["runs"], run: changed}}


def _entry(raw: Any) -> Tree:
    """Return a curve's method as a mapping."""
    return {"name": raw} if isinstance(raw, str) else dict(raw)
