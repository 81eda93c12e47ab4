"""Experiments of the paper: runs with named curves, a figure, the claims to be judged."""

from collections.abc import Mapping
from dataclasses import fields
from importlib.resources import files
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from configs.claims import Claim, spread
from configs.curve_config import PLAIN, CurvesConfig
from configs.errors import UserError
from configs.explain import explain
from configs.model import Frozen
from configs.nearest import check_name
from configs.readings import reading_slug
from configs.schema import ClusterConfig, Measure, RunConfig, TrackingConfig
from configs.yaml_text import read_yaml
from fkd.methods import method

_FOLDER = "paper"


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

    def seeds_of(self, run: str) -> tuple[int, ...]:
        """Return the seeds of a run's folds, the experiment's own where it names none."""
        return self.runs[run].seeds or (self.seed,)

    def run_configs(
        self, run: str, cluster: ClusterConfig, seed: int | None = None
    ) -> dict[str, RunConfig]:
        """Return a run by variant as `fkd run` would take it; nothing is chosen: no inner folds.

        One of several seeds has the curves that are drawn under it, and a name of its own.
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
    """Return the names of the shipped experiments, in their order."""
    found = files("configs").joinpath(_FOLDER).iterdir()
    names = (f.name.removesuffix(".yaml") for f in found if f.name.endswith(".yaml"))
    # E10 comes after E9.
    return tuple(sorted(names, key=lambda name: (len(name), name)))


def read_experiment(name: str) -> dict[str, Any]:
    """Return a shipped experiment as its file has it."""
    try:
        check_name(name, experiment_names(), key="an experiment")
    except ValueError as error:
        raise UserError(f"{error}; `all` takes every one.") from None
    text = files("configs").joinpath(_FOLDER, f"{name}.yaml").read_text(encoding="utf-8")
    tree: dict[str, Any] = read_yaml(text)
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
