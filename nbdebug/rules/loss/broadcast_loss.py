"""L205: prediction and target broadcast against each other."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace

from torch import nn

from nbdebug.autograd.broadcasts import Broadcast
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding
from nbdebug.loop_monitor.conclusions import LOSS_BROADCASTS
from nbdebug.measurements.axes import Shape
from nbdebug.measurements.unread_arguments import forward_line
from nbdebug.rule_engine.expression_edits import expressions_at
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points, regressor
from nbdebug.setup import Setup
from nbdebug.setup.loop_calls import call_lines
from nbdebug.setup.sample_functions import added_axis_line
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import describe_edits, wrap_node
from nbdebug.source.location import SourceLine, get_location, get_related_lines
from nbdebug.source.notebook_cells import current_cells
from nbdebug.source.producers import SHAPE_CHANGES, part_producer
from nbdebug.source.scopes import Expression, file_scope
from nbdebug.source.search import call_name, enclosing_scope

_TORCH_LOSSES = ("_loss", "kl_div")
_OPERATORS: dict[str, type[ast.operator]] = {
    **{"sub": ast.Sub, "rsub": ast.Sub, "mul": ast.Mult, "add": ast.Add, "div": ast.Div, "true_divide": ast.Div}
}


@rule("L205", "error")
def broadcast_loss(setup: Setup, broadcasts: list[Broadcast], weight_broadcasts: list[Broadcast]) -> Iterator[Finding]:
    """Prediction and target have different shapes, and the loss broadcasts one against the other.

    ## What it does
    Traces output and target through the loss and checks each call that combines them element by element. Reported when
    the broadcast shape is larger than both, such as (N, 1) with (N,), which gives N x N, and when one of torch's own
    losses receives two different shapes. Weights that come with the targets are checked against the errors.

    ## Why it matters
    Every prediction is compared with the targets of all samples. The best prediction under such a loss is the mean of
    the targets for every sample: the loss settles at the variance of the targets, and no error is raised.

    ## How it is measured
    By running the loss once on the output of the first batch and reading the shapes of its operands. For a loss of
    torch, the finding names the only line of your program that calls it. So it does for your own loss function, if both
    have the shapes in which they are passed, and the function compares them several times. If your code changes the
    shape of an operand there or before, as by ``squeeze`` or ``[:, 0]``, only a watched loop shows what that loss
    receives. In a notebook, this is unknown until a cell calls the loss, and until then the finding is a note. Weights
    are only reported if the loss stays the same with the weights of other samples; in a watched loop, if the product of
    all errors with all weights is summed. A target also counts as broadcast if the output is that of each sample at the
    indices of all samples, as in ``q[:, actions]``. In the first step of a watched loop, other data of the batch is
    checked as well, such as rewards that are neither input nor target.

    ## How to fix
    Give both the same shape: ``output.squeeze(-1)``, or ``target.unsqueeze(1)``.

    ## When to ignore
    Custom losses that broadcast on purpose, for all pairs, for quantiles or for weights, are not reported.

    ## References
    Documentation of torch.nn.functional.mse_loss, which warns about differing sizes; PyTorch broadcasting semantics.
    """
    for first in broadcasts[:1]:
        calls = call_lines(setup.loss_fn, setup) if setup.loss_fn is not None else set()
        unchanged = {line for line in calls if not _is_reshaped(line)}
        if calls and not unchanged:
            raise NotChecked("the loop changes the shape of an operand of the loss; run it inside `with dbg.watch():`")
        is_only_line = first.line is None and len(unchanged) == 1
        broadcast = replace(first, line=unchanged.pop()) if is_only_line else first
        squeezed = _squeezed_operand(broadcast)
        added = added_axis_line(setup) if squeezed and not squeezed[0] else None
        # A last axis of length 1 may be as right as an output without it.
        wrong_axis = added if squeezed and squeezed[1] != -1 else None
        # Only the checkup calls the loss so far, and a cell that has not run may change the shapes.
        is_unknown = first.line is None and not calls and bool(current_cells())
        edits = _squeeze_edits(broadcast)
        is_repeated = len({other.line for other in broadcasts}) > 1  # an edit of one line leaves the others
        call_line = _passing_line(setup, broadcast, unchanged) if is_repeated or not edits else None
        edits = () if call_line else edits
        first_name, second_name = _operand_names(broadcast)
        yield Finding(
            message=f"{broadcast.call} broadcasts {first_name} {broadcast.output} and {second_name} {broadcast.target} "
            f"to {broadcast.result}.",
            where=get_location(broadcast.axis_line or wrong_axis or call_line or broadcast.line),
            related=get_related_lines(
                (broadcast.line, f"{broadcast.call} compares the two here"),
                (added, "the target gets an axis of length 1 here"),
                (
                    _output_line(setup, squeezed) if call_line else None,
                    "the output gets an axis of length 1 before this",
                ),
            ),
            cause=_cause(is_unknown, broadcast.line is None)
            if _is_of_loss(broadcast) and broadcast.is_target
            else "Each value of one sample meets the values of all samples.",
            fix=describe_edits(edits) or _matching_shapes_fix(broadcast),
            evidence={
                "output": broadcast.output,
                "target": broadcast.target,
                "result": broadcast.result,
                "call": broadcast.call,
            },
            explains=("L208", "L214", "T601", "T606", "T607", "T608", "T610", "E709", "M307", "G409", "G415"),
            edits=edits,
            setup_fix=_squeezed_loss(broadcast),
            # A loop shows the operands of torch's losses only, and its first step those of any loss.
            assumes=(LOSS_BROADCASTS,) if broadcast.call.endswith(_TORCH_LOSSES) or is_unknown else (),
            severity="note" if is_unknown else None,
        )
    for broadcast in weight_broadcasts[:1]:
        edits = _squeeze_edits(broadcast)
        yield Finding(
            message=f"{broadcast.call} broadcasts errors {broadcast.output} and weights {broadcast.target} to "
            f"{broadcast.result}: with the weights of other samples, the loss is the same.",
            where=get_location(broadcast.line),
            cause="Each error is multiplied by the weights of all samples, so only the mean weight has an effect.",
            fix=describe_edits(edits) or "loss = (weight.view_as(error) * error).mean()   # one weight for each error",
            edits=edits,
            evidence={
                "errors": broadcast.output,
                "weights": broadcast.target,
                "result": broadcast.result,
                "call": broadcast.call,
            },
            explains=("T606", "T610", "L214"),
        )


def _passing_line(setup: Setup, broadcast: Broadcast, calls: set[SourceLine]) -> SourceLine | None:
    """Return the line that passes two shapes to a loss function of the user's, in which they meet as they are.

    Of several calls, it is the only one in a function that also calls ``backward``.
    """
    line, loss_fn = broadcast.line, setup.loss_fn
    function = type(loss_fn).forward if isinstance(loss_fn, nn.Module) else loss_fn
    code = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    if line is None or code is None or not broadcast.has_passed_shapes or not _is_of_loss(broadcast):
        return None
    if (line.file, line.function) != (code.co_filename, code.co_name) or line.number < code.co_firstlineno:
        return None
    outside = [call for call in calls if call.function != line.function]
    training = outside if len(outside) == 1 else [call for call in outside if _trains(call)]
    return training[0] if len(training) == 1 else None


def _trains(line: SourceLine) -> bool:
    """Return whether the function around a line, or its file, calls ``backward``."""
    scope = enclosing_scope(line)
    return any(isinstance(node, ast.Call) and call_name(node) == "backward" for node in ast.walk(scope or ast.Pass()))


def _output_line(setup: Setup, squeezed: tuple[bool, int] | None) -> SourceLine | None:
    """Return the only line of the model's own ``forward`` that returns the output, if that has an axis too many."""
    definition = forward_line(setup.eager_model) if squeezed and squeezed[0] else None
    scope = enclosing_scope(replace(definition, number=definition.number + 1)) if definition else None
    returns = [node for node in ast.walk(scope) if isinstance(node, ast.Return)] if scope else []
    return replace(definition, number=returns[0].lineno) if definition and len(returns) == 1 else None


def _operand_names(broadcast: Broadcast) -> tuple[str, str]:
    """Return what a message calls the operands; one that is computed from the target is no target."""
    if broadcast.is_target or not _is_of_loss(broadcast):
        return broadcast.names
    operands = _operands_on_line(broadcast, broadcast.line) if broadcast.line else None
    if operands is None or broadcast.is_output_first is None:
        return broadcast.names[0], "computed values"
    return broadcast.names[0], ast.unparse(operands[1 if broadcast.is_output_first else 0])


def _cause(is_unknown: bool, has_no_line: bool) -> str:
    """Return what the broadcast means, and what is not known of it."""
    text = "Each prediction is compared with the targets of other samples or outputs"
    if is_unknown:
        return f"{text}, unless your loop changes the shapes: no cell with a call of the loss has run yet."
    return f"{text}, unless your loop changes the shapes before the loss." if has_no_line else f"{text}."


def _is_reshaped(line: SourceLine) -> bool:
    """Return whether the program changes the shape of what the loss on a line receives, there or before.

    A target that the program makes from other data may have the shape of the targets in the loader.
    """
    scope = file_scope(line.file)
    for call in _calls_of_two(line):
        for position, argument in enumerate(call.args):
            maker = part_producer(Expression(scope, argument), None, enters=lambda _: False).node
            names = {getattr(node, "id", "") for node in ast.walk(maker)}
            is_operand = position == 0 or maker is argument or getattr(argument, "id", None) in names
            if is_operand and _changes_shape(maker):
                return True
    return False


def _changes_shape(node: ast.expr) -> bool:
    """Return whether an expression ends with a change of shape, such as ``squeeze(1)``, ``[:, 0]`` or ``view(-1)``."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in SHAPE_CHANGES:
            return True
        node = node.func.value
    return isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Tuple, ast.Slice))


def _calls_of_two(line: SourceLine) -> list[ast.Call]:
    """Return the calls with two arguments in the statement on a line."""
    statement = covering_statement(line)
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)] if statement else []
    return [call for call in calls if len(call.args) == 2]


def _extra_axis(longer: Shape, shorter: Shape) -> int | None:
    """Return the axis without which a shape is another one, as -1 if it can be the last; None without one."""
    axes = [axis for axis, length in enumerate(longer) if length == 1 and longer[:axis] + longer[axis + 1 :] == shorter]
    return (-1 if axes[-1] == len(longer) - 1 else axes[-1]) if axes else None


def _squeezed_operand(broadcast: Broadcast) -> tuple[bool, int] | None:
    """Return whether the output is the operand with an axis too many, and that axis; None if none has."""
    for is_output, shapes in (
        (True, (broadcast.output, broadcast.target)),
        (False, (broadcast.target, broadcast.output)),
    ):
        if (axis := _extra_axis(*shapes)) is not None:
            return is_output, axis
    return None


def _matching_shapes_fix(broadcast: Broadcast) -> str:
    if squeezed := _squeezed_operand(broadcast):
        is_output, axis = squeezed
        if not _is_of_loss(broadcast):
            return f"values = values.squeeze({axis})   # the {broadcast.names[0 if is_output else 1]}"
        arguments = f"output.squeeze({axis}), target" if is_output else f"output, target.squeeze({axis})"
        return f"loss = loss_fn({arguments})"
    if broadcast.output == 2 * broadcast.target:
        return "taken = output.gather(1, index[:, None]).squeeze(1)   # one value for each sample, not output[:, index]"
    return f"# reshape the output of the model to the shape of its target, {broadcast.target}"


def _is_of_loss(broadcast: Broadcast) -> bool:
    """Return whether the two operands are those of the loss: output and target."""
    return broadcast.names == ("output", "target")


def _squeezed_loss(broadcast: Broadcast) -> str:
    """Return code for a loss that removes the axis too many; "" if there is none."""
    fix = _matching_shapes_fix(broadcast) if _is_of_loss(broadcast) else ""
    call = fix.removeprefix("loss = loss_fn")
    return f"own_loss = loss_fn\nloss_fn = lambda output, target: own_loss{call}" if call != fix else ""


def _squeeze_edits(broadcast: Broadcast) -> tuple[Edit, ...]:
    """Return the change of the operand with an axis too many, in the only call or operation on the line that has it.

    Return () if the order of the operands is not known. A loss gets the output and the target in the order in which
    the function of torch inside it does.
    """
    squeezed, line = _squeezed_operand(broadcast), broadcast.line
    if line is None or squeezed is None or broadcast.is_output_first is None:
        return ()
    is_output, axis = squeezed
    operands = _operands_on_line(broadcast, line)
    if operands is None:
        return ()
    operand = operands[0 if is_output == broadcast.is_output_first else 1]
    return (wrap_node(line.file, operand, f"{{}}.squeeze({axis})"),)


def _operands_on_line(broadcast: Broadcast, line: SourceLine) -> Sequence[ast.expr] | None:
    """Return the two operands of a broadcast as the user has written them; None if they are not clear.

    Operators and functions such as ``torch.sub`` have their own name on the line, losses that of an object or function.
    """
    name = broadcast.call.rpartition(".")[2].strip("_")
    nodes = [node for node in expressions_at(line) if isinstance(node, (ast.BinOp, ast.Call))]
    operators = _OPERATORS.get(name)
    written = [operands for node in nodes if (operands := _operands(node, name, operators)) is not None]
    if not written and name.endswith(_TORCH_LOSSES):
        written = [call.args for call in _calls_of_two(line)]
    return written[0] if len(written) == 1 else None


def _operands(node: ast.BinOp | ast.Call, name: str, operators: type[ast.operator] | None) -> list[ast.expr] | None:
    """Return the operands of an operation by its operator or name; None for any other."""
    if isinstance(node, ast.BinOp):
        is_own = operators is not None and isinstance(node.op, operators)
        return ([node.right, node.left] if name == "rsub" else [node.left, node.right]) if is_own else None
    if call_name(node) != name:
        return None
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    operands = [owner, *node.args] if owner is not None and len(node.args) == 1 else node.args
    return operands if len(operands) == 2 else None


def bad() -> Setup:
    """An output of shape (N, 1) and a target of shape (N,)."""
    x, _ = points()
    return minimal_setup(network(1), x, x.sum(1), nn.MSELoss())


def good() -> Setup:
    """An output and a target of shape (N, 1)."""
    return regressor()
