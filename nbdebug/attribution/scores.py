"""One number a sample out of whatever a model gives: which output is explained, and in which unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.setup.trees import tensors

Space = Literal["output", "logit", "probability", "log-probability"]
Target = int | str | Sequence[int]
SPACES = ("logits", "probability")


def table(output: Any, rows: int, score: Callable[[Any], Any] | None = None) -> Tensor:
    """Samples × outputs from a tensor, a tuple, a mapping or a ModelOutput; (N,) counts as (N, 1).

    The logits are taken where something has that name, else the first real-valued tensor with a row for each sample.
    ``score`` replaces this. Raises SetupError for outputs that are not one row of scores a sample.
    """
    found = score(output) if score is not None else picked(output, rows)
    if not isinstance(found, Tensor) or not found.dim() or len(found) != rows:
        said = tuple(found.shape) if isinstance(found, Tensor) else f"a {type(output).__name__}"
        raise SetupError(f"the model gives {said}; expected scores for {rows} samples. Pass score= to pick them.")
    if found.dim() > 2 and found[0].numel() > found.shape[1]:
        said = tuple(found.shape)
        raise SetupError(f"the model gives {said}; expected samples × classes. Pass score=, as in lambda y: y.mean(2).")
    return found.reshape(rows, -1)


def picked(output: Any, rows: int) -> Any:
    """The tensor of scores in an output."""
    if isinstance(output, Tensor):
        return output
    logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    if isinstance(logits, Tensor):
        return logits
    fits = [one for one in tensors(output) if one.is_floating_point() and one.dim() and len(one) == rows]
    return fits[0] if fits else None


@dataclass(frozen=True)
class Scored:
    """Which column of the outputs is explained, for each sample, and what is done to it first."""

    classes: Tensor
    space: Space
    change: Callable[[Tensor], Tensor]

    def of(self, outputs: Tensor, owners: Tensor) -> Tensor:
        """The explained number of each row; ``owners`` are the samples whose class is meant."""
        return self.change(outputs).gather(1, self.classes[owners].unsqueeze(1)).squeeze(1)


def scored(outputs: Tensor, target: Target, space: str, labels: Any = None) -> Scored:
    """How the outputs of the samples are read; raises SetupError for a class that there is not."""
    if space not in SPACES:
        raise SetupError(f"space is {space!r}; expected one of {', '.join(SPACES)}. Choose one.")
    own = unit(outputs)
    classes = chosen(outputs, target, labels)
    if space == "logits" or own == "probability":
        return Scored(classes, own, lambda given: given)
    if own == "log-probability":
        return Scored(classes, "probability", torch.exp)
    one = outputs.shape[1] == 1
    return Scored(classes, "probability", torch.sigmoid if one else lambda given: given.softmax(1))


def unit(outputs: Tensor) -> Space:
    """What the model's own outputs are: probabilities add up to 1."""
    if outputs.shape[1] == 1:
        return "output"
    given = outputs.detach().double()
    for values, name in ((given, "probability"), (given.exp(), "log-probability")):
        if bool((values >= 0).all()) and torch.allclose(values.sum(1), torch.ones_like(values[:, 0]), atol=1e-4):
            return name  # type: ignore[return-value]
    return "logit"


def chosen(outputs: Tensor, target: Target, labels: Any) -> Tensor:
    """The column of each sample that is explained."""
    rows, columns = outputs.shape
    if (isinstance(target, str) and target not in ("predicted", "true")) or isinstance(target, bool):
        raise SetupError(f"target is {target!r}; expected 'predicted', 'true' or a class. Choose one.")
    if columns == 1 and isinstance(target, str):
        return torch.zeros(rows, dtype=torch.long, device=outputs.device)
    if target == "predicted":
        return outputs.argmax(1)
    given = true_classes(labels, rows) if isinstance(target, str) else target
    try:
        found = torch.as_tensor(given).to(outputs.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SetupError(f"target is {target!r}; expected 'predicted', 'true' or a class. Choose one.") from error
    if found.is_floating_point() or found.dim() > 1 or (found.dim() == 1 and len(found) != rows):
        said = f"{str(found.dtype).removeprefix('torch.')} {tuple(found.shape)}"
        raise SetupError(f"target is {said}; expected one class, or one for each of {rows} samples. Pass integers.")
    outside = found[(found < 0) | (found >= columns)] if found.dim() else found[None][(found < 0) | (found >= columns)]
    if len(outside):
        last = "0, its one output, whose sign speaks for class 1" if columns == 1 else f"0 to {columns - 1}"
        raise SetupError(f"target is {int(outside[0])}; expected {last}. Pass a class that the model has.")
    return found.long().expand(rows).contiguous()


def by_name(target: Any, names: Sequence[str] | None) -> Any:
    """The number of a class that is given by its name; anything else as it is."""
    if isinstance(target, str) and target not in ("predicted", "true") and target in (names or ()):
        return list(names or ()).index(target)
    return target


def true_classes(labels: Any, rows: int) -> Any:
    """The labels of the samples; raises SetupError where there are none."""
    if labels is None:
        raise SetupError("target is 'true' and labels is None; expected the labels. Pass labels=y.")
    labels = torch.as_tensor(labels)
    if labels.dim() == 2 and labels.shape[1] > 1:
        labels = labels.argmax(1)
    return labels.reshape(-1).long() if labels.numel() == rows else labels
