"""The line that reorders the inputs or the targets of a split alone, or removes rows from one of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nbdebug.setup.batch import TARGET_KEYS
from nbdebug.setup.part_sources import constructor_argument, find_part, operands
from nbdebug.setup.setup import Setup
from nbdebug.source.assignments import covering_statement
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import part_producer, part_steps
from nbdebug.source.scopes import Expression, Scope
from nbdebug.source.search import assignment_targets, call_name, covers_line, file_nodes, syntax_tree
from nbdebug.source.variable_values import Part, assigned_part, possible_assignments, statements_before

_SHUFFLES = {"shuffle", "permutation", "permuted", "sample", "sorted", "sort", "sort_values", "sort_index", "reversed"}
_SHUFFLES |= {"roll", "flip", "flipud", "random_permutation"}
_SORTED_SETS = {"unique"}  # as functions; the method of a table keeps the order
_STATISTICS = {"mean", "std", "var", "min", "max", "median", "sum", "norm"}  # beside rows: the same in any order
_SELECTIONS = {"take", "index_select", "reindex", "take_along_axis", "gather"}
_IN_PLACE = {"shuffle", "sort", "reverse"}
_ORDERS = _SHUFFLES | {"randperm", "argsort", "lexsort", "arange", "range", "list", "choice", "randint", "multinomial"}
_MAX_STEPS = 60
_REMOVALS = {"dropna", "drop_duplicates"}
_MASKS = {"isfinite", "isnan", "isna", "isnull", "notna", "notnull", "isin", "logical_not", "logical_and", "logical_or"}
_Order = tuple[object, ...]


@dataclass(frozen=True)
class LoneRemoval:
    """An expression that keeps some rows of the inputs or the targets alone.

    ``others`` are the variables of the same function that hold the other part alone, the last one first.
    """

    expression: Expression
    others: tuple[str, ...]


@dataclass(frozen=True)
class _Removal:
    """A selection of rows: the text of the mask, or the place of the call, and the expression that selects."""

    key: object
    expression: Expression


@dataclass(frozen=True)
class _Reordering:
    """A change of the order of rows: what makes the new order, its line, and the calls that lead to it."""

    order: _Order
    line: SourceLine
    calls: tuple[Expression, ...]


def find_lone_reordering(setup: Setup, split: str = "train") -> SourceLine | None:
    """Return the line that reorders inputs or targets of a split by an order that the other does not have.

    Both are followed back through variables, attributes and functions of the user. Where it is unknown which branch of
    a choice ran, both count. If either part is reordered alone, it is the line of the targets, and the last of several.
    A function that reorders one part is named where it is called.
    """
    loader = setup.val_loader if split == "val" else setup.train_loader
    try:
        histories = [_ReorderingHistory(setup, loader, position) for position in (-1, 0)]
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None
    for own, other in (histories, histories[::-1]):
        orders = {reordering.order for reordering in other.reorderings}
        alone = [reordering for reordering in own.reorderings if reordering.order not in orders]
        if alone:
            own_calls = [call for call in alone[0].calls if call.span not in other.entered]
            return own_calls[0].line if own_calls else alone[0].line
    return None


def find_lone_removal(setup: Setup) -> LoneRemoval | None:
    """Return the only removal of rows from the training inputs or targets that the other part does not have.

    Two masks of the same text count as one.
    """
    try:
        histories = [_ReorderingHistory(setup, setup.train_loader, position) for position in (0, -1)]
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None
    alone = []
    for own, other in (histories, histories[::-1]):
        keys = {removal.key for removal in other.removals}
        alone += [(removal.expression, own, other) for removal in own.removals if removal.key not in keys]
    if len(alone) != 1:
        return None
    ((expression, own, other),) = alone
    names, others = (history.names_in(expression.scope) for history in (own, other))
    return LoneRemoval(expression, tuple(name for name in others if name not in names))


class _ReorderingHistory:
    """The changes of the rows of the inputs or targets of a loader, the last first, and the calls on the way."""

    def __init__(self, setup: Setup, loader: Any, position: int) -> None:
        self.reorderings: list[_Reordering] = []
        self.removals: list[_Removal] = []
        self.names: list[Expression] = []
        self.entered: set[_Order] = set()
        self._setup, self._loader = setup, loader
        self._calls: dict[int, tuple[Expression, ...]] = {}
        self._scopes: list[object] = []  # referenced, so that their ids stay theirs
        self._visited: set[_Order] = set()
        if part := find_part(setup, loader, position):
            self._follow(*part)

    def names_in(self, scope: Scope) -> list[str]:
        """Return the variables of a function that were followed, the last one first."""
        place = scope.file, scope.function
        names = (ast.unparse(name.node) for name in self.names if (name.scope.file, name.scope.function) == place)
        return [*dict.fromkeys(names)]

    def _follow(self, expression: Expression, position: int | None) -> None:
        """Record the reorderings of what makes an expression."""
        key = (*expression.span, position, *(call.span for call in self._calls.get(id(expression.scope), ())))
        if key in self._visited or len(self._visited) > _MAX_STEPS:
            return
        self._visited.add(key)
        previous = expression
        for step, step_position in part_steps(expression, position, TARGET_KEYS, passes_conversions=True):
            self._enter(previous, step)
            self.names += [step] if isinstance(step.node, ast.Name) else []
            self._record_in_place(step)
            if isinstance(step.node, ast.Name) and step.node.id in step.scope.arguments:
                for assigned in possible_assignments(step, step_position):  # a parameter that is assigned again
                    self._follow(*assigned)
            previous, position = step, step_position
        for source in self._sources(previous, position):
            self._follow(*source)

    def _enter(self, previous: Expression, step: Expression) -> None:
        """Record the call that leads to the function of a step."""
        if id(step.scope) in self._calls:
            return
        calls = self._calls.get(id(previous.scope), ())
        self._scopes.append(step.scope)
        if previous is not step and isinstance(previous.node, ast.Call):
            self.entered.add(previous.span)
            calls = (*calls, previous)
        self._calls[id(step.scope)] = calls

    def _record(self, order: _Order, expression: Expression) -> None:
        self.reorderings.append(_Reordering(order, expression.line, self._calls.get(id(expression.scope), ())))

    def _record_in_place(self, variable: Expression) -> None:
        """Record the statements before an expression that reorder a variable in place."""
        node = variable.node.value if isinstance(variable.node, ast.Subscript) else variable.node
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self":
            for statement in _class_statements(variable):
                if isinstance(statement, ast.Expr) and _is_in_place(statement.value, ast.unparse(node)):
                    change = Expression(variable.scope, statement.value)
                    self._record(self._order_of(change), change)
        if isinstance(variable.node, ast.Name):
            for call in reversed([*_in_place_calls(variable)]):
                self._record(self._order_of(Expression(variable.scope, call)), Expression(variable.scope, call))

    def _sources(self, expression: Expression, position: int | None) -> Iterator[Part]:
        """Record how an expression reorders rows, and yield the expressions of which it makes them."""
        scope, node = expression.scope, expression.node
        if isinstance(node, ast.Name):
            yield from possible_assignments(expression, position)
            passed = constructor_argument(self._setup, self._loader, node.id) if scope.function == "__init__" else None
            yield from [(passed, None)] if passed else []
        elif isinstance(node, ast.Subscript):
            yield from self._selected(expression, node.value, node.slice)
        elif isinstance(node, ast.ListComp):
            yield from self._comprehended(expression, node)
        elif isinstance(node, ast.Call):
            self._record_call(expression, node)
            yield from operands(expression, position)
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self":
            for statement in _class_statements(expression):
                targets = [ast.unparse(target) for target in assignment_targets(statement)]
                if isinstance(statement, ast.Assign) and ast.unparse(node) in targets:
                    value, own_position = assigned_part(statement, node.attr)
                    yield Expression(scope, value), own_position
        elif isinstance(node, ast.IfExp):
            yield from ((Expression(scope, branch), position) for branch in (node.body, node.orelse))
        else:
            sources = operands(expression, position)
            yield from (source for source in sources if call_name(source[0].node) not in _STATISTICS)

    def _selected(self, expression: Expression, value: ast.expr, index: ast.expr) -> Iterator[Part]:
        scope = expression.scope
        if isinstance(value, ast.Attribute) and value.attr in ("iloc", "loc"):
            value = value.value
        is_variable = isinstance(index, (ast.Name, ast.Attribute))
        mask = part_producer(Expression(scope, index), None).node if is_variable else index
        if _is_mask(mask):
            self.removals.append(_Removal(ast.unparse(mask), expression))
        if isinstance(index, (ast.Slice, ast.Constant, ast.Tuple, ast.List, ast.UnaryOp)):
            if isinstance(index, ast.Slice) and index.step is not None:
                self._record(("step", ast.unparse(index)), expression)
            yield Expression(scope, value), None
            return
        order = part_producer(Expression(scope, index), None)
        if call_name(order.node) in _ORDERS or _replaces(expression, value):
            self._record(self._order_of(order, Expression(scope, index)), expression)
        else:
            yield Expression(scope, index), None  # a table of values by number
        yield Expression(scope, value), None

    def _comprehended(self, expression: Expression, node: ast.ListComp) -> Iterator[Part]:
        loop = node.generators[0]
        if loop.ifs:
            self.removals.append(_Removal(tuple(map(ast.unparse, loop.ifs)), expression))
        items = [part for part in ast.walk(node.elt) if isinstance(part, ast.Subscript)]
        items = [item for item in items if ast.unparse(item.slice) == ast.unparse(loop.target)]
        if len(items) == 1:
            yield from self._selected(expression, items[0].value, loop.iter)
        else:
            yield Expression(expression.scope, loop.iter), None

    def _record_call(self, expression: Expression, call: ast.Call) -> None:
        """Record a call that shuffles, sorts or selects rows."""
        arguments = [argument for argument in call.args if not isinstance(argument, ast.Starred)]
        if call_name(call) in _REMOVALS:
            self.removals.append(_Removal(expression.span, expression))
        if call_name(call) in _SELECTIONS and arguments:
            order = Expression(expression.scope, arguments[-1])
            self._record(self._order_of(part_producer(order, None), order), expression)
        elif call_name(call) in _SHUFFLES or (call_name(call) in _SORTED_SETS and arguments):
            self._record(self._order_of(expression), expression)

    def _order_of(self, maker: Expression, used: Expression | None = None) -> _Order:
        """Return what tells the order that an expression makes from others: its place, or the seed of its numbers.

        A variable that is shuffled in place holds another order from then on.
        """
        shuffles = [Expression(used.scope, call).span for call in _in_place_calls(used)] if used else []
        seeds = [ast.unparse(seed) for seed in _seeds(maker.node)]
        calls = self._calls.get(id(maker.scope), ())
        return ("seed", *seeds) if seeds else (*maker.span, *(call.span for call in calls), *shuffles[-1:])


def _is_mask(node: ast.expr) -> bool:
    """Check for a condition on rows, such as ``x > 0``, ``~missing`` or ``a & b``."""
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.BitAnd, ast.BitOr))
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert)
    return isinstance(node, ast.Compare) or call_name(node) in _MASKS


def _seeds(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the constants that seed the random numbers of an expression."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            yield from (k.value for k in call.keywords if k.arg in ("random_state", "seed"))
            if call_name(call) in ("RandomState", "default_rng", "Random", "manual_seed"):
                yield from (argument for argument in call.args if isinstance(argument, ast.Constant))


def _in_place_calls(variable: Expression) -> Iterator[ast.Call]:
    """Yield the statements before an expression that reorder the variable which it names, since it was assigned."""
    name = getattr(variable.node, "id", "")
    assigned = [part.node.lineno for part, _ in possible_assignments(variable, None)]
    for statement in statements_before(variable) if name else ():
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and call.lineno > min(assigned, default=0) and _is_in_place(call, name):
            yield call


def _is_in_place(call: ast.expr, name: str) -> bool:
    """Check whether a call reorders a variable or an attribute in place, as ``shuffle(x)`` and ``x.sort()`` do."""
    if not isinstance(call, ast.Call) or call_name(call) not in _IN_PLACE:
        return False
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    subject = call.args[0] if call.args else owner
    return subject is not None and ast.unparse(subject) == name


def _class_statements(expression: Expression) -> list[ast.stmt]:
    """Return the statements of the methods of the class around an expression, the last first."""
    classes = [node for node in file_nodes(syntax_tree(expression.scope.file)) if isinstance(node, ast.ClassDef)]
    around = [node for node in classes if covers_line(node, expression.node.lineno)]
    nodes = [node for node in (ast.walk(around[-1]) if around else ()) if isinstance(node, ast.stmt)]
    return sorted(nodes, key=lambda statement: statement.lineno, reverse=True)


def _replaces(expression: Expression, value: ast.expr) -> bool:
    """Check whether a statement selects rows of what it assigns, as in ``x = x[order]``."""
    statement = covering_statement(expression.line)
    return ast.unparse(value) in {ast.unparse(t) for t in (assignment_targets(statement) if statement else ())}
