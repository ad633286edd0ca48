"""What a watched loop has shown: its call of the model, and the outputs and targets that meet in its own loss."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader

from nbdebug.autograd.layout_changes import LayoutChange, apply_changes, find_changes, find_part, find_whole
from nbdebug.autograd.loss_terms import LossTerm, find_terms, is_loss_call
from nbdebug.loop_monitor.conclusions import (
    OPERAND_VALUES_UNCHANGED,
    OUTPUT_VALUES_UNCHANGED,
    TARGET_VALUES_UNCHANGED,
)
from nbdebug.loop_monitor.step_trace import TracedStep
from nbdebug.measurements.heads import HeadSetup, get_options, get_torch_loss, make_head, name_heads
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import is_map_style, is_uncollated
from nbdebug.setup.losses import FUNCTION_KINDS_BY_NAME, is_from_torch
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_get, tree_leaves, tree_map, tree_tensors

_MAX_OUTPUT_VALUES = 1_000_000
_LOSS_TOLERANCE = 1e-4  # relative; devices add up in another order
_Path = tuple[Any, ...]


@dataclass(frozen=True)
class _LoopHead:
    """A head of a loop with its term of the traced step; the setup is None if its loss cannot be called again."""

    name: str
    term: LossTerm
    setup: HeadSetup | None

    def narrow(self, step: TracedStep) -> TracedStep | None:
        """Return a step with the output, the target and the loss of this head alone; None if it has no loss."""
        term, value = self.term, self.term.value
        if value is None or not value.requires_grad:
            return None
        shapes = tuple(tuple(operand.shape) for operand in term.operands)
        return replace(
            step,
            batch=replace(step.batch, targets=(term.target,)),
            output=term.output,
            loss=value,
            broadcasts=[b for b in step.broadcasts if (b.output, b.target) == shapes],
            kl_divergences=[call for call in step.kl_divergences if any(call is own for own in term.calls)],
            loss_calls=list(term.calls),
        )


def find_loop_heads(setup: Setup, step: TracedStep) -> list[_LoopHead]:
    """Return the heads of a traced step; empty if its batch is not known."""
    if step.batch.raw is None:
        return []
    inputs = _find_input_paths(step)
    aliases = _find_aliases(step, dict(_tensors(step.batch.raw)))
    outputs = {id(tensor): (path, tensor) for path, tensor in _tensors(step.output)}
    terms = find_terms(step.loss_calls, [t for _, t in outputs.values()], [t for t, _ in aliases.values()])
    paths = [(outputs[id(term.output)][0], aliases[id(term.target)][1]) for term in terms]
    whole = replace(setup, unpack=_Unpack(inputs, [target for _, target in paths]), loss_fn=None, step_fn=None)
    return [
        _LoopHead(name, term, _make_setup(whole, step, term, output, position, name))
        for position, (term, (output, _), name) in enumerate(zip(terms, paths, name_heads(paths), strict=True))
    ]


def disproved_by_step(setup: Setup, step: TracedStep) -> set[str]:
    """Return the assumptions about the values that the loss of the setup receives which a traced step disproves.

    A loss of the user's own may compute other values inside it, so it disproves nothing.
    """
    calls = [call for call in step.loss_calls if is_loss_call(call)]
    if not calls or step.batch.raw is None or not is_from_torch(setup.loss_fn):
        return set()
    operands = [operand for call in calls for operand in call.inputs]
    outputs, targets = tree_tensors(step.output), tree_tensors(step.batch.raw)
    sources = {OUTPUT_VALUES_UNCHANGED: outputs, TARGET_VALUES_UNCHANGED: targets}
    changed = {
        assumption
        for assumption, parts in sources.items()
        if not any(_are_equal(part, operand) for operand in operands for part in parts)
    }
    return changed | ({OPERAND_VALUES_UNCHANGED} if changed else set())


@dataclass
class RecordedCall(Setup):
    """A setup of one batch: the arguments that a loop has passed to the model, and the target of its loss, if known.

    ``is_other`` is True if the loop passes other arguments than the setup, such as a mask or a part of a sequence, and
    ``has_other_tokens`` if it passes sequences of integers of the same shapes, but with other values.
    ``head`` is the same call with the loss of the loop, if that compares one output with one target. ``loss_value`` is
    the loss of ``output``, which is None if it is large. ``argument_lines`` are the lines of the loop that made tensor
    arguments, by their numbers; ``target_line`` is the one that made the target of the loss.
    """

    recorded: Batch | None = None
    is_other: bool = False
    has_other_tokens: bool = False
    head: HeadSetup | None = None
    output: Any = None
    loss_value: float = math.nan
    argument_lines: Mapping[int, SourceLine] = field(default_factory=dict)
    target_line: SourceLine | None = None

    def split_batch(self, raw: Any, indices: tuple[int, ...] | None = None) -> Batch:
        """Return the recorded batch."""
        assert self.recorded is not None
        return self.recorded


def record_call(setup: Setup, step: TracedStep) -> RecordedCall:
    """Return the call of the model in a traced step as a setup of one batch."""
    args, kwargs = tree_map((step.batch.args, step.batch.kwargs), _copy)
    terms = _find_loss_terms(step)
    targets = ((_copy(terms[0].target),),) if len(terms) == 1 else ()
    unknown = dict.fromkeys(("val_loader", "loss_fn", "forward", "unpack", "step_fn", "task", "class_names"))
    batches: Any = [None]
    loader = DataLoader(batches, batch_size=None) if is_uncollated(setup.train_loader) else batches
    own = {**setup.arguments, **unknown, "train_loader": loader}
    recorded = Batch(args, kwargs, targets, _sample_positions(setup, step))
    is_small = sum(tensor.numel() for tensor in tree_tensors(step.output)) <= _MAX_OUTPUT_VALUES
    call = RecordedCall(
        **own,
        recorded=recorded,
        is_other=_passes_other_arguments(setup, step),
        has_other_tokens=_passes_other_tokens(setup, step),
        output=tree_map(step.output, _copy) if is_small else None,
        loss_value=float(step.loss.detach()),
        argument_lines=step.argument_lines,
        target_line=_find_target_line(step, terms[0].target) if targets else None,
    )
    if targets:
        outputs = {id(tensor): path for path, tensor in _tensors(step.output)}
        call.head = _make_setup(call, step, terms[0], outputs[id(terms[0].output)], 0, "")
    return call


def find_argument_line(setup: Setup, number: int) -> SourceLine | None:
    """Return the line of the loop that made a tensor argument of the model, or else the line of the loop's loss.

    None unless the setup is a head of a recorded call.
    """
    if not isinstance(setup, HeadSetup) or not isinstance(setup.whole, RecordedCall):
        return None
    return setup.whole.argument_lines.get(number, setup.line)


def find_target_lines(setup: Setup) -> tuple[SourceLine, ...]:
    """Return the line of the loop's loss and the one that made its target, as far as they are known.

    () unless the setup is a head of a recorded call.
    """
    if not isinstance(setup, HeadSetup) or not isinstance(setup.whole, RecordedCall):
        return ()
    return tuple(line for line in (setup.line, setup.whole.target_line) if line is not None)


def batch_with_loss(setup: Setup, call: RecordedCall) -> Batch | None:
    """Return the recorded batch if the setup's loss of the recorded output equals the loss of the loop; else None.

    The loss takes the recorded target, or no target. None also if the setup splits the batches of its loader as the
    loop does, or calls the model in a way of its own.
    """
    if not call.is_other or call.recorded is None or call.output is None or setup.loss_fn is None or setup.forward:
        return None
    for targets in (call.recorded.targets, ()):
        batch = replace(call.recorded, targets=targets)
        with Preserve(*setup.mutable_objects), torch.no_grad(), suppress(Exception):
            if math.isclose(float(setup.loss(call.output, batch)), call.loss_value, rel_tol=_LOSS_TOLERANCE):
                return batch
    return None


def _find_target_line(step: TracedStep, target: Tensor) -> SourceLine | None:
    """Return the line of the loop that made the target of a loss, before or after the model ran."""
    lines = (call.line for call in step.loss_calls if any(target is made for made in call.outputs))
    return next(lines, step.maker_lines.get(target))


def _find_loss_terms(step: TracedStep) -> list[LossTerm]:
    """Return the terms of torch's losses in a step; a target is what the loss gets, before it is arranged for it."""
    operands = [t for call in step.loss_calls if is_loss_call(call) for t in call.inputs if not t.requires_grad]
    targets = [find_whole(step.loss_calls, operand) for operand in operands]
    calls = [call for call in step.loss_calls if not any(t is target for t in call.outputs for target in targets)]
    return find_terms(calls, tree_tensors(step.output), targets)


def _passes_other_arguments(setup: Setup, step: TracedStep) -> bool:
    """Return whether the loop passes tensors of other names, positions or shapes to the model than the setup."""
    if step.batch.raw is None:
        return False
    expected = setup.split_batch(step.batch.raw)
    return _shapes(expected) != _shapes(step.batch)


def _passes_other_tokens(setup: Setup, step: TracedStep) -> bool:
    """Return whether the loop passes sequences of integers with other values than the setup, as after a shift."""
    if step.batch.raw is None or _passes_other_arguments(setup, step):
        return False
    expected = setup.split_batch(step.batch.raw)
    pairs = zip(_tensors((expected.args, expected.kwargs)), _tensors((step.batch.args, step.batch.kwargs)), strict=True)
    return any(
        passed.dim() > 1 and passed.dtype == torch.int64 == own.dtype and not _are_equal(own, passed)
        for (_, own), (_, passed) in pairs
    )


def _sample_positions(setup: Setup, step: TracedStep) -> tuple[int, ...] | None:
    """Return the positions of the samples, if these are along the first axis of what the loader and the loop pass.

    The positions stand for the indices of the samples, which the loop does not tell.
    """
    sizes = {len(tensor) if tensor.dim() else 0 for tensor in tree_tensors(step.batch.raw)}
    if not is_map_style(setup.train_loader) or len(sizes) != 1:
        return None
    (size,) = sizes
    passed = [tensor for _, tensor in _tensors((step.batch.args, step.batch.kwargs))]
    loaded = [tensor for _, tensor in _tensors(step.batch.raw)]
    is_first = any(tensor.shape[:1] == (size,) for tensor in passed)
    is_certain = all(size not in tensor.shape[1:] or _has_order_of(tensor, loaded) for tensor in passed)
    return tuple(range(size)) if is_first and is_certain else None


def _has_order_of(tensor: Tensor, loaded: Sequence[Tensor]) -> bool:
    """Return whether a tensor with two axes of one length is closer to a loaded one as it is than transposed."""
    axis = tensor.shape.index(len(tensor), 1) if len(tensor) in tensor.shape[1:] else 0
    values, transposed = tensor.detach().float(), tensor.detach().float().transpose(0, axis)
    others = [other.to(values) for other in loaded if other.shape == tensor.shape]
    return bool(axis) and any(
        bool((values - other).abs().mean() < (transposed - other).abs().mean()) for other in others
    )


def _shapes(batch: Batch) -> list[tuple[_Path, torch.Size]]:
    return [(path, tensor.shape) for path, tensor in _tensors((batch.args, batch.kwargs))]


def _copy(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, Tensor) else leaf


def _make_setup(
    whole: Setup, step: TracedStep, term: LossTerm, output: _Path, position: int, name: str
) -> HeadSetup | None:
    part = find_part(step.loss_calls, term.output, term.operands[0])
    loss = get_torch_loss(term, part) or _get_arranged_loss(step, term, part)
    return make_head(whole, loss, term, (output, (0, position)), name, part) if loss is not None else None


def _find_input_paths(step: TracedStep) -> tuple[list[_Path | None], dict[str, _Path | None]]:
    """Return where in the raw batch the model's arguments are; None for an argument that is not a part of it."""
    parts = dict(_tensors(step.batch.raw))

    def find(argument: Any) -> _Path | None:
        return next((path for path, part in parts.items() if _are_equal(part, argument)), None)

    return [find(argument) for argument in step.batch.args], {k: find(v) for k, v in step.batch.kwargs.items()}


def _find_aliases(step: TracedStep, parts: Mapping[_Path, Tensor]) -> dict[int, tuple[Tensor, _Path]]:
    """Return the tensors with the values of a part of the batch that the loss starts from, by ``id``."""
    computed = {id(tensor) for call in step.loss_calls for tensor in call.outputs}
    aliases: dict[int, tuple[Tensor, _Path]] = {}
    for tensor in (tensor for call in step.loss_calls for tensor in call.inputs):
        if id(tensor) in aliases or id(tensor) in computed or tensor.requires_grad:
            continue
        path = next((path for path, part in parts.items() if _are_equal(part, tensor)), None)
        if path is not None:
            aliases[id(tensor)] = tensor, path
    return aliases


def _are_equal(part: Tensor, tensor: Any) -> bool:
    """Return whether two tensors have the same values, in any arrangement and type, on any device."""
    if part is tensor:
        return True
    if not isinstance(tensor, Tensor) or part.numel() != tensor.numel() or not part.dim() or part.is_complex():
        return False
    values, others = part.detach().cpu().flatten(), tensor.detach().cpu().flatten()
    return bool(torch.equal(values, others.to(values.dtype))) and not tensor.is_complex()


def _tensors(tree: Any) -> list[tuple[_Path, Tensor]]:
    return [(path, leaf) for path, leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


class _Unpack:
    """Splits a batch as the loop does: the arguments of the model by their paths, and the targets of all heads."""

    def __init__(
        self, inputs: tuple[Sequence[_Path | None], Mapping[str, _Path | None]], targets: Sequence[_Path]
    ) -> None:
        self._args, self._kwargs, self._targets = *inputs, targets

    def __call__(self, raw: Any) -> tuple[Any, Any]:
        targets = tuple(tree_get(raw, path) for path in self._targets)
        args = [tree_get(raw, path) if path is not None else None for path in self._args]
        kwargs = {name: tree_get(raw, path) for name, path in self._kwargs.items() if path is not None}
        return ({**kwargs} if kwargs and not args else tuple(args)), targets


def _get_arranged_loss(
    step: TracedStep, term: LossTerm, part: Sequence[LayoutChange]
) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Return torch's own loss of a term after changes of layout; None if its operands are made in another way."""
    result, value = term.call.outputs, term.value
    if term.call.name not in FUNCTION_KINDS_BY_NAME or term.meetings > 1 or value is None:
        return None
    if len(result) != 1 or result[0].numel() != 1:
        return None
    factor = float(value.detach()) / (float(result[0].detach()) or 1.0)
    of_output = [] if part else find_changes(step.loss_calls, term.output, term.operands[0])
    of_target = find_changes(step.loss_calls, term.target, term.operands[1])
    if of_output is None or of_target is None:
        return None
    return _ArrangedLoss(partial(getattr(F, term.call.name), **get_options(term)), factor, of_output, of_target)


class _ArrangedLoss:
    """A loss of torch's with a factor, whose operands are the output and the target in another layout or type."""

    def __init__(
        self,
        loss: partial[Tensor],
        factor: float,
        of_output: Sequence[LayoutChange],
        of_target: Sequence[LayoutChange],
    ) -> None:
        self._loss, self._factor, self._of_output, self._of_target = loss, factor, of_output, of_target
        self.ignore_index = loss.keywords.get("ignore_index", -100)

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the loss of an output and a target."""
        operands = apply_changes(output, self._of_output), apply_changes(target, self._of_target)
        return self._factor * self._loss(*operands)
