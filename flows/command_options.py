"""Options of several commands."""

from typing import Annotated

from cyclopts import Parameter

Overrides = Annotated[
    tuple[str, ...],
    Parameter(name="--set", help="path.to.key=value, value as YAML; may be repeated"),
]
Axes = Annotated[
    tuple[str, ...],
    Parameter(name="--over", help="path.to.key=[value, value], a list as YAML; may be repeated"),
]
Names = Annotated[tuple[str, ...], Parameter(consume_multiple=True)]
