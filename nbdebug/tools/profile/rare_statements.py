"""Skip a statement of the user's loop for a while, as advice to run it more rarely would."""

from __future__ import annotations
import __future__

import ast
import copy
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType

from nbdebug.exceptions import NotChecked
from nbdebug.source.assignments import find_function, own_statements
from nbdebug.source.edited_functions import exchanged_code
from nbdebug.source.location import SourceLine
from nbdebug.source.search import covers_line
from nbdebug.tools.profile.line_times import own_loop

_GUARD = "_nbdebug_runs_statement"
_LEAVING = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await)


@contextmanager
def skip_statement(
    line: SourceLine, codes: Sequence[CodeType], step_lines: Sequence[SourceLine], is_skipped: Callable[[], bool]
) -> Iterator[None]:
    """Skip the statement of a line, or the loop around it in which no step is made, while ``is_skipped`` returns True.

    The first run of the statement is never skipped, since later ones may read what it assigns. ``codes`` are those of
    the functions that are open while a step is made, at ``step_lines``. Raises NotChecked if the statement cannot be
    skipped: it contains the step, or leaves the function.
    """
    code = next((item for item in codes if item.co_filename == line.file and item.co_name == line.function), None)
    functions = [item for item in gc.get_referrers(code) if isinstance(item, FunctionType)] if code else []
    if code is None or not functions:
        raise NotChecked("the function of the line is unknown")
    guarded = _guarded_code(code, own_loop(line, step_lines), step_lines)
    has_run = False

    def runs() -> bool:
        nonlocal has_run
        runs_now, has_run = not has_run or not is_skipped(), True
        return runs_now

    try:
        for function in functions:
            function.__globals__[_GUARD] = runs
        with exchanged_code(dict.fromkeys(functions, guarded)):
            yield
    finally:
        for function in functions:
            function.__globals__.pop(_GUARD, None)


def _guarded_code(code: CodeType, number: int, step_lines: Sequence[SourceLine]) -> CodeType:
    """Return the code of a function in which a guard decides whether the statement at a line runs."""
    function = copy.deepcopy(find_function(code))
    if not isinstance(function, ast.FunctionDef):
        raise NotChecked("the source of the function is unknown")
    covering = [statement for statement in own_statements(function) if covers_line(statement, number)]
    statement = max(covering, key=lambda item: item.lineno, default=None)
    if statement is None or any(covers_line(statement, step.number) for step in step_lines):
        raise NotChecked("the line contains the step")
    nodes = [*ast.walk(statement)]
    leaves_loop = not isinstance(statement, (ast.For, ast.While)) and any(
        isinstance(node, (ast.Break, ast.Continue)) for node in nodes
    )
    if leaves_loop or any(isinstance(node, _LEAVING) for node in nodes):
        raise NotChecked("the line leaves the loop")
    function.decorator_list = []
    _Guarding(statement).visit(function)
    return _compile(function, code)


class _Guarding(ast.NodeTransformer):
    """Wraps one statement into a condition."""

    def __init__(self, statement: ast.stmt) -> None:
        self._statement = statement

    def visit(self, node: ast.AST) -> ast.AST:
        """Return the node, or the condition around the statement."""
        if node is not self._statement:
            return super().generic_visit(node)
        test = ast.Call(ast.Name(_GUARD, ast.Load()), [], [])
        return ast.copy_location(ast.If(test, [self._statement], []), self._statement)


def _compile(function: ast.FunctionDef, original: CodeType) -> CodeType:
    """Return the code of a function with the same variables of enclosing functions as the original."""
    parameters = [ast.arg(name) for name in original.co_freevars]
    outer = ast.parse("def enclosing(): pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.args.args, outer.body = parameters, [function]
    tree = ast.fix_missing_locations(ast.Module([outer], []))
    flags = original.co_flags & __future__.annotations.compiler_flag
    module_code = compile(tree, original.co_filename, "exec", flags=flags, dont_inherit=True)
    outer_code = next(item for item in module_code.co_consts if isinstance(item, CodeType))
    codes = [item for item in outer_code.co_consts if isinstance(item, CodeType) and item.co_name == original.co_name]
    has_same_names = bool(codes) and {*codes[0].co_names} - {_GUARD} == {*original.co_names}
    if not has_same_names or codes[0].co_freevars != original.co_freevars:
        raise NotChecked("the function cannot be compiled again")  # such as names that belong to a class alone
    return codes[0]
