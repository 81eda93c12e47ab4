"""The curves of one run: methods with grids on its data, under the seeds of its folds."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from configs.data import DataConfig, FoldsConfig
from configs.methods import MethodConfig
from configs.model import Frozen
from configs.nearest import check_name

PLAIN = "plain"  # the variant of curves that name none
Seeds = tuple[Annotated[int, Field(ge=0)], ...]


class CurveConfig(Frozen):
    """One line of a figure: a method with its grid, on the run's data or a variant of it."""

    method: MethodConfig
    variant: str = PLAIN
    seeds: Seeds = ()
    """Those of the run's seeds under which it is drawn, the first among them; all if not said."""

    @model_validator(mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        """Read a method's entry, the variant's name and the seeds among its keys."""
        if not isinstance(value, Mapping):
            return {"method": value}
        own = {name: value[name] for name in ("variant", "seeds") if name in value}
        return {"method": {k: v for k, v in value.items() if k not in own}, **own}


class CurvesConfig(Frozen):
    """One data set with the curves that are drawn on it."""

    title: str
    data: DataConfig
    variants: dict[str, DataConfig] = Field(default_factory=dict)
    """Keys of `data` that differ, by name; the rows must stay the same ones."""
    folds: FoldsConfig = Field(default_factory=FoldsConfig)
    seeds: Seeds = ()
    """Seeds by which rows are cut into folds anew, and methods start; the experiment's if none."""
    recoverability: bool = False
    """Whether to ask how well the protected columns can be guessed from the curves' features."""
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

    @model_validator(mode="after")
    def _seeds_cut_the_same_rows(self) -> Self:
        """Refuse seeds that repeat, change nothing, or let other rows be tested."""
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds must be different numbers, got {list(self.seeds)}")
        if len(self.seeds) > 1 and (self.folds.kind == "forward" or self.folds.reserve):
            raise ValueError(
                f"seeds must be one where folds are forward in time or reserve rows, got "
                f"{list(self.seeds)}: every seed has to test the same rows in other folds"
            )
        return self

    @model_validator(mode="after")
    def _curves_have_seeds_of_the_run(self) -> Self:
        """Refuse a curve under seeds that the run has not, or without its first."""
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
        """Return the variants that some curve is drawn on."""
        return tuple(dict.fromkeys(curve.variant for curve in self.curves.values()))

    def variant_data(self, variant: str) -> DataConfig:
        """Return the data of a variant."""
        return self.variants.get(variant, self.data)

    def under(self, seed: int) -> Self:
        """Return the run with the curves that are drawn under one of its seeds."""
        drawn = {
            label: curve
            for label, curve in self.curves.items()
            if not curve.seeds or seed in curve.seeds
        }
        return self.model_copy(update={"curves": drawn})
