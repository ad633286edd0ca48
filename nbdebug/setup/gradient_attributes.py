"""Modules with a plain attribute ``requires_grad`` that contradicts their parameters, and the lines that set it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from nbdebug.setup.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.scopes import file_scope
from nbdebug.source.search import (
    assigned_names,
    assignment_targets,
    call_name,
    covers_line,
    enclosing_loops,
    enclosing_scope,
    file_nodes,
    search_files,
    syntax_tree,
)

_NAME = "requires_grad"
_MAX_ATTRIBUTES = 16  # a loop over all modules sets them alike, and each is followed through the source
_TENSOR_ITERATORS = {"parameters", "named_parameters", "buffers", "named_buffers"}


@dataclass(frozen=True)
class GradientAttribute:
    """A module whose plain attribute ``requires_grad`` has another ``value`` than all of its parameters."""

    path: str
    module: nn.Module
    value: bool
    parameters: tuple[nn.Parameter, ...]


@dataclass(frozen=True)
class _FlagStatement:
    """A statement of the user's that sets ``requires_grad`` of ``receiver``; ``value`` is None if it is no literal."""

    line: SourceLine
    receiver: ast.expr
    value: bool | None
    is_call: bool


def contradicted_attributes(model: nn.Module) -> list[GradientAttribute]:
    """Return the first modules of a model whose attribute ``requires_grad`` no parameter follows, 16 at most.

    The attribute of an inner module counts for its parameters instead of that of an outer one. A module of which some
    parameters follow is left out: other code sets these.
    """
    contradicted = []
    for path, module in model.named_modules():
        value = vars(module).get(_NAME)
        parameters = tuple(_own_parameters(module)) if isinstance(value, bool) else ()
        if parameters and all(parameter.requires_grad != value for parameter in parameters):
            contradicted.append(GradientAttribute(path, module, bool(value), parameters))
    return contradicted[:_MAX_ATTRIBUTES]


def _own_parameters(module: nn.Module) -> Iterator[nn.Parameter]:
    """Yield the parameters of a module without those of inner modules that have an attribute of their own."""
    yield from module.parameters(recurse=False)
    for child in module.children():
        if not isinstance(vars(child).get(_NAME), bool):
            yield from _own_parameters(child)


def attribute_lines(setup: Setup, attribute: GradientAttribute) -> list[SourceLine]:
    """Return the user's lines that may have set an attribute, of which the parameters should have taken the value.

    Empty if the attribute may be meant otherwise: if code reads it, or if other statements switch the parameters of
    the module, so that the attribute may be older than they are.
    """
    settings = [*_settings(setup)]
    plain = [s for s in settings if not s.is_call and not _is_of_tensor(setup, s)]
    own = [s for s in plain if _relation(setup, attribute, s.receiver, s.line) == "same"]
    assigned = [s for s in own or plain if s.value in (attribute.value, None)]
    assigned = [s for s in assigned if _relation(setup, attribute, s.receiver, s.line) != "other"]
    proper = [s for s in settings if s not in plain and _relation(setup, attribute, s.receiver, s.line) != "other"]
    if not assigned or _is_read(setup, attribute) or _may_be_older(attribute, assigned, proper):
        return []
    return [s.line for s in assigned]


def is_switched_in_turns(setup: Setup, attribute: GradientAttribute) -> bool:
    """Check whether the user's code gives the attribute of a module both values, or one that is no literal."""
    values: dict[str, set[bool | None]] = {}
    for setting in _settings(setup):
        is_plain = not setting.is_call and not _is_of_tensor(setup, setting)
        if is_plain and _relation(setup, attribute, setting.receiver, setting.line) != "other":
            values.setdefault(ast.unparse(setting.receiver), set()).add(setting.value)
    return any(None in kinds or len(kinds) > 1 for kinds in values.values())


def _settings(setup: Setup) -> Iterator[_FlagStatement]:
    """Yield the statements ``x.requires_grad = value``, ``setattr(x, ...)`` and ``x.requires_grad_(value)``."""
    for file in search_files(user_written_objects(setup)):
        for node in file_nodes(syntax_tree(file)):
            line = SourceLine(file, getattr(node, "lineno", 0))
            if isinstance(node, ast.Assign):
                for target in assignment_targets(node):
                    if isinstance(target, ast.Attribute) and target.attr == _NAME:
                        yield _FlagStatement(line, target.value, _literal(node.value), is_call=False)
            elif call_name(node) == "requires_grad_" and isinstance(node, ast.Call):
                arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
                if isinstance(node.func, ast.Attribute):
                    yield _FlagStatement(
                        line, node.func.value, _literal(arguments[0]) if arguments else True, is_call=True
                    )
            elif isinstance(node, ast.Call) and _sets_flag(node):
                yield _FlagStatement(line, node.args[0], _literal(node.args[2]), is_call=False)


def _sets_flag(call: ast.Call) -> bool:
    """Match ``setattr(module, "requires_grad", value)``."""
    is_complete = call_name(call) == "setattr" and len(call.args) == 3
    return is_complete and getattr(call.args[1], "value", None) == _NAME


def _literal(node: ast.expr) -> bool | None:
    value = getattr(node, "value", None)
    return value if isinstance(node, ast.Constant) and isinstance(value, bool) else None


def _is_of_tensor(setup: Setup, setting: _FlagStatement) -> bool:
    """Check whether a statement sets the flag of a parameter: of a loop over parameters, or by the name of one."""
    if _iterated_owner(setting.receiver, setting.line) is not setting.receiver:
        return True
    names = {name.rpartition(".")[2] for name, _ in setup.eager_model.named_parameters()}
    return isinstance(setting.receiver, ast.Attribute) and setting.receiver.attr in names - _module_names(setup)


def _iterated_owner(receiver: ast.expr, line: SourceLine) -> ast.expr:
    """Return the module over whose parameters a loop runs that gives a variable; other expressions as they are."""
    scope = enclosing_scope(line)
    for loop in enclosing_loops(scope, line.number) if scope and isinstance(receiver, ast.Name) else ():
        if isinstance(receiver, ast.Name) and receiver.id in assigned_names(loop.target):
            calls = [node for node in ast.walk(loop.iter) if call_name(node) in _TENSOR_ITERATORS]
            owners = [node.func.value for node in calls if isinstance(node.func, ast.Attribute)]  # type: ignore[attr-defined]
            return owners[0] if owners else receiver
    return receiver


def _module_names(setup: Setup) -> set[str]:
    return {name for path, _ in setup.eager_model.named_modules() for name in path.split(".") if name}


def _relation(setup: Setup, attribute: GradientAttribute, receiver: ast.expr, line: SourceLine) -> str:
    """Return "same" if an expression is the module of an attribute, "other" if it is another module, else ""."""
    owner = _iterated_owner(receiver, line)
    value = file_scope(line.file).value(owner)
    if isinstance(value, nn.Module):
        return "same" if value is attribute.module else "" if _overlap(value, attribute) else "other"
    path, name = attribute.path.split("."), _last_name(owner)
    if name == "self" and (kinds := _classes_around(line)):
        own = {kind.__name__ for kind in type(attribute.module).__mro__}
        return "same" if kinds[-1] in own else ""
    if name == path[-1] and isinstance(owner, (ast.Attribute, ast.Subscript)):
        return "same"
    inner = {part for path, _ in attribute.module.named_modules() for part in path.split(".")}
    is_other = isinstance(owner, ast.Attribute) and name in _module_names(setup) - {*path, *inner}
    return "other" if is_other else ""


def _overlap(module: nn.Module, attribute: GradientAttribute) -> bool:
    concerned = {id(parameter) for parameter in attribute.parameters}
    return any(id(parameter) in concerned for parameter in module.parameters())


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        return str(getattr(node.slice, "value", ""))
    return getattr(node, "attr", "") or getattr(node, "id", "")


def _classes_around(line: SourceLine) -> list[str]:
    classes = [node for node in file_nodes(syntax_tree(line.file)) if isinstance(node, ast.ClassDef)]
    return [node.name for node in classes if covers_line(node, line.number)]


def _is_read(setup: Setup, attribute: GradientAttribute) -> bool:
    """Check whether code reads the attribute, so that it may have an effect of its own; printing does not count."""
    return any(map(_is_of_library, type(attribute.module).__mro__)) or any(
        _relation(setup, attribute, owner, line) == "same" or _is_model(attribute, owner, line)
        for owner, line in _reads(setup)
    )


def _is_of_library(kind: type) -> bool:
    """Check whether a library's class, other than those of torch, has code that knows the name."""
    if kind.__module__.startswith("torch.nn."):
        return False
    codes = [value.__code__ for value in vars(kind).values() if hasattr(value, "__code__")]
    return any(_NAME in code.co_names and not is_user_code(code.co_filename) for code in codes)


def _is_model(attribute: GradientAttribute, owner: ast.expr, line: SourceLine) -> bool:
    """Check whether an expression may be the whole model, by its usual names."""
    is_variable = isinstance(owner, ast.Name) and _iterated_owner(owner, line) is owner
    return not attribute.path and is_variable and _last_name(owner) in ("model", "net")


def _reads(setup: Setup) -> Iterator[tuple[ast.expr, SourceLine]]:
    """Yield the objects of which the user's code reads the flag, with their lines."""
    for file in search_files(user_written_objects(setup)):
        nodes = file_nodes(syntax_tree(file))
        shown = {id(part) for node in nodes if _shows(node) for part in ast.walk(node)}
        for node in nodes:
            if id(node) not in shown and (owner := _read_owner(node)) is not None:
                yield owner, SourceLine(file, owner.lineno)


def _shows(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert) or call_name(node) == "print"


def _read_owner(node: ast.AST) -> ast.expr | None:
    """Return the object of which an expression reads ``requires_grad``."""
    if isinstance(node, ast.Attribute) and node.attr == _NAME and isinstance(node.ctx, ast.Load):
        return node.value
    is_getattr = isinstance(node, ast.Call) and call_name(node) == "getattr" and len(node.args) > 1
    return node.args[0] if is_getattr and getattr(node.args[1], "value", None) == _NAME else None  # type: ignore[attr-defined]


def _may_be_older(attribute: GradientAttribute, assigned: list[_FlagStatement], proper: list[_FlagStatement]) -> bool:
    """Check whether the parameters may have been switched on purpose after the attribute was set.

    Trainable parameters may if code that works freezes them, since other code then thaws them. Frozen ones may if the
    statement that freezes them runs later.
    """
    freezing = [s for s in proper if s.value in (False, None)]
    if not attribute.value:
        return bool(freezing)
    return any(_runs_later(freeze, first) for freeze in freezing for first in assigned)


def _runs_later(later: _FlagStatement, first: _FlagStatement) -> bool:
    """Check whether a statement follows another one of its function, or is outside of the constructor that has it."""
    scopes = enclosing_scope(later.line), enclosing_scope(first.line)
    if scopes[0] is scopes[1]:
        return later.line.number > first.line.number
    return getattr(scopes[1], "name", "") == "__init__"
