"""The lines of the user's code that calls execute: where two differ, and where a call or a loop is left."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from torch import Tensor

from nbdebug.source.assignments import covering_statement
from nbdebug.source.interpreter_events import trace_lines
from nbdebug.source.location import SourceLine, get_running_line, is_debugger_code, is_library_code
from nbdebug.source.search import covers_line, enclosing_scope
from nbdebug.source.unused_results import find_discarded_call

_IN_PLACE_OF_ARRAYS = frozenset({"sort", "fill", "partition", "put", "resize"})
_Instruction = tuple[str, str, int, int, int]  # file, function, line, offset in the function, its first line


def find_differing_line(first: Callable[[], object], second: Callable[[], object]) -> SourceLine | None:
    """Return the first line of the user's code of which one of two calls executes more than the other.

    Instructions are compared, so that a conditional expression counts. If the second call executes nothing more in the
    functions that both run, it is the first line of the longest function that only the second runs which does not occur
    in that of the first; if all occur there, the last line, unless that of the first is longer. Functions of the same
    name, as methods of two classes, are one function, unless both calls run one that differs in itself. None if the
    calls execute the same instructions, share none, or raise, or if a debugger traces this thread.
    """
    if sys.gettrace() is not None:
        return None
    try:
        instructions = _executed_instructions(first), _executed_instructions(second)
    except Exception:
        return None
    for identify in (_definition, _name):
        own, other = ({identify(item) for item in items} for items in instructions)
        differing = [item for item in instructions[0] ^ instructions[1] if identify(item) in own & other]
        if identify is _definition and not differing:
            continue  # methods of two classes, such as those of two datasets, are compared by their name
        if not own & other:
            return None
        if not instructions[1].intersection(differing) and (line := _line_of_own_function(*instructions)):
            return line
        if differing:
            file, function, number, *_ = min(differing, key=lambda item: (item[0], item[2]))
            return SourceLine(file, number, function)
    return None


def _definition(instruction: _Instruction) -> tuple[object, ...]:
    """Return what only the instructions of one function have in common: its file, name and first line."""
    return *instruction[:2], instruction[-1]


def _name(instruction: _Instruction) -> tuple[object, ...]:
    return instruction[:2]


def find_discarding_line(call: Callable[[], object]) -> SourceLine | None:
    """Return the first line of the user's code that a call executes and that discards a tensor's or array's method.

    That is a statement such as ``image.flip(-1)``, of a method that returns its result and changes nothing in place.
    None if there is no such line, if the call raises, or if a debugger traces this thread.
    """
    if sys.gettrace() is not None:
        return None
    try:
        executed = _executed_instructions(call)
    except Exception:
        return None
    places = sorted({(file, number, function) for file, function, number, *_ in executed})
    lines = (SourceLine(*place) for place in places)
    return next((line for line in lines if _discards_tensor(line)), None)


def _discards_tensor(line: SourceLine) -> bool:
    """Check whether a line is a statement that only calls a method of tensors which other containers do not have."""
    call = find_discarded_call(line)
    name = call.func.attr if call is not None and isinstance(call.func, ast.Attribute) else ""
    is_in_place = name in _IN_PLACE_OF_ARRAYS or any(hasattr(kind, name) for kind in (list, dict, set))
    return bool(name) and not name.endswith("_") and not is_in_place and hasattr(Tensor, name) and hasattr(torch, name)


def _line_of_own_function(first: set[_Instruction], second: set[_Instruction]) -> SourceLine | None:
    """Return the line of the longest function that only a second call runs which differs from that of the first."""
    longest: list[list[_Instruction]] = []
    for own, other in ((first, second), (second, first)):
        functions = {item[:2] for item in own} - {item[:2] for item in other}
        parts = [sorted(item for item in own if item[:2] == function) for function in functions]
        longest.append(max(parts, key=len, default=[]))
    lines = [list(dict.fromkeys(SourceLine(file, number, name) for file, name, number, *_ in part)) for part in longest]
    texts = {line.text.strip() for line in lines[0]}
    differing = [line for line in lines[1] if line.text.strip() not in texts] if lines[0] else []
    if differing:
        return differing[0]
    return lines[1][-1] if len(longest[1]) > len(longest[0]) else None


def _executed_instructions(call: Callable[[], object]) -> set[_Instruction]:
    """Run a call and return the instructions of the user's code that it executes."""
    instructions: set[_Instruction] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if is_library_code(file) or is_debugger_code(file):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            code = frame.f_code
            instructions.add((file, code.co_name, frame.f_lineno, frame.f_lasti, code.co_firstlineno))
        return trace

    with trace_lines(trace):
        call()
    return instructions


def find_return(function: Callable[..., object], code: CodeType, *arguments: object) -> SourceLine | None:
    """Return the line on which a call leaves a function, by its code, for the last time.

    None if the call does not run this function or raises, or if a debugger traces this thread.
    """
    return next(reversed(_lines_of_events("return", function, code, arguments)), None)


def find_last_line(function: FunctionType, matches: Callable[[ast.AST], bool], *arguments: object) -> SourceLine | None:
    """Return the last line of a function that a call executes and whose statement has a part that matches.

    None if the call raises, or if a debugger traces this thread.
    """
    lines = reversed(_lines_of_events("line", function, function.__code__, arguments))
    return next((line for line in lines if _has_part(line, matches)), None)


def _lines_of_events(
    event: str, function: Callable[..., object], code: CodeType, arguments: tuple[object, ...]
) -> list[SourceLine]:
    """Return the lines at which some code has an event in a call; none if the call raises, or a debugger traces."""
    lines: list[SourceLine] = []

    def trace(frame: FrameType, present: str, _: Any) -> Any:
        if frame.f_code is not code:
            return None
        if present == event:
            lines.append(get_running_line(frame))
        return trace

    try:
        if sys.gettrace() is None:
            with trace_lines(trace):
                function(*arguments)
    except Exception:
        return []
    return lines


def _has_part(line: SourceLine, matches: Callable[[ast.AST], bool]) -> bool:
    """Check whether a part of a statement matches; of a compound one, only what stands on its first line."""
    statement = covering_statement(line)
    nodes = ast.walk(statement) if statement is not None else ()
    return any(matches(node) and getattr(node, "lineno", line.number) == line.number for node in nodes)


def find_early_return(call: Callable[[], object]) -> SourceLine | None:
    """Return the only ``return`` in the user's code that ends a loop in its first round, whatever the data.

    That is one that a call executes and that is a statement of the body of the loop itself, not of a branch in it.
    None if there are more, or if a debugger traces this thread.
    """
    if sys.gettrace() is not None:
        return None
    returns: set[SourceLine] = set()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if is_library_code(file) or is_debugger_code(file):
            return None
        if event == "return":
            returns.add(get_running_line(frame))
        return trace

    try:
        with trace_lines(trace):
            call()
    except Exception:
        return None
    early = [line for line in returns if _is_in_body_of_loop(line)]
    return early[0] if len(early) == 1 else None


def _is_in_body_of_loop(line: SourceLine) -> bool:
    scope = enclosing_scope(line)
    loops = [node for node in (ast.walk(scope) if scope else ()) if isinstance(node, (ast.For, ast.While))]
    statements = [statement for loop in loops for statement in loop.body if isinstance(statement, ast.Return)]
    return any(covers_line(statement, line.number) for statement in statements)
