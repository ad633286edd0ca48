"""Express the fix of a finding as a change of the user's lines, where it replaces what stands there."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from nbdebug.autograd.patterns import statement_without_calls
from nbdebug.finding import Edit, Finding, is_code
from nbdebug.rule_engine.data_edits import find_data_edits
from nbdebug.rule_engine.layer_edits import remove_layer
from nbdebug.rule_engine.loop_edits import insert_at_line
from nbdebug.rule_engine.statement_edits import remove_statement
from nbdebug.setup import Setup
from nbdebug.setup.fix_names import setup_objects
from nbdebug.setup.fix_text import assigns_itself, free_names
from nbdebug.setup.notebook_names import user_variables
from nbdebug.setup.source_lines import find_setup_creation
from nbdebug.source.assignments import covering_statement
from nbdebug.source.creation import Creation
from nbdebug.source.edits import append_argument, insert_after, node_text, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, enclosing_scope, syntax_tree

_REMOVAL = re.compile(r"Remove module '(?P<path>[\w.]+)' from the model")
_CREATION = re.compile(
    r"Create the (?P<object>train loader|validation loader|optimizer|\w+) with (?P<option>\w+=[^,\s]+)\."
)
_POSITION = re.compile(r"(?P<code>[^#\n]+\S) +# (?P<side>before|after) this line")
_OBJECTS = {"train loader": "train_loader", "validation loader": "val_loader"}
_RULES_ON_DATA = ("D", "L")  # prefixes of the codes of rules on the data, and on the loss with its targets


def removed_module(fix: str) -> str:
    """Return the path of the module that a fix removes from the model; "" for any other fix."""
    match = _REMOVAL.match(fix)
    return match["path"] if match else ""


def setting_of_creation(fix: str) -> tuple[str, str, str] | None:
    """Return the object, the option and the value of a fix such as "Create the train loader with shuffle=True."."""
    match = _CREATION.fullmatch(fix)
    if match is None:
        return None
    option, _, value = match["option"].partition("=")
    return _OBJECTS.get(match["object"], match["object"]), option, value


def find_edits(setup: Setup, finding: Finding) -> tuple[Edit, ...]:
    """Return the changes of the user's source that a fix consists of; none if it cannot be written so.

    A fix changes a call that created an object of the setup, removes a module of a ``Sequential``, inserts a statement
    before or after the line of the finding, or replaces the statement there by one that reads the same names.
    """
    if finding.edits:
        return finding.edits
    fix, objects = finding.fix, setup_objects(setup)
    if path := removed_module(fix):
        return remove_layer(setup, path)
    if creation := setting_of_creation(fix):
        name, option, value = creation
        created = objects.get(name) or _scheduler_of_class(setup, name)
        return _change_creation(setup, finding, created, {option: value})
    line = SourceLine(finding.where.file or "", finding.where.line or 0)
    if match := _POSITION.fullmatch(fix):
        return insert_at_line(setup, line, match["code"], match["side"])
    statements = ast.parse(fix).body if is_code(fix) else []
    statements = [part for part in statements if not isinstance(part, (ast.Import, ast.ImportFrom))]
    # In the fixes of other rules, x is a value inside the model.
    if finding.code.startswith(_RULES_ON_DATA) and (data_edits := find_data_edits(setup, statements)):
        return data_edits
    if len(statements) != 1:
        return ()
    statement = statements[0]
    if setting := _setting(statement):
        return _change_creation(setup, finding, objects.get("optimizer"), dict([setting]))
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
        created = objects.get(ast.unparse(statement.targets[0]))
        if created is not None:
            return _change_call(setup, finding, created, statement.value)
    return _replace_statement(line, fix, statement)


def _takes_options(creation: Creation) -> bool:
    """Return whether the options of a call can be changed there: it unpacks no arguments, and is no ``partial``."""
    return not creation.unpacks_arguments and call_name(creation.call) != "partial"


def change_options(creation: Creation, created: object, options: Mapping[str, str]) -> tuple[Edit, ...]:
    """Return the changes of some options of a call, given as code; those that it already has stay.

    An option whose value is computed or stored elsewhere, as in ``lr=config["lr"]``, gets its value in the call.
    """
    if not _takes_options(creation):
        return ()
    edits = []
    for name, value in options.items():
        argument = creation.argument(created, name)
        if argument is None:
            edits.append(append_argument(creation.file, creation.call, f"{name}={value}"))
        elif ast.unparse(argument) != value:
            edits.append(replace_node(creation.file, argument, value))
    return tuple(edits)


def _scheduler_of_class(setup: Setup, name: str) -> Any:
    return next((item for item in setup.schedulers if type(item).__name__ == name), None)


def _setting(statement: ast.stmt) -> tuple[str, str] | None:
    """Return the option and its value of a loop that sets it in all parameter groups."""
    body = statement.body if isinstance(statement, ast.For) else []
    assignment = body[0] if len(body) == 1 else None
    if not isinstance(assignment, ast.Assign) or not isinstance(assignment.targets[0], ast.Subscript):
        return None
    key = assignment.targets[0].slice
    return (str(key.value), ast.unparse(assignment.value)) if isinstance(key, ast.Constant) else None


def _creation(setup: Setup, finding: Finding, created: object) -> Creation | None:
    """Return the call that created an object, if the finding is about its lines or has no line."""
    creation = find_setup_creation(setup, created)
    return creation if creation is not None and _is_about(finding, creation) else None


def _change_creation(setup: Setup, finding: Finding, created: object, options: dict[str, str]) -> tuple[Edit, ...]:
    """Return the changes of the options of the call that created an object.

    The finding is about that call, or about the line of a value that is computed or stored elsewhere.
    """
    creation = find_setup_creation(setup, created)
    if creation is None or not _takes_options(creation):
        return ()
    arguments = (creation.argument(created, name) for name in options)
    is_set_elsewhere = any(value is not None and not _is_literal(value) for value in arguments)
    return change_options(creation, created, options) if is_set_elsewhere or _is_about(finding, creation) else ()


def _is_about(finding: Finding, creation: Creation) -> bool:
    """Return whether a finding is about the lines of a call, or has no line."""
    where, last = finding.where, creation.call.end_lineno or creation.call.lineno
    return where.line is None or (creation.file == where.file and creation.call.lineno <= where.line <= last)


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except ValueError:
        return False
    return True


def _change_call(setup: Setup, finding: Finding, created: Any, call: ast.Call) -> tuple[Edit, ...]:
    """Return the change of the call that created an object into another one."""
    names_more = any(text.startswith("#") for text in finding.fix.splitlines())  # than the call
    if names_more or call_name(call) == type(created).__name__:
        return ()  # of the same class, the user's call has other arguments
    creation = _creation(setup, finding, created)
    if creation is None or not _is_known(ast.Expression(call), creation.line):
        return ()
    comment = finding.fix.splitlines()[(call.end_lineno or call.lineno) - 1].partition("#")[2].strip()
    note = insert_after(creation.file, creation.call.end_lineno or creation.call.lineno, "")
    is_last = SourceLine(creation.file, note.line).text.rstrip().endswith(ast.unparse(creation.call)[-1])
    edits = [replace_node(creation.file, creation.call, ast.unparse(call))]
    if comment and is_last:
        edits.append(Edit(note.file, note.line, note.column, note.line, note.column, f"  # {comment}"))
    return tuple(edits)


def change_head_and_loss(
    setup: Setup, line: SourceLine | None, activations: Collection[str], loss: str
) -> tuple[Edit, ...]:
    """Return the edits that remove an activation from a line of the model, and create another loss; () unless both."""
    statement, text = covering_statement(line) if line else None, statement_without_calls(line, activations)
    creation = find_setup_creation(setup, setup.loss_fn)
    if line is None or statement is None or text is None or creation is None:
        return ()
    return (replace_node(line.file, statement, text), replace_node(creation.file, creation.call, loss))


def _replace_statement(line: SourceLine, fix: str, statement: ast.stmt) -> tuple[Edit, ...]:
    """Return the replacement of the statement at a line by a fix of the same kind.

    A fix that computes a new value from the old one, such as ``self.layers = nn.ModuleList(self.layers)``, does so with
    the value that the statement assigns. Any other fix may only read what the statement reads.
    """
    present = covering_statement(line) if line.file and line.number else None
    if present is None or not _is_same_kind(present, statement) or not _is_known(statement, line):
        return ()
    if assigns_itself(fix):
        return (remove_statement(line.file, present),)
    if isinstance(present, ast.Assign) and isinstance(statement, ast.Assign):
        target = ast.unparse(present.targets[0])
        inner = [
            node for node in ast.walk(statement.value) if isinstance(node, ast.expr) and ast.unparse(node) == target
        ]
        if len(inner) == 1 and inner[0] is not statement.value:
            value, before, after = node_text(line.file, present.value), *_text_around(fix, statement.value, inner[0])
            return (replace_node(line.file, present.value, f"{before}{value}{after}"),)
    if set(_names(statement)) <= set(_names(present)) and ast.unparse(present) != ast.unparse(statement):
        return (replace_node(line.file, present, fix.strip()),)
    return ()


def _text_around(fix: str, outer: ast.expr, inner: ast.expr) -> tuple[str, str]:
    """Return the code of an expression before and after a part of it; both are in the first line of the fix."""
    first = fix.splitlines()[outer.lineno - 1].encode()
    before, after = first[outer.col_offset : inner.col_offset], first[inner.end_col_offset : outer.end_col_offset]
    return before.decode(), after.decode()


def _is_same_kind(present: ast.stmt, other: ast.stmt) -> bool:
    """Return whether two statements assign to the same targets, return, or call the same method."""
    if isinstance(present, ast.Assign) and isinstance(other, ast.Assign):
        return [ast.unparse(target) for target in present.targets] == [ast.unparse(t) for t in other.targets]
    if isinstance(present, ast.Expr) and isinstance(other, ast.Expr):
        calls = (present.value, other.value)
        return all(isinstance(call, ast.Call) for call in calls) and len({call_name(call) for call in calls}) == 1
    return isinstance(present, ast.Return) and isinstance(other, ast.Return)


def _is_known(code: ast.stmt | ast.Expression, line: SourceLine) -> bool:
    """Return whether the user's function, or the cell or file around a line, knows all names that some code reads."""
    body: list[ast.stmt] = [ast.Expr(code.body)] if isinstance(code, ast.Expression) else [code]
    scope, tree = enclosing_scope(line), syntax_tree(line.file)
    known = {name for part in filter(None, [scope, tree]) for name in _names(part)}
    return free_names(ast.Module(body, [])) <= known | user_variables().keys()


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, (ast.arg, ast.alias)):
            yield node.arg if isinstance(node, ast.arg) else node.asname or node.name.partition(".")[0]
