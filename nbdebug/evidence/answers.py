"""What the model answers in eval mode, to a batch and to the same batch with a part of its input changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.evidence.ledger import slow_measurement
from nbdebug.exceptions import NotChecked
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import scores
from nbdebug.setup.modes import in_mode
from nbdebug.setup.trees import leaves, tensors, transform

SHAKY = 1e-3  # share of the largest value by which two passes over one batch may differ and still be compared


@dataclass(frozen=True)
class Answers:
    """The model in eval mode: each pass draws the same random numbers and leaves no trace in the modes.

    ``first`` are the tensors that it returns for ``batch``, what the loss takes before the others; a change of them by
    more than ``noise`` is due to a change of the input.
    """

    setup: Setup
    batch: Batch
    first: tuple[Tensor, ...] = ()
    noise: float = 0.0

    def to(self, batch: Batch, training: bool = False) -> tuple[Tensor, ...]:
        """The floating-point tensors of the answer, that which the loss takes first; ``training`` is the mode."""
        with torch.no_grad(), written_out(self.setup.eager, training):
            seed_all(0)
            output = self.setup.predict(batch)
        main = scores(output)
        found = [main, *(t for t in tensors(output) if t is not main)]
        return tuple(t.detach().clone() for t in found if isinstance(t, Tensor) and t.is_floating_point())

    def differs(self, after: Tensor, which: int = 0) -> Tensor:
        """Where one tensor of another answer is not that of the first batch; raises NotChecked for another shape."""
        before = self.first[which]
        if after.shape != before.shape:
            raise NotChecked("the shape of the output depends on the values of the input")
        return ~torch.isclose(after, before, rtol=0.0, atol=self.noise, equal_nan=True)

    def changed(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with every input tensor changed."""
        args, kwargs = transform(
            (self.batch.args, self.batch.kwargs), lambda one: change(one) if isinstance(one, Tensor) else one
        )
        return replace(self.batch, args=args, kwargs=kwargs)

    @property
    def inputs(self) -> dict[str, Tensor]:
        """The input tensors, by argument name or position."""
        found = leaves((self.batch.args, self.batch.kwargs))
        return {".".join(map(str, path[1:])): one for path, one in found if isinstance(one, Tensor)}


@contextmanager
def written_out(model: nn.Module, training: bool) -> Iterator[None]:
    """A block in which the model is in one mode and runs as it is written, without torch's fused encoder."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with in_mode(model, training):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


@slow_measurement
def answers(setup: Setup, batches: list[Batch], output: Any) -> Answers:
    """The model's answers in eval mode, to the first batch and to any change of it."""
    asked = Answers(setup, batches[0])
    try:
        first, again = asked.to(batches[0]), asked.to(batches[0])
    except Exception as error:
        raise NotChecked(f"the forward pass in eval mode raised {type(error).__name__}: {error}") from error
    if not first or not all(bool(t.isfinite().all()) for t in first):
        raise NotChecked("in eval mode the model returns no finite floating-point tensor")
    scale = max(float(t.abs().max()) for t in first if t.numel())
    noise = max(float((a - b).abs().max()) for a, b in zip(first, again, strict=True) if a.numel())
    if noise > SHAKY * scale:
        raise NotChecked("two passes over one batch in eval mode give different outputs")
    return replace(asked, first=first, noise=max(10 * noise, 1e-6 * scale))
