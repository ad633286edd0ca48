"""Search the user's source for expressions and assignments."""

from __future__ import annotations

import ast
import inspect
import linecache
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from nbdebug.source.location import SourceLine, is_library_code, is_user_code
from nbdebug.source.notebook_cells import current_cells

_LABEL_NAME = re.compile(r"(?i)(^|_)(y|t|ys|labels?|targets?|masks?)(_|$)|^y")
_PARSED_FILES = 64  # files whose syntax is kept, since one finding reads those of a program again and again
SourceScope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


def find_unique_line(matches: Callable[[ast.AST], bool], context: Iterable[Any]) -> SourceLine | None:
    """Return the only line with an expression that matches; None if there is none, or more than one."""
    lines = find_lines(matches, context)
    return lines.pop() if len(lines) == 1 else None


def find_lines(matches: Callable[[ast.AST], bool], context: Iterable[Any]) -> set[SourceLine]:
    """Return the lines with an expression that matches."""
    return _find_lines(lambda node: [node] if matches(node) else [], context)


def find_zeroed_entry(context: Iterable[Any]) -> SourceLine | None:
    """Return the only line that sets an entry of a variable to 0, such as ``weight[0] = 0.0``; else None."""
    lines = {
        SourceLine(file, node.lineno)
        for file in search_files(context)
        for node in file_nodes(syntax_tree(file))
        if isinstance(node, ast.Assign)
        and is_literal(node.value, 0)
        and any(isinstance(target, ast.Subscript) for target in node.targets)
    }
    return lines.pop() if len(lines) == 1 else None


def may_assign(node: ast.Assign, attribute: str, value: Any) -> bool:
    """Check whether an assignment sets an attribute to anything but another value."""
    is_set = any(getattr(target, "attr", "") == attribute for target in assignment_targets(node))
    return is_set and (not isinstance(node.value, ast.Constant) or node.value.value == value)


def _find_lines(select: Callable[[ast.AST], list[Any]], context: Iterable[Any]) -> set[SourceLine]:
    """Return the lines of the nodes that ``select`` returns for the expressions of the user's files."""
    return {
        SourceLine(file, selected.lineno)
        for file in search_files(context)
        for node in parse_expressions(file)
        for selected in select(node)
    }


def find_uncalled_method(name: str, context: Iterable[Any]) -> SourceLine | None:
    """Return the only statement that names a method without calling it, such as ``model.eval``; else None."""
    trees = {file: syntax_tree(file) for file in search_files(context)}
    lines = {
        SourceLine(file, node.lineno)
        for file, tree in trees.items()
        for node in file_nodes(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Attribute) and node.value.attr == name
    }
    return lines.pop() if len(lines) == 1 else None


def find_line_in_class(kind: type, matches: Callable[[ast.AST], bool]) -> SourceLine | None:
    """Return the first line of a user class with an expression that matches."""
    try:
        source, first = inspect.getsourcelines(kind)
        file = inspect.getfile(kind)
    except (OSError, TypeError):
        return None
    tree = syntax_tree(file) if not is_library_code(file) else None
    line_numbers = [
        node.lineno
        for node in file_nodes(tree)
        if isinstance(node, ast.expr) and first <= node.lineno < first + len(source) and matches(node)
    ]
    return SourceLine(file, min(line_numbers), kind.__name__) if line_numbers else None


def find_option_line(option: str, value: Any, owners: Iterable[object], context: Iterable[Any]) -> SourceLine | None:
    """Return the only line that sets an option of some objects, such as the learning rate of an optimizer.

    Calls of the owners' classes are searched first, by name and by position; only if none sets the option, all calls
    and parameter groups that set it to this value.
    """
    context_items = list(context)
    kinds = {type(owner) for owner in owners}
    lines = _find_lines(_arguments_of(kinds, option, value), context_items) or _find_lines(
        _arguments_of(kinds, option), context_items
    )
    if not lines:
        return find_unique_line(matches_option(option, value), context_items)
    return lines.pop() if len(lines) == 1 else None


def find_setting_line(name: str, value: Any, context: Iterable[Any]) -> SourceLine | None:
    """Return the only line that gives a setting of a configuration a literal value; None if there are several.

    That is an entry of a dictionary, a keyword of a call, the default of a field of a class, or that of an option of a
    command line.
    """

    def select(node: ast.AST) -> list[Any]:
        entries: list[tuple[Any, Any]] = []
        if isinstance(node, ast.Dict):
            entries = [*zip(map(_constant, node.keys), node.values, strict=True)]
        elif isinstance(node, ast.Call):
            defaults = [keyword.value for keyword in node.keywords if keyword.arg == "default"]
            options = [str(_constant(argument)).lstrip("-").replace("-", "_") for argument in node.args]
            is_option = call_name(node) == "add_argument" and name in options
            entries = [(name, default) for default in defaults if is_option]
            entries += [(keyword.arg, keyword.value) for keyword in node.keywords]
        elif isinstance(node, ast.ClassDef):
            fields = [field for field in node.body if isinstance(field, (ast.Assign, ast.AnnAssign))]
            targets = [(target, field.value) for field in fields for target in assignment_targets(field)]
            entries = [(getattr(target, "id", ""), default) for target, default in targets]
        return [entry for key, entry in entries if key == name and entry is not None and is_literal(entry, value)]

    lines = {
        SourceLine(file, entry.lineno)
        for file in search_files(context)
        for node in file_nodes(syntax_tree(file))
        for entry in select(node)
    }
    return lines.pop() if len(lines) == 1 else None


def _arguments_of(kinds: set[type], option: str, value: Any = ...) -> Callable[[ast.AST], list[Any]]:
    """Select the argument for an option in a call that creates one of some classes, or in a partial application."""
    positions = {
        kind.__name__: parameter_names(kind).index(option) for kind in kinds if option in parameter_names(kind)
    }

    def select(node: ast.AST) -> list[Any]:
        if not isinstance(node, ast.Call):
            return []
        names = {call_name(node), *(getattr(argument, "attr", getattr(argument, "id", "")) for argument in node.args)}
        kind = next((name for name in positions if name in names), None)
        if kind is None:
            return []
        arguments = [keyword.value for keyword in node.keywords if keyword.arg == option]
        arguments += node.args[positions[kind] : positions[kind] + 1] if call_name(node) == kind else []
        return [argument for argument in arguments if value is ... or is_literal(argument, value)]

    return select


@lru_cache(256)
def parameter_names(kind: type) -> tuple[str, ...]:
    """Return the names of the parameters of a class's constructor; empty if it has no signature."""
    try:
        return tuple(inspect.signature(kind).parameters)
    except (TypeError, ValueError):
        return ()


def matches_option(option: str, value: Any) -> Callable[[ast.AST], bool]:
    """Match a keyword of a call, or an entry of a parameter group, by its name and literal value."""

    def matches(node: ast.AST) -> bool:
        if isinstance(node, ast.keyword):
            return node.arg == option and is_literal(node.value, value)
        entries = dict(zip(map(_constant, node.keys), node.values, strict=True)) if isinstance(node, ast.Dict) else {}
        return "params" in entries and option in entries and is_literal(entries[option], value)

    return matches


def _constant(node: ast.AST | None) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


def matches_call(name: str) -> Callable[[ast.AST], bool]:
    """Match calls of a function by its last name."""

    def matches(node: ast.AST) -> bool:
        function = node.func if isinstance(node, ast.Call) else None
        return getattr(function, "attr", getattr(function, "id", None)) == name

    return matches


def matches_replacement(attribute: str) -> Callable[[ast.AST], bool]:
    """Match an attribute that is set from outside its object, as in ``model.head = ...``."""

    def matches(node: ast.AST) -> bool:
        if not isinstance(node, ast.Attribute) or node.attr != attribute or not isinstance(node.ctx, ast.Store):
            return False
        return getattr(node.value, "id", None) != "self"

    return matches


def is_literal(node: ast.AST, value: Any) -> bool:
    """Check whether an expression is a literal with a value."""
    try:
        return bool(ast.literal_eval(node) == value)
    except ValueError:
        return False


def scales_labels(node: ast.AST) -> bool:
    """Return whether an expression multiplies or divides a variable with a label-like name by a number."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Div, ast.Mult, ast.FloorDiv)):
        return False
    return isinstance(node.right, ast.Constant) and any(_LABEL_NAME.search(name) for name in iterate_names(node.left))


def matches_scaling(factor: float) -> Callable[[ast.AST], bool]:
    """Match an expression that multiplies or divides by approximately a factor, or its inverse."""

    def matches(node: ast.AST) -> bool:
        number = node.right.value if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) else None
        if not isinstance(number, (int, float)) or not isinstance(getattr(node, "op", None), (ast.Div, ast.Mult)):
            return False
        return number > 0 and abs(abs(math.log(number)) - abs(math.log(factor))) < 0.3

    return matches


def iterate_names(node: ast.AST) -> Iterator[str]:
    """Yield the names, attributes and string keys in an expression."""
    for child in ast.walk(node):
        yield from (getattr(child, key) for key in ("id", "attr") if hasattr(child, key))
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value


def parse_expressions(file: str) -> list[Any]:
    """Return every expression and keyword of a file; empty if it is not plain Python."""
    return list(_expressions_in("".join(linecache.getlines(file))))


def search_files(context: Iterable[Any]) -> set[str]:
    """Return the current notebook cells, and the user files that define some functions or the classes of some objects.

    A file name in the context stands for itself.
    """
    candidates = {_get_source_file(item) for item in context} | {getattr(sys.modules.get("__main__"), "__file__", None)}
    return {*current_cells(), *(file for file in candidates if file and is_user_code(file))}


def _get_source_file(item: Any) -> str | None:
    """Return the file that defines a function or the class of an object; a file name itself."""
    if isinstance(item, str):
        return item
    code = getattr(item, "__code__", None)
    file = code.co_filename if code else getattr(sys.modules.get(type(item).__module__), "__file__", None)
    return file if isinstance(file, str) else None


def assignment_targets(node: ast.AST) -> list[Any]:
    """Return the targets of an assignment, those of a tuple one by one; empty for any other node."""
    if isinstance(node, ast.Assign):
        return [part for target in node.targets for part in getattr(target, "elts", [target])]
    return [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else []


def paired_targets(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target of an assignment with its value; those of a tuple that is unpacked share one value."""
    targets, values = getattr(target, "elts", None), getattr(value, "elts", None)
    if targets is not None and values is not None and len(targets) == len(values):
        yield from zip(targets, values, strict=True)
    else:
        yield from ((part, value) for part in targets or [target])


def syntax_tree(file: str) -> ast.Module | None:
    """Return the syntax tree of a file or cell; None if it is not plain Python."""
    return _parse_text("".join(linecache.getlines(file)))


def file_nodes(tree: ast.Module | None) -> tuple[ast.AST, ...]:
    """Return all nodes of a file or cell, in the order of ``ast.walk``; none for None."""
    return scope_nodes(tree) if tree is not None else ()


@lru_cache(_PARSED_FILES)
def scope_nodes(scope: ast.AST) -> tuple[ast.AST, ...]:
    """Return all nodes of a file, a cell or a function, in the order of ``ast.walk``, which many rules read."""
    return tuple(ast.walk(scope))


@lru_cache(_PARSED_FILES)
def _expressions_in(text: str) -> tuple[ast.expr | ast.keyword, ...]:
    return tuple(node for node in file_nodes(_parse_text(text)) if isinstance(node, (ast.expr, ast.keyword)))


@lru_cache(_PARSED_FILES)
def _parse_text(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


@lru_cache(_PARSED_FILES)
def _functions_in(tree: ast.Module) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    return tuple(node for node in file_nodes(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


def function_node(function: object) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the definition of a function or method, with the line numbers of its file; None if it is unknown."""
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)  # type: ignore[arg-type]
    tree = syntax_tree(code.co_filename) if code is not None else None
    for node in _functions_in(tree) if tree is not None else ():
        first = min(part.lineno for part in (node, *node.decorator_list))
        if code is not None and node.name == code.co_name and first == code.co_firstlineno:
            return node
    return None


def walk(node: ast.AST | None) -> Iterator[ast.AST]:
    """Yield a node and all nodes in it; nothing for None."""
    return ast.walk(node) if node is not None else iter(())


def enclosing_scope(line: SourceLine) -> SourceScope | None:
    """Return the innermost function around a line, or the whole file or cell."""
    tree = syntax_tree(line.file)
    if tree is None:
        return None
    enclosing = [node for node in _functions_in(tree) if covers_line(node, line.number)]
    return max(enclosing, key=lambda node: node.lineno, default=tree)


def covers_line(node: ast.stmt | ast.expr, number: int) -> bool:
    """Check whether a statement or expression covers a line."""
    return node.lineno <= number <= (node.end_lineno or node.lineno)


def assigned_names(node: ast.AST) -> set[str]:
    """Return the names that are assigned anywhere in a node."""
    return {
        name_node.id
        for name_node in ast.walk(node)
        if isinstance(name_node, ast.Name) and isinstance(name_node.ctx, ast.Store)
    }


def read_names(node: ast.AST) -> set[str]:
    """Return the names that are read anywhere in a node."""
    return {
        name_node.id
        for name_node in ast.walk(node)
        if isinstance(name_node, ast.Name) and isinstance(name_node.ctx, ast.Load)
    }


def enclosing_loops(scope: SourceScope, number: int) -> list[ast.For]:
    """Return the for-loops around a line, innermost first."""
    loops = [node for node in scope_nodes(scope) if isinstance(node, ast.For) and covers_line(node, number)]
    return sorted(loops, key=lambda node: node.lineno, reverse=True)


def innermost_loop(scope: SourceScope, number: int) -> ast.For | ast.While | None:
    """Return the innermost loop of either kind around a line; None outside of loops."""
    loops = [
        node for node in scope_nodes(scope) if isinstance(node, (ast.For, ast.While)) and covers_line(node, number)
    ]
    return max(loops, key=lambda loop: loop.lineno, default=None)


def may_be_skipped(scope: SourceScope, node: ast.AST, name: str, executed_line: int) -> bool:
    """Check whether an expression is in one branch of a choice whose other branch uses the same value.

    The source does not tell which branch runs, unless ``executed_line``, which has run, is in the same branch.
    """
    for choice in ast.walk(scope):
        if isinstance(choice, (ast.If, ast.IfExp)):
            body, alternative = _branch_statements(choice.body), _branch_statements(choice.orelse)
            for branch, other_branch in ((body, alternative), (alternative, body)):
                is_executed = any(covers_line(statement, executed_line) for statement in branch) and isinstance(
                    choice, ast.If
                )
                if (
                    any(_contains_node(statement, node) for statement in branch)
                    and not is_executed
                    and any(name in expression_texts(statement) for statement in other_branch)
                ):
                    return True
    return False


def _branch_statements(branch: ast.expr | list[ast.stmt]) -> list[ast.stmt] | list[ast.expr]:
    """Return the statements of a branch, or its single expression."""
    return branch if isinstance(branch, list) else [branch]


def _contains_node(part: ast.AST, node: ast.AST) -> bool:
    """Check whether a node is part of another."""
    return any(child is node for child in ast.walk(part))


def expression_texts(node: ast.AST) -> set[str]:
    """Return the source text of all expressions in a node."""
    return {ast.unparse(child) for child in ast.walk(node) if isinstance(child, ast.expr)}


def call_name(node: ast.AST) -> str:
    """Return the last name of the function that a call calls; "" if the node is not a call."""
    function = node.func if isinstance(node, ast.Call) else None
    return str(getattr(function, "attr", getattr(function, "id", "")))


def choice_branches(value: ast.expr | None) -> list[ast.expr]:
    """Return both values of a conditional expression, or the only value of another one."""
    if value is None:
        return []
    return [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]


def call_arguments(call: ast.Call) -> list[ast.expr]:
    """Return the arguments of a call, those passed by name last."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def call_subject(call: ast.Call) -> ast.expr | None:
    """Return the tensor of a call such as ``argmax``: the owner of the method, or the first argument of a function."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is None or (isinstance(owner, ast.Name) and owner.id in ("torch", "F", "np", "numpy")):
        return call.args[0] if call.args else None
    return owner
