"""The line that makes the mask which takes a part of the output out of the loss, in the loss or in the data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import CallRecorder, TorchCall
from nbdebug.autograd.tracing import ModuleStack
from nbdebug.loop_monitor.event_stacks import Stack, user_stack
from nbdebug.measurements.collation import collate, read_samples
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.loss_gradient import compute_output_gradients
from nbdebug.setup import Setup
from nbdebug.setup.batch import is_mask
from nbdebug.setup.losses import score_tensor
from nbdebug.setup.sample_functions import nested_datasets, sample_functions
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_leaves, tree_tensors

_SELECTIONS = frozenset({"getitem", "masked_select"})
_PRODUCTS = frozenset({"mul", "rmul", "imul", "multiply"})
_CHANGES_OF_FORM = frozenset(
    {"bool", "float", "double", "half", "to", "type", "type_as", "clone", "detach", "contiguous", "expand", "expand_as"}
    | {"getitem", "view", "reshape", "flatten", "unsqueeze", "squeeze", "transpose", "permute", "stack", "cat"}
    | {"pad_sequence", "from_numpy", "as_tensor", "tensor"}
)
_MAX_STEPS, _COLLATED_SAMPLES = 16, 8


@dataclass
class _RecordedCalls:
    """Torch calls with the user's lines on their stacks, and the number of the call that returned each tensor."""

    calls: list[TorchCall] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)
    makers: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Callable[[], object]) -> _RecordedCalls:
        """Record the calls of a function."""
        recorded = cls()
        with torch.no_grad(), CallRecorder(ModuleStack(), recorded._add):
            run()
        return recorded

    def _add(self, call: TorchCall) -> None:
        for tensor in call.outputs:
            is_unchanged = call.name in _CHANGES_OF_FORM and any(tensor is given for given in call.inputs)
            if not is_unchanged:
                self.makers[id(tensor)] = len(self.calls)
        self.calls.append(call)
        self.stacks.append(user_stack(sys._getframe(2)))

    def find_source(self, tensor: Tensor) -> tuple[Tensor, int | None]:
        """Return what a tensor is made of by changes of form alone, and the number of the call that makes it.

        None for a tensor that none of the calls makes.
        """
        for _ in range(_MAX_STEPS):
            number = self.makers.get(id(tensor))
            if number is None or self.calls[number].name not in _CHANGES_OF_FORM:
                return tensor, number
            if not self.calls[number].inputs:
                return tensor, number
            tensor = self.calls[number].inputs[0]
        return tensor, None


def excluding_mask_line(
    setup: Setup, first_pass: ForwardPass, columns: Sequence[int] | None = None
) -> SourceLine | None:
    """Return the line that makes the mask which leaves values of the output out of the loss; None without one.

    These are the values without a gradient, in some columns if they are given. A mask counts if the loss multiplies by
    it, selects or fills with it, and if it excludes all these values. Its line is the one in the function that applies
    it, or for a mask that comes with the targets, the one in the user's function that makes the samples or the batch.
    """
    output = score_tensor(first_pass.output)
    if not isinstance(output, Tensor) or first_pass.loss is None:
        return None
    (gradient,) = compute_output_gradients(first_pass.loss, [output])
    if gradient is None:
        return None
    is_excluded = gradient == 0
    if columns is not None:
        is_column = torch.zeros(output.shape[1], dtype=torch.bool, device=output.device)
        is_column[list(columns)] = True
        is_excluded &= is_column.reshape(1, -1, *[1] * (output.dim() - 2))
    try:
        recorded = _RecordedCalls.of(lambda: setup.loss(first_pass.output, first_pass.batch))
        return _find_line(setup, first_pass, recorded, is_excluded)
    except Exception:  # the loss and the data are the user's, and a finding is worth more than its line
        return None


def _find_line(
    setup: Setup, first_pass: ForwardPass, recorded: _RecordedCalls, is_excluded: Tensor
) -> SourceLine | None:
    of_output = {id(tensor) for tensor in tree_tensors(first_pass.output)}
    for call, stack in zip(recorded.calls, recorded.stacks, strict=True):
        values = next((tensor for tensor in call.inputs if id(tensor) in of_output), None)
        if values is None:
            continue
        of_output.update(map(id, call.outputs))
        masks = [tensor for tensor in call.inputs if id(tensor) not in of_output]
        for mask in masks:
            if _excludes(call, mask, values, is_excluded):
                source, number = recorded.find_source(mask)
                if number is not None:
                    return _line_in_function(recorded.stacks[number], stack[0].function if stack else "")
                return _data_mask_line(setup, first_pass, source)
    return None


def _excludes(call: TorchCall, mask: Tensor, values: Tensor, is_excluded: Tensor) -> bool:
    """Return whether a call takes some values of the output out of the loss by a mask."""
    if mask.numel() < 2 or not is_mask(mask) or values.shape[:2] != is_excluded.shape[: min(2, values.dim())]:
        return False
    if call.name in _SELECTIONS | _PRODUCTS:
        kept = mask.bool()
    elif call.name == "masked_fill":
        kept = ~mask.bool()
    elif call.name == "where" and call.inputs[0] is mask and len(call.args) == 3:
        kept = mask.bool() if call.args[1] is values else ~mask.bool()
    else:
        return False
    excluded = is_excluded.flatten(values.dim()).all(-1) if is_excluded.dim() > values.dim() else is_excluded
    if kept.dim() < values.dim() and kept.shape == values.shape[: kept.dim()]:
        kept = kept.reshape(*kept.shape, *[1] * (values.dim() - kept.dim()))
    try:
        kept = kept.to(excluded.device).expand(excluded.shape)
    except RuntimeError:
        return False
    return bool(excluded.any()) and not bool(kept[excluded].any())


def _is_same(leaf: object, mask: Tensor) -> bool:
    """Return whether a leaf of a batch is a mask, which may have been moved to another device."""
    return leaf is mask or (isinstance(leaf, Tensor) and leaf.shape == mask.shape and torch.equal(leaf.to(mask), mask))


def _line_in_function(stack: Stack, function: str) -> SourceLine | None:
    """Return the line of a stack in some function, else the innermost one."""
    return next((line for line in stack if line.function == function), stack[0] if stack else None)


def _data_mask_line(setup: Setup, first_pass: ForwardPass, mask: Tensor) -> SourceLine | None:
    """Return the line that makes a mask which comes with the targets, in the function that makes samples or batches."""
    loader = setup.train_loader
    path = next((path for path, leaf in tree_leaves(first_pass.batch.raw) if _is_same(leaf, mask)), None)
    functions = [method[0].__code__ for method in sample_functions(loader, [*nested_datasets(loader.dataset)])]
    if path is None or not functions:
        return None
    batches: list[object] = []
    recorded = _RecordedCalls.of(
        lambda: batches.append(collate(setup, loader, read_samples(loader, _COLLATED_SAMPLES)).raw)
    )
    tensor = next((leaf for other, leaf in tree_leaves(batches[0]) if other == path), None)
    _, number = recorded.find_source(tensor) if isinstance(tensor, Tensor) else (None, None)
    stack = recorded.stacks[number] if number is not None else ()
    places = {(code.co_filename, code.co_name) for code in functions}
    return next((line for line in stack if (line.file, line.function) in places), None)
