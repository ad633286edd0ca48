"""The loss of a step as a function of what the model returned: its gradients, and the call that computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.tensors.pytree import tree_map, tree_tensors

_TOLERANCE = 1e-5  # relative; an equal call may add in another order
_Form = Callable[[Any, tuple[Any, ...]], tuple[Any, ...]]


def compute_output_gradients(loss: Tensor, outputs: Sequence[Tensor]) -> list[Tensor | None]:
    """Return the gradients of a loss at outputs of the model; its graph stays.

    Raises NotChecked if the user's own hooks would be called, or if no output has a gradient.
    """
    hooks = [hook for tensor in outputs for hook in (tensor._backward_hooks or {}).values()]
    if any(t.retains_grad for t in outputs) or any(not (h.__module__ or "").startswith("nbdebug.") for h in hooks):
        raise NotChecked("the output has hooks of yours, which a further backward pass would call")
    with_gradient = [tensor for tensor in outputs if tensor.requires_grad]
    if not with_gradient:
        raise NotChecked("the output has no gradient")
    gradients = iter(torch.autograd.grad(loss, with_gradient, retain_graph=True, allow_unused=True))
    return [next(gradients) if tensor.requires_grad else None for tensor in outputs]


@dataclass(frozen=True)
class LossCall:
    """A call of the loss that has the value of the traced loss; ``form`` makes its arguments."""

    function: Callable[..., Any]
    form: _Form
    output: Any
    targets: tuple[Any, ...]

    def __call__(self, replaced: dict[int, Tensor] | None = None) -> float:
        """Return the loss with some of the tensors of the output replaced, by their ``id``; random numbers repeat."""
        output = tree_map(self.output, lambda leaf: (replaced or {}).get(id(leaf), _detach(leaf)))
        with Preserve(self.function if isinstance(self.function, nn.Module) else None):
            seed_all(0)
            return float(self.function(*self.form(output, self.targets)))

    def with_target(self, target: Tensor) -> LossCall:
        """Return the call with another target."""
        return replace(self, targets=(target,))


@measurement
def loss_call(setup: Setup, first_pass: ForwardPass, output: Any, loss: Tensor) -> LossCall:
    """The call of the loss with output and target that has the value of the loss of the first batch."""
    return find_loss_call(setup, first_pass)


def find_loss_call(setup: Setup, first_pass: ForwardPass) -> LossCall:
    """Return the call of the loss that repeats the value of a pass; raise NotChecked if no known form does."""
    if setup.loss_fn is None or first_pass.loss is None:
        raise NotChecked("needs a callable loss and its value")
    expected = float(first_pass.loss.detach())
    for targets, form in product((first_pass.batch.targets, _unused_parts(first_pass.batch)), _FORMS):
        call = LossCall(setup.loss_of_pass, form, first_pass.output, targets)
        try:
            if targets and abs(call() - expected) <= _TOLERANCE * abs(expected):
                return call
        except Exception:  # the loss takes other arguments
            continue
    raise NotChecked("the loss of the loop is not loss_fn of the output and the target")


def _unused_parts(batch: Batch) -> tuple[Tensor, ...]:
    """Return the tensors of a raw batch that the model does not receive."""
    inputs = [tensor.cpu() for tensor in tree_tensors((batch.args, batch.kwargs))]
    parts = [tensor.cpu() for tensor in tree_tensors(batch.raw)]
    is_input = [any(x.shape == part.shape and torch.equal(x, part) for x in inputs) for part in parts]
    return tuple(part for part, used in zip(tree_tensors(batch.raw), is_input, strict=True) if not used)


def _separate(output: Any, targets: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*tree_tensors(output), *targets)


def _squeezed(output: Any, targets: tuple[Any, ...]) -> tuple[Any, ...]:
    return (output.squeeze(-1), *_as_floats(targets))


def _unsqueezed(output: Any, targets: tuple[Any, ...]) -> tuple[Any, ...]:
    return (output, *(target.unsqueeze(-1) for target in _as_floats(targets)))


def _flattened(output: Any, targets: tuple[Any, ...]) -> tuple[Any, ...]:
    return (output.flatten(0, -2), *(target.flatten() for target in targets))


def _as_floats(targets: tuple[Any, ...]) -> Iterator[Tensor]:
    return (target.float() for target in targets)


_FORMS: tuple[_Form, ...] = (
    lambda output, targets: (output, *targets),
    _separate,
    _squeezed,
    _unsqueezed,
    _flattened,
)


def _detach(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, Tensor) else leaf
