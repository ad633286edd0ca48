"""Insertions into the user's loop, with the names that the objects of a setup have there."""

from __future__ import annotations

import ast
import re
from collections import Counter

from nbdebug.autograd.patterns import CONVERSIONS, remove_calls
from nbdebug.finding import Edit
from nbdebug.rule_engine.expression_edits import only_call
from nbdebug.setup import Setup
from nbdebug.setup.fix_names import object_path, setup_objects
from nbdebug.setup.fix_text import free_names
from nbdebug.setup.source_lines import find_setup_creation
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import (
    insert_after,
    insert_after_statement,
    insert_before,
    node_text,
    replace_node,
    wrap_node,
)
from nbdebug.source.location import SourceLine
from nbdebug.source.search import (
    assigned_names,
    call_name,
    enclosing_loops,
    enclosing_scope,
    innermost_loop,
    read_names,
)

_TENSOR_MAKERS = ("tensor", "as_tensor", "Tensor", "FloatTensor")
_MAX_DEPTH = 4  # self.trainer.state.optimizer


def insert_at_line(setup: Setup, line: SourceLine, code: str, side: str) -> tuple[Edit, ...]:
    """Return the insertion of a statement "before" or "after" the statement on a line; () without names for it."""
    present = covering_statement(line)
    own_code = _with_names_at(setup, line, code) if present is not None else None
    if present is None or own_code is None:
        return ()
    if side == "before":
        return (insert_before(line.file, present.lineno, own_code),)
    has_block = hasattr(present, "body")
    return () if has_block else (insert_after(line.file, present.end_lineno or present.lineno, own_code),)


def insert_before_loop(setup: Setup, line: SourceLine | None, code: str) -> tuple[Edit, ...]:
    """Return the insertion of a statement before the innermost loop around a line, or before its comprehension."""
    scope = enclosing_scope(line) if line else None
    if line is None or scope is None:
        return ()
    own_code, statement = _with_names_at(setup, line, code), covering_statement(line)
    loop = innermost_loop(scope, line.number)
    comprehensions = (ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)
    if statement is not None and any(isinstance(node, comprehensions) for node in ast.walk(statement)):
        place = statement.lineno
    elif loop is not None:
        place = loop.lineno
    else:
        return ()
    return (insert_before(line.file, place, own_code),) if own_code else ()


def clear_before(step: SourceLine | None, target: SourceLine | None, *, is_scaled: bool = False) -> tuple[Edit, ...]:
    """Return the insertion of ``zero_grad()`` before a line for the optimizer that another line of the function steps.

    The optimizer is what the user wrote: ``optimizers[0]`` in ``optimizers[0].step()``. If the step ``is_scaled``, it
    is the argument of the step of a GradScaler. Return () for the variable of a loop that does not contain the target.
    """
    if step is None or target is None or (step.file, step.function) != (target.file, target.function):
        return ()
    statement, scope = covering_statement(target), enclosing_scope(step)
    optimizer = _argument_of_call(step, "step") if is_scaled else owner_of_call(step, "step")
    if statement is None or scope is None or optimizer is None:
        return ()
    loops = set(enclosing_loops(scope, step.number)) - set(enclosing_loops(scope, target.number))
    variables = {name for loop in loops if isinstance(loop, ast.For) for name in assigned_names(loop.target)}
    if variables & free_names(ast.parse(optimizer)):
        return ()
    return (insert_before(step.file, statement.lineno, f"{optimizer}.zero_grad()"),)


def owner_of_call(line: SourceLine, method: str) -> str | None:
    """Return the owner of the only call of a method on a line, if it is a name with attributes and constant indices."""
    function = getattr(only_call(line, (method,)), "func", None)
    return _path(function.value) if isinstance(function, ast.Attribute) else None


def _argument_of_call(line: SourceLine, method: str) -> str | None:
    """Return the first argument of the only call of a method on a line, if it is a path like the owner of a call."""
    call = only_call(line, (method,))
    return _path(call.args[0]) if call is not None and call.args else None


def _path(node: ast.expr) -> str | None:
    """Return the text of a name with attributes and constant indices; None for other expressions."""
    kinds = (ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.expr_context)
    return ast.unparse(node) if all(isinstance(part, kinds) for part in ast.walk(node)) else None


def move_after(line: SourceLine | None, target: SourceLine | None, *, with_condition: bool = False) -> tuple[Edit, ...]:
    """Return the edits that move a one-line statement behind another statement of the same function.

    Return () for other functions, where its names may mean something else, and for the only statement of a block, which
    moves ``with_condition`` if that is an ``if``.
    """
    if line is None or target is None or (line.file, line.function) != (target.file, target.function):
        return ()
    moved, anchor = _movable_statement(line, with_condition), covering_statement(target)
    if moved is None or anchor is None or any(node is anchor for node in ast.walk(moved)):
        return ()
    return (insert_after_statement(line.file, anchor, ast.unparse(moved)), _removal(line.file, moved))


def move_after_loop(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edits that move a one-line statement, or the ``if`` around it, after the innermost of two loops."""
    scope = enclosing_scope(line) if line else None
    moved = _movable_statement(line, with_condition=True) if line else None
    loops = enclosing_loops(scope, line.number) if scope and line else []
    if line is None or moved is None or len(loops) < 2 or loops[0] in ast.walk(moved):
        return ()
    return (insert_after_statement(line.file, loops[0], ast.unparse(moved)), _removal(line.file, moved))


def _movable_statement(line: SourceLine, with_condition: bool) -> ast.stmt | None:
    """Return the one-line statement on a line, or the ``if`` of which it is the only statement; None for others."""
    scope, statement = enclosing_scope(line), covering_statement(line)
    if scope is None or statement is None or statement.lineno != statement.end_lineno:
        return None
    if not _is_alone(scope, statement):
        return statement
    conditions = (node for node in ast.walk(scope) if isinstance(node, ast.If) and node.body == [statement])
    condition = next((node for node in conditions if not node.orelse), None) if with_condition else None
    return None if condition is None or _is_alone(scope, condition) else condition


def _removal(file: str, statement: ast.stmt) -> Edit:
    return Edit(file, statement.lineno, 0, (statement.end_lineno or statement.lineno) + 1, 0, "")


def divide_loss(line: SourceLine | None, divisor: int) -> tuple[Edit, ...]:
    """Return the division of the loss whose ``backward`` is called on a line: its owner, or its only argument."""
    statement = covering_statement(line) if line else None
    calls = [node for node in ast.walk(statement) if call_name(node) == "backward"] if statement else []
    call = calls[0] if len(calls) == 1 else None
    if line is None or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return ()
    loss = call.args[0] if call.args else call.func.value
    if isinstance(loss, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)):
        return (wrap_node(line.file, loss, f"({{}} / {divisor})"),)
    text = f"({node_text(line.file, loss)}) / {divisor}"  # the source of an owner has its parentheses already
    return (replace_node(line.file, loss, text),)


def accumulate_fewer_batches(line: SourceLine | None, batches: int) -> tuple[Edit, ...]:
    """Return the change of the number of batches after which the branch on a line steps.

    The condition has the form ``number % count == 0``. A variable is set before the loops, since the loss may be
    divided by it, too.
    """
    scope = enclosing_scope(line) if line else None
    nodes = list(ast.walk(scope)) if scope and line else []
    tests = [node.test for node in nodes if isinstance(node, ast.If) and line and node.lineno == line.number]
    operations = [node for test in tests for node in ast.walk(test) if isinstance(node, ast.BinOp)]
    moduli = [operation.right for operation in operations if isinstance(operation.op, ast.Mod)]
    loops = enclosing_loops(scope, line.number) if scope and line else []
    if line is None or len(moduli) != 1 or not loops:
        return ()
    if isinstance(moduli[0], (ast.Name, ast.Attribute)):
        return (insert_before(line.file, loops[-1].lineno, f"{ast.unparse(moduli[0])} = {batches}"),)
    return (replace_node(line.file, moduli[0], str(batches)),) if isinstance(moduli[0], ast.Constant) else ()


def repeat_outermost_loop(line: SourceLine | None, factor: int) -> tuple[Edit, ...]:
    """Return the edit that multiplies the number of rounds of the outermost loop around a line: ``range(2)``."""
    scope = enclosing_scope(line) if line else None
    loops = enclosing_loops(scope, line.number) if scope is not None and line else []
    rounds = loops[-1].iter if loops else None
    if line is None or not isinstance(rounds, ast.Call) or call_name(rounds) != "range" or len(rounds.args) != 1:
        return ()
    count = rounds.args[0]
    if isinstance(count, ast.Constant) and isinstance(count.value, int):
        return (replace_node(line.file, count, str(factor * count.value)),)
    return (wrap_node(line.file, count, f"{factor} * {{}}"),) if isinstance(count, (ast.Name, ast.Attribute)) else ()


def stack_collected_losses(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edits that collect losses as tensors, where a line makes a tensor of their values or the mean of them.

    ``torch.tensor(sum(losses) / len(losses))`` becomes its argument, and ``torch.tensor(losses)`` a stack.
    """
    scope = enclosing_scope(line) if line else None
    statement = covering_statement(line) if line else None
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)] if statement else []
    makers = [call for call in calls if call_name(call) in _TENSOR_MAKERS and len(call.args) == 1]
    if line is None or scope is None or len(makers) != 1 or not _works_on_tensors(makers[0].args[0]):
        return ()
    argument = makers[0].args[0]
    values = [value for name in read_names(argument) for value in _collected_values(scope, name)]
    without_calls = {value: remove_calls(ast.unparse(value), CONVERSIONS) for value in values}
    if not values or not any(without_calls.values()):
        return ()
    edits = [replace_node(line.file, value, text) for value, text in without_calls.items() if text]
    source = node_text(line.file, argument)
    tensor = f"torch.stack({source})" if isinstance(argument, ast.Name) else f"({source})"
    return (*edits, replace_node(line.file, makers[0], tensor))


def _works_on_tensors(value: ast.expr) -> bool:
    """Check whether an expression computes the same with tensors as with numbers: it only calls ``sum`` and ``len``."""
    calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
    return all(isinstance(call.func, ast.Name) and call.func.id in ("sum", "len") for call in calls)


def _collected_values(scope: ast.AST, name: str) -> list[ast.expr]:
    """Return the values that a list of some name collects, by ``append`` or in a comprehension."""
    nodes = list(ast.walk(scope))
    appended = [
        node.args[0]
        for node in nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"{name}.append" and len(node.args) == 1
    ]
    listed = [
        node.value.elt
        for node in nodes
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.ListComp)
        and ast.unparse(node.targets[0]) == name
    ]
    return [*appended, *listed]


def _is_alone(scope: ast.AST, statement: ast.stmt) -> bool:
    """Return whether a statement is the only one of its block."""
    parts = (getattr(node, name, None) for node in ast.walk(scope) for name in ("body", "orelse"))
    return any(part == [statement] for part in parts if isinstance(part, list))


def _with_names_at(setup: Setup, line: SourceLine, code: str) -> str | None:
    """Return code with the names that the objects of the setup have in the function around a line; None without one."""
    scope, objects = enclosing_scope(line), setup_objects(setup)
    if scope is None:
        return None
    paths = [ast.unparse(node) for node in ast.walk(scope) if isinstance(node, (ast.Name, ast.Attribute))]
    for role in free_names(ast.parse(code)):
        path = _name_in(setup, paths, role, objects.get(role)) or object_path(objects.get(role))
        if not path:
            return None
        code = re.sub(rf"(?<![\w.]){role}\b", path, code)
    return code


def name_at(setup: Setup, line: SourceLine, item: object) -> str | None:
    """Return the name that an object has in the function around a line; None if it is not used there."""
    scope = enclosing_scope(line)
    names = [ast.unparse(node) for node in ast.walk(scope)] if scope else []
    return _name_in(setup, names, "", item)


def _name_in(setup: Setup, paths: list[str], role: str, item: object) -> str | None:
    """Return the name among some names and attribute paths that is most often used for an object."""
    creation = find_setup_creation(setup, item)
    names = {role, *(creation.names if creation else ())} - {""}
    counts = Counter(path for path in paths if path.rpartition(".")[2] in names and path.count(".") < _MAX_DEPTH)
    return counts.most_common(1)[0][0] if counts else None
