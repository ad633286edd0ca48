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
from nbdebug.source.assignments import covering_statement
from nbdebug.source.location import SourceLine
from nbdebug.source.search import enclosing_loops, enclosing_scope
from nbdebug.tensors.pytree import tree_tensors

_COPIES = ("detach", "clone")  # a copy, as for a log, is no use of a term


@dataclass(frozen=True)
class LostTerms:
    """Numbers that a loss computes at one line and that its result does not depend on.

    ``rounds`` is the number of times that the line runs. ``variable`` is the name that it assigns again in each round
    of a loop; "" if it does not.
    """

    terms: tuple[Tensor, ...]
    line: SourceLine
    rounds: int
    variable: str

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
    return None if is_kept_as_number else LostTerms(terms, line, rounds, variable)


def _unused_terms(calls: list[TorchCall], results: list[Tensor]) -> list[TorchCall]:
    """Return the calls that return one number with a gradient, which is no result and of which no tensor is made."""
    used = {id(tensor) for tensor in results}
    for call in calls:
        if call.outputs and call.name not in _COPIES:
            used.update(id(tensor) for tensor in call.inputs)
    return [call for call in calls if call.name not in _COPIES and _is_term(call) and id(call.outputs[0]) not in used]


def _is_term(call: TorchCall) -> bool:
    return len(call.outputs) == 1 and call.outputs[0].numel() == 1 and call.outputs[0].requires_grad


def _variable_of_rounds(line: SourceLine) -> str:
    """Return the variable that a line in a loop assigns from other values than its own; "" if there is none."""
    scope, statement = enclosing_scope(line), covering_statement(line)
    if scope is None or not isinstance(statement, ast.Assign) or not enclosing_loops(scope, line.number):
        return ""
    target = statement.targets[0]
    return target.id if len(statement.targets) == 1 and isinstance(target, ast.Name) else ""
