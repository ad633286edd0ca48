"""Changes that keep a value that a model predicts positive, where its logarithm, root or reciprocal is taken."""

from __future__ import annotations

import ast

from torch.nn import functional

from nbdebug.finding import Edit
from nbdebug.rule_engine.expression_edits import expressions_at, is_namespace
from nbdebug.setup.notebook_names import user_variables
from nbdebug.source.assignments import covering_statement, last_assignment
from nbdebug.source.edits import insert_before, node_text, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import SourceScope, call_name, enclosing_scope, read_names, syntax_tree

POSITIVE_DOMAIN = frozenset({"sqrt", "rsqrt", "log", "log2", "log10", "pow"})
_MARGIN = "1e-6"


def make_positive(operation: str, line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the only operand of an operation on a line to its softplus; () if that is not certain.

    A variable is changed before its first use, since its other uses need the same value.
    """
    scope, operand = enclosing_scope(line) if line else None, _only_operand(line, operation)
    softplus = _softplus_name(line.file) if line else None
    if line is None or scope is None or operand is None or softplus is None:
        return ()
    if isinstance(operand, ast.Name):
        first = _first_use(scope, line, operand.id)
        code = f"{operand.id} = {softplus}({operand.id}) + {_MARGIN}"
        return (insert_before(line.file, first.lineno, code),) if first is not None else ()
    text = ast.unparse(operand)
    count = sum(isinstance(node, ast.expr) and ast.unparse(node) == text for node in ast.walk(scope))
    code = f"({softplus}({node_text(line.file, operand)}) + {_MARGIN})"
    return (replace_node(line.file, operand, code),) if count == 1 else ()


def _only_operand(line: SourceLine | None, operation: str) -> ast.expr | None:
    """Return what the only operation of a name on a line is applied to."""
    operands: list[ast.expr] = []
    for node in expressions_at(line):
        if isinstance(node, ast.Call) and call_name(node) == operation:
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            operands += [owner] if owner is not None and not is_namespace(owner) else node.args[:1]
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and operation == "pow":
            operands.append(node.left)
    return operands[0] if len(operands) == 1 else None


def _first_use(scope: SourceScope, line: SourceLine, name: str) -> ast.stmt | None:
    """Return the first statement that reads a variable after its last assignment, in the block of a line."""
    statement, assigned = covering_statement(line), last_assignment(line, name)
    blocks = [getattr(node, "body", []) for node in ast.walk(scope)]
    block = next((block for block in blocks if isinstance(block, list) and statement in block), [])
    after = assigned.number if assigned else 0
    return next((part for part in block if part.lineno > after and name in read_names(part)), None)


def _softplus_name(file: str) -> str | None:
    """Return how the code of a file calls the function softplus; None if it has no name for its module."""
    nodes = [node for node in ast.walk(syntax_tree(file) or ast.Module([], [])) if isinstance(node, ast.alias)]
    own = {node.asname for node in nodes if node.asname and node.name in ("functional", functional.__name__)}
    own |= {name for name, value in user_variables().items() if value is functional}
    has_torch = "torch" in user_variables() or any(node.name == "torch" and not node.asname for node in nodes)
    names = own or ({functional.__name__} if has_torch else set())
    return f"{min(names)}.softplus" if names else None
