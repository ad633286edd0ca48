"""Training steps of the user's own objects, on an endless stream of batches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cache
from itertools import count, islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nbdebug.exceptions import SetupError
from nbdebug.setup import Batch, Setup
from nbdebug.setup.batch_splitter import BatchSplitter
from nbdebug.setup.loaders import PeekableLoader, loader_error, read_tensors_at_once
from nbdebug.setup.setup import optimized_parameters
from nbdebug.tensors.pytree import tree_tensors


class BatchStream(Iterator[Batch]):
    """An endless stream of batches that restarts a short loader.

    Skips batches of one sample if the model computes batch statistics, unless there are no others. ``rounds`` counts
    how often the loader was started, ``skipped`` the skipped batches. The rows of tensors are read at once, unless the
    loader ``is_timed``. Must be used inside a Preserve.
    """

    def __init__(self, setup: Setup, seed: int, *, is_timed: bool = False) -> None:
        self.setup, self.rounds, self.skipped = setup, 0, 0
        self.is_timed = is_timed
        self.splitter = BatchSplitter(setup)
        self.skips_single_samples = _takes_batch_statistics(setup.eager_model)
        _reseed_loader(setup.train_loader, seed)
        self.batches = self.iterate()

    def __next__(self) -> Batch:
        return next(self.batches)

    def close(self) -> None:
        """Release the loader and the workers that it has started."""
        self.batches.close()

    def iterate(self) -> Generator[Batch]:
        """Yield every batch of the loader, round after round; raise SetupError if it is empty."""
        for self.rounds in count(1):
            yielded = skipped = 0
            for raw in self.raw_batches():
                if self.skips_single_samples and sample_count(raw) == 1:
                    skipped += 1
                    continue
                yielded += 1
                yield self.to_batch(raw)
            if not yielded and not skipped:
                raise SetupError(
                    "train_loader is empty; expected at least one batch. Check len(dataset), drop_last and the sampler."
                )
            self.skipped += skipped
            self.skips_single_samples = self.skips_single_samples and bool(yielded)

    def raw_batches(self) -> Iterator[Any]:
        """Yield the raw batches of one round; an error of the loader is reported with the batch number."""
        loader, number = self.setup.train_loader, 0
        loader = loader if self.is_timed else read_tensors_at_once(loader)
        try:
            for raw in loader.peek() if isinstance(loader, PeekableLoader) else loader:
                yield raw
                number += 1
        except (SetupError, GeneratorExit):
            raise
        except Exception as error:
            raise loader_error("train_loader", number, error) from error

    def to_batch(self, raw: Any) -> Batch:
        """Split a raw batch; a ``step_fn`` receives it unsplit."""
        return Batch((), raw=raw) if self.setup.step_fn is not None else self.splitter(raw)


def _takes_batch_statistics(model: nn.Module) -> bool:
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) and module.training for module in model.modules())


def sample_count(raw: Any) -> int:
    """Return the number of samples of a raw batch: the length of its first tensor with an axis."""
    return next((len(tensor) for tensor in tree_tensors(raw) if tensor.dim()), 0)


def _reseed_loader(loader: Any, seed: int) -> None:
    """Change the order of a loader and its samplers through their generators or ``set_epoch``."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    for source in (loader, getattr(loader, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None)):
        if isinstance(generator := getattr(source, "generator", None), torch.Generator):
            generator.manual_seed(seed)
        if callable(set_epoch := getattr(source, "set_epoch", None)):
            set_epoch(seed)


def needs_closure(optimizer: Optimizer) -> bool:
    """Check whether an optimizer evaluates the loss itself, as L-BFGS does."""
    return _step_needs_closure(type(optimizer).step)


@cache
def _step_needs_closure(step: Callable[..., Any]) -> bool:
    closure = inspect.signature(step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


class Trainer:
    """Steps ``optimizers`` on ``accumulate`` batches each from ``batches``; ``max_norm`` clips the gradient.

    A GradScaler among ``extra_state`` scales the loss, except for optimizers with closures, which it does not support.
    """

    def __init__(
        self,
        setup: Setup,
        optimizers: Sequence[Optimizer],
        batches: Iterator[Batch],
        accumulate: int = 1,
        max_norm: float | None = None,
    ) -> None:
        self.setup, self.batches, self.accumulate, self.max_norm = setup, batches, accumulate, max_norm
        self.optimizers = tuple(optimizers)
        self.has_closures = any(map(needs_closure, self.optimizers))
        scaler = next((item for item in setup.extra_state if isinstance(item, torch.amp.GradScaler)), None)
        self.scaler = None if self.has_closures else scaler
        self.parameters = optimized_parameters(*self.optimizers)

    def step(self) -> float:
        """Train on the next batches, and return their loss before the step."""
        if self.has_closures:
            return self.step_with_closures()
        loss = self.accumulate_gradients(islice(self.batches, self.accumulate))
        for optimizer in self.optimizers:
            if self.scaler is not None:
                self.scaler.step(optimizer)
            else:
                optimizer.step()
        if self.scaler is not None:
            self.scaler.update()
        return loss.item()

    def step_with_closures(self) -> float:
        """Step optimizers such as L-BFGS that evaluate the loss themselves, on the same batches."""
        batches = list(islice(self.batches, self.accumulate))
        first = self.accumulate_gradients(batches)
        computed_losses = [first]

        def closure() -> Tensor:
            return computed_losses.pop() if computed_losses else self.accumulate_gradients(batches)

        for optimizer in self.optimizers:
            if needs_closure(optimizer):
                optimizer.step(closure)  # type: ignore[arg-type]
            else:
                optimizer.step()
        return first.item()

    def accumulate_gradients(self, batches: Iterable[Batch]) -> Tensor:
        """Return the mean loss of some batches after computing its gradient."""
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        losses = [self.backward(self.setup.output_and_loss(batch, self.setup.model)[1]) for batch in batches]
        if self.max_norm is not None:
            self.clip_gradients(self.max_norm)
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    def backward(self, loss: Tensor) -> Tensor:
        """Run the backward pass of one batch and return its share of the loss."""
        if not loss.requires_grad:
            raise SetupError("the loss has no gradient; expected one. Check for detach(), .data or no_grad().")
        if self.accumulate > 1:
            loss = loss / self.accumulate
        scaled = loss if self.scaler is None else self.scaler.scale(loss)
        scaled.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def clip_gradients(self, max_norm: float) -> None:
        """Clip the gradient as the user's loop does."""
        if self.scaler is not None:
            for optimizer in self.optimizers:
                self.scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(self.parameters, max_norm)

    @property
    def has_no_gradient(self) -> bool:
        """True if the last backward pass gave no nonzero gradient to any trained parameter."""
        return not any(bool(_stored_values(p.grad).any()) for p in self.parameters if p.grad is not None)


def _stored_values(gradient: Tensor) -> Tensor:
    """Return the stored values of a gradient, which may be sparse."""
    return gradient.coalesce().values() if gradient.is_sparse else gradient
