"""Method entries of a configuration, validated by the declarations of the methods."""

from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Literal, Self, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic import Field as PydanticField

from configs.errors import check_name
from fkd.methods import Method, methods
from fkd.methods.declaration import PUBLISHED_PROBLEMS
from fkd.methods.kernel_methods import RIDGE_RULES


def _annotation(hint: Any, declared: Field[Any]) -> Any:
    """Return the pydantic type of a declared parameter."""
    if is_dataclass(hint) and isinstance(hint, type):
        # A single word is the parameter `kind`.
        by_kind = BeforeValidator(lambda v: {"kind": v} if isinstance(v, str) else v)
        return Annotated[parameters_model(hint), by_kind]
    if choices := declared.metadata.get("choices"):
        return Literal[choices]
    return hint


@cache
def parameters_model(declaration: type) -> type[BaseModel]:
    """Return a strict pydantic model of a parameter dataclass, with its defaults and bounds."""
    hints = get_type_hints(declaration)
    columns: dict[str, Any] = {}
    for declared in fields(declaration):
        bounds = {k: v for k, v in declared.metadata.items() if k in ("gt", "ge", "lt", "le")}
        factory = declared.default_factory
        default = declared.default if factory is MISSING else factory()
        if is_dataclass(default) and not isinstance(default, type):
            default = parameters_model(type(default))()
        columns[declared.name] = (
            _annotation(hints[declared.name], declared),
            PydanticField(default=default, **bounds),
        )
    config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    return create_model(declaration.__name__, __config__=config, **columns)


def build(declaration: type, values: Mapping[str, Any]) -> Any:
    """Return the parameter dataclass of validated plain values."""
    hints = get_type_hints(declaration)
    return declaration(
        **{
            name: build(hints[name], value)
            if isinstance(value, Mapping) and is_dataclass(hints[name])
            else value
            for name, value in values.items()
        }
    )


def _checked(declaration: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given values after validation, without defaults."""
    model = parameters_model(declaration).model_validate(dict(values))
    return model.model_dump(include=set(values))


def _rules(parameters: dict[Any, Any]) -> dict[Any, Any]:
    """Read a rule such as per_row given as `ridge` as the parameter `ridges`."""
    if parameters.get("ridge") not in RIDGE_RULES:
        return parameters
    return {**{k: v for k, v in parameters.items() if k != "ridge"}, "ridges": parameters["ridge"]}


ENTRY_KEYS = ("name", "grid", "search", "search_by")


class MethodConfig(BaseModel):
    """One entry of `methods`: a name, fixed parameters, a grid, a search before the grid.

    A search tries every combination of its values at strength 0 first, as the paper does; the grid
    is then computed with the winner.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    parameters: dict[str, Any] = PydanticField(default_factory=dict)
    grid: dict[str, tuple[Any, ...]] | None = None
    search: dict[str, tuple[Any, ...]] | None = None
    search_by: Literal["mae", "mse"] = "mae"

    @model_validator(mode="before")
    @classmethod
    def _flatten(cls, value: Any) -> Any:
        """Read a name as an entry, and other keys as parameters."""
        if isinstance(value, str):
            return {"name": value}
        if not isinstance(value, Mapping):
            return value
        known = {k: v for k, v in value.items() if k in ENTRY_KEYS}
        return {**known, "parameters": _rules({k: v for k, v in value.items() if k not in known})}

    @model_validator(mode="after")
    def _validate_parameters(self) -> Self:
        """Refuse undeclared parameters, and a search over parameters with given values."""
        declared = methods()[check_name(self.name, methods(), key="name")]
        try:
            declared.check_installed()
        except ModuleNotFoundError as error:
            raise ValueError(str(error)) from error
        checked = _checked(declared.parameters, self.parameters)
        object.__setattr__(self, "parameters", checked)
        for axes in ("grid", "search"):
            if (values := getattr(self, axes)) is not None:
                object.__setattr__(self, axes, _checked_grid(declared, values))
        decided = {declared.strength, *self.parameters, *(self.grid or {})}
        if both := decided & set(self.search or {}):
            raise ValueError(
                f"search of {self.name} must not contain its strength or parameters with given "
                f"values, got {', '.join(sorted(map(str, both)))}"
            )
        return self

    @model_serializer
    def _plain(self) -> dict[str, Any]:
        """Return the entry as in YAML."""
        axes = {
            name: {k: list(v) for k, v in values.items()}
            for name in ("grid", "search")
            if (values := getattr(self, name)) is not None
        }
        by = {"search_by": self.search_by} if self.search else {}
        return {"name": self.name, **self.parameters, **axes, **by}

    def on(self, problem: str) -> "MethodConfig":
        """Return the entry with all parameters and grids for a problem.

        Strengths that grow with the results, and parameters of a search, are left out.
        """
        declared = methods()[self.name]
        fixed = self._fixed(declared)
        axes = declared.axes(problem, fixed, self._axes(declared, self.grid))
        opened = {declared.strength} if self.grows(problem) else set()
        decided = {*axes, *(self.search or {})} | opened
        plain = asdict(declared.base(problem, fixed))
        parameters = {k: v for k, v in plain.items() if k not in decided}
        grid = {k: tuple(map(_plain_value, v)) for k, v in axes.items()}
        written = None if opened else grid or None
        return self.model_copy(update={"parameters": parameters, "grid": written})

    def settings(self, problem: str, winner: Any = None) -> list[Any]:
        """Return the parameters of every trial of the grid, with those of a search's winner."""
        declared = methods()[self.name]
        fixed = self._fixed(declared)
        if winner is not None:
            fixed |= {name: getattr(winner, name) for name in self.search or {}}
        return declared.settings(problem, fixed, self._axes(declared, self.grid))

    def grows(self, problem: str) -> bool:
        """Return True if strengths are not given, so that more are added to the first ones."""
        declared = methods()[self.name]
        if declared.ours or problem in PUBLISHED_PROBLEMS:
            return False
        return declared.strength not in self.parameters and self.grid is None

    def searched(self, problem: str) -> list[Any]:
        """Return the parameters of every trial of the search, at strength 0."""
        declared = methods()[self.name]
        none = {declared.strength: 0} if declared.strength else {}
        axes = self._axes(declared, self.search) or {}
        return declared.settings(problem, {**self._fixed(declared), **none}, axes)

    def _fixed(self, declared: Method) -> dict[str, Any]:
        return {k: _built(declared, k, v) for k, v in self.parameters.items()}

    @staticmethod
    def _axes(
        declared: Method, axes: dict[str, tuple[Any, ...]] | None
    ) -> dict[str, tuple[Any, ...]] | None:
        if axes is None:
            return None
        return {k: tuple(_built(declared, k, v) for v in values) for k, values in axes.items()}


def _plain_value(value: Any) -> Any:
    """Return a parameter's value as a plain value."""
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _built(declared: Method, name: str, value: Any) -> Any:
    """Return one validated plain value as a field of the parameter dataclass."""
    return getattr(build(declared.parameters, {name: value}), name)


def _checked_grid(declared: Method, grid: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Return the grid with validated values."""
    for name, values in grid.items():
        if not values:
            raise ValueError(f"grid of {name} must contain at least one value, got none")
    return {
        name: tuple(_checked(declared.parameters, {name: value})[name] for value in values)
        for name, values in grid.items()
    }
