"""Record calls that broadcast the output, the target and other data of a batch against each other."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from nbdebug.autograd.tracing import get_call_name
from nbdebug.source.location import SourceLine, get_line_from_frame
from nbdebug.tensors.pytree import tree_tensors

ELEMENTWISE_LOSSES = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}
_ELEMENTWISE_OPERATORS = {
    *("add", "sub", "rsub", "mul", "truediv", "pow", "radd", "rmul", "subtract", "multiply", "div", "where"),
    *("poisson_nll_loss", "kl_div", "soft_margin_loss"),
}
_SELECTION_CALLS = {"gather", "getitem", "index_select", "masked_select", "take", "take_along_dim"}
_OUTPUT_AND_TARGET = ("output", "target")
_OTHER_DATA = "data of the batch"
_NEW_AXIS_CALLS = {"getitem", "reshape", "unsqueeze", "view", "view_as"}
_ARRANGING_CALLS = _NEW_AXIS_CALLS | {
    *("squeeze", "flatten", "permute", "transpose", "t", "expand", "expand_as", "contiguous", "clone", "detach"),
    *("to", "type", "type_as", "float", "double", "half", "bfloat16", "long", "int", "bool", "cpu", "cuda", "unbind"),
}


@dataclass(frozen=True)
class Broadcast:
    """One call that broadcast output or target over the other; ``names`` are those of the two in a message.

    ``axis_line`` is the line of another function than that of ``line`` which gave an operand its axis of length 1.
    ``is_output_first`` tells whether the output is the first of two operands; None if there are others. ``is_target``
    is False if the second operand is computed, as a reward is, and not a target as the loss receives it.
    ``has_passed_shapes`` tells whether both have shapes in which the loss receives an output and a target.
    """

    call: str
    output: tuple[int, ...]
    target: tuple[int, ...]
    result: tuple[int, ...]
    line: SourceLine | None
    axis_line: SourceLine | None = None
    is_output_first: bool | None = None
    names: tuple[str, str] = _OUTPUT_AND_TARGET
    is_target: bool = True
    has_passed_shapes: bool = False


class BroadcastTracker:
    """Tracks values of the output and of the target through torch calls, and records the calls that broadcast them.

    Torch's losses take equal shapes. Operators may broadcast one side on purpose, as for quantiles or weights; they are
    recorded only if the result is larger than both operands, which have different numbers of axes. Calls in which
    errors, made of output and target, meet values of a target again, such as weights, are in ``weight_broadcasts``.
    Errors that meet values of the output again, as rewards meet the values of a critic, count as targets if both have
    one value for each sample and the line itself gives neither a new axis, as for all pairs. Results without a gradient
    that have one value for each of the ``batch_size`` samples count as targets too. The values of each sample at the
    indices of all samples, as in ``q[:, actions]``, are broadcast by a target of the same length. Broadcasts of one
    weight and one error for each sample whose results are summed as a whole are also in ``lost_weights``: their sum is
    the product of two sums, whichever weight belongs to an error. Companions are other data of the batch, such as the
    rewards of a log: they are compared with the output, and with targets if no call has given them a new axis.
    """

    def __init__(self, output: list[Tensor], targets: list[Tensor], batch_size: int | None = None) -> None:
        self._batch_size = batch_size
        self._references = [*output, *targets]  # ids are unique while the tensors live
        self._output_ids = {id(t) for t in output}
        self._target_ids = {id(t) for t in targets}
        self._given_ids = set(self._target_ids)  # of targets, arranged or not
        self._output_shapes, self._target_shapes = ({t.shape for t in part} for part in (output, targets))
        self._error_ids: set[int] = set()
        self._companion_ids: set[int] = set()
        self._crossed_ids: set[int] = set()
        self._new_axis_lines: dict[int, SourceLine | None] = {}
        self._axis_lines: dict[int, SourceLine | None] = {}
        self._broadcast_numbers: dict[int, set[int]] = {}
        self._next_number, self._latest_numbers = 0, set[int]()
        self.broadcasts: list[Broadcast] = []
        self.weight_broadcasts: list[Broadcast] = []
        self.lost_weights: list[Broadcast] = []
        self._weighted: dict[int, Broadcast] = {}

    def add_output(self, output: list[Tensor]) -> None:
        """Track further values of the output."""
        self._references += output
        self._output_ids.update(id(t) for t in output)

    def add_targets(self, targets: list[Tensor]) -> None:
        """Track further values of the target."""
        self._references += targets
        self._target_ids.update(id(t) for t in targets)
        self._given_ids.update(id(t) for t in targets)

    def add_companions(self, companions: list[Tensor]) -> None:
        """Track further data of the batch that is neither input nor target."""
        self._references += companions
        self._companion_ids.update(id(t) for t in companions)

    def on_call(self, func: Any, inputs: list[Tensor]) -> None:
        """Record a call that is about to run, if it broadcasts."""
        self._next_number = len(self.broadcasts)
        from_output, from_target, from_error = self._split(inputs)
        if from_output and from_target:
            self._record(func, inputs, from_output[0], from_target[0], self.broadcasts)
        elif from_error and from_target:
            self._record(func, inputs, from_error[0], from_target[0], self.weight_broadcasts)
        elif (
            from_error
            and from_output
            and from_error[0].numel() == from_output[0].numel()
            and not self._is_expanded_here(inputs)
        ):
            self._record(func, inputs, from_output[0], from_error[0], self.broadcasts)
        elif companions := [t for t in inputs if id(t) in self._companion_ids]:
            if from_output and not self._is_expanded_here(inputs):
                names = "output", _OTHER_DATA
                self._record(func, inputs, from_output[0], companions[0], self.broadcasts, names)
            elif from_target and not any(id(t) in self._axis_lines for t in inputs):
                names = "target", _OTHER_DATA
                self._record(func, inputs, from_target[0], companions[0], self.broadcasts, names)

    def on_result(self, func: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Track the results of a call; selected values are those of the tensor that they are selected from."""
        from_output, from_target, from_error = self._split(inputs)
        name = getattr(func, "__name__", "").strip("_")
        self._follow_broadcasts(inputs, inputs[:1] if name == "setitem" else outputs)
        if name in _SELECTION_CALLS and any(self._split(inputs[:1])):
            self._crossed_ids.update(id(t) for t in outputs if self._is_crossed(t, inputs))
            from_output, from_target, from_error = self._split(inputs[:1])
        if name in _NEW_AXIS_CALLS and inputs:
            line = get_line_from_frame(sys._getframe(2))
            self._new_axis_lines.update((id(t), line) for t in outputs if t.shape != inputs[0].shape)
        if any(id(t) in self._new_axis_lines or id(t) in self._axis_lines for t in (*inputs, *outputs)):
            line = get_line_from_frame(sys._getframe(2))
            self._axis_lines.update((id(t), line) for t in outputs if 1 in t.shape)
        self._references += outputs
        if name in _ARRANGING_CALLS and inputs and id(inputs[0]) in self._given_ids:
            self._given_ids.update(id(t) for t in outputs)
        self._follow_weights(name, inputs, outputs)
        if from_error or (from_output and from_target):
            self._error_ids.update(id(t) for t in outputs)
        elif bool(from_output) != bool(from_target):
            (self._output_ids if from_output else self._target_ids).update(id(t) for t in outputs)
        elif any(id(t) in self._companion_ids for t in inputs):
            self._companion_ids.update(id(t) for t in outputs if not t.requires_grad)
        else:
            self._target_ids.update(id(t) for t in outputs if not t.requires_grad and t.shape == (self._batch_size,))

    def broadcasts_in(self, loss: Any) -> list[Broadcast]:
        """Return the broadcasts of which a loss is computed; a cost that only chooses pairs is no part of it.

        For a loss that is not known, those of the latest result.
        """
        numbers = self._broadcast_numbers.get(id(loss), self._latest_numbers)
        numbers = numbers.union(range(self._next_number, len(self.broadcasts)))  # of a call that has raised
        return [broadcast for number, broadcast in enumerate(self.broadcasts) if number in numbers]

    def _follow_broadcasts(self, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Note for the results of a call the broadcasts that they are computed from, and the one of the call itself."""
        numbers = {*range(self._next_number, len(self.broadcasts))}
        numbers.update(*(self._broadcast_numbers.get(id(t), ()) for t in inputs))
        self._next_number = len(self.broadcasts)
        for tensor in outputs:
            if tensor.is_floating_point():  # an index only chooses
                self._latest_numbers = numbers | self._broadcast_numbers.get(id(tensor), set())
                self._broadcast_numbers[id(tensor)] = self._latest_numbers

    def _follow_weights(self, name: str, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Note the result of the latest broadcast of weights, and the broadcasts whose result is summed as a whole."""
        latest = self.weight_broadcasts[-1] if self.weight_broadcasts else None
        if latest is not None and outputs and latest not in self._weighted.values():
            if prod(latest.output) == prod(latest.target) == self._batch_size:
                self._weighted[id(outputs[0])] = latest
        elif name in ("mean", "sum") and inputs and outputs[0].numel() == 1 and id(inputs[0]) in self._weighted:
            self.lost_weights.append(self._weighted[id(inputs[0])])

    def _is_crossed(self, selected: Tensor, inputs: list[Tensor]) -> bool:
        """Return whether a tensor has the values of each sample at the indices of all samples, which targets hold."""
        has_index = any(id(t) in self._target_ids and t.shape == selected.shape[1:] for t in inputs[1:])
        return has_index and selected.dim() == 2 and selected.shape[0] == selected.shape[1] == len(inputs[0])

    def _is_expanded_here(self, inputs: list[Tensor]) -> bool:
        """Return whether the line of a call that is about to run also gives one of its operands a new axis."""
        lines = [self._new_axis_lines[id(t)] for t in inputs if id(t) in self._new_axis_lines]
        return bool(lines) and get_line_from_frame(sys._getframe(3)) in lines

    def _split(self, inputs: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Return the inputs that derive from the output, those from the target, and those from both."""
        kinds = self._output_ids, self._target_ids, self._error_ids
        from_output, from_target, from_error = ([t for t in inputs if id(t) in ids] for ids in kinds)
        return from_output, from_target, from_error

    def _record(
        self,
        func: Any,
        inputs: list[Tensor],
        from_output: Tensor,
        from_target: Tensor,
        broadcasts: list[Broadcast],
        names: tuple[str, str] = _OUTPUT_AND_TARGET,
    ) -> None:
        """Record the call if the broadcast is unintended."""
        name = getattr(func, "__name__", "").strip("_")
        if (
            not from_output.dim()
            or not from_target.dim()
            or from_output.shape == from_target.shape
            or name not in ELEMENTWISE_LOSSES | _ELEMENTWISE_OPERATORS
        ):
            return
        try:
            result_shape = torch.Size(torch.broadcast_shapes(from_output.shape, from_target.shape))  # type: ignore[no-untyped-call]
        except RuntimeError:
            return
        is_expanded = from_output.dim() != from_target.dim() and result_shape.numel() > max(
            from_output.numel(), from_target.numel()
        )
        is_crossed = id(from_output) in self._crossed_ids and from_target.shape == from_output.shape[1:]
        if is_expanded or is_crossed or name in ELEMENTWISE_LOSSES:
            line = get_line_from_frame(sys._getframe(3))
            shapes = tuple(from_output.shape), tuple(from_target.shape), tuple(result_shape)
            axis_lines = (self._axis_lines.get(id(t)) for t in (from_output, from_target) if 1 in t.shape)
            axis_line = next((made for made in axis_lines if made and line and made.function != line.function), None)
            is_output_first = inputs[0] is from_output if len(inputs) == 2 else None
            is_target = id(from_target) in self._given_ids or name not in _ELEMENTWISE_OPERATORS
            is_passed = from_output.shape in self._output_shapes and from_target.shape in self._target_shapes
            broadcasts.append(
                Broadcast(get_call_name(func), *shapes, line, axis_line, is_output_first, names, is_target, is_passed)
            )


class BroadcastRecorder(TorchFunctionMode):
    """Passes each call to a ``BroadcastTracker`` while active."""

    def __init__(self, output: list[Tensor], targets: list[Tensor]) -> None:
        super().__init__()
        self.tracker = BroadcastTracker(output, targets)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = tree_tensors((args, kwargs or {}))
        self.tracker.on_call(func, inputs)
        result = func(*args, **(kwargs or {}))
        self.tracker.on_result(func, inputs, tree_tensors(result))
        return result
