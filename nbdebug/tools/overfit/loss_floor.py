"""Smallest attainable loss of a batch, for any output and within the range of the last activation."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.autograd.graph import build_graph
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.setup import Batch, Setup
from nbdebug.tensors.pytree import tree_map, tree_tensors
from nbdebug.tools.overfit.tiny_batch import TinyBatchPass, bytes_per_sample, run_tiny_pass, sample_axis

_LOGIT_OPERATIONS = frozenset(
    {"LogSoftmax", "Softmax", "BinaryCrossEntropyWithLogits", "Logsumexp", "Sigmoid", "LogSigmoid", "Softplus"}
)
_CLASS_OPERATIONS = frozenset({"NllLoss", "NllLoss2D", "BinaryCrossEntropyWithLogits"})
_PRODUCT_OPERATIONS = frozenset({"Mm", "Bmm"})
_LOG_OPERATIONS = frozenset({"Log", "Log1P", "Log2", "Log10", "Xlogy"})
_SUM_TOLERANCE = 1e-3
_MAX_OUTPUT_VALUES = 4_000_000
_SEARCH_ITERATIONS = 60
_CONVERGENCE_TOLERANCE = 1e-3
_NEGLIGIBLE_SHARE = 1e-6
_VIEW_OPERATION = re.compile(r"(Unsafe)?(View|Squeeze|Unsqueeze|Reshape|Alias|Transpose|T|Permute|Clone|ToCopy)$")
_MAX_TANH = 1 - 1e-4


@dataclass(frozen=True)
class _OutputDomain:
    """A set of outputs, with the function that maps any values into it; ``to_values`` maps outputs back."""

    name: str
    from_values: Callable[[Tensor], Tensor]
    to_values: Callable[[Tensor], Tensor]


_TANH_RANGE = _OutputDomain("numbers from -1 to 1", torch.tanh, lambda y: y.clamp(-_MAX_TANH, _MAX_TANH).atanh())
_NONNEGATIVE = _OutputDomain("numbers from 0 up", torch.square, lambda y: y.clamp_min(1e-4).sqrt())


def _interval(low: float, high: float) -> _OutputDomain:
    """Numbers between two bounds."""
    middle, half = (low + high) / 2, (high - low) / 2
    return _OutputDomain(
        f"numbers from {low:.4g} to {high:.4g}",
        lambda z: middle + half * torch.tanh(z),
        lambda y: ((y - middle) / half).clamp(-_MAX_TANH, _MAX_TANH).atanh(),
    )


def _unconstrained_domain(to_values: Callable[[Tensor], Tensor] = torch.Tensor.clone) -> _OutputDomain:
    """Unconstrained values."""
    return _OutputDomain("any numbers", lambda z: z, to_values)


def _simplex_domain(axis: int) -> _OutputDomain:
    """Class probabilities that sum to one."""
    return _OutputDomain("class probabilities", lambda z: z.softmax(axis), lambda p: p.clamp_min(1e-6).log())


def _log_simplex_domain(axis: int) -> _OutputDomain:
    """Logarithms of class probabilities."""
    return _OutputDomain("log-probabilities", lambda z: z.log_softmax(axis), torch.Tensor.clone)


_AXIS_ACTIVATIONS: dict[str, Callable[[int], _OutputDomain]] = {
    "Softmax": _simplex_domain,
    "LogSoftmax": _log_simplex_domain,
}


def _sphere_domain(axis: int) -> _OutputDomain:
    """Vectors of length one."""
    return _OutputDomain("unit vectors", lambda z: F.normalize(z, dim=axis), torch.Tensor.clone)


_UNIT_INTERVAL = _OutputDomain("probabilities", torch.sigmoid, lambda p: p.clamp(1e-3, 1 - 1e-3).logit())
_ELEMENTWISE_ACTIVATIONS = {
    "Sigmoid": _UNIT_INTERVAL,
    "Hardsigmoid": _UNIT_INTERVAL,
    "Tanh": _TANH_RANGE,
    "Relu": _NONNEGATIVE,
    "Softplus": _NONNEGATIVE,
    "Exp": _NONNEGATIVE,
}


def _domain_of_loss(output: Tensor, operations: Collection[str]) -> _OutputDomain:
    """Return the domain of ``output`` for a loss that consists of these autograd ``operations``."""
    axis = axis_with_sum(output, 1.0, squared=True)
    if axis is not None and (not _CLASS_OPERATIONS & set(operations) or _PRODUCT_OPERATIONS & set(operations)):
        return _sphere_domain(axis)
    if _LOGIT_OPERATIONS & set(operations):
        return _unconstrained_domain(torch.zeros_like)
    if {"NllLoss", "NllLoss2D"} & set(operations):
        return _log_simplex_domain(1 if output.dim() > 1 else 0)
    if "BinaryCrossEntropy" in operations:
        return _UNIT_INTERVAL
    return _domain_of_output(output) if _LOG_OPERATIONS & set(operations) else _unconstrained_domain()


def _domain_of_output(output: Tensor) -> _OutputDomain:
    """Return the smallest domain that contains ``output``."""
    if not bool(((output >= 0) & (output <= 1)).all()):
        return _unconstrained_domain()
    axis = axis_with_sum(output, 1.0, squared=False)
    return _UNIT_INTERVAL if axis is None else _simplex_domain(axis)


def axis_with_sum(output: Tensor, total: float, *, squared: bool) -> int | None:
    """Return the axis, longer than one, along which the values (or their squares) always sum to ``total``."""
    values = output.detach().double()
    values = values.square() if squared else values
    axes = [axis for axis in (-1, 1) if -output.dim() <= axis < output.dim() and output.dim() > 1]
    return next(
        (a for a in axes if output.shape[a] > 1 and bool(((values.sum(a) - total).abs() < _SUM_TOLERANCE).all())), None
    )


@dataclass(frozen=True)
class LossFloor:
    """Smallest attainable loss and the loss of the best constant output; ``unknown_reason`` tells why they are unknown.

    ``best_output`` is the output at the floor. ``reads_several_outputs`` tells whether the loss reads more than one
    output tensor, ``has_equal_targets`` whether all targets are the same, ``is_unbounded`` whether the loss is
    unbounded below.
    """

    value: float | None = None
    constant_loss: float | None = None
    unknown_reason: str = ""
    best_output: Any = None
    reads_several_outputs: bool = False
    has_equal_targets: bool = False
    is_unbounded: bool = False

    @property
    def is_blind(self) -> bool:
        """True if a constant output is as good as any."""
        if self.value is None or self.constant_loss is None:
            return False
        return self.has_equal_targets or self.constant_loss - self.value <= _CONVERGENCE_TOLERANCE * max(
            abs(self.constant_loss), abs(self.value), _CONVERGENCE_TOLERANCE
        )

    @property
    def blindness_text(self) -> str:
        """Explanation of ``is_blind``."""
        if self.has_equal_targets:
            return "all targets of these examples are the same, so an output that ignores the input can match them"
        lead = "the targets differ, but an output that ignores the input is as good as any"
        return f"{lead} ({self.value:.4g}): compare the shapes of output and target, see L205"


class _FreeOutput:
    """A trainable output; examples of one group share their values."""

    def __init__(self, template: Any, size: int, groups: Sequence[int], domains: dict[int, _OutputDomain]) -> None:
        self.template, self.groups, self.size = template, torch.as_tensor(groups), size
        self.domains = domains
        self.free_values: dict[int, Tensor] = {}
        self.row_index: dict[int, tuple[int, Tensor]] = {}
        for output_index, tensor in enumerate(tree_tensors(template)):
            if output_index in domains:
                self.free_tensor(output_index, tensor.detach())

    def free_tensor(self, output_index: int, tensor: Tensor) -> None:
        """Make one tensor of the output trainable."""
        initial_values = self.domains[output_index].to_values(
            torch.nan_to_num(tensor.float() if tensor.itemsize < 4 else tensor)
        )
        axis = sample_axis(tensor, self.size)
        group_of_row = self.groups.to(tensor.device)
        if axis is None and tensor.dim():
            is_single_group = len(set(self.groups.tolist())) == 1
            axis, group_of_row = 0, torch.arange(tensor.shape[0], device=tensor.device) * (not is_single_group)
        if axis is not None:
            first = torch.stack(
                [(group_of_row == group).nonzero()[0, 0] for group in range(int(group_of_row.max()) + 1)]
            )
            initial_values = initial_values.index_select(axis, first)
            self.row_index[output_index] = (axis, group_of_row)
        self.free_values[output_index] = initial_values.clone().requires_grad_(True)

    def output(self) -> Any:
        """Return the output in the structure that the loss takes."""
        output_indices = iter(range(len(tree_tensors(self.template))))

        def fill(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            index = next(output_indices)
            if index not in self.free_values:
                return leaf.detach()
            value = self.domains[index].from_values(self.free_values[index])
            if index in self.row_index:
                value = value.index_select(*self.row_index[index])
            return value.to(leaf.dtype)

        return tree_map(self.template, fill)


def find_loss_floor(setup: Setup, tiny_pass: TinyBatchPass, groups: Sequence[int]) -> LossFloor:
    """Return the loss floor of the tiny batch; examples of one group have identical inputs."""
    if setup.step_fn is not None or setup.loss_fn is None:
        return LossFloor(unknown_reason="the model output is not accessible where the loss is computed")
    try:
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            return _search_floor(setup, tiny_pass, groups)
    except SetupError:
        raise
    except Exception as error:
        return LossFloor(unknown_reason=f"the loss of an unrestricted output raised {type(error).__name__}: {error}")


def _search_floor(setup: Setup, tiny_pass: TinyBatchPass, groups: Sequence[int]) -> LossFloor:
    """Search the floor, first in the domain that the loss is made for, then in that of the model's own outputs."""
    if isinstance(setup.loss_fn, nn.Module):
        setup = replace(setup, loss_fn=deepcopy(setup.loss_fn))
    used_indices, operations = _used_outputs(setup, tiny_pass)
    has_equal_targets = all(len(set(part)) == 1 for part in bytes_per_sample(tiny_pass.batch.targets, tiny_pass.size))
    if not used_indices:
        return LossFloor(unknown_reason="the loss has no gradient with respect to the output")
    output_tensors = tree_tensors(tiny_pass.output)
    # A number beside the outputs of the samples, such as a loss of the model's own, is not free: it has no lower bound.
    used_indices = [index for index in used_indices if output_tensors[index].dim()] or used_indices
    if sum(output_tensors[output_index].numel() for output_index in used_indices) > _MAX_OUTPUT_VALUES:
        return LossFloor(unknown_reason=f"an output of more than {_MAX_OUTPUT_VALUES:,} numbers is too large to search")
    for choose_domain in (lambda tensor: _domain_of_loss(tensor, operations), _domain_of_output):
        domains = {output_index: choose_domain(output_tensors[output_index]) for output_index in used_indices}
        value, best = _lowest_loss(setup, tiny_pass, _FreeOutput(tiny_pass.output, tiny_pass.size, groups, domains))
        if value is not None:
            constant_loss, _ = _lowest_loss(
                setup, tiny_pass, _FreeOutput(tiny_pass.output, tiny_pass.size, [0] * tiny_pass.size, domains)
            )
            return LossFloor(
                _round_to_zero(value, constant_loss), constant_loss, "", best, len(used_indices) > 1, has_equal_targets
            )
    return LossFloor(
        unknown_reason="the loss is unbounded below for unrestricted outputs",
        reads_several_outputs=len(used_indices) > 1,
        is_unbounded=True,
    )


def _round_to_zero(value: float, constant_loss: float | None) -> float:
    """Round a negligible floor to zero."""
    return 0.0 if constant_loss is not None and abs(value) < _NEGLIGIBLE_SHARE * abs(constant_loss) else value


def _used_outputs(setup: Setup, tiny_pass: TinyBatchPass) -> tuple[list[int], set[str]]:
    """Return the output tensors that the loss reads, and the names of its operations."""
    domains = {
        i: _unconstrained_domain() for i, t in enumerate(tree_tensors(tiny_pass.output)) if t.is_floating_point()
    }
    output = _FreeOutput(tiny_pass.output, tiny_pass.size, range(tiny_pass.size), domains)
    loss = setup.loss(output.output(), tiny_pass.batch)
    if not loss.requires_grad:
        return [], set()
    gradients = torch.autograd.grad(loss, list(output.free_values.values()), allow_unused=True, retain_graph=True)
    used_indices = [
        output_index
        for output_index, gradient in zip(output.free_values, gradients, strict=True)
        if gradient is not None
    ]
    return used_indices, {node.name for node in build_graph(loss.grad_fn, []).nodes}


def _lowest_loss(setup: Setup, tiny_pass: TinyBatchPass, output: _FreeOutput) -> tuple[float | None, Any]:
    """Return the lowest loss that L-BFGS finds from the model's own output, with its output; None if unbounded."""
    loss_parameters = list(setup.loss_fn.parameters()) if isinstance(setup.loss_fn, nn.Module) else []
    variables = [*output.free_values.values(), *(p for p in loss_parameters if p.requires_grad)]
    losses: list[float] = []

    def closure() -> Tensor:
        for variable in variables:
            variable.grad = None
        loss = setup.loss(output.output(), tiny_pass.batch)
        losses.append(float(loss.detach()))
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    lowest_after_round = [_search_round(variables, closure, losses) for _ in range(2)]
    if not math.isfinite(lowest_after_round[1]) or (
        lowest_after_round[1] < 0
        and lowest_after_round[0] - lowest_after_round[1] > _CONVERGENCE_TOLERANCE * (losses[0] - lowest_after_round[1])
    ):
        return None, None
    with torch.no_grad():
        return lowest_after_round[1], output.output()


def _search_round(variables: list[Tensor], closure: Callable[[], Tensor], losses: list[float]) -> float:
    """Run another round of the search and return the lowest loss so far."""
    search = torch.optim.LBFGS(
        variables,
        max_iter=_SEARCH_ITERATIONS,
        tolerance_grad=1e-12,
        tolerance_change=1e-14,
        line_search_fn="strong_wolfe",
    )
    search.step(closure)  # type: ignore[no-untyped-call]
    return min((value for value in losses if not math.isnan(value)), default=math.nan)


@dataclass(frozen=True)
class HeadFloor:
    """Smallest loss of any output and of those in the range of the last activation, and that activation."""

    any_output_loss: float
    in_range_loss: float
    activation: str
    range_name: str


def head_floor(
    setup: Setup, output: object, batch: Batch, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> HeadFloor:
    """Search both floors; raises NotChecked if the output range is unlimited or cannot be searched.

    ``bounds`` are the measured bounds of the output, for a head that does not end in a known activation: these have no
    name in the result.
    """
    activation = _last_activation(output)
    if activation is None and not all(map(math.isfinite, bounds)):
        raise NotChecked("neither an activation nor a measured range limits the output")
    if setup.loss_fn is None or setup.step_fn is not None:
        raise NotChecked("the model output is not accessible where the loss is computed")
    tiny_pass = run_tiny_pass(setup, batch)
    output_tensors = tree_tensors(tiny_pass.output)
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        used_indices, operations = _used_outputs(setup, tiny_pass)
        if len(used_indices) != 1 or output_tensors[used_indices[0]].numel() > _MAX_OUTPUT_VALUES:
            raise NotChecked("the loss reads several outputs, or too many values to search")
        tensor = output_tensors[used_indices[0]]
        output_range = _interval(*bounds) if activation is None else _activation_domain(activation, tensor)
        fixed_setup = _with_copied_loss(setup)
        floors = [
            _lowest_loss(
                fixed_setup,
                tiny_pass,
                _FreeOutput(
                    tiny_pass.output, tiny_pass.size, range(tiny_pass.size), {used_indices[0]: searched_domain}
                ),
            )[0]
            for searched_domain in (_domain_of_loss(tensor, operations), output_range)
        ]
    if floors[0] is None or floors[1] is None:
        raise NotChecked("the loss is unbounded below for unrestricted outputs")
    return HeadFloor(floors[0], floors[1], activation or "", output_range.name)


def _with_copied_loss(setup: Setup) -> Setup:
    """Return the setup with a copy of a loss module."""
    return replace(setup, loss_fn=deepcopy(setup.loss_fn)) if isinstance(setup.loss_fn, nn.Module) else setup


def _activation_domain(activation: str, tensor: Tensor) -> _OutputDomain:
    """Return the output domain of an activation."""
    if activation in _ELEMENTWISE_ACTIVATIONS:
        return _ELEMENTWISE_ACTIVATIONS[activation]
    values = tensor.exp() if activation == "LogSoftmax" else tensor
    axis = axis_with_sum(values, 1.0, squared=False)
    if axis is None:
        raise NotChecked("the axis of the last softmax is unknown")
    return _AXIS_ACTIVATIONS[activation](axis)


def _last_activation(output: object) -> str | None:
    """Return the operation that produced the output, apart from views, if its range is known."""
    node = output.grad_fn if isinstance(output, Tensor) else None
    while node is not None:
        name = re.sub(r"Backward\d*$", "", type(node).__name__)
        if name in _ELEMENTWISE_ACTIVATIONS or name in _AXIS_ACTIVATIONS:
            return name
        if not _VIEW_OPERATION.match(name):
            return None
        node = node.next_functions[0][0] if node.next_functions else None
    return None
