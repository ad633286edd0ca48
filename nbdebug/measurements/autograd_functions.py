"""Gradient checks of user-defined autograd functions against finite differences."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from nbdebug.autograd import Graph
from nbdebug.autograd.graph import Node
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import seed_all
from nbdebug.setup import Setup
from nbdebug.source.location import is_library_code
from nbdebug.tensors.pytree import tree_tensors

_MAX_COORDINATES = 6
_STEP_SIZES = (1e-4, 1e-6)
_MAX_STEP_DISAGREEMENT = 1e-3


@dataclass(frozen=True)
class CoordinateGradient:
    """Gradient of one input coordinate of a weighted sum of the outputs: from backward, and by finite differences.

    ``incoming`` is the weight of the output at the same place, which backward receives, if the input changes no other
    output; ``forward`` is then the finite difference of that output alone. Both are None for other functions.
    """

    analytic: float
    numeric: float
    incoming: float | None = None
    forward: float | None = None

    @property
    def relative_error(self) -> float:
        """The difference relative to the larger of the two."""
        return abs(self.analytic - self.numeric) / max(abs(self.analytic), abs(self.numeric), 1e-12)


@dataclass(frozen=True)
class CheckedFunction:
    """A user-defined autograd function with the compared gradients of each differentiable input, by position.

    ``returned_input`` is the position of an input that is returned as it is, if any; ``failure`` says why no gradients
    were compared.
    """

    function: type[Function]
    node: Node
    gradients: dict[int, list[CoordinateGradient]]
    returned_input: int | None = None
    failure: str = ""


@slow_measurement
def autograd_functions(setup: Setup, first_pass: ForwardPass, graph: Graph) -> list[CheckedFunction]:
    """Gradients of user-defined autograd functions next to central differences, in float64."""
    nodes = {kind: node for node in reversed(graph.nodes) if (kind := _get_user_function(node)) is not None}
    calls: dict[type[Function], tuple[Any, ...]] = {}
    with _record_arguments(list(nodes), calls):
        if nodes:
            setup.output_and_loss(first_pass.batch)
    return [_check_function(kind, nodes[kind], args) for kind, args in calls.items()]


def _get_user_function(node: Node) -> type[Function] | None:
    kind = getattr(type(node.function), "_forward_cls", None)
    try:
        return kind if kind is not None and not is_library_code(inspect.getfile(kind)) else None
    except (TypeError, OSError):
        return kind


@contextmanager
def _record_arguments(kinds: list[type[Function]], calls: dict[type[Function], tuple[Any, ...]]) -> Iterator[None]:
    originals = {kind: vars(kind).get("forward") for kind in kinds}
    for kind in kinds:
        setattr(kind, "forward", staticmethod(_recording_forward(kind, kind.forward, calls)))  # noqa: B010
    try:
        yield
    finally:
        for kind, forward in originals.items():
            if forward is None:
                delattr(kind, "forward")
            else:
                setattr(kind, "forward", forward)  # noqa: B010


def _recording_forward(
    kind: type[Function], forward: Callable[..., Any], calls: dict[type[Function], tuple[Any, ...]]
) -> Callable[..., Any]:
    first = 0 if kind.setup_context is not Function.setup_context else 1

    def recording(*args: Any) -> Any:
        if kind not in calls or _count_differentiable(args[first:]) > _count_differentiable(calls[kind]):
            calls[kind] = tuple(_copy_argument(arg) for arg in args[first:])
        return forward(*args)

    return recording


def _count_differentiable(args: tuple[Any, ...]) -> int:
    """Return the number of arguments that get a gradient; the first state of a recurrent cell is a constant."""
    return sum(isinstance(arg, Tensor) and arg.requires_grad and arg.is_floating_point() for arg in args)


def _copy_argument(argument: Any) -> Any:
    """Copy a tensor, in float64 if it is floating-point; return anything else as it is."""
    if not isinstance(argument, Tensor):
        return argument
    requires_grad = argument.requires_grad and argument.is_floating_point()
    copy = argument.detach().clone()
    return (copy.double() if copy.is_floating_point() else copy).requires_grad_(requires_grad)


def _check_function(kind: type[Function], node: Node, args: tuple[Any, ...]) -> CheckedFunction:
    try:
        outputs = _call_function(kind, args)
        first_tensor = next(position for position, arg in enumerate(args) if isinstance(arg, Tensor))
        returned_input = first_tensor if len(outputs) == 1 and torch.equal(outputs[0], args[first_tensor]) else None
        return CheckedFunction(kind, node, dict(_compare_gradients(kind, args, outputs)), returned_input)
    except NotChecked as reason:
        return CheckedFunction(kind, node, {}, failure=str(reason))
    except Exception as error:
        return CheckedFunction(kind, node, {}, failure=f"it raised {type(error).__name__} in float64: {error}")


def _call_function(kind: type[Function], args: tuple[Any, ...]) -> list[Tensor]:
    """Return the floating-point outputs for copies of the arguments; the random seed is the same for each call."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        seed_all(0)
        copies = (tensor.clone() if isinstance(tensor, Tensor) else tensor for tensor in args)
        result = kind.apply(*copies)  # type: ignore[no-untyped-call]
    return [tensor for tensor in tree_tensors(result) if tensor.is_floating_point()]


def _compare_gradients(
    kind: type[Function], args: tuple[Any, ...], outputs: list[Tensor]
) -> Iterator[tuple[int, list[CoordinateGradient]]]:
    """Yield each differentiable input with some coordinates from its smallest to its largest value, without kinks."""
    generator = torch.Generator().manual_seed(0)
    output_weights = [torch.rand(tensor.shape, generator=generator, dtype=torch.float64) + 0.5 for tensor in outputs]
    output_weights = [
        torch.ones_like(tensor) if tensor.numel() == 1 else weight.to(tensor)
        for tensor, weight in zip(outputs, output_weights, strict=True)
    ]
    positions = [
        position for position, tensor in enumerate(args) if isinstance(tensor, Tensor) and tensor.requires_grad
    ]
    if not positions:
        raise NotChecked("none of its inputs requires a gradient")

    def score() -> Tensor:
        return torch.stack(
            [(tensor * weight).sum() for tensor, weight in zip(_call_function(kind, args), output_weights, strict=True)]
        ).sum()

    gradients = torch.autograd.grad(score(), [args[position] for position in positions], allow_unused=True)
    for position, gradient in zip(positions, gradients, strict=True):
        ranks = torch.linspace(0, args[position].numel() - 1, min(_MAX_COORDINATES, args[position].numel())).long()
        order = args[position].detach().flatten().argsort(stable=True)[ranks].tolist()
        analytic = torch.zeros_like(args[position]) if gradient is None else gradient
        pairs = [
            (analytic.reshape(-1)[index].item(), _central_difference(score, args[position], index), index)
            for index in order
        ]
        is_elementwise = len(outputs) == 1 and outputs[0].shape == args[position].shape
        gradients_of_input = []
        for returned, numeric, index in pairs:
            if numeric is None:
                continue
            gradient_of_one = CoordinateGradient(returned, numeric)
            if is_elementwise:
                own = _own_derivative(kind, args, position, index, output_weights[0], numeric)
                gradient_of_one = CoordinateGradient(returned, numeric, *own)
            gradients_of_input.append(gradient_of_one)
        yield position, gradients_of_input


def _own_derivative(
    kind: type[Function], args: tuple[Any, ...], position: int, index: int, weights: Tensor, numeric: float
) -> tuple[float | None, float | None]:
    """Return the weight of an output and its derivative for the input at its place; None for both if others change."""
    weight = weights.flatten()[index].item()
    own = _central_difference(lambda: _call_function(kind, args)[0].flatten()[index], args[position], index)
    if own is None or abs(weight * own - numeric) > _MAX_STEP_DISAGREEMENT * max(abs(numeric), 1e-6):
        return None, None
    return weight, own


def _central_difference(score: Callable[[], Tensor], tensor: Tensor, index: int) -> float | None:
    """Return the central difference for one coordinate; None at a kink, where two step sizes disagree."""
    flat = tensor.detach().view(-1)
    value = flat[index].item()
    estimates: list[float] = []
    for step in _STEP_SIZES:
        step *= max(1.0, abs(value))
        scores: list[float] = []
        for shifted in (value + step, value - step):
            flat[index] = shifted
            scores.append(score().item())
        flat[index] = value
        estimates.append((scores[0] - scores[1]) / (2 * step))
    agree = abs(estimates[0] - estimates[1]) <= _MAX_STEP_DISAGREEMENT * max(abs(estimates[0]), abs(estimates[1]), 1e-6)
    return estimates[0] if agree else None
