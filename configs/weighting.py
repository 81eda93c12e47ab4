"""For how many rows each row counts, named by a column."""

from collections.abc import Iterable
from typing import Self

from pydantic import model_validator

from configs.data import DataConfig
from configs.methods import MethodConfig
from configs.model import Frozen
from configs.nearest import check_name
from fkd.methods import method


class WeightsConfig(Frozen):
    """A column of weights, with what they count in."""

    column: str
    """A kept column of the table: PWGTP of the census, one of data.keep of an own table."""
    removal: bool = True
    """Whether they count in what is removed."""
    fit: bool = True
    """Whether they count in what is fitted to the rest."""
    measures: bool = True
    """Whether they count in every measure that is taken of test rows."""

    @model_validator(mode="after")
    def _counts_somewhere(self) -> Self:
        """Refuse weights that would count nowhere."""
        if not (self.removal or self.fit or self.measures):
            raise ValueError(
                "weights must count in removal, fit or measures, got false for each; set one of "
                "them, or leave out weights"
            )
        return self

    def measured_otherwise(self) -> "WeightsConfig | None":
        """Return the weights of the same fits whose measures count rows the other way."""
        return self.model_copy(update={"measures": not self.measures}) if self.train else None

    def counts_in(self, part: str) -> bool:
        """Return whether they count in one part of a fit; elsewhere 0 is still an absent row."""
        return {"removal": self.removal, "fit": self.fit}.get(part, False)

    def told(self) -> str:
        """Return column and uses in a few words."""
        used = [name for name in ("removal", "fit", "measures") if getattr(self, name)]
        return f"{self.column} in {', '.join(used)}"

    @property
    def train(self) -> bool:
        """Whether fits depend on them."""
        return self.removal or self.fit


def check_weights(
    weights: WeightsConfig, data: DataConfig, methods: Iterable[MethodConfig]
) -> None:
    """Refuse a column that the table does not keep, and methods that cannot weigh rows so."""
    kept = data.declaration.extra
    if not kept:
        raise ValueError(
            f"weights.column must be a column that the table keeps, got {weights.column!r}, but it "
            "keeps none; name it under data.keep"
        )
    check_name(weights.column, kept, key="weights.column")
    for name in dict.fromkeys(entry.name for entry in methods):
        weighs = method(name).weighs
        if weights.train and weighs == "nothing":
            raise ValueError(
                f"methods must be such as can weigh rows where weights are given, got {name}, "
                "which cannot; leave it out, or weigh measures alone by weights.removal=false "
                "with weights.fit=false"
            )
        if weighs == "both" and weights.removal != weights.fit:
            raise ValueError(
                f"weights.removal and weights.fit must be equal where methods name {name}, which "
                f"removes and fits in one, got {weights.removal} and {weights.fit}".lower()
            )
