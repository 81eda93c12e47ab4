"""Single changes of a function, read from its syntax tree."""

import ast
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from itertools import pairwise

from mutants.anchors import Function, line_starts, offset

Node = ast.expr | ast.stmt
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_COUNTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}


@dataclass(frozen=True)
class Change:
    """One place of a function that reads otherwise."""

    kind: str
    before: str
    after: str
    start: int  # within the file
    stop: int
    text: str  # what stands there instead

    def applied(self, source: str) -> str:
        """Return the file with the change made."""
        return source[: self.start] + self.text + source[self.stop :]


def changes(function: Function) -> list[Change]:
    """Return every change of a function that the draw may pick, in order."""
    starts, found = line_starts(function.source), []
    if any(ast.unparse(d).endswith("abstractmethod") for d in function.node.decorator_list):
        return []
    for node in _nodes(function.node):
        for kind, old, new in _variants(node):
            start = offset(starts, function.source, old.lineno, old.col_offset)
            stop = offset(starts, function.source, old.end_lineno or 0, old.end_col_offset or 0)
            before, after = ast.unparse(old), ast.unparse(new)
            # Brackets keep the change a single operand of whatever stands around it.
            text = f"({after})" if isinstance(new, ast.expr) else after
            if before != after:
                found.append(Change(kind, before, after, start, stop, text))
    return found


def compiles(source: str) -> bool:
    """Return whether a changed file is Python at all."""
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def _nodes(function: ast.AST) -> Iterator[Node]:
    """Yield what may be changed: no annotation, no decorator, nothing inside words for people."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.ClassDef):
            continue
        if isinstance(node, ast.arguments):
            for default in (*node.defaults, *filter(None, node.kw_defaults)):
                yield default
                yield from _nodes(default)
            continue
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield node.value
                yield from _nodes(node.value)
            continue
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and (
            node in function.decorator_list or node is function.returns
        ):
            continue
        if isinstance(node, ast.expr | ast.stmt):
            yield node
        yield from _nodes(node)


def _variants(node: Node) -> Iterator[tuple[str, Node, Node]]:
    """Yield the kind of each change of one node, what it replaces, what it puts there."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield "comparison", node, _with(node, ops=[_COMPARED[type(node.ops[0])]()])
    elif isinstance(node, ast.BinOp) and type(node.op) in _COUNTED and not _has_text(node):
        yield "operator", node, _with(node, op=_COUNTED[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield "operator", node, _with(node, op=ast.Or() if _is(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and _is(node.op, ast.Not, ast.USub):
        yield "operator", node, node.operand
    elif isinstance(node, ast.Constant) and (other := _other_constant(node.value)) is not None:
        yield "constant", node, ast.Constant(other)
    elif isinstance(node, ast.Call):
        yield from (("argument", node, call) for call in _calls(node))
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "condition", node.test, ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "return", node.value, ast.Constant(None)


def _other_constant(value: object) -> bool | int | float | None:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return 2 * value if value else 1.0
    return None


def _calls(node: ast.Call) -> Iterator[ast.expr]:
    """Yield the call without one of its keywords, or with two neighbours swapped."""
    for i, keyword in enumerate(node.keywords):
        if keyword.arg is not None:
            yield _with(node, keywords=node.keywords[:i] + node.keywords[i + 1 :])
    for i, (left, right) in enumerate(pairwise(node.args)):
        if not _is(left, ast.Starred) and not _is(right, ast.Starred):
            yield _with(node, args=[*node.args[:i], right, left, *node.args[i + 2 :]])


def _with(node: ast.expr, **fields: object) -> ast.expr:
    """Return a copy of a node with other fields."""
    other = copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _is(node: ast.AST, *kinds: type[ast.AST]) -> bool:
    return isinstance(node, kinds)


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _has_text(node: ast.BinOp) -> bool:
    """Return whether text is joined, which no other operator can do."""
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )
