"""Follow the tensors of recorded calls: the line that makes one which a call receives, and the line that loses one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any

from torch import Tensor, nn

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.source.attribute_makers import attribute_maker
from nbdebug.source.interpreter_events import observe_calls
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.tensors.memory import share_memory

_VIEW_CALLS = frozenset(
    {"getitem", "view", "reshape", "flatten", "unsqueeze", "squeeze", "expand", "expand_as", "repeat", "contiguous"}
    | {"to", "type", "type_as", "float", "bool", "half", "double", "clone", "detach", "transpose", "permute", "get"}
)
_MAX_STEPS = 16


def find_maker_line(
    tensor: Tensor, consumer: TorchCall, calls: Sequence[TorchCall], model: nn.Module
) -> SourceLine | None:
    """Return the line that makes a tensor which a call of a pass receives; None if that is the line of the call itself.

    ``calls`` are those of the pass. Views and conversions count as what they are made of, and so do calls on the line
    of the consumer. A tensor that no call of the pass makes is looked for among the attributes of the model.
    """
    makers = {id(output): call for call in _calls_before(consumer, calls) for output in call.outputs}
    source = tensor
    for _ in range(_MAX_STEPS):
        maker = makers.get(id(source))
        if maker is None:
            return _attribute_line(source, model)
        is_same_line = maker.line is None or maker.line == consumer.line
        if not is_same_line and maker.name not in _VIEW_CALLS:
            return maker.line
        inputs = [item for item in maker.inputs if item is not source]
        made = [item for item in inputs if id(item) in makers] if is_same_line else []
        following = next(iter(made or inputs), None)
        if following is None:
            return None if is_same_line else maker.line
        source = following
    return None


def find_making_call(tensor: Tensor, consumer: TorchCall, calls: Sequence[TorchCall]) -> TorchCall | None:
    """Return the last call of a pass before another one that returns a tensor which this one receives."""
    makers = [call for call in _calls_before(consumer, calls) if any(output is tensor for output in call.outputs)]
    return makers[-1] if makers else None


def _calls_before(consumer: TorchCall, calls: Sequence[TorchCall]) -> Iterator[TorchCall]:
    for call in calls:
        if call is consumer:
            return
        yield call


def _attribute_line(tensor: Tensor, model: nn.Module) -> SourceLine | None:
    """Return the line that makes the attribute of a module that holds a tensor, or the memory of one."""
    for module in model.modules():
        attributes: dict[str, Any] = {**vars(module), **module._buffers}
        for name, value in attributes.items():
            if isinstance(value, Tensor) and (value is tensor or share_memory(value, tensor)):
                return attribute_maker(module, name)
    return None


def find_losing_call(
    calls: Sequence[TorchCall], sources: Iterable[Tensor], accepts: Callable[[Tensor], bool] = lambda _: True
) -> TorchCall | None:
    """Return the last call, on a known line, that computes from some tensors what no other call of a pass receives.

    The caller knows that nothing computed from ``sources`` reaches the output. Only results that ``accepts`` accepts
    count.
    """
    derived = {id(tensor) for tensor in sources}
    received = {id(tensor) for call in calls for tensor in call.inputs}
    losing_calls: list[TorchCall] = []
    for call in calls:
        if derived.isdisjoint(id(tensor) for tensor in call.inputs):
            continue
        derived.update(id(tensor) for tensor in call.outputs)
        is_lost = not any(id(tensor) in received for tensor in call.outputs)
        if is_lost and call.line is not None and all(map(accepts, call.outputs)):
            losing_calls.append(call)
    return losing_calls[-1] if losing_calls else None


def find_returning_line(run: Callable[[], object], is_searched: Callable[[object], bool]) -> SourceLine | None:
    """Run a call and return the line where a function of the user's first returns an object; None if none does."""
    lines: list[SourceLine] = []

    def observe(frame: FrameType, event: str, result: Any) -> None:
        if event == "return" and not lines and is_user_code(frame.f_code.co_filename) and is_searched(result):
            lines.append(SourceLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))

    with observe_calls(observe):
        run()
    return lines[0] if lines else None
