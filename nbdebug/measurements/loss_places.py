"""The places in a loss and a model where a part of the output is lost, or where the loss gets its sign."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.autograd import Graph
from nbdebug.autograd.call_recorders import CallRecorder, TorchCall
from nbdebug.autograd.graph import Node, build_graph
from nbdebug.autograd.tracing import ModuleStack
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.parameter_coverage import ParameterEntry, largest_part
from nbdebug.setup import Setup
from nbdebug.setup.losses import score_tensor
from nbdebug.source.executed_lines import find_early_return
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_tensors

_SELECTIONS = ("Select", "Slice", "Index", "IndexSelect", "Narrow", "Unbind", "Split", "MaskedSelect")
_REVERSED = -0.999  # correlation: a linear map of the targets
_MASK_PRODUCTS = ("mul", "rmul", "imul", "multiply", "where")
_REDUCTIONS = ("Mean", "Sum", "View", "UnsafeView", "Squeeze", "Unsqueeze")


def selection_line(first_pass: ForwardPass, graph: Graph) -> SourceLine | None:
    """Return the line that selects a part of the output."""
    root = getattr(score_tensor(first_pass.output), "grad_fn", None)
    output = next((node for node in graph.nodes if root is not None and node.function is root), None)
    selection_lines = (node.line for node in (output.users if output else ()) if node.name in _SELECTIONS)
    return next((line for line in selection_lines if line), None)


def target_selection_line(setup: Setup, first_pass: ForwardPass) -> SourceLine | None:
    """Return the line of the loss that selects a part of the target."""
    target = first_pass.batch.target
    return next(
        (
            call.line
            for call in _loss_calls(setup, first_pass)
            if call.line and call.inputs and call.inputs[0] is target and call.outputs[0].numel() < target.numel()
        ),
        None,
    )


def early_return_line(setup: Setup, first_pass: ForwardPass) -> SourceLine | None:
    """Return the line of the loss that returns in the first round of a loop, if it has one."""
    if setup.step_fn is not None or first_pass.output is None:
        return None
    return find_early_return(lambda: setup.loss(first_pass.output, first_pass.batch))


def ignored_part(first_pass: ForwardPass, columns: Sequence[int], parameters: list[ParameterEntry]) -> str | None:
    """Return the largest part of the model that makes some columns of the output and has no gradient from the loss."""
    output, entries = score_tensor(first_pass.output), [entry for entry in parameters if entry.parameter.requires_grad]
    if first_pass.loss is None or not isinstance(output, Tensor) or not entries:
        return None
    tensors = [entry.parameter for entry in entries]
    roots = (first_pass.loss, output[:, list(columns)].sum())
    of_loss, of_columns = (torch.autograd.grad(r, tensors, retain_graph=True, allow_unused=True) for r in roots)
    group = [
        entry
        for entry, own, other in zip(entries, of_columns, of_loss, strict=True)
        if _is_nonzero(own) and not _is_nonzero(other)
    ]
    return (largest_part(group[0], group, parameters) or None) if group else None


def _is_nonzero(gradient: Tensor | None) -> bool:
    return gradient is not None and bool(gradient.to_dense().any())


def is_returned(first_pass: ForwardPass, entry: ParameterEntry) -> bool:
    """Check whether the output of the model depends on a parameter, so that only the loss can ignore it."""
    roots = [tensor.grad_fn for tensor in tree_tensors(first_pass.output)]
    return any(leaf is entry.parameter for root in roots for leaf in build_graph(root, []).leaves)


def producing_line(graph: Graph | NotChecked) -> SourceLine | None:
    """Return the line that makes the values which the loss only averages or sums; None for a loss without a graph.

    That differs from the line of the loss if another function makes them.
    """
    if isinstance(graph, NotChecked):
        return None
    root, node = graph.root, _reduced_node(graph)
    if root is None or root.line is None or node is None or node.line is None:
        return root.line if root else None
    return root.line if node.line.function == root.line.function else node.line


@dataclass(frozen=True)
class _OutputReading:
    """The only line at which a loss reads the output, and how often it reads the same part of it there."""

    line: SourceLine
    count: int


def output_reading(first_pass: ForwardPass, graph: Graph) -> _OutputReading | None:
    """Return where the loss reads the output of the model; None for several lines or an unknown one."""
    roots = {tensor.grad_fn for tensor in tree_tensors(first_pass.output)}
    parts = [node for node in graph.nodes if node.function in roots]
    lines = {user.line for node in parts for user in node.users}
    line = lines.pop() if len(lines) == 1 else None
    return _OutputReading(line, max(len(node.users) for node in parts)) if line else None


def reduced_line(graph: Graph) -> SourceLine | None:
    """Return the line that makes the values which the loss averages or sums, where some of them can be left out."""
    node = _reduced_node(graph)
    return node.line if node is not None else None


def _reduced_node(graph: Graph) -> Node | None:
    """Return the operation whose values the loss only averages or sums."""
    node = graph.root
    while node is not None and node.name in _REDUCTIONS and len(node.inputs) == 1:
        node = node.inputs[0]
    return node


def reversing_line(setup: Setup, first_pass: ForwardPass) -> SourceLine | None:
    """Return the first line of the loss that makes of the targets alone values in the opposite order.

    A loss that falls in the wrong direction has such a line if the labels are mapped to the wrong signs.
    """
    calls = _loss_calls(setup, first_pass)
    target = first_pass.batch.target
    derived = {id(target)} if isinstance(target, Tensor) and target.numel() > 1 else set[int]()
    for call in calls:
        if not call.inputs or any(id(tensor) not in derived for tensor in call.inputs if tensor.dim()):
            continue
        if call.line and any(_is_reversed(tensor, target) for tensor in call.outputs):
            return call.line
        derived.update(id(tensor) for tensor in call.outputs)
    return None


def negative_line(setup: Setup, first_pass: ForwardPass) -> SourceLine | None:
    """Return the line that makes the negative values which make the loss negative.

    Follows the loss back, at each call through the most negative of the values that are not made of targets alone.
    """
    calls = _loss_calls(setup, first_pass)
    makers: dict[int, TorchCall] = {}
    of_targets = {id(tensor) for tensor in tree_tensors(first_pass.batch.targets)}
    for call in calls:
        if call.inputs and all(id(tensor) in of_targets for tensor in call.inputs):
            of_targets |= {id(tensor) for tensor in call.outputs}
        else:
            makers |= {id(tensor): call for tensor in call.outputs}
    value, line = (calls[-1].outputs[0] if calls and calls[-1].outputs else None), None
    while value is not None and (maker := makers.pop(id(value), None)) is not None:
        line = maker.line or line
        inputs = [tensor for tensor in maker.inputs if id(tensor) not in of_targets and tensor.is_floating_point()]
        lowest = min(inputs, key=lambda tensor: float(tensor.mean()), default=None)
        value = lowest if lowest is not None and float(lowest.mean()) < 0 else None
    return line


def counting_line(setup: Setup, first_pass: ForwardPass, values: Collection[float]) -> SourceLine | None:
    """Return the line of the loss that lets some values of the targets count like the others.

    That is the one that makes a mask of the targets alone which is the same at all of them, if the loss applies it to
    the output, else the first one that compares the targets with the output.
    """
    leaves = [leaf for leaf in tree_tensors(first_pass.batch.targets) if leaf.is_floating_point()]
    targets = {id(leaf) for leaf in leaves if any(bool((leaf == value).any()) for value in values)}
    outputs = {id(leaf) for leaf in tree_tensors(first_pass.output)}
    masks: dict[int, SourceLine] = {}
    comparing: list[SourceLine] = []
    for call in _loss_calls(setup, first_pass) if len(targets) == 1 else ():
        operands, results = [id(tensor) for tensor in call.inputs], {id(tensor) for tensor in call.outputs}
        mask_line = next((masks[operand] for operand in operands if operand in masks), None)
        if not outputs.isdisjoint(operands):
            if mask_line is not None:
                return mask_line
            comparing += [call.line] if call.line and not targets.isdisjoint(operands) else []
            outputs |= results
        elif not targets.isdisjoint(operands):
            line = mask_line or (call.line if _is_even_mask(call.outputs[0]) else None)
            masks |= dict.fromkeys(results, line) if line else {}
            targets |= results
    return comparing[0] if comparing else None


def masked_mean_line(setup: Setup, first_pass: ForwardPass) -> SourceLine | None:
    """Return the line of the loss that multiplies one number by a mask, which then leaves nothing out."""
    of_output = {id(leaf) for leaf in tree_tensors(first_pass.output)}
    for call in _loss_calls(setup, first_pass):
        own = [tensor for tensor in call.inputs if id(tensor) in of_output]
        masks = [tensor for tensor in call.inputs if id(tensor) not in of_output]
        is_reduced = bool(own) and all(tensor.dim() == 0 for tensor in own)
        if call.name in _MASK_PRODUCTS and is_reduced and any(map(_is_partial_mask, masks)):
            return call.line
        of_output |= {id(tensor) for tensor in call.outputs} if own else set()
    return None


def _is_partial_mask(tensor: Tensor) -> bool:
    """Check for a tensor of zeros and ones that has both."""
    values = tensor.unique().tolist()  # type: ignore[no-untyped-call]
    return tensor.numel() > 1 and set(values) == {0, 1}


def _is_even_mask(tensor: Tensor) -> bool:
    """Check for a mask with the same value everywhere."""
    return tensor.dtype == torch.bool and tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all())


def _loss_calls(setup: Setup, first_pass: ForwardPass) -> list[TorchCall]:
    """Return the calls of the loss of the first batch; none for a loss of other arguments, or that needs gradients."""
    calls: list[TorchCall] = []
    try:
        with torch.no_grad(), CallRecorder(ModuleStack(), calls.append):
            setup.loss(first_pass.output, first_pass.batch)
    except Exception:
        return []
    return calls


def _is_reversed(values: Tensor, target: Tensor) -> bool:
    if values.numel() != target.numel() or values.dtype == torch.bool:
        return False
    pair = torch.stack([values.detach().flatten().double(), target.detach().flatten().double()])
    return float(torch.corrcoef(pair)[0, 1]) < _REVERSED
