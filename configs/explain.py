"""A validation error as one sentence that names the nearest valid key."""

from collections.abc import Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from configs.methods import ENTRY_KEYS, parameters_model
from configs.nearest import check_name
from configs.schema import RunConfig
from fkd.methods import methods


def explain(error: ValidationError, source: str, tree: Any) -> str:
    """Return what is wrong in the source, one sentence per fault."""
    faults = error.errors()
    sentences = [_sentence(f, tree) for f in faults if not _follows(f, [g["loc"] for g in faults])]
    return f"{source}: " + " ".join(sentences)


def _follows(fault: Any, places: Sequence[tuple[int | str, ...]]) -> bool:
    """Return whether a list is too short only because of its faulty items, which are told."""
    loc = fault["loc"]
    return fault["type"] == "too_short" and any(p != loc and p[: len(loc)] == loc for p in places)


def _sentence(fault: Any, tree: Any) -> str:
    """Return one sentence for one fault of pydantic's list."""
    location = _readable(fault["loc"], tree)
    cause = fault.get("ctx", {}).get("error")
    if fault["type"] == "extra_forbidden":
        return f"{location}: {_unknown_key(fault['loc'], tree)}."
    if fault["type"] == "missing" or (fault["loc"] == ("methods",) and not fault["input"]):
        return f"{location}: {_absent_key(fault['loc'])}."
    message = fault["msg"].removeprefix("Value error, ")
    # What stands in hooks may be a secret.
    hidden = cause is not None or fault["loc"][:1] == ("hooks",)
    shown = "" if hidden else f", got {fault['input']!r}"
    return f"{location}: {message[0].lower()}{message[1:]}{shown}."


def _absent_key(loc: tuple[int | str, ...]) -> str:
    """Return what to write where a key is missing or empty."""
    if loc == ("methods",):
        return "at least one method must be named, such as `methods: [krr_fkd, dummy]`, got none"
    return f"the key {loc[-1]} must be given, got none"


def _unknown_key(loc: tuple[int | str, ...], tree: Any) -> str:
    """Return which keys are valid where the unknown one stands, the nearest one named."""
    try:
        check_name(str(loc[-1]), _siblings(loc, tree), key="the key")
    except ValueError as error:
        return str(error)
    return "this key is not allowed here"


def _readable(loc: tuple[int | str, ...], tree: Any) -> str:
    """Return a fault's place as the dotted path that `--set` takes, methods by their name."""
    words: list[str] = []
    for depth, part in enumerate(loc):
        if part == "parameters" and len(words) == 1:
            continue
        if depth == 1 and loc[0] == "methods" and isinstance(part, int):
            words = [f"methods.{part} ({_method_name(tree, part) or 'unnamed'})"]
            continue
        words.append(str(part))
    return ".".join(words) or "the configuration"


def _method_name(tree: Any, index: int) -> str | None:
    """Return the name written in the index-th entry of `methods`."""
    try:
        entry = tree["methods"][index]
    except (KeyError, IndexError, TypeError):
        return None
    name = entry.get("name") if isinstance(entry, dict) else entry
    return name if isinstance(name, str) else None


def _siblings(loc: tuple[int | str, ...], tree: Any) -> tuple[str, ...]:
    """Return the keys that are valid where the unknown one stands."""
    model: type[BaseModel] = RunConfig
    start = 0
    if loc[0] == "methods" and len(loc) > 2:
        name = _method_name(tree, int(loc[1]))
        if name not in methods():
            return ENTRY_KEYS
        model, start = parameters_model(methods()[name].parameters), 2
    for part in loc[start:-1]:
        found = model.model_fields.get(str(part))
        if found is not None:
            model = _model_in(found.annotation) or model
    extra = ENTRY_KEYS if start and model is not RunConfig else ()
    return (*model.model_fields, *extra)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside an annotation such as `X`, `X | None`, `tuple[X, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for a in get_args(annotation) if (m := _model_in(a))), None)
