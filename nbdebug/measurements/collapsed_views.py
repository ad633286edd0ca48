"""Embeddings that are alike for all samples, under a loss that only asks for agreement between views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node as GraphNode

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.autograd.loss_terms import iter_meetings, record_loss_calls
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.activations import LayerSpread, SampleSpread, compute_relative_spread
from nbdebug.measurements.batch_independence import has_batch_axis
from nbdebug.measurements.perturbation import EvalOutputs, compute_loss_value
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import chosen_branch, executed_return, part_producer
from nbdebug.source.unused_results import store_result
from nbdebug.tensors.pytree import tree_map, tree_tensors

_LOSS_TOLERANCE = 1e-3  # relative to the loss
_LOSS_TOLERANCE_BOTH_SIDES = 1e-2  # the same if both sides are trained: the views of a sample may agree a little more
_MIN_INCREASE = 0.1  # relative to both losses: equal activations change the loss slightly, even if views agree
_SHIFT = 3.0  # times the size of the outputs
_KEEPS_APART = "the loss is larger for equal outputs, so it keeps the samples apart"
_NEARLY = 1.5  # times the smallest spread: the first such layer is where the samples have become alike


@dataclass(frozen=True)
class CollapsedViews:
    """Spreads of the samples at the layer where they are most alike, or in the output, and at an earlier layer.

    ``where`` is the part of the model that makes the values that are alike. ``loss`` is that of the batch,
    ``constant_loss`` that of the mean of its outputs in the place of each. ``line`` is where the loss compares two
    outputs, by calls of ``function``. ``target`` is the position of the argument of these that is not computed from
    another output, as a prediction from it is; None if the calls differ in it, or no output is a prediction.
    ``discarding_line`` calls ``detach`` there and discards its result. ``gathering_line`` is where the model gathers
    the targets of all these calls, and nothing else, in a part of its output. ``compared_spread`` is the largest spread
    of an argument of these calls if a gradient reaches all of them, so that both sides move towards each other.
    """

    where: Location
    spread: float
    earlier_spread: float
    loss: float
    constant_loss: float
    line: SourceLine | None = None
    function: str = ""
    target: int | None = None
    discarding_line: SourceLine | None = None
    gathering_line: SourceLine | None = None
    compared_spread: float | None = None


@slow_measurement
def collapsed_views(eval_outputs: EvalOutputs, sample_spread: SampleSpread) -> CollapsedViews:
    """Where the samples are most alike, for a loss that ignores the targets and that a constant output minimizes.

    Decided by intervention: the targets are exchanged among the samples or replaced. Each output is replaced by the
    mean output, with and without a common offset, which changes a likelihood of the outputs. A loss that stays the same
    for outputs of other lengths compares directions only, and so does the spread of the output. Targets that the loss
    passes through the model, with a gradient, are views too.
    """
    loss, constant_loss, ignores_lengths = _compare_with_constant(eval_outputs)
    if constant_loss > loss + _LOSS_TOLERANCE_BOTH_SIDES * abs(loss):
        raise NotChecked(_KEEPS_APART)
    spreads = sample_spread.passes[0]
    layers = spreads.layers
    output = eval_outputs.outputs[0]
    if len(layers) < 2:
        raise NotChecked("needs at least two layers")
    values = [layer.relative_spread for layer in layers[1:]]
    if output.numel() > 2 * len(output):  # an output of one or two values for each sample is no embedding
        directions = nn.functional.normalize(output.float(), dim=-1)
        values.append(compute_relative_spread(directions) if ignores_lengths else spreads.output_spread)
    last = 1 + next(i for i, value in enumerate(values) if value <= _NEARLY * min(values))
    spread = values[last - 1]
    earlier = max(layer.relative_spread for layer in layers[:last])
    separates = last < len(layers) and _loss_separates_samples(eval_outputs, layers[last].where.module, loss)
    views = CollapsedViews(_producer(layers, last), spread, earlier, loss, constant_loss)
    views = _with_comparison(views, eval_outputs, ignores_lengths)
    if views.compared_spread is not None:
        return replace(views, spread=views.compared_spread) if separates else views
    if constant_loss > loss + _LOSS_TOLERANCE * abs(loss):
        raise NotChecked(_KEEPS_APART)
    if separates:
        raise NotChecked("the loss increases if all samples have the same activations, so it keeps them apart")
    return views


@contextmanager
def _mode_of_loss(setup: Setup, batch: Batch) -> Iterator[None]:
    """Run the model in eval mode, or in train mode if it returns views for the loss in that mode only."""
    with Preserve(setup.eager_model), in_mode(setup.eager_model, False):
        try:
            setup.loss(setup.predict(batch), batch)
        except Exception:  # the loss is the user's
            setup.eager_model.train()
        yield


def _with_comparison(views: CollapsedViews, answers: EvalOutputs, ignores_lengths: bool) -> CollapsedViews:
    """Return the views with the line of the loss where two outputs of the model meet, if there is one."""
    setup, batch = answers.setup, answers.batch
    with torch.enable_grad(), _mode_of_loss(setup, batch):
        output = setup.predict(batch)
        calls, _ = record_loss_calls(lambda: setup.raw_loss(output, batch))
    outputs = tree_tensors(output)
    meetings = [*iter_meetings(calls, outputs)]
    if not meetings:
        return views
    same = [call for call in meetings if (call.line, call.name) == (meetings[0].line, meetings[0].name)]
    targets = {_target_position(call, outputs) for call in same}
    target = targets.pop() if len(targets) == 1 else None
    gathered = [] if target is None else [call.args[target] for call in meetings if len(call.args) > target]
    detaching_lines = [call.line for call in calls if call.name == "detach" and call.line]
    return replace(
        views,
        line=same[0].line,
        function=same[0].name,
        target=target,
        discarding_line=next(filter(store_result, detaching_lines), None),
        gathering_line=_gathering_line(setup.eager_model, output, gathered),
        compared_spread=_compared_spread(same, batch.size, ignores_lengths),
    )


def _compared_spread(calls: Sequence[TorchCall], size: int, ignores_lengths: bool) -> float | None:
    """Return the largest spread of the samples, or of their directions, in any argument of some calls.

    None if a call compares fewer than two tensors, no embeddings of the samples, or one that gets no gradient.
    """
    spreads: list[float] = []
    for call in calls:
        embeddings = [value for value in call.args if isinstance(value, Tensor)]
        if len(embeddings) < 2:
            return None
        for value in embeddings:
            is_embedding = value.dim() > 1 and has_batch_axis(value, size) and value.numel() > 2 * len(value)
            if not value.requires_grad or not is_embedding:
                return None
            values = value.detach().float()
            spreads.append(
                compute_relative_spread(nn.functional.normalize(values, dim=-1) if ignores_lengths else values)
            )
    return max(spreads, default=None)


def _gathering_line(model: nn.Module, output: object, targets: Sequence[Tensor]) -> SourceLine | None:
    """Return the line of ``forward`` that makes the part of the output which is a tuple of just some targets."""
    ids = {id(tensor) for tensor in targets}
    parts = output if isinstance(output, (tuple, list)) else ()
    positions = [i for i, part in enumerate(parts) if type(part) in (tuple, list) and {*map(id, part)} == ids]
    forward = type(model).forward
    returned = executed_return(forward, model) if len(positions) == 1 and isinstance(forward, FunctionType) else None
    return part_producer(chosen_branch(returned), positions[0], enters=lambda _: False).line if returned else None


def _target_position(call: TorchCall, outputs: Sequence[Tensor]) -> int | None:
    """Return the position of the argument that is made of fewer outputs than another one, which is predicted from it.

    None if both are made of one output.
    """
    nodes = {tensor.grad_fn for tensor in outputs if tensor.grad_fn is not None}
    tensors = {position: value for position, value in enumerate(call.args) if isinstance(value, Tensor)}
    counts = {position: len(nodes & _upstream_nodes(tensor)) for position, tensor in tensors.items()}
    fewest = min(counts.values(), default=0)
    positions = [position for position, count in counts.items() if count == fewest]
    return positions[0] if len(tensors) == 2 and len(positions) == 1 else None


def _upstream_nodes(tensor: Tensor) -> set[GraphNode]:
    """Return the nodes of the graph behind a tensor."""
    nodes, pending = set[GraphNode](), [tensor.grad_fn]
    while pending:
        node = pending.pop()
        if node is not None and node not in nodes:
            nodes.add(node)
            pending += [parent for parent, _ in node.next_functions]
    return nodes


def _compare_with_constant(answers: EvalOutputs) -> tuple[float, float, bool]:
    """Return the loss, that of the mean output, and whether the loss ignores the lengths of the outputs.

    Raises NotChecked if the loss depends on the targets.
    """
    setup, batch = answers.setup, answers.batch
    with torch.no_grad(), _mode_of_loss(setup, batch):
        seed_all(0)
        output = setup.predict(batch)
        if not tree_tensors(batch.targets) and not _has_views(output):
            raise NotChecked("the loss takes neither targets nor two outputs of one shape")
        others = _other_targets(batch.targets)
        constant = tree_map(output, lambda leaf: _mean_rows(leaf, batch.size))
        # Outputs that are equal hide whether the loss depends on the targets.
        different = tree_map(output, _add_noise)
        losses = [compute_loss_value(setup, different, replace(batch, targets=t)) for t in (batch.targets, others)]
        depends_on_targets = bool(tree_tensors(batch.targets)) and losses[0] != losses[1]
        if depends_on_targets and not _trains_by_targets(setup, different, batch):
            raise NotChecked("the loss depends on the targets")
        loss, constant_loss = (compute_loss_value(setup, value, batch) for value in (output, constant))
        if not depends_on_targets:
            shifted = tree_map(tree_map(output, _shift), lambda leaf: _mean_rows(leaf, batch.size))
            shifted_loss = compute_loss_value(setup, shifted, batch)
            if shifted_loss > loss + _LOSS_TOLERANCE * abs(loss):
                raise NotChecked("the loss depends on where the outputs are, not only on their agreement")
        stretched_loss = compute_loss_value(setup, tree_map(output, _stretch), batch)
        return loss, constant_loss, abs(stretched_loss - loss) <= _LOSS_TOLERANCE * abs(loss)


def _other_targets(targets: Any) -> Any:
    """Return targets exchanged among the samples, or other values if they are all equal."""

    def change(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or not leaf.dim():
            return leaf
        exchanged = leaf.roll(1, 0)
        is_constant = torch.equal(exchanged, leaf)
        other = 1 - leaf if leaf.is_floating_point() else (leaf == 0).to(leaf.dtype)  # a class of any classifier
        return other if is_constant else exchanged

    return tree_map(targets, change)


def _loss_separates_samples(answers: EvalOutputs, module: str | None, loss: float) -> bool:
    """Check whether the loss increases if all inputs of a module, in all of its calls, are replaced by their mean.

    The averaged scores of a critic keep their loss if the inputs of each call are averaged alone. So one mean replaces
    the inputs of all calls.
    """
    if module is None:
        return False
    setup, batch, inputs = answers.setup, answers.batch, list[Tensor]()
    layer = setup.eager_model.get_submodule(module)

    def loss_with_hook(hook: Callable[[nn.Module, tuple[Any, ...]], Any]) -> float:
        with torch.no_grad(), _mode_of_loss(setup, batch), layer.register_forward_pre_hook(hook):
            seed_all(0)
            return compute_loss_value(setup, setup.predict(batch), batch)

    loss_with_hook(lambda _, args: inputs.extend(args[:1]))
    if not inputs or any(value.shape[1:] != inputs[0].shape[1:] for value in inputs):
        return False
    mean = torch.cat(inputs).mean(0, keepdim=True)
    equal_loss = loss_with_hook(lambda _, args: (mean.expand_as(args[0]), *args[1:]))
    return equal_loss - loss > _MIN_INCREASE * (abs(loss) + abs(equal_loss))


def _trains_by_targets(setup: Setup, output: object, batch: Batch) -> bool:
    """Return whether the loss has a gradient without that of the output: it passes the targets through the model."""
    with torch.enable_grad():
        try:
            return bool(setup.loss(output, batch).requires_grad)
        except Exception:
            return False


def _has_views(output: object) -> bool:
    """Return whether an output has two tensors of one shape, as those of two views of a sample."""
    shapes = [tensor.shape for tensor in tree_tensors(output) if tensor.is_floating_point()]
    return len(set(shapes)) < len(shapes)


def _add_noise(leaf: object) -> object:
    """Return values with random numbers of the size of one added; other values as they are."""
    return leaf + torch.randn_like(leaf) if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf


def _shift(leaf: object) -> object:
    """Return embeddings with the same large vector added to each; other values, as one for each sample, as they are."""
    if not isinstance(leaf, Tensor) or not leaf.is_floating_point() or leaf.dim() < 2:
        return leaf
    offset = torch.randn(leaf.shape[1:], generator=torch.Generator().manual_seed(0)).to(leaf)
    return leaf + _SHIFT * leaf.square().mean().sqrt() * offset


def _stretch(leaf: object) -> object:
    """Return embeddings of other lengths, between one and three times their own; other values as they are."""
    if not isinstance(leaf, Tensor) or not leaf.is_floating_point() or leaf.dim() < 2:
        return leaf
    lengths = torch.rand((*leaf.shape[:-1], 1), generator=torch.Generator().manual_seed(0)).to(leaf)
    return leaf * (1 + 2 * lengths)


def _mean_rows(leaf: object, size: int) -> object:
    """Return the mean over the samples in the place of each; other values as they are."""
    if isinstance(leaf, Tensor) and leaf.is_floating_point() and has_batch_axis(leaf, size):
        return leaf.mean(0, keepdim=True).expand_as(leaf).clone()
    return leaf


def _producer(layers: tuple[LayerSpread, ...], position: int) -> Location:
    """Return the outermost module that holds the layer before a position, but not the layer there."""
    producer = layers[position - 1].where
    if position == len(layers) or not producer.module:
        return producer
    consumer = (layers[position].where.module or "").split(".")
    path = producer.module.split(".")
    shared = next((i for i, (a, b) in enumerate(zip(path, consumer, strict=False)) if a != b), len(path) - 1)
    return replace(producer, module=".".join(path[: shared + 1]))
