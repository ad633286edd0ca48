"""The calls of torch that each line of the user makes: the time of their backward pass, and that on whole tensors."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_unflatten

from nbdebug.setup import Batch, Setup
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.tools.batch_size.search import TrainingStep
from nbdebug.tools.profile.clocks import device_clock, host_seconds
from nbdebug.tools.profile.module_memory import BackwardNodes
from nbdebug.tools.profile.operations import get_user_line, synchronize

_Place = tuple[str, int]  # a file and the number of a line
_PASSES = 3
_ROUNDS = 7
_MAX_ELEMENTS = 1 << 26  # of a whole tensor


@dataclass
class _Call:
    """A function of torch with the arguments of its first call, and the number of calls with arguments of this form."""

    function: Any
    leaves: list[Any]
    structure: Any
    count: int = 0
    shared: set[int] = field(default_factory=set)  # places of the tensors that later calls read too, such as weights
    is_recurrent: bool = False  # whether a call reads the result of the one before
    last_result: Any = None

    def note(self, leaves: Sequence[Any], result: Any) -> None:
        """Count a call."""
        self.count += 1
        self.is_recurrent |= any(leaf is self.last_result for leaf in leaves if isinstance(leaf, Tensor))
        self.last_result = result
        if self.count > 1:
            both = enumerate(zip(leaves, self.leaves, strict=True))
            self.shared |= {place for place, (leaf, first) in both if leaf is first and isinstance(leaf, Tensor)}


class LineCalls(TorchFunctionMode):
    """Records the calls of each line of the user, and hooks the autograd nodes that they create."""

    def __init__(self, setup: Setup) -> None:
        super().__init__()
        self.device = setup.model_device
        self.clock = device_clock(self.device)
        self.backward_seconds: dict[_Place, float] = {}
        self.lines: dict[_Place, SourceLine] = {}
        self._calls: dict[_Place, dict[Any, _Call]] = defaultdict(dict)
        self._nodes = BackwardNodes()
        self._stamps: list[tuple[Any, Any, _Place | None]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function, and record it for the line that calls it."""
        arguments = args, kwargs or {}
        self._nodes.begin(arguments)
        result = func(*args, **(kwargs or {}))
        with torch._C.DisableTorchFunction():
            line = get_user_line(sys._getframe(1))
            place = (line.file, line.number) if line else None
            for node in self._nodes.end(result):
                node.register_prehook(lambda _: self._stamp(place))
            if line and place:
                self.lines[place] = line
                self._record(place, func, arguments, result)
        return result

    def _record(self, line: _Place, func: Any, arguments: Any, result: Any) -> None:
        if all(_is_view(tensor, tree_tensors(arguments)) for tensor in tree_tensors(result)):
            return  # it computes nothing
        leaves, structure = tree_flatten(arguments)
        key = func, structure, *(_form(leaf) for leaf in leaves)
        try:
            call = self._calls[line].setdefault(key, _Call(func, leaves, structure))
        except TypeError:  # an argument that has no hash
            return
        call.note(leaves, result)

    def run_backward(self, loss: Tensor) -> dict[_Place | None, float]:
        """Run the backward pass, and return the seconds of the operations of each line."""
        for node in self._nodes.outside(loss):
            node.register_prehook(lambda _: self._stamp(None))
        loss.backward()  # type: ignore[no-untyped-call]
        self._stamp(None)
        self.clock.finish()
        sums: dict[_Place | None, float] = defaultdict(float)
        for (_, start, line), (end, _, _) in pairwise(self._stamps):
            sums[line] += self.clock.seconds(start, end)
        return sums

    def _stamp(self, line: _Place | None) -> None:
        """Begin an operation of a line, which ends the one before; the time in between is that of this hook."""
        before = self.clock.stamp()
        self._stamps.append((before, self.clock.stamp(), line))

    def whole_seconds(self, line: _Place) -> float | None:
        """Return by how much longer the calls of a line take on whole tensors than in one pass of the loop around it.

        Both are measured, with their backward pass. None if a call does not run on whole tensors as it is.
        """
        calls = [call for call in self._calls.get(line, {}).values() if call.count > 1]  # others run once in any case
        passes = min((call.count for call in calls), default=1)
        total = 0.0
        for call in calls:
            try:
                whole, single = (self._seconds(call, size) + self._scan_seconds(call, size) for size in (passes, 1))
            except Exception:  # such as one that torch cannot run on several inputs at once
                return None
            total += call.count // passes * max(whole - single, 0.0)
        return total

    def _seconds(self, call: _Call, size: int) -> float:
        """Return the seconds of forward and backward pass of a call on tensors of this many passes at once."""
        places = [i for i, leaf in enumerate(call.leaves) if isinstance(leaf, Tensor)]
        is_varied = [i not in call.shared for i in places]
        inputs = [_repeated(call.leaves[i], size if varies else 0) for i, varies in zip(places, is_varied, strict=True)]

        def run(*tensors: Tensor) -> Any:
            leaves = [*call.leaves]
            for i, tensor in zip(places, tensors, strict=True):
                leaves[i] = tensor
            args, kwargs = tree_unflatten(leaves, call.structure)
            return call.function(*args, **kwargs)

        if not any(is_varied):
            return self._passes_seconds(run, inputs)
        batched = torch.vmap(run, tuple(0 if varies else None for varies in is_varied), randomness="different")
        joined = [
            tensor.detach().flatten(0, 1).requires_grad_(tensor.requires_grad)
            if varies and tensor.dim() > 1
            else tensor
            for tensor, varies in zip(inputs, is_varied, strict=True)
        ]
        expected = batched(*inputs)
        for way in (inputs, joined):  # as a user would call it, which takes less time than the rules of vmap
            if _computes(run, way, expected):
                return self._passes_seconds(run, way)
        return self._passes_seconds(batched, inputs)

    def _scan_seconds(self, call: _Call, size: int) -> float:
        """Return the seconds of a running sum, which a recurrence on whole tensors needs in addition; 0 for others."""
        tensors = [leaf for leaf in call.leaves if isinstance(leaf, Tensor)]
        if not call.is_recurrent:
            return 0.0
        return self._passes_seconds(lambda tensor: tensor.cumsum(0), [_repeated(max(tensors, key=Tensor.numel), size)])

    def _passes_seconds(self, function: Callable[..., Any], inputs: Sequence[Tensor]) -> float:
        """Return the seconds of forward and backward pass of a function, after one that warms up."""
        leaves, seconds = [tensor for tensor in inputs if tensor.requires_grad], []
        seeds: list[Tensor] = []
        for _ in range(_ROUNDS + 1):
            synchronize(self.device)
            started = host_seconds()
            with torch.enable_grad():
                outputs = [tensor for tensor in tree_tensors(function(*inputs)) if tensor.requires_grad]
                if seeds:
                    torch.autograd.grad(outputs, leaves, seeds, allow_unused=True)
            synchronize(self.device)
            seconds.append(host_seconds() - started)
            seeds = seeds or [*map(torch.ones_like, outputs)]
        return median(seconds[1:])


def _is_view(result: Tensor, arguments: Sequence[Tensor]) -> bool:
    """Check whether a result is another tensor in the memory of an argument."""
    return result._is_view() and any(
        argument is not result and argument.untyped_storage()._cdata == result.untyped_storage()._cdata
        for argument in arguments
    )


def _computes(function: Callable[..., Any], inputs: Sequence[Tensor], expected: Any) -> bool:
    """Check whether a function of whole tensors has the results that it has for each pass."""
    try:
        results = tree_tensors(function(*inputs))
    except Exception:
        return False
    pairs = [*zip(results, tree_tensors(expected), strict=True)]
    return all(a.numel() == b.numel() and torch.allclose(a.flatten(), b.flatten(), equal_nan=True) for a, b in pairs)


def _form(leaf: Any) -> Any:
    """Return what calls that can run as one have in common: shape and type of a tensor, the value of anything else."""
    return (leaf.shape, leaf.dtype, leaf.requires_grad) if isinstance(leaf, Tensor) else leaf


def _repeated(tensor: Tensor, size: int) -> Tensor:
    """Return a copy of a tensor, as often as there are passes; once if the passes share it."""
    if tensor.numel() * max(size, 1) > _MAX_ELEMENTS:
        raise ValueError("the whole tensor is too large to be measured")
    value = tensor.detach()
    value = value.expand(size, *value.shape).contiguous() if size else value.clone()
    return value.requires_grad_(tensor.requires_grad)


def measure_line_calls(setup: Setup, batch: Batch, backward: float) -> LineCalls:
    """Return the calls of each line in one step, and the seconds of their backward pass, of ``backward`` in all."""
    step = TrainingStep(setup)
    runs = [_recorded_step(step, batch) for _ in range(_PASSES)]
    seconds = {line: median(sums[line] for _, sums in runs) for line in {line for _, sums in runs for line in sums}}
    scale = backward / max(sum(seconds.values()), 1e-9)
    calls = runs[-1][0]
    calls.backward_seconds = {line: scale * value for line, value in seconds.items() if line is not None}
    return calls


def _recorded_step(step: TrainingStep, batch: Batch) -> tuple[LineCalls, dict[_Place | None, float]]:
    """Run a forward and a backward pass, and return the calls of the forward pass."""
    calls = LineCalls(step.setup)
    step.clear()
    with torch.enable_grad():
        with calls:
            loss = step.setup.output_and_loss(batch)[1]
        sums = calls.run_backward(loss)
    step.clear()
    return calls, sums
