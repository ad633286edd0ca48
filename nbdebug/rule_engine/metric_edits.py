"""Changes of the lines that compute a metric: what is counted, when counting starts, and which loader is read."""

from __future__ import annotations

import ast

from nbdebug.finding import Edit
from nbdebug.rule_engine.expression_edits import expressions_at
from nbdebug.rule_engine.loop_edits import name_at
from nbdebug.setup import Setup
from nbdebug.setup.source_lines import find_setup_creation
from nbdebug.source.edits import insert_before, node_text, replace_node, wrap_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, call_subject, enclosing_scope, innermost_loop, syntax_tree


def count_rows(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of a divisor ``len(loader)`` on a line into the number of rows of its dataset.

    Nothing is changed if the divisor is the length of the list that is summed, which has no dataset.
    """
    calls = [node for node in expressions_at(line) if isinstance(node, ast.Call) and node.args]
    summed = {ast.unparse(call.args[0]) for call in calls if call_name(call) in ("sum", "fsum")}
    lengths = [
        call
        for call in calls
        if call_name(call) == "len"
        and isinstance(call.args[0], (ast.Name, ast.Attribute))
        and not ast.unparse(call.args[0]).endswith(".dataset")
    ]
    if line is None or len(lengths) != 1 or ast.unparse(lengths[0].args[0]) in summed:
        return ()
    return (wrap_node(line.file, lengths[0].args[0], "{}.dataset"),)


def weigh_by_rows(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the edits by which a sum of batch means on a line weighs each batch by its rows.

    The loop must unpack its batches from a loader, and the sum is divided once, by the number of these batches.
    """
    scope = enclosing_scope(line) if line else None
    loop = innermost_loop(scope, line.number) if scope and line else None
    if line is None or scope is None or not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple):
        return ()
    batch, loader = loop.target.elts[-1], ast.unparse(loop.iter)
    sums = [node for node in ast.walk(loop) if isinstance(node, ast.AugAssign) and node.lineno == line.number]
    name = ast.unparse(sums[0].target) if len(sums) == 1 and isinstance(sums[0].op, ast.Add) else ""
    divisors = [
        node.right
        for node in ast.walk(scope)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and ast.unparse(node.left) == name
    ]
    lengths = [call for call in divisors if isinstance(call, ast.Call) and ast.unparse(call) == f"len({loader})"]
    if not isinstance(batch, ast.Name) or not name or len(divisors) != 1 or len(lengths) != 1:
        return ()
    value = sums[0].value
    template = "{} * len(%s)" if isinstance(value, (ast.Call, ast.Name)) else "({}) * len(%s)"
    return wrap_node(line.file, value, template % batch.id), wrap_node(line.file, lengths[0].args[0], "{}.dataset")


def reset_counters(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the insertion that sets what the innermost loop around a line adds up to zero, before that loop."""
    scope = enclosing_scope(line) if line else None
    loop = innermost_loop(scope, line.number) if scope and line else None
    if line is None or loop is None:
        return ()
    sums = [node for node in ast.walk(loop) if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)]
    names = dict.fromkeys(
        ast.unparse(node.target) for node in sums if isinstance(node.target, (ast.Name, ast.Attribute))
    )
    return (insert_before(line.file, loop.lineno, f"{' = '.join(names)} = 0"),) if names else ()


def exchange_loaders(setup: Setup, line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the exchange of the training loader for the validation loader where a loop evaluates.

    If the loop reads a parameter of its function, that is what the only call of the function passes for it.
    """
    scope = enclosing_scope(line) if line else None
    loop = innermost_loop(scope, line.number) if scope and line else None
    if line is None or not isinstance(loop, ast.For):
        return ()
    edits = _exchange_at(setup, SourceLine(line.file, loop.lineno), loop.iter)
    tree = syntax_tree(line.file)
    if edits or tree is None or not isinstance(scope, ast.FunctionDef):
        return edits
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and call_name(node) == scope.name]
    changes = [_exchange_at(setup, SourceLine(line.file, call.lineno), call) for call in calls]
    return changes[0] if len(changes) == 1 else ()


def _exchange_at(setup: Setup, line: SourceLine, expression: ast.expr) -> tuple[Edit, ...]:
    train = name_at(setup, line, setup.train_loader)
    val = name_at(setup, line, setup.val_loader) or _sibling(setup, train or "")
    parts = [node for node in ast.walk(expression) if isinstance(node, (ast.Name, ast.Attribute))]
    own = [node for node in parts if train and ast.unparse(node) == train]
    return (replace_node(line.file, own[0], val),) if val and len(own) == 1 else ()


def _sibling(setup: Setup, path: str) -> str:
    """Return the attribute of the validation loader beside that of the training loader, ``p.val_loader``."""
    creation = find_setup_creation(setup, setup.val_loader)
    owner, names = path.rpartition(".")[0], creation.names if creation else frozenset()
    return f"{owner}.{next(iter(names))}" if owner and len(names) == 1 else ""


def replace_decision(line: SourceLine, operation: str) -> tuple[Edit, ...]:
    """Return the change of an index along an axis of one value into a comparison, or of the threshold on a line.

    A threshold of 0 becomes 0.5, and one of 0.5 becomes 0.
    """
    nodes = expressions_at(line)
    calls = [node for node in nodes if isinstance(node, ast.Call) and operation and call_name(node) == operation]
    subject = call_subject(calls[0]) if len(calls) == 1 else None
    if subject is not None:
        return (replace_node(line.file, calls[0], f"({node_text(line.file, subject)}.squeeze(1) > 0).long()"),)
    comparisons = [
        node for node in nodes if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Gt, ast.GtE))
    ]
    limits = [node.comparators[0] for node in comparisons if isinstance(node.comparators[0], ast.Constant)]
    opposite = {"0": "0.5", "0.0": "0.5", "0.5": "0"}.get(ast.unparse(limits[0])) if len(limits) == 1 else None
    return (replace_node(line.file, limits[0], opposite),) if opposite else ()


def select_lowest(line: SourceLine | None) -> tuple[Edit, ...]:
    """Return the change of the only comparison that decides which weights are stored, so that the lowest value does.

    The variable of the best value then starts at infinity.
    """
    tree = syntax_tree(line.file) if line else None
    choices = [node for node in ast.walk(tree) if isinstance(node, ast.If) and _stores_weights(node)] if tree else []
    test = choices[0].test if len(choices) == 1 else None
    if line is None or tree is None or not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return ()
    sign = {ast.Gt: "<", ast.GtE: "<="}.get(type(test.ops[0]))
    best = test.comparators[0]
    starts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == ast.unparse(best)
    ]
    starts = [value for value in starts if _is_constant(value)]
    if sign is None or len(starts) != 1:
        return ()
    text = f"{node_text(line.file, test.left)} {sign} {node_text(line.file, best)}"
    return replace_node(line.file, test, text), replace_node(line.file, starts[0], 'float("inf")')


def _stores_weights(choice: ast.If) -> bool:
    return any(call_name(node) == "state_dict" for statement in choice.body for node in ast.walk(statement))


def _is_constant(value: ast.expr) -> bool:
    """Return whether a value is a number or an infinity: ``0.0``, ``-1``, ``float("-inf")``, ``-math.inf``."""
    operand = value.operand if isinstance(value, ast.UnaryOp) else value
    is_infinity = call_name(operand) == "float" or getattr(operand, "attr", "") == "inf"
    return isinstance(operand, ast.Constant) or is_infinity
