"""The user's line that creates a part of the model: a module, or a parameter of its own."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from types import FunctionType

from torch import nn

from nbdebug.setup.initialization import constant_line
from nbdebug.setup.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.assignments import covering_statement, find_assignments, own_statements
from nbdebug.source.class_calls import lines_calling_held_class
from nbdebug.source.creation import Creation, consistent_creations
from nbdebug.source.location import SourceLine, is_library_code, is_user_code
from nbdebug.source.producers import part_producer
from nbdebug.source.scopes import Expression, file_scope
from nbdebug.source.search import (
    SourceScope,
    assignment_targets,
    call_name,
    enclosing_scope,
    file_nodes,
    function_node,
    search_files,
    syntax_tree,
    walk,
)

_MAX_STEPS = 8
_CLASS_CHECKS = ("isinstance", "issubclass")


def part_line(setup: Setup, module: str | None, parameter: str | None = None) -> SourceLine | None:
    """Return the line that creates a part of the model: a parameter that a class of the user holds, or a module.

    For a parameter that has one value, other than 0 and 1, that is the line that sets it.
    """
    parts = parameter.split(".") if parameter else []
    if parts and (line := constant_line(setup, ".".join(parts[:-1]), parts[-1]) or _writing_line(setup, parts)):
        return line
    if parts and (producer := _producer(setup.eager_model, parts)):
        return SourceLine(*producer)
    return module_line(setup, module or ".".join(parts[:-1]))


def untying_line(setup: Setup, parameters: Collection[str], tie: SourceLine | None) -> SourceLine | None:
    """Return the only assignment that replaces one of two tied parameters, or its module, after a line has tied them.

    Without that line, those in constructors do not count. None if there are several, or none.
    """
    owners = [tuple(name.split(".")[-2:]) for name in parameters]
    replaced = {*owners, *(owner[:1] for owner in owners if len(owner) > 1)}
    lines = set()
    for file in search_files(user_written_objects(setup)):
        for node in file_nodes(syntax_tree(file)):
            chains = [_attributes(target) for target in assignment_targets(node)]
            is_replacement = any(chain[-2:] in owners or chain in replaced for chain in chains if chain)
            ties_again = _attributes(getattr(node, "value", None))[-2:] in owners
            line = SourceLine(file, getattr(node, "lineno", 0))
            if is_replacement and not ties_again and _may_follow(line, tie):
                lines.add(line)
    return lines.pop() if len(lines) == 1 else None


def _attributes(node: ast.expr | None) -> tuple[str, ...]:
    """Return the attributes of a chain that starts at a variable, as in ``model.head.weight``; empty for others."""
    if not isinstance(node, ast.Attribute):
        return ()
    return (*_attributes(node.value), node.attr) if isinstance(node.value, (ast.Attribute, ast.Name)) else ()


def _may_follow(line: SourceLine, tie: SourceLine | None) -> bool:
    """Check whether a line may run after the one that ties parameters: later in its function, or in no constructor."""
    scope = enclosing_scope(line)
    if tie is not None and tie.file == line.file and enclosing_scope(tie) is scope:
        return line.number > tie.number
    return getattr(scope, "name", "") != "__init__"


def _writing_line(setup: Setup, parts: Sequence[str]) -> SourceLine | None:
    """Return the only statement with which the class of a module passes its own parameter on, to be written to."""
    try:
        owner = setup.eager_model.get_submodule(".".join(parts[:-1]))
    except AttributeError:
        return None
    parameter = f"self.{parts[-1]}"
    lines = {
        SourceLine(method.__code__.co_filename, node.lineno, method.__name__)
        for kind in type(owner).__mro__
        for method in vars(kind).values()
        if isinstance(method, FunctionType) and is_user_code(method.__code__.co_filename)
        for node in walk(function_node(method))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        if parameter in [ast.unparse(argument) for argument in node.value.args]
    }
    return lines.pop() if len(lines) == 1 else None


def module_line(setup: Setup, path: str) -> SourceLine | None:
    """Return the line that creates a module; for a part of a module of a library, the line that creates the whole.

    None for the model itself, and if several lines can have created the module.
    """
    files = search_files(user_written_objects(setup))
    parts = path.split(".") if path else []
    prefixes = (parts[:length] for length in range(len(parts), 0, -1))
    return next(filter(None, (creation_line(setup.eager_model, prefix, files) for prefix in prefixes)), None)


def creation_line(model: nn.Module, parts: Sequence[str], files: Collection[str]) -> SourceLine | None:
    """Return the line of the only call that can have created a module, or of the value that its owner assigns."""
    try:
        created = model.get_submodule(".".join(parts))
    except AttributeError:
        return None
    creations = _creations(created, files)
    if len(creations) == 1:
        return creations[0].line
    held_line = None if creations else _held_class_line(created, files)
    if line := held_line or _passed_class_line(created, files):
        return line
    producer = _producer(model, parts) or _item_of_model(model, parts, files)
    if producer is None and parts and creations and (container := _container(model, parts[:-1], files)):
        return _adding_line(container, type(created).__name__, {creation.call for creation in creations})
    return SourceLine(*producer) if producer else None


def _container(model: nn.Module, parts: Sequence[str], files: Collection[str]) -> Expression | None:
    """Return the call that creates a container of modules."""
    made = _producer(model, parts) if parts else None
    line = SourceLine(*made) if made else creation_line(model, parts, files)
    kind = type(model.get_submodule(".".join(parts))).__name__
    statement = covering_statement(line) if line else None
    nodes = walk(statement) if statement else ()
    calls = [node for node in nodes if isinstance(node, ast.Call) and call_name(node) == kind]
    return Expression(file_scope(line.file), calls[0]) if line and len(calls) == 1 else None


def _adding_line(container: Expression, class_name: str, creations: Collection[ast.Call]) -> SourceLine | None:
    """Return the only line that creates a module of a class for the list of which a container is made.

    None if another value that is added to the list may be such a module.
    """
    arguments = container.node.args if isinstance(container.node, ast.Call) else []
    listed = getattr(arguments[0], "value", arguments[0]) if len(arguments) == 1 else None
    scope = enclosing_scope(container.line)
    if not isinstance(listed, ast.Name) or scope is None:
        return None
    lines = set[SourceLine]()
    for value in _added_values(scope, listed.id):
        made = part_producer(Expression(container.scope, value), None)
        if made.node in creations:
            lines.add(made.line)
        elif not call_name(made.node)[:1].isupper() or call_name(made.node) == class_name:
            return None
    return lines.pop() if len(lines) == 1 else None


def _added_values(scope: SourceScope, name: str) -> Iterator[ast.expr]:
    """Yield the elements that the statements of a function assign or add to a list."""
    for statement in own_statements(scope):
        value: ast.expr | None = getattr(statement, "value", None)
        targets = [ast.unparse(getattr(target, "value", target)) for target in assignment_targets(statement)]
        values = [value] if name in targets and value else []
        if isinstance(value, ast.Call) and ast.unparse(getattr(value.func, "value", value.func)) == name:
            values = value.args[-1:]  # an index comes first
        for added in values:
            is_literal = isinstance(added, (ast.List, ast.Tuple))
            yield from getattr(added, "elts", []) if is_literal else [added]


def _held_class_line(created: nn.Module, files: Collection[str]) -> SourceLine | None:
    """Return the only line that calls a parameter or an attribute which holds the class of a module."""
    lines = lines_calling_held_class(type(created).__name__, files)
    return lines.pop() if len(lines) == 1 else None


def _passed_class_line(created: nn.Module, files: Collection[str]) -> SourceLine | None:
    """Return the only line that stores or passes the class of a module, which no line calls by its name."""
    name, lines = type(created).__name__, set[SourceLine]()
    for file in files:
        for node in walk(syntax_tree(file)):
            if isinstance(node, ast.Call) and call_name(node) == name:
                return None
            values = [node.value] if isinstance(node, (ast.Assign, ast.keyword)) else getattr(node, "args", [])
            if call_name(node) not in _CLASS_CHECKS and isinstance(values, list):
                lines |= {
                    SourceLine(file, v.lineno) for v in values if getattr(v, "attr", getattr(v, "id", "")) == name
                }
    return lines.pop() if len(lines) == 1 else None


def _creations(created: nn.Module, files: Collection[str]) -> list[Creation]:
    creations = consistent_creations(created, files)
    return [c for c in creations if not isinstance(created, nn.Sequential) or _has_items(c.call, created)]


def _has_items(call: ast.Call, created: nn.Sequential) -> bool:
    """Check whether the modules in the call of a ``Sequential`` can be the modules that it contains."""
    if any(isinstance(argument, (ast.Starred, ast.DictComp, ast.Dict)) for argument in call.args):
        return True
    if len(call.args) != len(created):
        return len(call.args) == 1 and not isinstance(call.args[0], ast.Call)
    classes = [getattr(nn, call_name(argument), None) for argument in call.args]
    return all(type(kind) is not type or isinstance(item, kind) for kind, item in zip(classes, created, strict=True))


def _item_of_model(model: nn.Module, parts: Sequence[str], files: Collection[str]) -> tuple[str, int] | None:
    """Return the file and the line of a part of a model that is a ``Sequential`` itself."""
    creations = _creations(model, files) if isinstance(model, nn.Sequential) else []
    return _item(creations[0].file, creations[0].call, parts) if len(creations) == 1 else None


def _producer(model: nn.Module, parts: Sequence[str]) -> tuple[str, int] | None:
    """Return the file and the line of the value that a method of the user assigns to a part of the model."""
    for length in range(len(parts) - 1, -1, -1):
        try:
            owner = model.get_submodule(".".join(parts[:length]))
        except AttributeError:
            continue
        lines = [line for line in find_assignments(owner, parts[length]) if not is_library_code(line.file)]
        if lines:
            value = _assigned_value(lines[0], parts[length]) if len({*lines}) == 1 else None
            return _item(lines[0].file, value, parts[length + 1 :]) if value is not None else None
    return None


def _assigned_value(line: SourceLine, attribute: str) -> ast.expr | None:
    """Return the value that the statement on a line assigns to an attribute."""
    statement = covering_statement(line)
    targets = [getattr(target, "attr", None) for target in assignment_targets(statement)] if statement else []
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.expr) or attribute not in targets:
        return None
    values = getattr(value, "elts", None) if len(targets) > 1 else None
    return values[targets.index(attribute)] if values and len(values) == len(targets) else value


def _item(file: str, value: ast.expr, keys: Sequence[str]) -> tuple[str, int] | None:
    """Return the file and the line of the module under some keys of a container; None if the source does not tell."""
    expression = part_producer(Expression(file_scope(file), value), None)
    for key in keys:
        item = _item_under_key(expression.node, key)
        if item is None:
            return None
        expression = part_producer(Expression(expression.scope, item), None)
    return expression.scope.file, expression.node.lineno


def _item_under_key(container: ast.expr, key: str) -> ast.expr | None:
    """Return the argument or the element of a container at a position."""
    items = container.args if isinstance(container, ast.Call) else getattr(container, "elts", [])
    if len(items) == 1 and isinstance(items[0], (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp)):
        items = [items[0].elt] * (int(key) + 1 if key.isdigit() else 0) if hasattr(items[0], "elt") else items[0].elts
    is_complete = not any(isinstance(item, ast.Starred) for item in items)
    return items[int(key)] if key.isdigit() and is_complete and int(key) < len(items) else None
