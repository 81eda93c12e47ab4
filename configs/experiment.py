"""Experiments of the paper: runs with named curves, a figure, the claims to be judged."""

from collections.abc import Mapping
from dataclasses import fields
from importlib.resources import files
from typing import Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from configs.claims import Claim, spread
from configs.data import DataConfig, FoldsConfig
from configs.errors import UserError
from configs.explain import explain
from configs.methods import MethodConfig
from configs.model import Frozen
from configs.nearest import check_name
from configs.readings import reading_slug
from configs.schema import ClusterConfig, Measure, RunConfig, TrackingConfig
from fkd.catalog.methods import method

_FOLDER = "paper"


PLAIN = "plain"  # the variant of curves that name none


class CurveConfig(Frozen):
    """One line of a figure: a method with its grid, on the run's data or a variant of it."""

    method: MethodConfig
    variant: str = PLAIN

    @model_validator(mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """Read a method's entry, the variant's name among its keys."""
        if not isinstance(value, Mapping):
            return {"method": value}
        entry = {name: given for name, given in value.items() if name != "variant"}
        return {"method": entry, "variant": value.get("variant", PLAIN)}


class CurvesConfig(Frozen):
    """One data set with the curves that are drawn on it."""

    title: str
    data: DataConfig
    variants: dict[str, DataConfig] = Field(default_factory=dict)
    """Keys of `data` that differ, by name; the rows must stay the same ones."""
    folds: FoldsConfig = Field(default_factory=FoldsConfig)
    curves: dict[str, CurveConfig] = Field(min_length=1)
    """What each line of the figure is, by the label that claims use."""

    @model_validator(mode="before")
    @classmethod
    def _merge_variants(cls, raw: Any) -> Any:
        """Write the data's own keys where a variant says nothing, before defaults depend on any."""
        if not isinstance(raw, Mapping) or not isinstance(raw.get("variants"), Mapping):
            return raw
        variants = {name: {**raw["data"], **keys} for name, keys in raw["variants"].items()}
        return {**raw, "variants": variants}

    @model_validator(mode="after")
    def _variants_are_known(self) -> Self:
        """Refuse a curve on a variant that is not there."""
        for curve in self.curves.values():
            check_name(curve.variant, (PLAIN, *self.variants), key="curves.variant")
        return self

    def used_variants(self) -> tuple[str, ...]:
        """Return the variants that some curve is drawn on."""
        return tuple(dict.fromkeys(curve.variant for curve in self.curves.values()))

    def variant_data(self, variant: str) -> DataConfig:
        """Return the data of a variant."""
        return self.variants.get(variant, self.data)


class FigureConfig(Frozen):
    """What an experiment's figure shows."""

    kind: Literal["fronts", "errors", "differences"] = "fronts"
    """Error against measures; error along a grid; distance of predictions along the strength."""
    measures: tuple[Measure, ...] = ("hgr", "gdp", "pf")
    along: str = "gamma"
    """Errors: the parameter on the axis."""
    of: Literal["mae", "mse"] = "mse"
    """Errors: which error."""


class ExperimentConfig(Frozen):
    """One experiment: what is asked, computed, drawn, claimed."""

    name: str
    title: str
    question: str
    seed: int = Field(default=0, ge=0)
    runs: dict[str, CurvesConfig] = Field(min_length=1)
    figure: FigureConfig = Field(default_factory=FigureConfig)
    claims: tuple[Claim, ...] = ()
    quick: bool = False
    """Whether this is the small form, kept apart from the whole one."""
    left_out: dict[str, str] = Field(default_factory=dict)
    """Why curves are not computed, by label; claims on them are not judged."""
    reading: dict[str, Any] = Field(default_factory=dict)
    """Keys of `data` that are read otherwise than the file says."""
    unread: dict[str, str] = Field(default_factory=dict)
    """Runs that such a reading does not change, with the reason; they are not judged again."""

    @field_validator("claims", mode="before")
    @classmethod
    def _spread_claims(cls, raw: Any) -> Any:
        """Read a claim with lists in it as one claim per combination."""
        return [one for claim in raw for one in spread(claim)] if isinstance(raw, list) else raw

    @model_validator(mode="after")
    def _claims_name_curves(self) -> Self:
        """Refuse a claim on a run or a curve that is not there."""
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
        """To what its page belongs: a quick run, or another reading, overwrites no other one."""
        words = ["paper", *(["quick"] if self.quick else [])]
        return "-".join([*words, *([reading_slug(self.reading)] if self.reading else [])])

    @property
    def prefix(self) -> str:
        """How names of its runs begin: apart from those of other collections."""
        return f"{self.collection}-{self.name}"

    def run_configs(self, run: str, cluster: ClusterConfig) -> dict[str, RunConfig]:
        """Return a run by variant as `fkd run` would take it; nothing is chosen: no inner folds."""
        found = self.runs[run]
        return {
            variant: RunConfig(
                name="-".join([self.prefix, run, *([variant] if variant != PLAIN else [])]),
                seed=self.seed,
                data=found.variant_data(variant),
                folds=found.folds,
                methods=tuple(c.method for c in found.curves.values() if c.variant == variant),
                cluster=cluster,
                select=None,
                tracking=TrackingConfig(experiment=self.prefix),
            )
            for variant in found.used_variants()
        }


def experiment_names() -> tuple[str, ...]:
    """Return the names of the shipped experiments, in their order."""
    found = files("configs").joinpath(_FOLDER).iterdir()
    return tuple(sorted(f.name.removesuffix(".yaml") for f in found if f.name.endswith(".yaml")))


def read_experiment(name: str) -> dict[str, Any]:
    """Return a shipped experiment as its file has it."""
    try:
        check_name(name, experiment_names(), key="an experiment")
    except ValueError as error:
        raise UserError(f"{error}; `all` takes every one.") from None
    text = files("configs").joinpath(_FOLDER, f"{name}.yaml").read_text(encoding="utf-8")
    tree: dict[str, Any] = yaml.safe_load(text)
    return {"name": name, **tree}


def statements(tree: Mapping[str, Any]) -> list[str]:
    """Return what an experiment says of its runs; what its methods need may be missing here."""
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
