"""The user's stacks at the events of a loop: where the order of two events is decided, and why one never occurs."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from types import FrameType, FunctionType
from typing import Any

from nbdebug.source.assignments import covering_statement, last_assignment
from nbdebug.source.location import SourceLine, get_running_line, is_user_code
from nbdebug.source.producers import executed_return
from nbdebug.source.references import frame_variables, user_frames
from nbdebug.source.search import (
    assigned_names,
    call_arguments,
    call_name,
    covers_line,
    enclosing_loops,
    enclosing_scope,
    scope_nodes,
)

_LOOPS = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
_MAX_STACKS = 64  # different ones of an event that are counted
Stack = tuple[SourceLine, ...]  # the innermost line first


def user_stack(frame: FrameType | None) -> Stack:
    """Return the user's lines on the stack that ends in ``frame``."""
    return tuple(map(get_running_line, user_frames(frame)))


class StackCounter:
    """Counts the user's stacks of events that come from several calls, only some of which are at fault."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[Stack]] = {}

    def add(self, event: str, stack: Stack) -> None:
        """Count a stack of an event, unless it is unknown or there are too many."""
        counts = self.counts.setdefault(event, Counter())
        if stack and (stack in counts or len(counts) < _MAX_STACKS):
            counts[stack] += 1

    def most_frequent(self) -> dict[str, Stack]:
        """Return the most frequent stack of each event; of equally frequent ones, the first."""
        return {event: counts.most_common(1)[0][0] for event, counts in self.counts.items() if counts}


class ClearingCalls:
    """Counts the calls that cleared gradients which no step had used, by the event that follows.

    The events are "clearing before batch", "clearing before step" and "clearing between passes".
    """

    def __init__(self) -> None:
        self.stacks, self.pending = StackCounter(), Stack()

    def on_cleared(self, frame: FrameType | None) -> None:
        """Record that gradients were cleared by a call on a frame; None if it is unknown."""
        self.pending = user_stack(frame) if frame is not None else ()

    def on_following_event(self, event: str) -> None:
        """Record the event that follows the latest of these calls."""
        self.stacks.add(event, self.pending)
        self.pending = ()


def _find_loop_line(stack: Stack) -> SourceLine | None:
    """Return the innermost line of a stack that is in a loop or a comprehension, else the innermost line."""
    return next((line for line in stack if _is_in_loop(line)), stack[0] if stack else None)


def find_consuming_line(stack: Stack) -> SourceLine | None:
    """Return the innermost line of a stack in a loop, but that of the caller if the loop only yields its results.

    The loop of a generator yields and adds up nothing, as in ``for x, y in loader: yield net(x), y``.
    """
    line = _find_loop_line(stack)
    depth = stack.index(line) if line else 0
    caller = stack[depth + 1] if depth + 1 < len(stack) else None
    return caller if line and caller and _only_yields(line) and _is_in_loop(caller) else line


@lru_cache(64)
def _only_yields(line: SourceLine) -> bool:
    """Check whether the innermost loop around a line yields values, and neither adds them up nor collects them."""
    scope = enclosing_scope(line)
    loops = enclosing_loops(scope, line.number) if scope else []
    nodes = [*ast.walk(loops[0])] if loops else []
    adds = any(isinstance(node, ast.AugAssign) or call_name(node) in ("append", "extend", "update") for node in nodes)
    return not adds and any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes)


@lru_cache(64)
def _is_in_loop(line: SourceLine) -> bool:
    scope = enclosing_scope(line)
    loops = [node for node in scope_nodes(scope) if isinstance(node, _LOOPS)] if scope else []
    return any(covers_line(loop, line.number) for loop in loops)


def get_deciding_line(frame: FrameType | None, name: str) -> SourceLine | None:
    """Return the user's line on the stack of ``frame`` that decides what a method is called with.

    That is the innermost line, unless it only passes on a parameter of its function: then it is the line of the caller.
    """
    line = None
    for user_frame in user_frames(frame):
        code = user_frame.f_code
        line = SourceLine(code.co_filename, user_frame.f_lineno, code.co_name)
        if not _passes_parameters(line, name, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]):
            break
        name = code.co_name
    return line


@lru_cache(64)
def _passes_parameters(line: SourceLine, name: str, parameters: tuple[str, ...]) -> bool:
    """Check whether all arguments in the call of a function on a line are parameters that nothing has changed."""
    statement = covering_statement(line)
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)] if statement else []
    own_calls = [call for call in calls if call_name(call) == name and covers_line(call, line.number)]
    arguments = [value for call in own_calls for value in call_arguments(call)]
    names = [argument.id for argument in arguments if isinstance(argument, ast.Name) and argument.id in parameters]
    return 0 < len(names) == len(arguments) and not any(last_assignment(line, name) for name in names)


def ordering_line(stacks: Mapping[str, Stack], event: str, other: str) -> SourceLine | None:
    """Return the line of an event in the innermost function that also leads to another event.

    That function decides the order of the two, unless it leads to the event by a call of whatever a variable holds, as
    of each of some callbacks: then it is the function so called. None if the event has not occurred.
    """
    stack, functions = stacks.get(event, ()), {(line.file, line.function) for line in stacks.get(other, ())}
    depth = next((index for index, line in enumerate(stack) if (line.file, line.function) in functions), 0)
    for index in range(depth, 0, -1):
        if _calls_item(stack[index], stack[index - 1].function):
            return stack[index - 1]
    return stack[depth] if stack else None


def _calls_item(line: SourceLine, function: str) -> bool:
    """Check whether a line calls a function as an item of a loop or a container, or by the name of an attribute."""
    scope, statement = enclosing_scope(line), covering_statement(line)
    if scope is None or statement is None:
        return False
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call) and covers_line(node, line.number)]
    named = [call.func for call in calls if call_name(call) == function]
    functions = named or [call.func for call in calls if not isinstance(call.func, ast.Attribute)]
    owners = [node.value if isinstance(node, ast.Attribute) else node for node in functions]
    items = {name for loop in _loops_around(scope, line.number) for name in _loop_variables(loop)}
    return any(_is_item(owner) or getattr(owner, "id", "") in items for owner in owners)


def _is_item(node: ast.expr) -> bool:
    """Check whether an expression reads an item of a container, or an attribute by its name."""
    return isinstance(node, ast.Subscript) or call_name(node) == "getattr"


def is_in_loops_of(stacks: Mapping[str, Stack], event: str, other: str) -> bool:
    """Check whether an event is in all loops around another one, in the function that leads to both."""
    line, other_line = ordering_line(stacks, event, other), ordering_line(stacks, other, event)
    scope = enclosing_scope(line) if line else None
    if line is None or other_line is None or scope is None or line.file != other_line.file:
        return False
    return _loops_around(scope, other_line.number) <= _loops_around(scope, line.number)


def _loops_around(scope: ast.AST, number: int) -> set[ast.For | ast.AsyncFor | ast.While]:
    loops = [node for node in scope_nodes(scope) if isinstance(node, (ast.For, ast.AsyncFor, ast.While))]
    return {loop for loop in loops if covers_line(loop, number)}


def _loop_variables(loop: ast.For | ast.AsyncFor | ast.While) -> set[str]:
    return set() if isinstance(loop, ast.While) else assigned_names(loop.target)


class OptimizerNames:
    """The names of the optimizers in the functions that run the first backward pass."""

    def __init__(self) -> None:
        self.by_line: dict[SourceLine, frozenset[str]] = {}
        self.functions: dict[str, FunctionType] = {}

    def record(self, optimizers: Collection[Any], frame: FrameType | None) -> None:
        """Record the variables, and the attributes of variables, that hold an optimizer."""
        ids = {id(optimizer) for optimizer in optimizers}
        for user_frame in user_frames(frame) if ids and not self.by_line else ():
            line = get_running_line(user_frame)
            variables = {**user_frame.f_globals, **frame_variables(user_frame)}
            used = {name: variables[name] for name in _names_in(user_frame) if name in variables}
            self.by_line[line] = frozenset(_names_of(ids, used))
            self.functions |= {name: value for name, value in used.items() if isinstance(value, FunctionType)}

    def skipping_branch(self) -> SourceLine | None:
        """Return the only branch around a ``step()`` of an optimizer that does not contain the backward pass.

        The caller knows that no optimizer has stepped, so that its condition was never true.
        """
        branches = {branch for line, names in self.by_line.items() for branch in _step_branches(line, names)}
        return branches.pop() if len(branches) == 1 else None

    def skipping_condition(self) -> SourceLine | None:
        """Return the line of the user's function whose result is the condition of that branch, else the branch."""
        branch = self.skipping_branch()
        choice = covering_statement(branch) if branch else None
        test = choice.test if isinstance(choice, ast.If) else None
        function = self.functions.get(call_name(test)) if isinstance(test, ast.Call) else None
        is_own = function is not None and is_user_code(function.__code__.co_filename)
        returned = executed_return(function) if function is not None and is_own else None
        return returned.line if returned else branch


def _names_in(frame: FrameType) -> Sequence[str]:
    code = frame.f_code
    return [*code.co_varnames, *code.co_freevars, *code.co_cellvars, *code.co_names]


def _names_of(ids: Collection[int], variables: Mapping[str, Any]) -> list[str]:
    """Return the variables, and the attributes of variables, that hold an object with one of some ids."""
    names = [name for name, value in variables.items() if id(value) in ids]
    for name, value in variables.items():
        attributes = getattr(value, "__dict__", None) if type(value).__dictoffset__ else None
        if isinstance(attributes, dict):
            names += [f"{name}.{key}" for key, attribute in [*attributes.items()] if id(attribute) in ids]
    return names


def _step_branches(line: SourceLine, names: Collection[str]) -> list[SourceLine]:
    """Return the branches around the steps in the function of a line that do not contain the line."""
    scope = enclosing_scope(line)
    nodes = scope_nodes(scope) if scope and names else ()
    steps = [node.lineno for node in nodes if isinstance(node, ast.Call) and _is_step_of(node, names)]
    choices = [node for node in nodes if isinstance(node, ast.If) and not covers_line(node, line.number)]
    around = [choice.lineno for choice in choices if any(covers_line(choice, number) for number in steps)]
    return [SourceLine(line.file, number, line.function) for number in around]


def _is_step_of(call: ast.Call, names: Collection[str]) -> bool:
    """Check whether a call is the step of an object with one of some names."""
    return call_name(call) == "step" and isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in names
