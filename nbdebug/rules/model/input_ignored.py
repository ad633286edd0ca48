"""M306: the output does not depend on the input, or on one of several inputs."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.exceptions import NotChecked
from nbdebug.finding import SEVERITIES, Finding, Location, Severity
from nbdebug.measurements.constant_columns import ConstantColumns
from nbdebug.measurements.input_usage import IgnoredColumn, IgnoredSteps, display_names
from nbdebug.measurements.inverted_mask import PositionInfluence
from nbdebug.measurements.isolated_segments import IsolatedSegments
from nbdebug.measurements.perturbation import EvalOutputs, is_read, where_information_is_lost
from nbdebug.measurements.sequence_order import replace_values
from nbdebug.measurements.unread_arguments import UnreadArgument, forward_line, unread_argument_of_inputs
from nbdebug.measurements.unread_positions import UnreadPositions
from nbdebug.records import Record
from nbdebug.records.layer_signals import get_layer_signal
from nbdebug.rule_engine.expression_edits import expressions_at
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import points
from nbdebug.rules.lost_values import (
    edit_lost_values,
    explain_lost_values,
    rectifies_all_to_zero,
    selects_equal_rows,
)
from nbdebug.rules.unread_positions import unread_positions_finding
from nbdebug.setup import Setup
from nbdebug.source.assignments import last_assignment
from nbdebug.source.edits import describe_edits
from nbdebug.source.location import SourceLine, get_related_lines
from nbdebug.source.search import enclosing_scope, innermost_loop
from nbdebug.source.unused_results import find_unused_result

_MIN_FALL = 0.8  # of the loss of a held-out batch: less than a fifth may be chance


@rule("M306", "error", asked_again=True)
def input_ignored(
    ignored_inputs: dict[str, bool],
    eval_outputs: EvalOutputs,
    position_influence: PositionInfluence | NotChecked,
    isolated_segments: IsolatedSegments | NotChecked | None,
    ignored_steps: IgnoredSteps | NotChecked | None,
    ignored_column: IgnoredColumn | NotChecked | None,
    constant_columns: ConstantColumns | NotChecked | None,
    unread_positions: UnreadPositions | NotChecked | None,
    record: Record | NotChecked,
    *,
    progress: float = 0.25,
) -> Iterator[Finding]:
    """The output does not depend on the input, on one of several inputs, or on some of its positions.

    ## What it does
    Changes each input tensor in turn and checks whether any output of the model changes. If all inputs are ignored, or
    a floating-point one, this is an error. An ignored table of integers or flags is a warning, and a single integer or
    flag per sample, which may be an index kept for bookkeeping, is a note, unless a call reads it and returns the same
    values for all samples, as ``step // steps`` does. Another input may be in the place of the
    padding mask, such as the numbers of segments: then the output depends only on the positions where it is not zero.
    An attention that compares the numbers of segments hides each segment from the others. A recurrent cell that always
    gets the initial state forgets all steps but the last. A layer that gets zeros in the place of some values uses only
    the others.

    ## Why it matters
    The model cannot learn from an input that it does not use. It learns the mean of the targets, or what the other
    inputs explain, and the loss falls no further.

    ## How it is measured
    By finite changes, since a gradient is also zero through inactive units: every row is replaced by the first one, and
    floating-point values are also mirrored at one, at twice the distance. An input is ignored if no output value
    changes in eval mode, in train mode, and with small random numbers in all parameters that are entirely zero, so that
    heads and gates initialized with zeros are not reported.

    The place is the call that returns the same for other values, or the innermost module that gets what was made of
    the input and does not use it. If queries and keys of an attention in that module come from the same tensor, it is
    the last such attention, as an encoder's output that a decoder should read. If a single recurrent call in it starts
    from zeros of the shape of the argument, it is that call.

    The first steps of a sequence are exchanged between samples: all but the last one, three quarters, or half. So is
    each column of two or three whole numbers for each sample, such as the numbers of a user and an item.

    Columns that a layer gets are reported if ``cat`` joins a new tensor of a single value in their place, in eval mode
    and in two passes in train mode. This is a note if that tensor does not have the shape of another one that is not
    joined. Columns that an optional argument may fill are not reported.

    For an output of one row per sample, all values without a gradient in any sample are exchanged and mirrored, as are
    the first and the last tokens. If nothing changes, a kernel ridge regression predicts the targets of up to 2,000
    rows from these values alone, and from all others. The rule reports values without influence whose gain over a
    constant is 15% of the best possible gain and four standard deviations of shuffled targets, if all others reach less
    than a quarter of that gain. It is an error if the others do not exceed chance, else a warning. The
    place is the line that sets
    the largest dilation of the convolutions, or the call that loses the values.

    Segments are those of an input of integers. The tokens of one segment at a time are exchanged, with that input as it
    is and constant. Reported if a segment then has no effect on the output of its sample. If outputs have positions,
    the segments may be documents that are packed into one row: two copies are trained for 150 steps, one of them with
    the constant. Reported as a warning if that copy lowers the loss of a batch that it does not train on by a fifth,
    and the other one gains less than ``progress`` = a quarter of that.

    ## How to fix
    Use the argument in ``forward``. Look for a variable that is overwritten or a tensor that is created again; if all
    units are inactive, reinitialize the weights.

    ## When to ignore
    When the argument only exists for a common interface.

    ## References
    He et al., Delving Deep into Rectifiers, 2015: the scale of weights at which signals neither vanish nor explode.
    """
    hidden: list[Finding] = []
    if isinstance(position_influence, PositionInfluence) and position_influence.hidden_by:
        hidden = [_hidden_positions_finding(position_influence, eval_outputs)]
    elif isinstance(isolated_segments, IsolatedSegments):
        hidden = [*_isolated_segments_findings(isolated_segments, eval_outputs, progress)]
    yield from hidden
    ignored = [name for name, is_ignored in ignored_inputs.items() if is_ignored]
    if not ignored:
        if isinstance(ignored_steps, IgnoredSteps):
            yield _ignored_steps_finding(ignored_steps, eval_outputs)
        elif isinstance(ignored_column, IgnoredColumn):
            yield _ignored_column_finding(ignored_column, eval_outputs)
        elif isinstance(constant_columns, ConstantColumns):
            yield _constant_columns_finding(constant_columns)
        elif isinstance(unread_positions, UnreadPositions) and not hidden:
            name = display_names([unread_positions.input_name], eval_outputs)[0]
            forward = _forward_location(eval_outputs.setup.eager_model, "")
            yield unread_positions_finding(unread_positions, name, forward)
        return
    ignores_all = len(ignored) == len(ignored_inputs)
    names = ", ".join(map(repr, display_names(ignored, eval_outputs)))
    lost_by = _losing_call(eval_outputs, ignored)
    unread = None if lost_by or ignores_all else unread_argument_of_inputs(eval_outputs, ignored)
    where = lost_by.where if lost_by else _location_of_unread(eval_outputs, unread)
    severities: list[Severity] = [_severity_of_ignoring(eval_outputs.inputs[name], lost_by) for name in ignored]
    subject = "the input" if ignores_all else f"input {names}"
    cause, fix = explain_lost_values(lost_by) if lost_by else _explain_unused(eval_outputs, ignored, names)
    edits = edit_lost_values(lost_by) if lost_by else ()
    if where.module and _normalizes_single_value(eval_outputs.setup.eager_model.get_submodule(where.module)):
        cause = f"{where.module} normalizes a single value, so its output is its bias for every input."
        fix = f"# remove {where.module}, or let it normalize several features"
    elif unread:
        cause, fix = unread.describe_cause(), unread.describe_fix()
    yield Finding(
        message=f"{_describe_use(len(ignored_inputs), len(ignored))}: changing {subject} does not change any output.",
        where=where,
        cause=cause,
        fix=describe_edits(edits) or fix,
        edits=edits,
        evidence={"ignored": ignored, "inputs": list(ignored_inputs)},
        explains=("M307", "T601", "T606", "T608", "T610"),
        severity="error" if ignores_all else min(severities, key=SEVERITIES.index),
        aspect=_aspect(lost_by, record) if lost_by else "",
    )


def _aspect(lost_by: TorchCall, record: Record | NotChecked) -> str:
    """Return the name of the mistake that a call which loses the input shows, for the rules that explain it."""
    if selects_equal_rows(lost_by):
        return "equal rows"
    has_died = isinstance(record, Record) and rectifies_all_to_zero(lost_by) and _all_had_gradient(record)
    return "units died in the run" if has_died else ""


def _all_had_gradient(record: Record) -> bool:
    """Return whether no parameter had a gradient of zero at the first snapshot of a run: no unit was dead for all."""
    try:
        first = get_layer_signal(record, "gradient.norm").values[:1]
    except NotChecked:
        return False
    return bool(np.isfinite(first).any() and (first[np.isfinite(first)] > 0).all())


def _describe_use(count: int, ignored: int) -> str:
    """Say how many of some inputs the output depends on."""
    if ignored < count:
        return f"The output depends on {count - ignored} of {count} inputs"
    return "The output does not depend on the input" if count == 1 else f"The output depends on none of {count} inputs"


def _hidden_positions_finding(influence: PositionInfluence, eval_outputs: EvalOutputs) -> Finding:
    """Report an input that hides real positions in the place of the padding mask."""
    name = display_names([influence.hidden_by], eval_outputs)[0]
    hidden = influence.real - influence.influential_real
    return Finding(
        message=f"The output does not depend on {hidden} of {influence.real} real positions of a row: input {name!r} "
        "is zero there.",
        where=influence.where,
        cause=f"Input {name!r} is passed in the place of the padding mask.",
        fix="# pass the arguments by name: attention_mask=mask, token_type_ids=segments",
        evidence={"hidden": hidden, "real": influence.real, "input": name},
        explains=("M307", "T601", "T606", "T607", "T608", "T610", "E709"),
        severity="error",
    )


def _isolated_segments_findings(isolated: IsolatedSegments, answers: EvalOutputs, progress: float) -> Iterator[Finding]:
    """Report segments that are hidden from each other, if they are ignored or a trial learns more without that."""
    name, trials = display_names([isolated.input_name], answers)[0], isolated.trials
    if trials is not None and not (
        trials.is_hindered(progress) and trials.changed_loss < _MIN_FALL * trials.initial_loss
    ):
        return
    observation = (
        f"The output does not depend on {len(isolated.ignored)} of {isolated.segments} segments of a row"
        if trials is None
        else f"What the model returns for one of {isolated.segments} segments does not depend on the others. In a "
        f"trial of {trials.steps} steps, the loss of another batch changed from {trials.initial_loss:.3g} to "
        f"{trials.loss:.3g}, and to {trials.changed_loss:.3g} with one segment in each row"
    )
    yield Finding(
        message=f"{observation}. The segments are those of input {name!r}.",
        where=isolated.where,
        cause=f"A mask that is made of {name!r} hides each segment from the others.",
        fix="mask = is_padding[:, None, None, :]   # segments are embedded, not hidden from each other",
        evidence={
            "input": name,
            "segments": isolated.segments,
            "ignored": len(isolated.ignored),
            "loss": [trials.initial_loss, trials.loss, trials.changed_loss] if trials else [],
            "steps": trials.steps if trials else 0,
        },
        explains=("M307", "T601", "T606", "T607", "T608", "T610", "E709"),
        severity="error" if trials is None else "warning",
    )


def _ignored_steps_finding(ignored: IgnoredSteps, answers: EvalOutputs) -> Finding:
    """Report a sequence of which only the last steps matter."""
    name, state = display_names([ignored.input_name], answers)[0], _state_line(ignored.line)
    where = state or ignored.line
    return Finding(
        message=f"The output does not depend on the first {ignored.count} of the {ignored.length} steps of input "
        f"{name!r}: it stays the same if they are exchanged between samples.",
        where=where.where() if where else _forward_location(answers.setup.eager_model, ""),
        related=get_related_lines((ignored.line if state else None, "the cell gets this state here")),
        cause="The state of earlier steps is not passed on, or only the last steps are read.",
        fix="state = self.cell(steps[:, t], state)   # the cell gets the state that its last call returned"
        if ignored.line
        else "# read all steps, or pass the model only those that it reads",
        evidence={"ignored": ignored.count, "steps": ignored.length, "input": name},
        explains=("M307", "T601", "T606", "T607", "T608", "T610", "E709"),
        severity="warning",
    )


def _state_line(call_line: SourceLine | None) -> SourceLine | None:
    """Return the line that makes the last argument of a call, a variable that each pass of its loop makes first."""
    scope = enclosing_scope(call_line) if call_line else None
    loop = innermost_loop(scope, call_line.number) if scope and call_line else None
    calls = [node for node in expressions_at(call_line) if isinstance(node, ast.Call) and len(node.args) > 1]
    names = [node.args[-1].id for node in calls if isinstance(node.args[-1], ast.Name)]
    line = last_assignment(call_line, names[0]) if call_line and len(names) == 1 else None
    return line if line and loop and loop.lineno < line.number else None


def _ignored_column_finding(ignored: IgnoredColumn, answers: EvalOutputs) -> Finding:
    """Report a column of numbers that no output depends on."""
    name = display_names([ignored.input_name], answers)[0]
    module = ignored.lookup.module if ignored.lookup else None
    return Finding(
        message=f"The output does not depend on column {ignored.column} of the {ignored.width} columns of input "
        f"{name!r}: it stays the same if that column is exchanged between samples.",
        where=ignored.lookup or _forward_location(answers.setup.eager_model, ""),
        cause=f"{module} gets the numbers that another embedding gets, and none gets column {ignored.column}."
        if module
        else "The column is not read, or what is made of it is lost.",
        fix=f"{module} = self.{module}({name}[:, {ignored.column}])   # the numbers of column {ignored.column}"
        if module
        else f"# use {name}[:, {ignored.column}] in forward",
        evidence={"column": ignored.column, "columns": ignored.width, "input": name},
        explains=("M307", "T601", "T606", "T608", "T610", "E709"),
        severity="warning",
    )


def _constant_columns_finding(columns: ConstantColumns) -> Finding:
    """Report columns of the input of a layer that are a constant."""
    return Finding(
        message=f"{columns.count} of {columns.width} input columns of {columns.weight} are {columns.value:g} in all "
        f"samples. {columns.call.name} joins a new tensor of this value to the other values.",
        where=columns.call.where,
        cause="A constant takes the place of values that were computed. The weights of these columns learn nothing."
        if columns.replaces_values
        else "The weights of these columns learn nothing.",
        fix="x = torch.cat([first, second], dim=-1)   # the values themselves, not zeros of their shape",
        evidence={"weight": columns.weight, "columns": columns.count, "width": columns.width, "value": columns.value},
        explains=("M307", "T601", "T606", "T608", "T610", "O503") if columns.replaces_values else (),
        severity="warning" if columns.replaces_values else "note",
    )


def _normalizes_single_value(module: nn.Module) -> bool:
    return isinstance(module, nn.LayerNorm) and math.prod(module.normalized_shape) == 1


def _severity_of_ignoring(inputs: Tensor, lost_by: TorchCall | None) -> Severity:
    """Return how sure it is that an input is meant to have an effect: whole numbers may be names of samples."""
    if inputs.is_floating_point():
        return "error"
    return "warning" if inputs.dim() > 1 or lost_by else "note"


def _losing_call(eval_outputs: EvalOutputs, ignored: list[str]) -> TorchCall | None:
    """Return the call that takes some inputs, or what was made of them, and returns the same for other values."""
    return where_information_is_lost(eval_outputs, _replacement_of(eval_outputs, ignored))


def _replacement_of(eval_outputs: EvalOutputs, ignored: list[str]) -> Callable[[Tensor], Tensor]:
    """Return the function that replaces the values of some inputs and leaves the others."""
    tensors = [eval_outputs.inputs[name] for name in ignored]
    return lambda t: replace_values(t) if any(t is tensor for tensor in tensors) else t


def _explain_unused(eval_outputs: EvalOutputs, ignored: list[str], names: str) -> tuple[str, str]:
    """Return cause and fix where no call returns the same for other values of some inputs."""
    if not is_read(eval_outputs, _replacement_of(eval_outputs, ignored)):
        return f"No operation of the forward pass reads {names}.", f"# use {names} in forward, or remove the argument"
    return (
        f"What forward() computes from {names} is not used for the output, for example because a variable is "
        "overwritten.",
        f"# follow {names} through forward(), and use the result that is lost",
    )


def _location_of_unread(eval_outputs: EvalOutputs, unread: UnreadArgument | None) -> Location:
    """The call that may miss an argument, else the ``forward`` that does not use it, else that of the model."""
    if unread and unread.reader:
        return unread.reader.where
    return _forward_location(eval_outputs.setup.eager_model, unread.module if unread else "")


def _forward_location(model: nn.Module, path: str) -> Location:
    definition = forward_line(model.get_submodule(path))
    return (find_unused_result(definition) or definition).where(path or None) if definition else Location(path or None)


class ConditionalClassifier(nn.Module):
    """A classifier of 4 features and a condition, which it may replace with ones."""

    def __init__(self, conditioned: bool) -> None:
        super().__init__()
        self.conditioned, self.body, self.condition_layer = conditioned, nn.Linear(4, 3), nn.Linear(2, 3)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """Return the scores of 3 classes for the features and a condition of 2 values."""
        scores: Tensor = self.body(x) + self.condition_layer(
            condition if self.conditioned else torch.ones_like(condition)
        )
        return scores


def _conditional_setup(uses_condition: bool) -> Setup:
    x, y = points()
    model = ConditionalClassifier(uses_condition)
    loader = DataLoader(TensorDataset(x, x[:, :2].cos(), y), batch_size=16)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(torch.optim.Adam(model.parameters()),))


def bad() -> Setup:
    """A condition that is replaced with ones."""
    return _conditional_setup(uses_condition=False)


def good() -> Setup:
    """The same model, which uses the condition."""
    return _conditional_setup(uses_condition=True)
