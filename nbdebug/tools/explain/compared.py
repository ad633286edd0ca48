"""What samples are compared with: samples of the training data, of one class of them, their mean, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nbdebug.attribution.given import count, inputs_of, with_leaves
from nbdebug.attribution.prepare import drawn
from nbdebug.attribution.problem import cut
from nbdebug.attribution.rows import per_sample
from nbdebug.exceptions import SetupError
from nbdebug.setup import Batch, Setup
from nbdebug.tools.explain.asked import NAMES, Asked
from nbdebug.tools.explain.fitted import fitted


def compared(name: str, samples: Batch, data: Batch | None) -> Batch:
    """A background by its name; raises SetupError for one that there is not."""
    if name not in NAMES:
        raise SetupError(f"background is {name!r}; expected {', '.join(NAMES)}, or samples. Choose one.")
    if name in ("data", "mean") and data is None:
        raise SetupError(
            f"background is {name!r} and there is no training data; expected some. Pass background=samples."
        )
    data = fitted(data, samples)
    if name == "data":
        assert data is not None
        return data
    source = data if name == "mean" and data is not None else samples
    real = any(isinstance(leaf, Tensor) and leaf.is_floating_point() for _, leaf in inputs_of(source))
    return changed(source, MADE[name], name != "mean" and not real)


def background_of(samples: Batch, data: Batch | None, asked: Asked) -> Batch | None:
    """The background that is asked for; without any data what needs none can still be asked."""
    if asked.background == "data" and data is None:
        return None
    return compared(asked.background, samples, data)


def changed(batch: Batch, make: Callable[[Tensor], Tensor], tokens: bool = False) -> Batch:
    """A batch of one row, or as many as ``make`` gives, of real inputs; all else is that of the first sample.

    ``tokens`` is whether integers are changed too, where there are no real inputs.
    """
    first = cut(batch, torch.arange(1))
    made = {
        number: make(leaf.detach())
        for number, (_, leaf) in enumerate(inputs_of(batch))
        if per_sample(leaf, count(batch)) and (leaf.is_floating_point() or tokens)
    }
    if not made:
        raise SetupError("the inputs are integers; expected real numbers to take a mean of. Use 'data' or 'zeros'.")
    rows = len(next(iter(made.values())))
    return with_leaves(cut(first, torch.zeros(rows, dtype=torch.long)), made)


def shuffled(leaf: Tensor, times: int = 16) -> Tensor:
    """The numbers of the first sample in random order: the same brightness, without any form."""
    random = torch.Generator().manual_seed(0)
    flat = leaf[0].flatten().cpu()
    rows = [flat[torch.randperm(len(flat), generator=random)] for _ in range(times)]
    return torch.stack(rows).reshape(times, *leaf.shape[1:]).to(leaf)


MADE: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda leaf: leaf.mean(0, keepdim=True),
    "zeros": lambda leaf: torch.zeros_like(leaf[:1]),
    "shuffled": shuffled,
}


def data_of(setup: Setup | None, given: Any) -> Any:
    """The samples that are compared with by default: those given, else the first of the training data."""
    if given is not None and not isinstance(given, str):
        return given
    return drawn(setup) if setup is not None and setup.has_data else None
