"""Differences of a parameter from a tensor that is the parameter itself, or shares its memory: always zero."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from torch import Tensor, nn

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.loop_monitor.write_trace import is_plain_tensor
from nbdebug.source.location import SourceLine

_DIFFERENCES = {"sub", "subtract", "rsub", "foreach_sub", "dist", "pairwise_distance"}
_LOSSES = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}
_MAX_PAIRS = 512


class SelfDifferences:
    """The lines that subtract trained parameters from their own memory, and what they subtract.

    A line that also subtracts other tensors from parameters compares all pairs of some tensors, so it does not count;
    nor does one parameter with several names, which its modules share on purpose.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._names: dict[int, list[str]] = {}
        self._pairs: dict[SourceLine, dict[str, Tensor]] = {}
        self._other_lines: set[SourceLine] = set()

    @property
    def line(self) -> SourceLine | None:
        """The first line that subtracts parameters from themselves only."""
        return next((line for line in self._pairs if line not in self._other_lines), None)

    @property
    def pairs(self) -> dict[str, Tensor]:
        """The parameters of that line by name, each with the tensor that shares its memory."""
        return self._pairs[self.line] if self.line else {}

    def begin(self) -> None:
        """Read the addresses of the parameters, which may have moved."""
        self._names = {}
        for name, parameter in self._model.named_parameters(remove_duplicate=False):
            if parameter.requires_grad and (address := _address(parameter)):
                self._names.setdefault(address, []).append(name)

    def end(self) -> None:
        """Release the tensors."""
        self._pairs.clear()

    def add_calls(self, calls: Iterable[TorchCall]) -> None:
        """Record the differences among the calls of a step, which keep all tensors that the step made alive.

        A tensor minus its own values that the step has detached passes a gradient on purpose.
        """
        self.begin()
        origins: dict[int, Tensor] = {}
        for call in calls:
            for output in call.outputs:
                sources = (item for item in call.inputs if item is not output and _address(item) == _address(output))
                if _address(output) and (source := next(sources, None)) is not None:
                    origins.setdefault(id(output), origins.get(id(source), source))
            if call.line is not None and is_difference(call.name):
                for first, second in operand_pairs([*call.args, *call.kwargs.values()]):
                    first_origin, second_origin = (origins.get(id(item), item) for item in (first, second))
                    if first is second or first_origin is not second_origin:
                        self.add(call.line, first, second, [first_origin, second_origin])

    def add(self, line: SourceLine, first: Tensor, second: Tensor, origins: Sequence[Tensor]) -> None:
        """Record a difference of two tensors, if any is a parameter; ``origins`` are those that they are parts of."""
        names = self._names.get(_address(first)) or self._names.get(_address(second)) or []
        if is_same_memory(first, second) and len(names) == 1:
            others = [item for item in origins if not isinstance(item, nn.Parameter)]
            self._pairs.setdefault(line, {})[names[0]] = (others or [*origins])[0]
        elif names:
            self._other_lines.add(line)


def is_difference(name: str) -> bool:
    """Check whether a torch function, by its name without underscores, returns a difference or a distance."""
    return name in _DIFFERENCES or name in _LOSSES


def operand_pairs(operands: Sequence[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the two tensors that a call subtracts, or those of two lists."""
    lists = [item if isinstance(item, (list, tuple)) else [item] for item in operands[:2]]
    for first, second in islice(zip(*lists, strict=False), _MAX_PAIRS) if len(lists) == 2 else ():
        if is_plain_tensor(first) and is_plain_tensor(second):
            yield first, second


def is_same_memory(first: Tensor, second: Tensor) -> bool:
    """Check whether two tensors are the same values at the same addresses."""
    is_same_kind = (first.shape, first.dtype, first.stride()) == (second.shape, second.dtype, second.stride())
    return is_same_kind and _address(first) == _address(second) != 0


def _address(tensor: Tensor) -> int:
    """Return the address of the first value of a tensor, 0 if it has none."""
    return tensor.data_ptr() if is_plain_tensor(tensor) and tensor.numel() else 0
