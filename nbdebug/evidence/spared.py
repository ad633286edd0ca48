"""Whether odd values in the data are met by the user's own model and loss, which leave them out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.evidence.rows import named_inputs
from nbdebug.evidence.trial import loss_on
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Batch, Setup, losses
from nbdebug.setup.trees import leaves, moved, transform

MOST_LABELS = 4


def named_tensors(inputs: dict[str, Tensor], targets: Any) -> dict[str, Tensor]:
    """Inputs by their names, and targets as ``target`` or ``target`` with their path."""
    found = {"target" if len(targets) == 1 else f"target {path}": leaf for path, leaf in leaves(targets)}
    return {name: one for name, one in {**inputs, **found}.items() if isinstance(one, Tensor) and one.dim()}


def leaves_out(setup: Setup, batches: list[Batch], name: str, row: Tensor) -> bool:
    """Whether loss and gradients stay finite on a batch in which tensor ``name`` holds NaN or Inf, such as ``row``."""
    own = [batch for batch in batches if not bool(tensor_of(batch, name).isfinite().all())]
    batch = own[0] if own else with_row(batches[0], name, row)
    if batch is None or (setup.step_fn is not None and not own):
        return False
    try:
        with torch.enable_grad():
            loss = setup.run(batch)[1]
            weights = [one for one in setup.eager.parameters() if one.requires_grad]
            found = torch.autograd.grad(loss, weights, allow_unused=True)
    except Exception:
        return False
    dense = (part.to_dense() if part.is_sparse else part for part in found if part is not None)
    return all(bool(part.isfinite().all()) for part in (loss, *dense))


def tensor_of(batch: Batch, name: str) -> Tensor:
    """The tensor of a batch that goes by a name, or an empty one."""
    return named_tensors(named_inputs(batch), batch.targets).get(name, torch.empty(0))


def with_row(batch: Batch, name: str, row: Tensor) -> Batch | None:
    """The batch with another first row of one tensor; None where the row does not fit."""
    old = tensor_of(batch, name)
    if old.shape[1:] != row.shape or not len(old):
        return None
    new = old.clone()
    new[0] = row.to(old)
    args, kwargs, targets = transform(
        (batch.args, batch.kwargs, batch.targets), lambda leaf: new if leaf is old else leaf
    )
    return replace(batch, args=args, kwargs=kwargs, targets=targets)


def dropped_labels(setup: Setup, batch: Batch, output: Any, labels: Iterable[int], classes: int) -> set[int]:
    """Those labels outside the classes that a loss of the user's own takes, and not for the class they wrap around to.

    The loss is asked on the CPU: on a GPU such a label may end the process.
    """
    of = asked_by_label(setup, batch, output)
    return {one for one in list(labels)[:MOST_LABELS] if (value := of(one)) is not None and value != of(one % classes)}


def wrapped_labels(setup: Setup, batch: Batch, output: Any, labels: Iterable[int], classes: int) -> set[int]:
    """Those labels outside the classes that such a loss takes for the class they wrap around to, and for no other."""
    of, found = asked_by_label(setup, batch, output), set[int]()
    for one in list(labels)[:MOST_LABELS]:
        value, home = of(one), one % classes
        if value is not None and value == of(home) and value != of((home + 1) % classes):
            found.add(one)
    return found


def asked_by_label(setup: Setup, batch: Batch, output: Any) -> Callable[[int], float | None]:
    """What a loss of the user's own gives for a label of the first sample; None where it refuses that or is torch's."""
    target, home = batch.target, torch.device("cpu")
    if losses.named(setup.loss_fn) != "other" or setup.loss_fn is None or not isinstance(target, Tensor):
        return lambda label: None
    batch, scores = batch.to(home), moved(output, home)

    def of(label: int) -> float | None:
        changed = target.cpu().clone()
        changed[0] = label
        try:
            return loss_on(setup, scores, replace(batch, targets=(changed,)))
        except NotChecked:
            return None

    return of
