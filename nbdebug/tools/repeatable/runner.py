"""Runs of the training step from the present state, with a hash of each tensor that they compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, PeekableLoader, Setup
from nbdebug.setup.batch_splitter import BatchSplitter
from nbdebug.setup.loaders import loader_error
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tensors.hashing import hash_tensor, hash_value
from nbdebug.tensors.pytree import tree_leaves
from nbdebug.tools.repeatable.records import Difference, Phase, StepRecord, TensorHash, difference_in_step
from nbdebug.training.model_copy import ensure_train_mode
from nbdebug.training.trainer import Trainer


@dataclass
class Run:
    """The records of the steps of a run; ``stopped_at`` is its first difference from the reference, if any."""

    records: list[StepRecord]
    stopped_at: Difference | None = None


class _RecordedSteps(Trainer):
    """A trainer that hashes what each phase of a step computes.

    With ``is_detailed`` it hashes the result of every operation and its gradient as well.
    """

    def __init__(self, setup: Setup, batches: Iterator[Batch]) -> None:
        super().__init__(setup, setup.optimizers, batches)
        self.entries: list[TensorHash] = []
        self.is_detailed = self.is_in_forward = False
        self.names = {id(p): name for name, p in setup.eager_model.named_parameters()}

    def record(self, phase: Phase, name: str, value: Any, **place: Any) -> None:
        """Add the hash of a value of this step."""
        if isinstance(value, Tensor):
            self.entries.append(TensorHash(phase, name, hash_tensor(value), shape=tuple(value.shape), **place))
        else:
            self.entries.append(TensorHash(phase, name, hash_value(value), **place))

    def record_batch(self, raw: Any) -> None:
        """Record the leaves of a raw batch, with which the forward pass begins."""
        self.is_in_forward = True
        for path, leaf in tree_leaves(raw):
            self.record("data", f"batch{''.join(f'[{key!r}]' for key in path)}", leaf)

    def recorded_step(self) -> StepRecord:
        """Run one step and return its record."""
        with self.operations() if self.is_detailed else nullcontext():
            if self.optimizers:
                self.step()
            else:
                self.accumulate_gradients([next(self.batches)])
        self.record_update()
        entries, self.entries = tuple(self.entries), []
        return entries

    def operations(self) -> AbstractContextManager[None]:
        """Record the result of each torch call in the block, and its gradient in the backward pass."""
        return record_calls(self.setup.eager_model, self.record_call)

    def record_call(self, call: TorchCall) -> None:
        """Record the outputs of a call of the forward pass."""
        if not self.is_in_forward:
            return
        place = {"operation": call.name, "module": call.module or "", "line": call.line}
        for output in call.outputs:
            self.record("forward", f"the result of {call.name}", output, **place)
            if output.requires_grad and not output.is_leaf:
                hook = partial(self.record_gradient, place)
                output.register_hook(hook)  # type: ignore[no-untyped-call]

    def record_gradient(self, place: dict[str, Any], gradient: Tensor) -> None:
        """Record the gradient of a result."""
        self.record("backward", f"the gradient of {place['operation']}", gradient, **place)

    def backward(self, loss: Tensor) -> Tensor:
        """Record the loss, run the backward pass, and record the gradients in the order of the backward pass."""
        self.record("forward", "the loss", loss)
        self.is_in_forward = False
        value = super().backward(loss)
        for name, parameter in reversed(list(self.setup.eager_model.named_parameters())):
            if parameter.grad is not None:
                self.record("backward", f"the gradient of {name}", parameter.grad, module=name.rpartition(".")[0])
        return value

    def record_update(self) -> None:
        """Record weights, buffers and optimizer state after the step."""
        model = self.setup.eager_model
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            self.record("update", name, tensor, module=name.rpartition(".")[0])
        for number, optimizer in enumerate(self.optimizers):
            for parameter, state in optimizer.state.items():
                label = self.names.get(id(parameter), "a parameter outside the model")
                self.record("update", f"the state of optimizer {number} for {label}", state)


class StepRunner:
    """Runs steps of a setup and restores everything that Preserve knows after each run.

    ``on_step`` is called before each step, with its number and that of all steps of the run.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.total_steps = 0
        self.on_step: Callable[[int, int], object] = lambda step, steps: None

    def run(
        self,
        steps: int,
        reference: Sequence[StepRecord] | None = None,
        detailed_from: int | None = None,
        around: AbstractContextManager[Any] | None = None,
    ) -> Run:
        """Run up to ``steps`` steps in the block ``around``; stop at the first difference from ``reference``.

        Operations are recorded from step ``detailed_from`` on. Raises SetupError if the setup cannot be run.
        """
        run = Run([])
        with ExitStack() as stack:
            stack.enter_context(Preserve(*self.setup.mutable_objects, loaders=_loaders(self.setup)))
            ensure_train_mode(self.setup)
            stack.enter_context(around or nullcontext())
            batches = _Batches(self.setup)
            stack.callback(batches.close)
            trainer = _RecordedSteps(self.setup, batches)
            batches.on_batch = trainer.record_batch
            for step in range(steps):
                self.on_step(step + 1, steps)
                trainer.is_detailed = detailed_from is not None and step >= detailed_from
                with UserCodeErrors(partial("in step {} of the repeated run".format, step)):
                    run.records.append(trainer.recorded_step())
                self.total_steps += 1
                if reference is None:
                    continue
                if step >= len(reference):
                    break
                run.stopped_at = difference_in_step(step, reference[step], run.records[step])
                if run.stopped_at is not None:
                    break
        return run


def _loaders(setup: Setup) -> tuple[Any, ...]:
    return setup.train_loader, setup.val_loader


class _Batches(Iterator[Batch]):
    """An endless stream of the batches of the training loader, in its own order and by its own workers."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.splitter = setup, BatchSplitter(setup)
        self.on_batch: Any = None
        self.raw = self.raw_batches()

    def __next__(self) -> Batch:
        raw = next(self.raw)
        self.on_batch(raw)
        return Batch((), raw=raw) if self.setup.step_fn is not None else self.splitter(raw)

    def close(self) -> None:
        """Release the loader and the workers that it has started."""
        self.raw.close()

    def raw_batches(self) -> Any:
        """Yield the batches round after round; raise SetupError if there are none or reading them fails."""
        loader = self.setup.train_loader
        while True:
            number = 0
            try:
                for raw in loader.peek() if isinstance(loader, PeekableLoader) else loader:
                    yield raw
                    number += 1
            except (SetupError, GeneratorExit):
                raise
            except Exception as error:
                raise loader_error("train_loader", number, error) from error
            if not number:
                raise SetupError(
                    "train_loader is empty; expected at least one batch. Check len(dataset), drop_last and the sampler."
                )
