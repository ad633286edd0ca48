"""The line that binds a second name to a network, or copies it without its parameters, as if that were a copy."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from types import FrameType

from torch import nn

from nbdebug.source.assignments import (
    certain_line,
    covering_statement,
    find_assignments,
    function_by_name,
    last_assignment,
    returned_value,
)
from nbdebug.source.creation import find_creation, find_received_call
from nbdebug.source.location import SourceLine, get_running_line, is_library_code
from nbdebug.source.references import frame_variables, user_files, user_frames
from nbdebug.source.search import (
    call_arguments,
    call_name,
    choice_branches,
    enclosing_scope,
    file_nodes,
    search_files,
    syntax_tree,
)

_MAX_CALLERS = 4  # functions that pass a network on
_MISSING = object()


def find_network_alias(frame: FrameType | None, loaded: nn.Module | None = None) -> SourceLine | None:
    """Return the line that binds a second name to a network if the running line loads its state into itself.

    If that network is created where it is bound, the one whose state is loaded may be the second name. Follows
    attributes into the class of their object, parameters into the caller, and calls into a function of the user that
    returns its argument. If the ``loaded`` network is another object with the same parameters, return the line that
    copied the network without them, as ``copy.copy()`` does.
    """
    frames = [*user_frames(frame)][: _MAX_CALLERS + 1]
    statement = covering_statement(get_running_line(frames[0])) if frames else None
    loads = [node for node in ast.walk(statement) if call_name(node) == "load_state_dict"] if statement else []
    load = loads[0] if len(loads) == 1 else None
    if not isinstance(load, ast.Call) or not load.args:
        return None
    if copying := _find_copying_line(load, loaded, frames):
        return copying
    if call_name(load.args[0]) != "state_dict":
        return None
    functions = [getattr(call, "func", None) for call in (load, load.args[0])]
    owners = [function.value for function in functions if isinstance(function, ast.Attribute)]
    if len({ast.unparse(owner) for owner in owners}) < 2:
        return None
    lines = [line for owner in owners if (line := _binding_line(owner, frames)) is not None]
    bindings = (line if _binds_other_network(line) else _returned_argument_line(line) for line in lines)
    binding = next(filter(None, bindings), None)
    searches = (_repeated_argument_line, _repeated_attribute_line, _repeated_item_line)
    repeated = next(filter(None, (search(owners, frames) for search in searches)), None)
    return repeated or binding or _received_line(loaded, owners[0], frame)


def _find_copying_line(load: ast.Call, loaded: nn.Module | None, frames: list[FrameType]) -> SourceLine | None:
    """Return the line that builds the loaded network from the parts of the network whose state it loads.

    None if that is the same network, or unknown.
    """
    state = load.args[0]
    if isinstance(state, ast.Name) and (line := last_assignment(get_running_line(frames[0]), state.id)):
        state = getattr(covering_statement(line), "value", state)
    function = getattr(state, "func", None) if call_name(state) == "state_dict" else None
    source = _value_of(function.value, frames[0]) if isinstance(function, ast.Attribute) else None
    if loaded is None or not isinstance(source, nn.Module) or source is loaded:
        return None
    copying = find_received_call(loaded, search_files(user_files(frames[0])), frames[0], _shares_parameters)
    return copying.line if copying else None


def _shares_parameters(call: ast.Call) -> bool:
    """Check whether a call makes another module of the parts of one: ``copy.copy(net)``, ``nn.Sequential(*net)``."""
    is_sequential = call_name(call) == "Sequential" and any(isinstance(part, ast.Starred) for part in call.args)
    return is_sequential or (call_name(call) == "copy" and len(call.args) == 1 and not call.keywords)


def _repeated_argument_line(owners: list[ast.expr], frames: list[FrameType]) -> SourceLine | None:
    """Return the call on the stack that passes one network for both parameters that the two states belong to."""
    if not all(isinstance(owner, ast.Name) for owner in owners):
        return None
    for depth in range(len(frames) - 1):
        passed = [_passed_argument(getattr(owner, "id", ""), frames[depth:]) for owner in owners]
        owners = [argument for argument in passed if argument is not None]
        if len(owners) < len(passed):
            return None
        if len({ast.unparse(owner) for owner in owners}) == 1:
            return get_running_line(frames[depth + 1]) if _is_as_is(owners[0]) else None
    return None


def _repeated_attribute_line(owners: list[ast.expr], frames: list[FrameType]) -> SourceLine | None:
    """Return the call that creates an object with one network for two parameters, of which attributes are set."""
    for owner in owners:
        holder = _value_of(owner.value, frames[0]) if isinstance(owner, ast.Attribute) else _MISSING
        if holder is _MISSING or not isinstance(owner, ast.Attribute):
            continue
        creation = find_creation(holder, search_files(user_files(frames[0])), frames[0])
        argument = creation.argument(holder, _stored_parameter(holder, owner.attr)) if creation else None
        if creation and argument and _is_repeated(argument, call_arguments(creation.call)):
            return SourceLine(creation.file, argument.lineno)
    return None


def _is_repeated(value: ast.expr, values: Iterable[ast.expr]) -> bool:
    """Check whether a network is passed or stored as it is, and more than once."""
    return _is_as_is(value) and [*map(ast.unparse, values)].count(ast.unparse(value)) > 1


def _stored_parameter(holder: object, attribute: str) -> str:
    """Return the parameter that the class of an object stores in an attribute: of the same name for a data class."""
    statements = [covering_statement(line) for line in find_assignments(holder, attribute)]
    names = {getattr(getattr(statement, "value", None), "id", "") for statement in statements}
    return names.pop() if len(names) == 1 else attribute


def _repeated_item_line(owners: list[ast.expr], frames: list[FrameType]) -> SourceLine | None:
    """Return the line that stores one network twice in a dictionary or a list, of which the owners are items."""
    owner = owners[0]
    if not isinstance(owner, ast.Subscript) or not isinstance(owner.slice, ast.Constant):
        return None
    key, container = owner.slice.value, owner.value
    line = get_running_line(frames[0])
    file, nodes = line.file, file_nodes(syntax_tree(line.file))
    stores = [
        node for node in nodes if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == ast.unparse(owner)
    ]
    if stores:
        return SourceLine(file, stores[0].lineno) if len(stores) == 1 and _is_as_is(stores[0].value) else None
    binding = _bound_line(container, frames)
    value = getattr(covering_statement(binding), "value", None) if binding else None
    if isinstance(value, ast.Call) and value.args and hasattr(nn, call_name(value)):
        value = value.args[0]  # nn.ModuleDict({...}) and nn.ModuleList([...])
    items = _items(value)
    item = items.get(key)
    if binding is None or item is None or not _is_repeated(item, items.values()):
        return None
    return SourceLine(binding.file, item.lineno)


def _bound_line(container: ast.expr, frames: list[FrameType]) -> SourceLine | None:
    """Return the only line that binds a variable or an attribute."""
    line = get_running_line(frames[0])
    if isinstance(container, ast.Attribute):
        lines = find_assignments(_value_of(container.value, frames[0]), container.attr)
        return lines[0] if len(lines) == 1 else None
    return certain_line(line, container.id) if isinstance(container, ast.Name) else None


def _items(value: ast.expr | None) -> dict[object, ast.expr]:
    """Return the items of a dictionary, a list or a tuple in the source, by key or position."""
    if isinstance(value, ast.Dict):
        return {getattr(key, "value", key): item for key, item in zip(value.keys, value.values, strict=True)}
    if isinstance(value, ast.Call) and call_name(value) == "dict":
        return {keyword.arg: keyword.value for keyword in value.keywords}
    return dict(enumerate(value.elts)) if isinstance(value, (ast.List, ast.Tuple)) else {}


def _returned_argument_line(line: SourceLine) -> SourceLine | None:
    """Return the line at which the function that an assignment calls returns its argument as it is."""
    value = getattr(covering_statement(line), "value", None)
    name = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
    function = function_by_name(line.file, name)
    return _returned_parameter(line.file, function) if function else None


def _returned_parameter(file: str, function: ast.FunctionDef) -> SourceLine | None:
    """Return the line at which a function returns one of its parameters, which nothing has assigned."""
    returned = returned_value(function)
    parameters = {item.arg for item in (*function.args.posonlyargs, *function.args.args)}
    if not isinstance(returned, ast.Name) or returned.id not in parameters:
        return None
    line = SourceLine(file, returned.lineno, function.name)
    return line if last_assignment(line, returned.id) is None else None


def _received_line(network: nn.Module | None, owner: ast.expr, frame: FrameType | None) -> SourceLine | None:
    """Return the line at which a function of the user returned its argument to be stored under the name of an owner."""
    files, name = search_files(user_files(frame)), getattr(owner, "attr", getattr(owner, "id", ""))
    nodes = [(file, node) for file in files if (tree := syntax_tree(file)) for node in file_nodes(tree)]
    functions = [(file, node) for file, node in nodes if isinstance(node, ast.FunctionDef)]
    lines = {node.name: line for file, node in functions if (line := _returned_parameter(file, node))}
    if network is None or not lines:
        return None
    received = find_received_call(network, files, frame, lambda call: getattr(call.func, "id", "") in lines)
    return lines[call_name(received.call)] if received and name in received.names else None


def _binding_line(expression: ast.expr, frames: list[FrameType]) -> SourceLine | None:
    """Return the line that binds a variable or an attribute which the innermost of some frames reads."""
    if not frames:
        return None
    line = get_running_line(frames[0])
    if isinstance(expression, ast.Attribute):
        owner = _value_of(expression.value, frames[0])
        assignments = find_assignments(owner, expression.attr)
        lines = {line for line in assignments if not is_library_code(line.file)}
        lines = {line for line in lines if _binds_other_network(line)} or lines
        return lines.pop() if len(lines) == 1 else None
    if not isinstance(expression, ast.Name):
        return None
    if assigned := last_assignment(line, expression.id, changes=False) or certain_line(line, expression.id):
        return assigned
    argument = _passed_argument(expression.id, frames)
    return _binding_line(argument, frames[1:]) if argument is not None else None


def _value_of(expression: ast.expr, frame: FrameType) -> object:
    """Return the object to which a variable or its stored attributes refer, without running the user's code."""
    if isinstance(expression, ast.Name):
        return {**frame.f_globals, **frame_variables(frame)}.get(expression.id, _MISSING)
    owner = _value_of(expression.value, frame) if isinstance(expression, ast.Attribute) else _MISSING
    attributes = getattr(owner, "__dict__", {})
    parts = {**(owner._modules if isinstance(owner, nn.Module) else {}), **attributes}
    return parts.get(expression.attr, _MISSING) if isinstance(expression, ast.Attribute) else _MISSING


def _passed_argument(name: str, frames: list[FrameType]) -> ast.expr | None:
    """Return the expression that the caller passes for a parameter of the function of the innermost frame."""
    code, caller = frames[0].f_code, frames[1] if len(frames) > 1 else None
    statement = covering_statement(get_running_line(caller)) if caller is not None else None
    calls = [node for node in ast.walk(statement) if call_name(node) == code.co_name] if statement else []
    function = enclosing_scope(get_running_line(frames[0]))
    if len(calls) != 1 or not isinstance(calls[0], ast.Call) or not isinstance(function, ast.FunctionDef):
        return None
    if any(isinstance(argument, ast.Starred) for argument in calls[0].args):
        return None
    parameters = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    is_method = isinstance(calls[0].func, ast.Attribute) and parameters[:1] == ["self"]
    passed = dict(zip(parameters[is_method:], calls[0].args, strict=False))
    return passed.get(name) or next((item.value for item in calls[0].keywords if item.arg == name), None)


def _binds_other_network(line: SourceLine) -> bool:
    """Check whether a line assigns a name or an attribute as it is, or what a method of modules returns: itself.

    Of a choice, one branch must: as both names refer to one network, that is the one which ran.
    """
    value = getattr(covering_statement(line), "value", None)
    branches = value.values if isinstance(value, ast.BoolOp) else choice_branches(value)
    return any(map(_is_as_is, branches))


def _is_as_is(value: ast.expr | None) -> bool:
    """Check whether a value is that of a name or an attribute, or what a method of modules returns: itself."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and hasattr(nn.Module, value.func.attr):
        value = value.func.value
    return isinstance(value, (ast.Name, ast.Attribute))
