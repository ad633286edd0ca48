"""One forward pass and its loss, traced: what most rules about loss and wiring read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nbdebug.evidence.ledger import measurement
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.graph import Graph, Trace, tracing
from nbdebug.graph.source import Line, from_exception
from nbdebug.setup import Batch, Setup, losses, names
from nbdebug.setup.task import Task, infer


@dataclass(frozen=True)
class Pass:
    """One batch through model and loss, in the modes the model was in.

    ``failure`` is what the model or the loss raised; ``stage`` says which of them; ``line`` is the user's line.
    """

    batch: Batch
    trace: Trace
    output: Any = None
    value: Tensor | None = None
    failure: Exception | None = None
    stage: str = "forward"
    line: Line | None = None

    @property
    def failed(self) -> str:
        """One sentence about what was raised, and where."""
        place = f" at {self.line.file}, line {self.line.number}: {self.line.text.strip()}" if self.line else ""
        return f"the {self.stage} raised {type(self.failure).__name__}: {self.failure}{place}"


def run(setup: Setup, batch: Batch) -> Pass:
    """One batch through the set-up, traced; whatever model or loss raise is kept, not raised."""
    output, stage = None, "forward pass"
    with tracing(setup.eager) as trace:
        try:
            if setup.step_fn is not None:
                return Pass(batch, trace, None, setup.run(batch)[1], stage="step_fn")
            output = setup.predict(batch)
            names.check(setup, batch, output)
            stage = "loss"
            check_labels(setup, batch, output)
            return Pass(batch, trace, output, setup.loss(output, batch), stage=stage)
        except SetupError:
            raise
        except Exception as error:
            return Pass(batch, trace, output, None, error, stage, from_exception(error))


def check_labels(setup: Setup, batch: Batch, output: Any) -> None:
    """Raises what torch raises for a class index out of range, before a GPU ends the process over it."""
    logits, target = losses.scores(output), batch.target
    if losses.named(setup.loss_fn) not in ("cross-entropy", "nll") or not isinstance(target, Tensor):
        return
    if target.is_floating_point() or not isinstance(logits, Tensor) or logits.dim() != target.dim() + 1:
        return
    classes = logits.shape[1 if logits.dim() > 1 else 0]
    if not target.numel() or (int(target.min()) >= 0 and int(target.max()) < classes):
        return
    wrong = target[((target < 0) | (target >= classes)) & (target != losses.ignore_index(setup.loss_fn))]
    if wrong.numel():
        raise IndexError(f"Target {int(wrong[0])} is out of bounds.")


@measurement
def first_pass(setup: Setup, batches: list[Batch]) -> Pass:
    """The first batch through model and loss, with tracebacks, module spans and cuts."""
    return run(setup, batches[0])


@measurement
def output(first_pass: Pass) -> Any:
    """What the model returned for the first batch."""
    if first_pass.output is None:
        raise NotChecked(first_pass.failed if first_pass.failure else "a step_fn hides the output of the model")
    return first_pass.output


@measurement
def loss(first_pass: Pass) -> Tensor:
    """The loss of the first batch, a scalar with its graph."""
    if first_pass.value is None:
        raise NotChecked(first_pass.failed)
    return first_pass.value


@measurement
def finite_loss(loss: Tensor) -> Tensor:
    """The loss of the first batch where it is a number, as it must be for another loss to be compared with it."""
    if not bool(loss.isfinite()):
        raise NotChecked(f"the loss is {float(loss.detach())}, with which nothing can be compared")
    return loss


@measurement
def graph(setup: Setup, first_pass: Pass, loss: Tensor) -> Graph:
    """The autograd graph behind the loss of the first batch."""
    return first_pass.trace.graph(loss)


@measurement
def loss_kind(setup: Setup, first_pass: Pass) -> losses.Kind:
    """Which of torch's losses is used, by its name, by the loss operation in the graph, or by where it raised."""
    kind = losses.named(setup.loss_fn)
    if kind != "other":
        return kind
    if first_pass.value is None:
        return losses.raised_in(first_pass.failure)
    nodes = first_pass.trace.graph(first_pass.value).nodes
    return next((losses.NODES[node.name] for node in nodes if node.name in losses.NODES), "other")


@measurement
def task(setup: Setup, first_pass: Pass, loss_kind: losses.Kind) -> Task:
    """What the model is to learn: as given, else inferred from loss and targets."""
    return setup.task or infer(first_pass.batch, first_pass.output, loss_kind)


@measurement
def class_axis(setup: Setup, first_pass: Pass, output: Any, loss_kind: losses.Kind) -> int:
    """The axis of the output that runs over the classes, for cross-entropy and NLL."""
    logits = losses.scores(output)
    if loss_kind not in ("cross-entropy", "nll") or not isinstance(logits, Tensor) or not logits.dim():
        raise NotChecked("the loss is not over classes")
    if losses.named(setup.loss_fn) != "other":
        return 1 if logits.dim() > 1 else 0
    axes = extra_axes(logits, first_pass.batch.target) or softmaxed_axes(logits, first_pass)
    if not axes:
        raise NotChecked("a loss of your own reshapes the output, so that its classes cannot be counted")
    return axes[0] % logits.dim()


def extra_axes(logits: Tensor, target: Any) -> list[int]:
    """The one axis that the output has and class indices lack; none where several could be it."""
    if not isinstance(target, Tensor) or target.is_floating_point():
        return []
    shape = tuple(logits.shape)
    axes = [axis for axis in range(logits.dim()) if shape[:axis] + shape[axis + 1 :] == tuple(target.shape)]
    return axes if len(axes) == 1 else []


def softmaxed_axes(logits: Tensor, first_pass: Pass) -> list[int]:
    """The last axis or the second, where it is as long as what the loss takes its log-softmax over."""
    found = first_pass.trace.graph(first_pass.value).named("LogSoftmax") if first_pass.value is not None else ()
    width = next((node.saved("result").shape[1] for node in found), None)
    return [axis for axis in (-1, 1) if axis < logits.dim() and logits.shape[axis] == width]
