"""The origin of non-finite losses and gradients, and masking of non-finite data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd import Graph, Node
from nbdebug.autograd.non_finite import NonFiniteOrigin, NonFiniteRecorder
from nbdebug.autograd.tracing import ModuleStack
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import run_forward
from nbdebug.measurements.gradients import GradientNorm, all_finite, compute_gradients, compute_norms
from nbdebug.measurements.parameter_coverage import ParameterEntry
from nbdebug.measurements.perturbation import compute_loss_value
from nbdebug.measurements.registry import measurement, slow_measurement
from nbdebug.setup import Batch, Setup, losses
from nbdebug.setup.batch import named_inputs
from nbdebug.tensors.pytree import to_device, tree_leaves, tree_map

_NonFiniteNode = tuple[Node, Tensor]  # an operation and a gradient that it makes
_MAX_LABELS = 4
NON_FINITE_CONSEQUENCES = ("G405", "G406", "T601", "T602", "T603", "T608", "M307", "E706", "E709", "L208", "D104")


@dataclass(frozen=True)
class NonFiniteBatch:
    """A batch whose loss or gradient is not finite, and the forward operation that caused it, if any."""

    quantity: str
    loss: float
    number: int
    batch: Batch
    origin: NonFiniteOrigin | None
    step: int | None = None

    @property
    def description(self) -> str:
        """The step of the loop with this batch, else the number of the batch in the loader."""
        return f"batch {self.number}" if self.step is None else f"step {self.step}"


@slow_measurement
def non_finite_batch(
    setup: Setup,
    batches: list[Batch],
    parameters: list[ParameterEntry],
    loss: Tensor,
    gradient_norms: dict[str, GradientNorm],
) -> NonFiniteBatch | None:
    """The first inspected batch whose loss or gradient is NaN or Inf, with the operation that caused it; else None."""
    if isinstance(setup.eager_model, torch.jit.ScriptModule):
        raise NotChecked("the operations of a TorchScript model cannot be recorded")
    entries = [entry for entry in parameters if entry.name in gradient_norms]
    for number, batch in enumerate(batches):
        state = torch.get_rng_state()
        value, norms = (loss, gradient_norms) if number == 0 else _compute_loss_and_norms(setup, batch, entries)
        if quantity := "loss" if not bool(value.isfinite()) else "gradient" if not all_finite(norms) else None:
            torch.set_rng_state(state)
            return NonFiniteBatch(quantity, float(value.detach()), number, batch, find_forward_origin(setup, batch))
    return None


def _compute_loss_and_norms(
    setup: Setup, batch: Batch, entries: list[ParameterEntry]
) -> tuple[Tensor, dict[str, GradientNorm]]:
    """Return loss and gradient norms of a batch; zero and empty if the model, the loss or the backward pass raises."""
    try:
        loss = setup.output_and_loss(batch)[1]
        return loss.detach(), compute_norms(compute_gradients(loss, entries)) if entries else {}
    except Exception:
        return torch.zeros(()), {}


def find_forward_origin(setup: Setup, batch: Batch) -> NonFiniteOrigin | None:
    """Return the operation that first produced a non-finite value of the loss, from a second run of the batch."""
    stack = ModuleStack()
    recorder = NonFiniteRecorder(stack)
    with stack.track(setup.eager_model), torch.enable_grad(), recorder:
        loss = setup.output_and_loss(batch)[1]
    return recorder.get_origin(loss)


_SAVED_ROLES = {"self": "inputs", "result": "results", "input": "inputs", "other": "second inputs"}


@dataclass(frozen=True)
class GradientOrigin:
    """The first operation of a backward pass that turns a finite gradient into NaN or Inf.

    ``saved_range`` is the range of the values it saved in the forward pass; None if it saved nothing. Torch saves the
    inputs of some operations and the results of others; ``saved_role`` says which. ``critical_value`` is the saved
    value of all elements with a non-finite gradient, if it is the same. ``samples`` are the affected samples of the
    batch, if they can be identified.
    """

    node: Node
    kind: str
    non_finite_batch: NonFiniteBatch
    saved_range: tuple[float, float] | None
    saved_role: str
    critical_value: float | None = None
    samples: list[int] = field(default_factory=list)


@measurement
def gradient_origin(setup: Setup, non_finite_batch: NonFiniteBatch | None) -> GradientOrigin | None:
    """The origin of a non-finite gradient, if no operation of the forward pass caused it."""
    if non_finite_batch is None or non_finite_batch.quantity != "gradient" or non_finite_batch.origin is not None:
        return None
    forward_pass = run_forward(setup, non_finite_batch.batch)
    if forward_pass.loss is None or not forward_pass.loss.requires_grad:
        return None
    match = _find_first_non_finite(forward_pass.trace.get_graph(forward_pass.loss), forward_pass.loss)
    if match is None:
        return None
    node, gradient = match
    kind = "NaN" if bool(gradient.isnan().any()) else "Inf"
    rows = ~gradient.isfinite().reshape(len(gradient) if gradient.dim() else 1, -1).all(1)
    samples = _get_affected_samples(non_finite_batch.batch, rows)
    saved, role = _get_saved_values(node)
    value_range = (float(saved.min()), float(saved.max())) if saved is not None else None
    critical_value = _get_critical_value(saved, gradient) if saved is not None else None
    return GradientOrigin(node, kind, non_finite_batch, value_range, role, critical_value, samples)


def _get_affected_samples(batch: Batch, is_affected: Tensor) -> list[int]:
    """Return the affected samples, if there is one entry per sample and some are unaffected."""
    if len(is_affected) != batch.size or bool(is_affected.all()):
        return []
    return [batch.dataset_index(row) for row in is_affected.nonzero().flatten().tolist()]


def _find_first_non_finite(graph: Graph, value: Tensor) -> _NonFiniteNode | None:
    """Return the first operation of a backward pass that turns finite gradients into non-finite ones, and the first."""
    matches: list[_NonFiniteNode] = []
    with graph.backward_hooks(lambda node: _non_finite_hook(node, matches)):
        torch.autograd.grad(value, graph.leaves, allow_unused=True, retain_graph=True)  # saved tensors are read later
    return next(iter(matches), None)


def _non_finite_hook(node: Node, matches: list[_NonFiniteNode]) -> Callable[[Any, Any], None]:
    def record(grad_inputs: tuple[Tensor | None, ...], grad_outputs: tuple[Tensor | None, ...]) -> None:
        non_finite = [
            gradient for gradient in grad_inputs if gradient is not None and not bool(gradient.isfinite().all())
        ]
        if non_finite and all(bool(gradient.isfinite().all()) for gradient in grad_outputs if gradient is not None):
            matches.append((node, non_finite[0].detach().clone()))

    return record


def _get_saved_values(node: Node) -> tuple[Tensor | None, str]:
    """Return the saved input of an operation, or else its saved result, and which of them it is."""
    for name, role in _SAVED_ROLES.items():
        saved = node.get_saved(name)
        if isinstance(saved, Tensor) and saved.is_floating_point() and saved.numel():
            return saved.detach(), role
    return None, ""


def _get_critical_value(saved: Tensor, gradient: Tensor) -> float | None:
    """Return the saved value of all elements with a non-finite gradient, if it is the same and others differ."""
    if saved.shape != gradient.shape:
        return None
    is_affected = ~gradient.isfinite()
    values, others = saved[is_affected], saved[~is_affected]
    is_single = bool((values == values[0]).all()) and not bool((others == values[0]).any())
    return float(values[0]) if is_single else None


def get_named_tensors(inputs: dict[str, Tensor], targets: Any) -> dict[str, Tensor]:
    """Return inputs by their names, and targets as ``target`` or ``target`` with their path."""
    targets_by_name = {"target" if len(targets) == 1 else f"target {path}": leaf for path, leaf in tree_leaves(targets)}
    return {
        name: tensor
        for name, tensor in {**inputs, **targets_by_name}.items()
        if isinstance(tensor, Tensor) and tensor.dim()
    }


def masks_non_finite(setup: Setup, batches: list[Batch], name: str, row: Tensor) -> bool:
    """Return whether loss and gradients stay finite if tensor ``name`` contains NaN or Inf, as in ``row``."""
    affected_batches = [batch for batch in batches if not bool(_get_tensor(batch, name).isfinite().all())]
    batch = affected_batches[0] if affected_batches else _replace_first_row(batches[0], name, row)
    if batch is None or (setup.step_fn is not None and not affected_batches):
        return False
    try:
        with torch.enable_grad():
            loss = setup.output_and_loss(batch)[1]
            weights = [parameter for parameter in setup.eager_model.parameters() if parameter.requires_grad]
            gradients = torch.autograd.grad(loss, weights, allow_unused=True)
    except Exception:
        return False
    dense = (part.to_dense() if part.is_sparse else part for part in gradients if part is not None)
    return all(bool(part.isfinite().all()) for part in (loss, *dense))


def _get_tensor(batch: Batch, name: str) -> Tensor:
    """Return the tensor of a batch with a name, or an empty one."""
    return get_named_tensors(named_inputs(batch), batch.targets).get(name, torch.empty(0))


def _replace_first_row(batch: Batch, name: str, row: Tensor) -> Batch | None:
    """Return the batch with another first row of one tensor; None if the row does not fit."""
    old = _get_tensor(batch, name)
    if old.shape[1:] != row.shape or not len(old):
        return None
    new = old.clone()
    new[0] = row.to(old)
    args, kwargs, targets = tree_map(
        (batch.args, batch.kwargs, batch.targets), lambda leaf: new if leaf is old else leaf
    )
    return replace(batch, args=args, kwargs=kwargs, targets=targets)


def find_ignored_labels(setup: Setup, batch: Batch, output: Any, labels: Iterable[int], classes: int) -> set[int]:
    """Return the out-of-range labels that a custom loss accepts and does not treat as the class they wrap to.

    The loss is evaluated on the CPU: on a GPU, such a label may end the process. All labels are accepted if the
    lowest and the highest ones are.
    """
    compute_loss, all_labels = _get_loss_by_label(setup, batch, output), sorted(labels)
    half = _MAX_LABELS // 2
    tested = all_labels if len(all_labels) <= _MAX_LABELS else [*all_labels[:half], *all_labels[-half:]]
    wrapped = find_wrapped_labels(setup, batch, output, tested, classes)
    ignored = {label for label in tested if compute_loss(label) is not None and label not in wrapped}
    return {*all_labels} if len(ignored) == len(tested) else ignored


def find_wrapped_labels(setup: Setup, batch: Batch, output: Any, labels: Iterable[int], classes: int) -> set[int]:
    """Return the out-of-range labels that a custom loss treats exactly as the class they wrap to."""
    compute_loss, wrapped = _get_loss_by_label(setup, batch, output), set[int]()
    for label in list(labels)[:_MAX_LABELS]:
        value, wrapped_class = compute_loss(label), label % classes
        if (
            value is not None
            and value == compute_loss(wrapped_class)
            and value != compute_loss((wrapped_class + 1) % classes)
        ):
            wrapped.add(label)
    return wrapped


def _get_loss_by_label(setup: Setup, batch: Batch, output: Any) -> Callable[[int], float | None]:
    """Return a function from a label of the first sample to the custom loss; None if torch's own, or rejected."""
    target, cpu = batch.target, torch.device("cpu")
    if losses.get_loss_kind(setup.loss_fn) != "other" or setup.loss_fn is None or not isinstance(target, Tensor):
        return lambda label: None
    batch, scores = batch.to(cpu), to_device(output, cpu)

    def compute_loss(label: int) -> float | None:
        changed = target.cpu().clone()
        changed[0] = label
        try:
            return compute_loss_value(setup, scores, replace(batch, targets=(changed,)))
        except NotChecked:
            return None

    return compute_loss


def is_attention_mask(tensor: Tensor, finite: Tensor) -> bool:
    """Check whether a tensor is an additive attention mask: minus infinity and zeros."""
    return bool((tensor[~finite] == -torch.inf).all()) and bool((tensor[finite] == 0).all()) and bool(finite.any())
