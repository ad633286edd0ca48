"""Forward passes of the first batch: traced, in eval mode and in train mode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from nbdebug.autograd import ForwardTrace, Graph, trace_forward
from nbdebug.autograd.call_recorders import (
    FirstLayerCall,
    FirstLayerRecorder,
    ModeDependentCall,
    compute_relative_difference,
    record_mode_dependent_calls,
)
from nbdebug.autograd.tracing import ModuleStack
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.hooks.module_hooks import hooked
from nbdebug.loop_monitor import LoopSummary
from nbdebug.measurements.registry import measurement, slow_measurement
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup, class_names, losses
from nbdebug.setup.device_assertions import with_labels_of_user
from nbdebug.setup.setup import optimized_parameters
from nbdebug.setup.task import LearningTask, infer_task
from nbdebug.source.location import SourceLine, get_line_from_exception
from nbdebug.tensors.pytree import tree_tensors


@dataclass(frozen=True)
class ForwardPass:
    """One batch through model and loss, in the current modes of the model.

    ``failure`` is the exception raised, ``stage`` is where it was raised, ``line`` is the user's line.
    """

    batch: Batch
    trace: ForwardTrace
    output: Any = None
    loss: Tensor | None = None
    failure: Exception | None = None
    stage: str = "forward"
    line: SourceLine | None = None

    @property
    def failure_message(self) -> str:
        """One sentence about the exception and its location."""
        location = f" at {self.line.file}, line {self.line.number}: {self.line.text.strip()}" if self.line else ""
        return f"the {self.stage} raised {type(self.failure).__name__}: {self.failure}{location}"


def run_forward(setup: Setup, batch: Batch, *, with_loss: bool = True) -> ForwardPass:
    """Run one batch through the setup with tracing; exceptions of the model or the loss are stored, not raised.

    ``with_loss`` is False for a setup whose loss is not known.
    """
    output, stage = None, "forward pass"
    with trace_forward(setup.eager_model) as trace:
        try:
            if setup.step_fn is not None:
                return ForwardPass(batch, trace, None, setup.output_and_loss(batch)[1], stage="step_fn")
            output = setup.predict(batch)
            class_names.check_names(setup, batch, output)
            if not with_loss:
                return ForwardPass(batch, trace, output)
            stage = "loss"
            _check_class_indices(setup, batch, output)
            with with_labels_of_user():
                return ForwardPass(batch, trace, output, setup.loss(output, batch), stage=stage)
        except SetupError:
            raise
        except Exception as error:
            return ForwardPass(batch, trace, output, None, error, stage, get_line_from_exception(error))


def _check_class_indices(setup: Setup, batch: Batch, output: Any) -> None:
    """Raise torch's error for a class index out of range, before a CUDA assertion ends the process."""
    logits, target = losses.score_tensor(output), batch.target
    if losses.get_loss_kind(setup.loss_fn) not in ("cross-entropy", "nll") or not isinstance(target, Tensor):
        return
    if target.is_floating_point() or not isinstance(logits, Tensor) or logits.dim() != target.dim() + 1:
        return
    classes = logits.shape[1 if logits.dim() > 1 else 0]
    if not target.numel() or (int(target.min()) >= 0 and int(target.max()) < classes):
        return
    invalid = target[((target < 0) | (target >= classes)) & (target != losses.ignore_index(setup.loss_fn))]
    if invalid.numel():
        raise IndexError(f"Target {int(invalid[0])} is out of bounds.")


@measurement
def first_pass(setup: Setup, batches: list[Batch]) -> ForwardPass:
    """The first batch through model and loss, with tracebacks, module spans and detach points.

    A model in eval mode whose output the loss does not take is set to train mode if the loss takes its output there, as
    that of a model with auxiliary outputs. The block that preserves the setup restores the modes.
    """
    present = run_forward(setup, batches[0])
    model = setup.eager_model
    if present.failure is None or model.training:
        return present
    modes = {module: module.training for module in model.modules()}
    model.train()
    in_training = run_forward(setup, batches[0])
    if in_training.failure is None:
        return in_training
    for module, mode in modes.items():
        module.training = mode
    return present


@measurement
def output(first_pass: ForwardPass) -> Any:
    """The output of the model for the first batch."""
    if first_pass.output is None:
        raise NotChecked(first_pass.failure_message if first_pass.failure else "step_fn hides the output of the model")
    return first_pass.output


@measurement
def loss(first_pass: ForwardPass) -> Tensor:
    """The loss of the first batch, a scalar with its graph."""
    if first_pass.loss is None:
        raise NotChecked(first_pass.failure_message if first_pass.failure else "the loss is not known")
    return first_pass.loss


@measurement
def finite_loss(loss: Tensor) -> Tensor:
    """The loss of the first batch, if it is finite and can be compared with other losses."""
    if not bool(loss.isfinite()):
        raise NotChecked(f"the loss is {float(loss.detach())} and cannot be compared with other losses")
    return loss


@measurement
def graph(setup: Setup, first_pass: ForwardPass, loss: Tensor) -> Graph:
    """The autograd graph behind the loss of the first batch."""
    return first_pass.trace.get_graph(loss)


@measurement
def judging_weights(setup: Setup, loss_kind: losses.LossKind, graph: Graph) -> list[Tensor]:
    """The matrices of another network that judges the outputs, such as a critic, and may be trained elsewhere.

    Its parameters are in the graph of the loss, and neither in the model nor in the optimizers.
    """
    return find_judging_weights(setup, graph) if loss_kind == "other" else []


def find_judging_weights(setup: Setup, graph: Graph) -> list[Tensor]:
    """Return the matrices in the graph of the loss that are neither of the model nor of the optimizers."""
    own = {id(item) for item in (*setup.eager_model.parameters(), *optimized_parameters(*setup.optimizers))}
    return [leaf for leaf in graph.leaves if isinstance(leaf, nn.Parameter) and leaf.dim() > 1 and id(leaf) not in own]


@measurement
def loss_kind(setup: Setup, first_pass: ForwardPass) -> losses.LossKind:
    """The kind of torch loss in use, by its name, by the loss node in the graph, or by where it raised."""
    kind = losses.get_loss_kind(setup.loss_fn)
    if kind != "other":
        return kind
    if first_pass.loss is None:
        return losses.raising_loss_kind(first_pass.failure)
    nodes = first_pass.trace.get_graph(first_pass.loss).nodes
    return next((losses.NODE_KINDS[node.name] for node in nodes if node.name in losses.NODE_KINDS), "other")


@measurement
def torch_loss_kind(
    setup: Setup, first_pass: ForwardPass, output: Any, loss: Tensor, loss_kind: losses.LossKind
) -> losses.LossKind:
    """The kind of the loss if it is one of torch's, or equals one on the first batch: outputs then are predictions."""
    scores, target = losses.score_tensor(output), first_pass.batch.target_or_label
    is_known = losses.get_loss_kind(setup.loss_fn) != "other" or (
        isinstance(scores, Tensor)
        and isinstance(target, Tensor)
        and losses.is_torch_loss(loss_kind, scores.detach(), target, float(loss.detach()))
    )
    if not is_known:
        raise NotChecked("the loss is none of torch's own, so the output need not be a prediction of the target")
    return loss_kind


@measurement
def task(setup: Setup, first_pass: ForwardPass, loss_kind: losses.LossKind) -> LearningTask:
    """The task of the model: as specified by the user, else inferred from loss and targets."""
    return setup.task or infer_task(first_pass.batch, first_pass.output, loss_kind)


@measurement
def class_axis(setup: Setup, first_pass: ForwardPass, output: Any, loss_kind: losses.LossKind) -> int:
    """The class axis of the output, for cross-entropy and NLL."""
    logits, target = losses.score_tensor(output), first_pass.batch.target
    if loss_kind not in ("cross-entropy", "nll") or not isinstance(logits, Tensor) or not logits.dim():
        raise NotChecked("the loss is not a classification loss")
    if losses.get_loss_kind(setup.loss_fn) != "other":
        return 1 if logits.dim() > 1 else 0
    axes = get_extra_axes(logits, target) or _get_log_softmax_axes(logits, first_pass)
    if not axes:
        raise NotChecked("the class axis is unknown, since a custom loss reshapes the output")
    axis = axes[0] % logits.dim()
    if _has_matrix(setup.loss_fn):
        raise NotChecked("the loss has weights of its own, which turn the output into scores of classes")
    if logits.shape[axis] == first_pass.batch.size > 1 and _follows_batch_size(setup, first_pass.batch, axis):
        raise NotChecked("the columns of the output follow the batch size, so they are no classes")
    return axis


def _has_matrix(loss_fn: Any) -> bool:
    """Return whether a loss has weights that can turn the output into the scores of other classes."""
    return isinstance(loss_fn, nn.Module) and any(parameter.dim() > 1 for parameter in loss_fn.parameters())


def _follows_batch_size(setup: Setup, batch: Batch, axis: int) -> bool:
    """Return whether the length of an axis of the output is the size of the batch, also for half of the batch."""
    half = batch.size // 2
    try:
        with torch.no_grad():
            output = losses.score_tensor(setup.predict(batch.take_samples(range(half))))
        return bool(output.shape[axis] == half)
    except Exception:  # a model that needs batches of this size
        return False


def get_extra_axes(logits: Tensor, target: Any) -> list[int]:
    """Return the one axis that the output has and class indices lack; empty if ambiguous."""
    if not isinstance(target, Tensor) or target.is_floating_point():
        return []
    shape = tuple(logits.shape)
    axes = [axis for axis in range(logits.dim()) if shape[:axis] + shape[axis + 1 :] == tuple(target.shape)]
    return axes if len(axes) == 1 else []


def _get_log_softmax_axes(logits: Tensor, first_pass: ForwardPass) -> list[int]:
    """Return the last axis or the second, if its length matches the log-softmax of the loss."""
    log_softmax_nodes = (
        first_pass.trace.get_graph(first_pass.loss).get_nodes_by_name("LogSoftmax")
        if first_pass.loss is not None
        else ()
    )
    class_count = next((node.get_saved("result").shape[1] for node in log_softmax_nodes), None)
    return [axis for axis in (-1, 1) if axis < logits.dim() and logits.shape[axis] == class_count]


@dataclass(frozen=True)
class EvalPasses:
    """Calls that depend on the mode or on random numbers, and the difference of two outputs.

    ``relative_difference`` is the largest difference relative to the largest output.
    """

    calls: tuple[ModeDependentCall, ...]
    relative_difference: float


@slow_measurement
def eval_passes(setup: Setup, first_pass: ForwardPass, output: Any) -> EvalPasses:
    """Two passes of the first batch through the whole model in eval mode, with different seeds."""
    if isinstance(setup.eager_model, torch.jit.ScriptModule):
        raise NotChecked("the calls of a TorchScript model cannot be recorded")
    try:
        with torch.no_grad(), record_mode_dependent_calls(setup.eager_model, training=False) as calls:
            outputs = [_predict_with_seed(setup, first_pass, seed) for seed in (1, 2)]
    except Exception as error:
        raise NotChecked(f"in eval mode the model raised {type(error).__name__}: {error}") from error
    return EvalPasses(tuple(calls), compute_relative_difference(*outputs))


def _predict_with_seed(setup: Setup, first_pass: ForwardPass, seed: int) -> list[torch.Tensor]:
    seed_all(seed)
    return tree_tensors(setup.predict(first_pass.batch))


@slow_measurement
def train_calls(setup: Setup, first_pass: ForwardPass, output: Any) -> list[ModeDependentCall]:
    """Mode-dependent calls of the first batch with the whole model in train mode."""
    if isinstance(setup.eager_model, torch.jit.ScriptModule):
        raise NotChecked("the calls of a TorchScript model cannot be recorded")
    try:
        with torch.no_grad(), record_mode_dependent_calls(setup.eager_model, training=True) as calls:
            setup.predict(first_pass.batch)
    except Exception as error:
        raise NotChecked(f"in train mode the model raised {type(error).__name__}: {error}") from error
    return list(calls)


@dataclass(frozen=True)
class BatchStatistics:
    """One batch normalization layer in train mode: its batch size, and the number of values per channel."""

    path: str
    samples: int
    values_per_channel: int


@slow_measurement
def batch_statistics(setup: Setup, first_pass: ForwardPass) -> list[BatchStatistics]:
    """Batch normalization layers in train mode, with the sizes of their inputs for the first batch."""
    if setup.step_fn is not None:
        raise NotChecked("a step_fn hides the forward pass")
    statistics: dict[str, BatchStatistics] = {}
    hooks: dict[nn.Module, Any] = {
        norm: _shape_recording_hook(path, statistics)
        for path, norm in setup.eager_model.named_modules()
        if isinstance(norm, _BatchNorm) and norm.training
    }
    if not hooks:
        return []
    try:
        with hooked(hooks, before=True), torch.no_grad():
            setup.predict(first_pass.batch)
    except Exception as error:
        if not statistics:
            raise NotChecked(f"the model raised {type(error).__name__}: {error}") from error
    return list(statistics.values())


def _shape_recording_hook(path: str, statistics: dict[str, BatchStatistics]) -> Any:
    """Return a hook that records the input size of a layer; the smallest of its calls counts."""

    def record_shape(module: nn.Module, args: tuple[Any, ...]) -> None:
        input = args[0]
        current = BatchStatistics(path, len(input), input.numel() // max(input.shape[1], 1))
        if path not in statistics or current.values_per_channel < statistics[path].values_per_channel:
            statistics[path] = current

    return record_shape


@slow_measurement
def first_layer_calls(setup: Setup, batches: list[Batch]) -> list[FirstLayerCall]:
    """Each call in which the first batch meets weights, with the data as they are at that call."""
    return _record_first_layer_calls(setup, lambda: setup.output_and_loss(batches[0]))


@measurement
def loop_layer_calls(setup: Setup, loop: LoopSummary) -> list[FirstLayerCall]:
    """Each call in which the inputs that a watched loop passes meet weights, if they differ from the loader's."""
    if loop.batch_alignment.changed_inputs is None:
        raise NotChecked("the loop passes the batches of the loader to the model as they are")
    setup.check_passes()
    args, kwargs = loop.batch_alignment.changed_inputs
    return _record_first_layer_calls(setup, lambda: setup.eager_model(*args, **kwargs))


def _record_first_layer_calls(setup: Setup, run_model: Callable[[], Any]) -> list[FirstLayerCall]:
    if isinstance(setup.eager_model, torch.jit.ScriptModule):
        raise NotChecked("the layer inputs of a TorchScript model cannot be recorded")
    stack = ModuleStack()
    recorder = FirstLayerRecorder(stack)
    try:
        with stack.track(setup.eager_model), torch.no_grad(), recorder:
            run_model()
    except Exception as error:
        if not recorder.calls:
            raise NotChecked(f"the model raised {type(error).__name__}: {error}") from error
    return recorder.calls
