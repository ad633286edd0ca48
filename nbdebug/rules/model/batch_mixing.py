"""M304: the output for one sample depends on other samples of its batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.tracing import describe_call
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Edit, Finding, Location
from nbdebug.measurements.batch_independence import CarriedState, PositionDependence, SampleMixing
from nbdebug.measurements.carried_values import CarriedValue
from nbdebug.measurements.perturbation import MixingCall
from nbdebug.measurements.row_order import ReorderedRows
from nbdebug.measurements.sample_company import SampleCompany
from nbdebug.measurements.stacked_indices import StackedIndex
from nbdebug.measurements.unbatched_sequences import UnbatchedSequence
from nbdebug.rule_engine.expression_edits import line_of, set_axis, takes_axis, value_axis
from nbdebug.rule_engine.layer_edits import set_layer_option, swap_batch_and_steps
from nbdebug.rule_engine.position_edits import ADD_ALONG_STEPS, find_misplaced_table
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.carried_values import carried_value_finding
from nbdebug.rules.crossed_copies import crossed_copies_finding
from nbdebug.rules.examples import minimal_setup
from nbdebug.rules.reordered_rows import reordered_rows_finding
from nbdebug.rules.unbatched_sequences import unbatched_sequence_finding
from nbdebug.rules.unshifted_indices import concatenated_index_finding, stacked_index_finding
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_shuffled
from nbdebug.setup.module_lines import module_line
from nbdebug.source.assignments import covering_statement, find_assignments
from nbdebug.source.edits import describe_edits
from nbdebug.source.location import SourceLine, add_line, get_location

_INDEXING_CALLS = {"getitem", "index_select", "gather", "take", "scatter_add", "index_add"}
_INDEX_CAUSE = (
    "Rows are selected by an index whose numbers do not move with the samples, such as node numbers that start at 0 in "
    "each graph of a batch."
)
_INDEX_FIX = "Add the number of the preceding rows to the index of each sample, so that it selects rows of this sample."
_ELEMENTWISE_CALLS = {"add", "radd", "iadd", "sub", "rsub", "mul", "rmul", "imul", "div", "truediv"}
_SEQUENCE_CALLS = {"lstm", "gru", "rnn_tanh", "rnn_relu", "multi_head_attention_forward"}
_LAYER_CALLS = {"linear", "conv1d", "conv2d"}
_ALONG_AXIS = {"softmax", "log_softmax", "softmin", "normalize", "norm", "vector_norm", "cumsum", "layer_norm"}
_AXIS_OPERATIONS = _LAYER_CALLS | _ALONG_AXIS
_SELECTION_CALLS = {"getitem", "select", "narrow", "index_select"}
_MASKED_CALLS = {"masked_fill", "where", "scaled_dot_product_attention"}
_BATCH_FIRST = (
    'for module in model.modules():\n    if hasattr(module, "batch_first"):\n        module.batch_first = True'
)
_AXIS_CALLS = ("softmax", "log_softmax", "Softmax", "LogSoftmax", "normalize")
_PRODUCTS = {"matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "rmatmul", "inner", "cdist", "tensordot"}

_LEARNING = ("T606", "T607", "T608", "T609", "T610", "E709")
_UNREAD = ("E702", "E706", "G415", "G416", "M306", "M307", "T601")  # of an output without the mixed values


@rule("M304", "error")
def batch_mixing(
    setup: Setup,
    carried_states: list[CarriedState] | NotChecked,
    carried_value: CarriedValue | NotChecked | None,
    sample_company: SampleCompany | NotChecked,
    stacked_index: StackedIndex | NotChecked | None,
    sample_mixing: SampleMixing | NotChecked,
    position_dependence: PositionDependence | NotChecked | None,
    reordered_rows: ReorderedRows | NotChecked | None,
    unbatched_sequence: UnbatchedSequence | NotChecked | None,
) -> Iterator[Finding]:
    """The output for one sample depends on other samples of its batch.

    ## What it does
    Changes one sample and checks whether the outputs for the other samples change. The finding names the call in which
    samples first mix: a recurrent layer or an attention that takes the batch axis for the sequence axis, or a softmax,
    normalization or layer along the batch axis, a sum over an axis that a ``view`` took for another, a mask of one
    sample for all, a mask that is repeated for the heads with ``repeat`` in place of ``repeat_interleave``, or one row
    of an input used for all samples. Intended mixing is reported as a note: attention over the batch written out,
    shuffled or shifted rows. Batch statistics in eval mode are a warning if the layer keeps no running statistics. The
    rule also reports outputs that depend on the position of a sample in the batch, outputs that come back in another
    order than the samples, and values that one shuffled batch keeps for the next one. If a collate function
    concatenates samples of different sizes, as the nodes of graphs, each sample is also passed alone.

    ## Why it matters
    The samples of a batch are drawn at random, so information from the others is noise. Accuracy stays low, and the
    same sample gets another prediction in another batch. Torch raises no error, because the shapes fit.

    ## How it is measured
    By intervention: the inputs of the first sample are replaced with those of another one, in eval mode and with the
    same random numbers. No value of any other output may change. All samples are also shifted by one position, and one
    batch is evaluated after itself and after another one: neither may change a prediction. If permuted samples give the
    same rows, but not in the order of the samples, the row of a sample is the one that is missing once another sample
    replaces it. It is a fault if the loss of samples and targets permuted together changes: what follows the model may
    put the rows back. Batch normalization uses its running statistics in eval mode, and a loss over pairs of samples is
    applied after the model: neither is detected here. Then both passes are compared call by call; a sample owns one of
    B parts of each tensor, and samples have mixed where more than that part changes. Where a collate function or the
    model joins samples, indices without an offset are found by adding it: then each sample gets the output that it has
    alone. The place is the line that joins them, or that makes a constant offset. If the rows of the changed sample
    have other places in a mask than in the values of an attention, the mask repeats the samples for the heads in the
    wrong order. A recurrent layer reads a matrix as one sequence. It is an error if the loader shuffles the rows, or if
    the output has no row for each sample, and otherwise a note.

    ## How to fix
    Put sorted samples back with ``output[order.argsort()]``. Pass ``batch_first=True``, or swap the axes with
    ``transpose``; a ``view`` does not swap them. Set ``dim=`` to the axis of the classes or features.

    ## When to ignore
    When samples are meant to interact, as in attention over the batch or in a graph of nodes.

    ## References
    Documentation of torch.nn.LSTM and torch.nn.MultiheadAttention: inputs are (length, batch, features) by default.
    """
    if isinstance(carried_states, list) and carried_states:
        yield from map(partial(_carried_state_finding, setup), carried_states)
        return
    if isinstance(carried_value, CarriedValue):
        yield carried_value_finding(setup, carried_value)
        return
    if isinstance(sample_company, SampleCompany) and sample_company.index_input is not None:
        yield concatenated_index_finding(sample_company)
        return
    if isinstance(stacked_index, StackedIndex):
        yield stacked_index_finding(stacked_index)
        return
    if isinstance(reordered_rows, ReorderedRows):
        if not reordered_rows.is_undone:
            yield reordered_rows_finding(reordered_rows)
        return
    if isinstance(unbatched_sequence, UnbatchedSequence):
        yield unbatched_sequence_finding(setup, unbatched_sequence)
        return
    if isinstance(sample_mixing, NotChecked):
        raise sample_mixing
    if isinstance(position_dependence, PositionDependence):
        yield _position_finding(setup, position_dependence, sample_mixing.batch_size)
    if sample_mixing.crossed_copies is not None:
        yield crossed_copies_finding(sample_mixing, sample_mixing.crossed_copies)
        return
    shared = sample_mixing.shared_row_input
    for finding in _mixing_findings(setup, sample_mixing):
        yield finding if shared is None else _shared_row_finding(finding, shared)


def _shared_row_finding(finding: Finding, name: str) -> Finding:
    """Return the finding as an error with its cause: all samples read the row of the first one in an input."""
    return replace(
        finding,
        message=f"{finding.message} All outputs depend on row 0 of {name!r}. Its other rows change no output.",
        cause=f"One row of {name!r} is selected along the batch axis and used for all samples.",
        fix=f"Use all rows of {name!r}, so that each sample uses its own row.",
        explains=(*finding.explains, "M306", "M307"),
        severity="error",
    )


def _mixing_findings(setup: Setup, sample_mixing: SampleMixing) -> Iterator[Finding]:
    """Report the call in which samples mix; layers along the batch also if the output ignores what they mix."""
    size, affected = sample_mixing.batch_size, len(sample_mixing.affected_samples)
    calls = [mixing for mixing in sample_mixing.mixing_calls if affected or mixing.call.name in _SEQUENCE_CALLS]
    faults = [mixing for mixing in calls if _is_fault(mixing, size)]
    if sample_mixing.is_scattered:
        faults = faults or [mixing for mixing in calls if mixing.call is mixing.axis_lost_by]
    if not affected and not faults:
        return
    mixing_call = next(iter(faults or calls), None)
    call = mixing_call.call.name if mixing_call else "an unidentified call"
    description = describe_call(call)
    effect = f"the outputs of {affected} of the {size - 1} other samples in its batch."
    if not affected:
        effect = "values of other samples inside the model; the output does not depend on these."
    path = _batch_statistics(setup, mixing_call) if mixing_call is not None else None
    finding = Finding(
        message=f"Changing sample {sample_mixing.changed_sample} changes {effect} The samples mix in {description}.",
        where=_mixing_location(setup, mixing_call) if mixing_call else Location(),
        cause=_mixing_cause(mixing_call),
        fix=_mixing_fix(mixing_call, size),
        edits=_axis_edits(mixing_call) or _batch_first_edits(setup, mixing_call),
        setup_fix=_batch_first_code(mixing_call),
        evidence={"touched": affected, "size": size, "call": call},
        explains=(*_LEARNING, "E703") if affected else (*_LEARNING, *_UNREAD),
        severity="error" if faults else "warning" if path is not None else "note",
    )
    yield finding if path is None else _without_running_statistics(setup, finding, path)


def _batch_statistics(setup: Setup, mixing_call: MixingCall) -> str | None:
    """Return the path of a batch normalization without running statistics for eval mode, if the samples mix in one."""
    path = mixing_call.call.module
    module = setup.eager_model.get_submodule(path) if path else None
    has_none = isinstance(module, nn.modules.batchnorm._BatchNorm) and module.running_mean is None
    return path if has_none else None


def _without_running_statistics(setup: Setup, finding: Finding, path: str) -> Finding:
    """Return the finding with the cause, the line and the change of a batch normalization without statistics."""
    edits = set_layer_option(setup, path, "track_running_stats", "True")
    line = module_line(setup, path)
    return replace(
        finding,
        where=add_line(finding.where, line) if line else finding.where,
        cause=f"{path} keeps no running statistics, so that it uses those of the batch in eval mode as well.",
        fix=describe_edits(edits) or "track_running_stats=True  # the default, where the layer is created",
        edits=edits,
    )


def _carried_state_finding(setup: Setup, state: CarriedState) -> Finding:
    name = f"{state.path}.{state.attribute}".strip(".")
    line = _storing_line(state)
    return Finding(
        message="Two passes over one batch, in eval mode and with the same random numbers, give different "
        f"outputs: the difference is {state.relative_difference:.2g} of the largest output. {name} changes with each "
        "call and affects the next one.",
        where=get_location(line, state.path or None),
        cause=f"The attribute {name} keeps values from one batch for the next one, which contains other samples.",
        fix=f"# reset self.{state.attribute} at the start of forward, or keep it in a local variable",
        evidence={"attribute": name, "spread": state.relative_difference, "shuffled": is_shuffled(setup.train_loader)},
        explains=("R902", "T606", "T607", "T608", "E703", "E709"),
        severity="error" if is_shuffled(setup.train_loader) else "note",
    )


def _storing_line(state: CarriedState) -> SourceLine | None:
    """Return the last line that sets the attribute to more than a constant such as None, or else to anything."""
    lines = sorted(find_assignments(state.owner, state.attribute), key=lambda line: (line.file, line.number))
    statements = [covering_statement(line) for line in lines]
    storing = [
        line
        for line, statement in zip(lines, statements, strict=True)
        if not isinstance(getattr(statement, "value", None), ast.Constant)
    ]
    return next(reversed(storing or lines), None)


def _describe_use_of_position(call: TorchCall, size: int, *, takes_sequences: bool) -> str:
    """Say what a call makes of the position of a sample in the batch."""
    name = describe_call(call.name, starts_sentence=True)
    if takes_sequences:
        return f"{name} reads the samples as the steps of one sequence."
    has_rows = len(call.inputs) == 2 and all(operand.dim() and len(operand) == size for operand in call.inputs)
    if has_rows and call.name in _ELEMENTWISE_CALLS:
        return f"{name} combines sample k of the batch with row k of another tensor, whatever the sample holds."
    return f"{name} is the first call that treats samples by their position."


def _selects_by_index(call: TorchCall) -> bool:
    has_index = any(tensor.dtype in (torch.int32, torch.int64) and tensor.dim() for tensor in call.inputs)
    return call.name in _INDEXING_CALLS and has_index


def _position_finding(setup: Setup, dependence: PositionDependence, size: int) -> Finding:
    call, name = dependence.call, describe_call(dependence.call.name)
    takes_sequences = call.name in _SEQUENCE_CALLS and bool(call.module)
    is_index = _selects_by_index(call)
    table = find_misplaced_table(setup.eager_model, call)
    finding = Finding(
        message=f"The output for a sample changes if the {size} samples of its batch are shifted by one row. "
        f"{_describe_use_of_position(call, size, takes_sequences=takes_sequences)}",
        where=dependence.where,
        cause=f"The batch axis is where {name} expects the steps."
        if takes_sequences
        else _INDEX_CAUSE
        if is_index
        else f"The tensor that {name} combines with the samples runs along the batch axis instead of another axis.",
        fix="batch_first=True   # where the layer is created"
        if takes_sequences
        else _INDEX_FIX
        if is_index
        else ADD_ALONG_STEPS,
        edits=set_layer_option(setup, str(call.module), "batch_first", "True")
        if takes_sequences
        else swap_batch_and_steps(setup, call.module)
        if call.module
        else (),
        setup_fix=_BATCH_FIRST if takes_sequences else "",
        evidence={"call": call.name, "size": size},
        explains=("M311", "T606", "T607", "T608", "E703", "E709"),
        severity="error",
    )
    if table is None:
        return finding
    return replace(finding, cause=table.cause or finding.cause, fix=table.sum_along_steps, edits=table.edits)


def _is_fault(mixing_call: MixingCall, size: int) -> bool:
    """Return whether mixing is unintended; recurrence or attention over one-token rows may be intended."""
    shape, axis = mixing_call.shape, mixing_call.axis
    if mixing_call.call.name in _SEQUENCE_CALLS:
        return len(shape) == 3 and shape[1 if axis == 0 else 0] > 1
    is_other_axis = mixing_call.call.name in _AXIS_OPERATIONS or _has_misplaced_samples(mixing_call, size)
    return is_other_axis or _has_shared_mask(mixing_call.call)


def _has_misplaced_samples(mixing_call: MixingCall, size: int) -> bool:
    """Return whether a view made an axis of the batch size along which the samples do not lie."""
    leading = mixing_call.shape[:-1]
    is_reshaped = mixing_call.axis is None and mixing_call.axis_lost_by is not None
    return is_reshaped and len(leading) > 1 and mixing_call.shape.count(size) == 1 == leading.count(size)


def _has_shared_mask(call: TorchCall) -> bool:
    """Return whether a mask without an axis of samples meets values that have one, so that all samples share it."""
    if call.name in _SELECTION_CALLS and call.inputs[0].dim() > 1:
        source, result = call.inputs[0], call.outputs[0]
        is_single = result.dim() < source.dim() or result.shape[0] == 1 < source.shape[0]
        return is_single and not result.is_floating_point()
    masks = [t for t in call.inputs if t.dtype == torch.bool and t.dim() > 1 and t.shape[0] == 1]
    return call.name in _MASKED_CALLS and bool(masks) and call.outputs[0].shape[0] > 1


def _mixing_location(setup: Setup, mixing_call: MixingCall) -> Location:
    """The location of the mixing.

    For a layer, which keeps axes apart, that is the earlier line that mixed the samples; for a module without
    ``batch_first``, the line that creates it.
    """
    where, is_layer = mixing_call.call.where, mixing_call.call.name in _LAYER_CALLS | _SEQUENCE_CALLS
    line = mixing_call.axis_lost_by.line if mixing_call.axis_lost_by and is_layer else None
    module = setup.eager_model.get_submodule(where.module) if where.module else None
    if line is None and where.module and getattr(module, "batch_first", None) is False:
        line, where = module_line(setup, where.module), Location(_called_module(setup, where.module))
    return add_line(where, line) if line else mixing_call.call.where


def _called_module(setup: Setup, path: str) -> str:
    """Return the outermost module of torch around a module, which the user creates and calls; no container."""
    parts = path.split(".")
    prefixes = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    modules = {prefix: setup.eager_model.get_submodule(prefix) for prefix in prefixes}
    containers = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
    return next(
        prefix
        for prefix, module in modules.items()
        if prefix == path or (type(module).__module__.startswith("torch.nn") and not isinstance(module, containers))
    )


def _mixing_cause(mixing_call: MixingCall | None) -> str:
    if mixing_call is None:
        return "Values of different samples are combined somewhere in the model."
    name = describe_call(mixing_call.call.name)
    sentence_name = describe_call(mixing_call.call.name, starts_sentence=True)
    if _selects_by_index(mixing_call.call):
        return _INDEX_CAUSE
    if _has_shared_mask(mixing_call.call):
        return "The mask of one sample is applied to all samples: its axis of samples has length 1."
    if mixing_call.call is mixing_call.axis_lost_by:
        return f"{sentence_name} joins values of different samples: each row of the output has values of several."
    if mixing_call.axis is None:
        return f"The samples were no longer separated along one axis at the input of {name}."
    if mixing_call.call.name in _PRODUCTS:
        return f"{sentence_name} multiplies values of different samples with each other, or sums over samples."
    axis_description = f"axis {mixing_call.axis} of {mixing_call.shape}, the batch axis"
    if mixing_call.call.name in _SEQUENCE_CALLS:
        return f"{sentence_name} takes {axis_description}, as the sequence axis."
    return f"{sentence_name} combines values along {axis_description}."


def _batch_first_edits(setup: Setup, mixing_call: MixingCall | None) -> tuple[Edit, ...]:
    """Return the change of a recurrent layer or an attention that takes the batch axis for the sequence."""
    if mixing_call is None or mixing_call.axis is None or mixing_call.call.name not in _SEQUENCE_CALLS:
        return ()
    path = mixing_call.call.module
    return set_layer_option(setup, path, "batch_first", "True") if path else ()


def _axis_edits(mixing_call: MixingCall | None) -> tuple[Edit, ...]:
    """Return the change of a softmax or a normalization along the samples into one along the last axis."""
    if mixing_call is None or mixing_call.axis != 0:
        return ()
    return set_axis(line_of(mixing_call.call.where), _AXIS_CALLS, str(value_axis(mixing_call.shape)))


def _batch_first_code(mixing_call: MixingCall | None) -> str:
    """Return code that makes all such layers take the first axis for the batch; "" for another call.

    After the first layer that mixes the samples, it does not show whether later ones do.
    """
    if mixing_call is None or mixing_call.axis is None or mixing_call.call.name not in _SEQUENCE_CALLS:
        return ""
    return _BATCH_FIRST


def _mixing_fix(mixing_call: MixingCall | None, size: int) -> str:
    if mixing_call is not None and _has_misplaced_samples(mixing_call, size):
        return f"# give view() the axes in the order of the values: x.view({size}, ...), or transpose afterwards"
    if mixing_call is not None and _selects_by_index(mixing_call.call):
        return _INDEX_FIX
    if mixing_call is None or mixing_call.axis is None:
        return "# swap axes with x.transpose(0, 1), join columns with torch.cat(parts, 1); x.view(...) mixes samples"
    if mixing_call.call.name in _SEQUENCE_CALLS:
        return (
            f"batch_first=True  # where {mixing_call.call.module or 'the layer'} is created, or x.transpose(0, "
            "1) before it"
        )
    if mixing_call.call.name in _PRODUCTS:
        return "# unless samples are meant to interact: multiply each with its own, (a * b).sum(-1) or torch.bmm"
    return _axis_fix(mixing_call.call.name, mixing_call.axis)


def _axis_fix(name: str, axis: int) -> str:
    """Return how to keep samples apart in a function that combines values along their axis."""
    if name == "batch_norm":
        return "Keep running statistics, and pass them to batch_norm() with training=self.training."
    if takes_axis(name):
        return f"# apply {name} along an axis other than {axis}: dim=-1 for features or classes"
    if axis:
        return f"# bring the samples to axis 0 before {describe_call(name)}: x.transpose(0, {axis})"
    return f"Apply {describe_call(name)} to values of one sample at a time: axis {axis} is that of the samples."


class RecurrentClassifier(nn.Module):
    """A GRU over sequences of 3 features, with 2 classes."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.body, self.head = nn.GRU(3, 8, batch_first=batch_first), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores at the last position of sequences (batch × positions × 3)."""
        states, _ = self.body(x)
        scores: Tensor = self.head(states[:, -1])
        return scores


def _recurrent_setup(batch_first: bool) -> Setup:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 5, 3, generator=generator)
    return minimal_setup(RecurrentClassifier(batch_first), x, (x[:, -1, 0] > 0).long(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """A layer that expects the sequence axis first, and data with the batch axis first."""
    return _recurrent_setup(batch_first=False)


def good() -> Setup:
    """The same layer with ``batch_first=True``."""
    return _recurrent_setup(batch_first=True)
