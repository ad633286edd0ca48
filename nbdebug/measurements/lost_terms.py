"""Terms of a loss that are computed and then lost, such as those that a loop assigns to one variable."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.graph import build_graph
from nbdebug.autograd.loss_terms import record_loss_calls
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.parameter_coverage import ParameterEntry
from nbdebug.preserve import seed_all
from nbdebug.setup import Setup
from nbdebug.source.assignments import covering_statement, next_assignment
from nbdebug.source.location import SourceLine
from nbdebug.source.search import (
    assignment_targets,
    covers_line,
    enclosing_loops,
    enclosing_scope,
    read_names,
)
from nbdebug.tensors.pytree import tree_tensors

_COPIES = ("detach", "clone")  # a copy, as for a log, is no use of a term


@dataclass(frozen=True)
class LostTerms:
    """Numbers that a loss computes at one line and that its result does not depend on.

    ``rounds`` is the number of times that the line runs. ``variable`` is the name that it assigns again in each round
    of a loop; "" if it does not. ``overwriting`` is a later line that assigns the variable with the terms again, and
    ``overwritten`` the name of this variable.
    """

    terms: tuple[Tensor, ...]
    line: SourceLine
    rounds: int
    variable: str
    overwriting: SourceLine | None = None
    overwritten: str = ""

    def depends_on(self, entry: ParameterEntry) -> bool:
        """Check whether one of the terms is computed from a parameter."""
        return any(leaf is entry.parameter for term in self.terms for leaf in build_graph(term.grad_fn, []).leaves)


def find_lost_terms(setup: Setup, first_pass: ForwardPass) -> LostTerms | None:
    """Return the terms of the loss whose values no further operation receives; None if more lines than one make such.

    The loss is computed again, for the output of the first batch.
    """
    results: list[Tensor] = []
    seed_all(0)
    calls, error = record_loss_calls(
        lambda: results.extend(tree_tensors(setup.raw_loss(first_pass.output, first_pass.batch)))
    )
    lost = [] if error is not None else _unused_terms(calls, results)
    lines = {call.line for call in lost}
    line = lines.pop() if len(lines) == 1 else None
    if line is None:
        return None
    rounds = sum(call.line == line and call.name == lost[0].name for call in calls)
    variable = _variable_of_rounds(line) if rounds > len(lost) else ""
    terms = tuple(term for call in lost for term in call.outputs)
    read = {id(tensor) for call in calls if not call.outputs for tensor in call.inputs}  # by item() and the like
    is_kept_as_number = not variable and any(id(term) in read for term in terms)
    if variable:
        return LostTerms(terms, line, rounds, variable)
    overwriting, name = _overwriting_line(line, calls)
    if is_kept_as_number and overwriting is None:
        return None
    return LostTerms(terms, line, rounds, variable, overwriting, name)


def _unused_terms(calls: list[TorchCall], results: list[Tensor]) -> list[TorchCall]:
    """Return the calls that return one number with a gradient, which is no result and of which no tensor is made.

    A number that other calls change in place is lost at the last of them.
    """
    used = {id(tensor) for tensor in results}
    for call in calls:
        if call.outputs and call.name not in _COPIES:
            own = {id(tensor) for tensor in call.outputs}
            used.update(id(tensor) for tensor in call.inputs if id(tensor) not in own)
    terms = [call for call in calls if call.name not in _COPIES and _is_term(call) and id(call.outputs[0]) not in used]
    return list({id(call.outputs[0]): call for call in terms}.values())


def _is_term(call: TorchCall) -> bool:
    return len(call.outputs) == 1 and call.outputs[0].numel() == 1 and call.outputs[0].requires_grad


def _overwriting_line(line: SourceLine, calls: list[TorchCall]) -> tuple[SourceLine | None, str]:
    """Return a later line that has run and assigns the variable of a line from other values, with the variable."""
    statement = covering_statement(line)
    targets = assignment_targets(statement) if isinstance(statement, (ast.Assign, ast.AugAssign)) else []
    name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""
    following = next_assignment(line, (name,)) if name else None
    other = covering_statement(following) if following else None
    if following is None or not isinstance(other, ast.Assign) or name in read_names(other):
        return None, ""
    has_run = any(call.line and call.line.file == line.file and covers_line(other, call.line.number) for call in calls)
    return (following, name) if has_run else (None, "")


def _variable_of_rounds(line: SourceLine) -> str:
    """Return the variable that a line in a loop assigns from other values than its own; "" if there is none."""
    scope, statement = enclosing_scope(line), covering_statement(line)
    if scope is None or not isinstance(statement, ast.Assign) or not enclosing_loops(scope, line.number):
        return ""
    target = statement.targets[0]
    return target.id if len(statement.targets) == 1 and isinstance(target, ast.Name) else ""
