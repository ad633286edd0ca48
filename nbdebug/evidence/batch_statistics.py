"""From how many samples and values each batch normalization takes its statistics in training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from nbdebug.evidence.first_pass import Pass
from nbdebug.evidence.ledger import slow_measurement
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Setup


@dataclass(frozen=True)
class Statistics:
    """One batch normalization that uses the batch: its samples, and the values that each channel is measured by."""

    path: str
    samples: int
    values: int


@slow_measurement
def batch_statistics(setup: Setup, first_pass: Pass) -> list[Statistics]:
    """The batch normalizations that train, with the size of what they saw of the first batch."""
    if setup.step_fn is not None:
        raise NotChecked("a step_fn hides the forward pass")
    seen: dict[str, Statistics] = {}
    norms = [(path, one) for path, one in setup.eager.named_modules() if isinstance(one, _BatchNorm) and one.training]
    if not norms:
        return []
    handles = [one.register_forward_pre_hook(noting(path, seen)) for path, one in norms]
    try:
        with torch.no_grad():
            setup.predict(first_pass.batch)
    except Exception as error:
        if not seen:
            raise NotChecked(f"the model raised {type(error).__name__}: {error}") from error
    finally:
        for handle in handles:
            handle.remove()
    return list(seen.values())


def noting(path: str, seen: dict[str, Statistics]) -> Any:
    """A hook that notes the shape of what a normalization is given; the smallest of its calls counts."""

    def note(module: nn.Module, args: tuple[Any, ...]) -> None:
        given = args[0]
        one = Statistics(path, len(given), given.numel() // max(given.shape[1], 1))
        if path not in seen or one.values < seen[path].values:
            seen[path] = one

    return note
