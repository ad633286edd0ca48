"""One training step of the user's own objects: accumulation, scaled losses and closures as their loop has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import torch
from torch import Tensor
from torch.optim import Optimizer

from nbdebug.exceptions import SetupError
from nbdebug.setup import Batch, Setup
from nbdebug.tools.overfit.attempt import needs_closure


class Trainer:
    """Steps of ``optimizers`` on what ``feed`` gives, ``accumulate`` batches each; ``max_norm`` clips the gradient.

    A GradScaler among ``extra_state`` scales the loss, except for optimizers with closures, which it cannot serve.
    """

    def __init__(
        self,
        setup: Setup,
        optimizers: Sequence[Optimizer],
        feed: Iterator[Batch],
        accumulate: int = 1,
        max_norm: float | None = None,
    ) -> None:
        self.setup, self.feed, self.accumulate, self.max_norm = setup, feed, accumulate, max_norm
        self.optimizers = tuple(optimizers)
        self.closures = any(map(needs_closure, self.optimizers))
        scaler = next((one for one in setup.extra_state if isinstance(one, torch.amp.GradScaler)), None)
        self.scaler = None if self.closures else scaler
        self.held = [p for one in self.optimizers for group in one.param_groups for p in group["params"]]

    def step(self) -> float:
        """Learns the next batches, and gives the loss that they had before."""
        if self.closures:
            return self.step_with_closures()
        loss = self.passed(islice(self.feed, self.accumulate))
        for one in self.optimizers:
            if self.scaler is not None:
                self.scaler.step(one)
            else:
                one.step()
        if self.scaler is not None:
            self.scaler.update()
        return loss.item()

    def step_with_closures(self) -> float:
        """The same for optimizers of which some evaluate the loss themselves, as L-BFGS does, on the same batches."""
        batches = list(islice(self.feed, self.accumulate))
        first = self.passed(batches)
        at_hand = [first]

        def again() -> Tensor:
            return at_hand.pop() if at_hand else self.passed(batches)

        for one in self.optimizers:
            if needs_closure(one):
                one.step(again)  # type: ignore[arg-type]
            else:
                one.step()
        return first.item()

    def passed(self, batches: Iterable[Batch]) -> Tensor:
        """The mean loss of some batches, its gradient in place."""
        for one in self.optimizers:
            one.zero_grad()
        losses = [self.pulled(self.setup.run(batch, self.setup.model)[1]) for batch in batches]
        if self.max_norm is not None:
            self.clip(self.max_norm)
        return losses[0] if len(losses) == 1 else torch.stack(losses).sum()

    def pulled(self, loss: Tensor) -> Tensor:
        """The share of one batch in the loss, after its backward pass."""
        if not loss.requires_grad:
            raise SetupError("the loss has no gradient; expected one. Look for detach(), .data or no_grad().")
        if self.accumulate > 1:
            loss = loss / self.accumulate
        scaled = loss if self.scaler is None else self.scaler.scale(loss)
        scaled.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def clip(self, norm: float) -> None:
        """Shortens the gradient as the user's loop does."""
        if self.scaler is not None:
            for one in self.optimizers:
                self.scaler.unscale_(one)
        torch.nn.utils.clip_grad_norm_(self.held, norm)

    @property
    def is_blocked(self) -> bool:
        """Whether the last pass gave no gradient other than zero to anything that is trained."""
        return not any(bool(dense(p.grad).any()) for p in self.held if p.grad is not None)


def dense(gradient: Tensor) -> Tensor:
    """The entries of a gradient, of a sparse one those that it has."""
    return gradient.coalesce().values() if gradient.is_sparse else gradient
