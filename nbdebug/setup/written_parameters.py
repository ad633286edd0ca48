"""Which parameter a call or a statement of the source writes, by the names of its target, a loop or a call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from torch import nn

from nbdebug.source.search import call_name, covers_line, file_nodes, paired_targets, syntax_tree

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_MAX_STEPS = 4  # from the variable that is written back to an attribute
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def writes_parameter(
    file: str, node: ast.Call | ast.AugAssign, model: nn.Module, module: str, parameter: str
) -> bool | None:
    """Return whether a call or a statement writes to a parameter; None if its target may be any parameter of the name.

    The target is an attribute, a variable of a loop over attributes, or the parameter of a function that is called with
    attributes. An attribute of ``self`` counts for the modules of its class.
    """
    verdicts = [
        _is_parameter(_path_of(target), _class_name(file, target), model, [*filter(None, module.split(".")), parameter])
        for written in _written_targets(file, node)
        for target in _resolve(file, written, _MAX_STEPS)
    ]
    return True if True in verdicts else None if None in verdicts or not verdicts else False


def is_init_function(call: ast.Call) -> bool:
    """Check whether a call is of a function of ``torch.nn.init``, whose first argument is a tensor; else a method."""
    owner = getattr(call.func, "value", None)
    return owner is None or "init" in (getattr(owner, "attr", ""), getattr(owner, "id", ""))


def _written_targets(file: str, node: ast.Call | ast.AugAssign) -> Iterator[ast.expr]:
    """Yield the expressions that hold what a call or a statement writes."""
    if isinstance(node, ast.AugAssign):
        yield node.target
    elif not call_name(node).endswith("_"):  # a new tensor or parameter
        assignments = [each for each in _nodes(file) if isinstance(each, ast.Assign) and covers_line(each, node.lineno)]
        pairs = [pair for each in assignments for target in each.targets for pair in paired_targets(target, each.value)]
        yield from (target for target, value in pairs if any(part is node for part in ast.walk(value)))
    elif is_init_function(node):
        yield from node.args[:1]
    elif isinstance(node.func, ast.Attribute):
        yield node.func.value


def _resolve(file: str, target: ast.expr, steps: int) -> Iterator[ast.expr]:
    """Yield the expressions for which the first name of a target stands in turn; the target itself if unknown."""
    name = next((part for part in ast.walk(target) if isinstance(part, ast.Name)), None)
    values = [*_values_of(file, name)] if name is not None and name.id != "self" and steps else []
    if name is None or not values:
        yield target
        return
    for value in values:
        yield from _resolve(file, value if target is name else _Replaced(name, value).visit_copy(target), steps - 1)


class _Replaced(ast.NodeTransformer):
    """Puts an expression in the place of a name."""

    def __init__(self, name: ast.Name, value: ast.expr) -> None:
        self._name, self._value = name, value

    def visit_copy(self, target: ast.expr) -> ast.expr:
        """Return a copy of an expression with the name replaced, at the place of the value."""
        copied: ast.expr = ast.parse(ast.unparse(target), mode="eval").body
        replaced: ast.expr = self.visit(copied)
        return ast.copy_location(replaced, self._value)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace the name."""
        return self._value if node.id == self._name.id else node


def _values_of(file: str, name: ast.Name) -> Iterator[ast.expr]:
    """Yield what a variable stands for: the items of a loop, the arguments of calls, or what was assigned to it."""
    function = _enclosing(file, name, _FUNCTIONS)
    for loop in _nodes(file):
        if isinstance(loop, ast.For) and covers_line(loop, name.lineno) and ast.unparse(loop.target) == name.id:
            yield from loop.iter.elts if isinstance(loop.iter, (ast.Tuple, ast.List)) else ()
            return
    if isinstance(function, _FUNCTIONS):
        yield from _arguments(file, function, name.id)
        yield from (
            statement.value
            for statement in ast.walk(function)
            if isinstance(statement, ast.Assign)
            and statement.lineno < name.lineno
            and any(ast.unparse(target) == name.id for target in statement.targets)
        )


def _arguments(file: str, function: _Function, name: str) -> Iterator[ast.expr]:
    """Yield what the calls of a function pass for one of its parameters."""
    names = [argument.arg for argument in function.args.args if argument.arg != "self"]
    for call in _nodes(file) if name in names else ():
        if isinstance(call, ast.Call) and call_name(call) == function.name:
            position = names.index(name)
            yield from call.args[position : position + 1]
            yield from (keyword.value for keyword in call.keywords if keyword.arg == name)


def _path_of(target: ast.expr) -> list[str]:
    """Return the names of an expression such as ``self.layers[0].weight.data``: those of a module, without ``data``."""
    text = re.sub(r"\[(\d+)\]", r".\1", ast.unparse(target))
    return [part for part in text.split(".") if part not in ("data", "detach()")]


def _is_parameter(names: list[str], owner: str, model: nn.Module, path: list[str]) -> bool | None:
    """Return whether names lead to the parameter at a path; None if they do not tell its module."""
    attributes = names[1:]
    if not attributes:
        return None
    if names[0] == "self":
        if path[-len(attributes) :] != attributes:
            return False
        holder = model.get_submodule(".".join(path[: -len(attributes)]))
        return owner in {kind.__name__ for kind in type(holder).__mro__}
    if attributes[-1] != path[-1]:
        return False
    return None if len(attributes) == 1 else path[-2:] == attributes[-2:]


def _class_name(file: str, target: ast.expr) -> str:
    """Return the name of the class around an expression; "" if there is none."""
    enclosing = _enclosing(file, target, (ast.ClassDef,))
    return enclosing.name if isinstance(enclosing, ast.ClassDef) else ""


def _enclosing(file: str, node: ast.expr, kinds: tuple[type[ast.AST], ...]) -> ast.AST | None:
    """Return the innermost definition of some kinds around an expression."""
    around = [
        each
        for each in _nodes(file)
        if isinstance(each, (*_FUNCTIONS, ast.ClassDef)) and isinstance(each, kinds) and covers_line(each, node.lineno)
    ]
    return max(around, key=lambda each: each.lineno, default=None)


def _nodes(file: str) -> tuple[ast.AST, ...]:
    return file_nodes(syntax_tree(file))
