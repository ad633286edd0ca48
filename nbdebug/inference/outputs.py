"""Reduce the output of a model to one score per sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.setup.losses import named_logits
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.validation import describe_type

_Space = Literal["output", "logit", "probability", "log-probability"]
Target = int | str | Sequence[int]
OUTPUT_SPACES = ("logits", "probability")


def output_table(output: Any, rows: int, score: Callable[[Any], Any] | None = None) -> Tensor:
    """Convert a tensor, tuple, mapping or ModelOutput to samples × outputs; (N,) counts as (N, 1).

    Takes the logits if there is an entry of that name, else the first real-valued tensor with one row per sample.
    ``score`` replaces this. Raises SetupError for outputs that are not one row of scores per sample.
    """
    scores = score(output) if score is not None else _find_scores(output, rows)
    if not isinstance(scores, Tensor) or not scores.dim() or len(scores) != rows:
        actual = tuple(scores.shape) if isinstance(scores, Tensor) else describe_type(output)
        raise SetupError(f"the model gives {actual}; expected scores for {rows} samples. Pass score= to select them.")
    if scores.dim() > 2 and scores[0].numel() > scores.shape[1]:
        actual = tuple(scores.shape)
        raise SetupError(
            f"the model gives {actual}; expected samples × classes. Pass score=, as in lambda y: y.mean(2)."
        )
    return scores.reshape(rows, -1)


def _find_scores(output: Any, rows: int) -> Any:
    if isinstance(output, Tensor):
        return output
    logits = named_logits(output)
    if isinstance(logits, Tensor):
        return logits
    candidates = [
        tensor for tensor in tree_tensors(output) if tensor.is_floating_point() and tensor.dim() and len(tensor) == rows
    ]
    return candidates[0] if candidates else None


@dataclass(frozen=True)
class TargetScore:
    """The explained output column of each sample, and the transform of the outputs."""

    classes: Tensor
    space: _Space
    transform: Callable[[Tensor], Tensor]

    def select(self, outputs: Tensor, sample_indices: Tensor) -> Tensor:
        """Return the explained score of each row; ``sample_indices`` are the samples that the rows belong to."""
        return self.transform(outputs).gather(1, self.classes[sample_indices].unsqueeze(1)).squeeze(1)


def select_target_score(outputs: Tensor, target: Target, space: str, labels: Any = None) -> TargetScore:
    """Select the score to explain; raise SetupError for an unknown class."""
    if space not in OUTPUT_SPACES:
        raise SetupError(f"space is {space!r}; expected one of {', '.join(OUTPUT_SPACES)}. Choose one.")
    own_space = output_space(outputs)
    classes = target_columns(outputs, target, labels)
    if space == "logits" or own_space == "probability":
        return TargetScore(classes, own_space, lambda values: values)
    if own_space == "log-probability":
        return TargetScore(classes, "probability", torch.exp)
    is_single_output = outputs.shape[1] == 1
    return TargetScore(classes, "probability", torch.sigmoid if is_single_output else lambda values: values.softmax(1))


def output_space(outputs: Tensor) -> _Space:
    """Return the unit of the model's outputs; probabilities sum to 1."""
    if outputs.shape[1] == 1:
        return "output"
    detached = outputs.detach().double()
    for values, name in ((detached, "probability"), (detached.exp(), "log-probability")):
        if bool((values >= 0).all()) and torch.allclose(values.sum(1), torch.ones_like(values[:, 0]), atol=1e-4):
            return name  # type: ignore[return-value]
    return "logit"


def target_columns(outputs: Tensor, target: Target, labels: Any) -> Tensor:
    """Return the explained column of each sample."""
    rows, columns = outputs.shape
    if (isinstance(target, str) and target not in ("predicted", "true")) or isinstance(target, bool):
        raise SetupError(f"target is {target!r}; expected 'predicted', 'true' or a class. Choose one.")
    if columns == 1 and isinstance(target, str):
        return torch.zeros(rows, dtype=torch.long, device=outputs.device)
    if target == "predicted":
        return outputs.argmax(1)
    classes = true_classes(labels, rows) if isinstance(target, str) else target
    try:
        targets = torch.as_tensor(classes).to(outputs.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SetupError(f"target is {target!r}; expected 'predicted', 'true' or a class. Choose one.") from error
    if targets.is_floating_point() or targets.dim() > 1 or (targets.dim() == 1 and len(targets) != rows):
        actual = f"{str(targets.dtype).removeprefix('torch.')} {tuple(targets.shape)}"
        raise SetupError(f"target is {actual}; expected one class, or one for each of {rows} samples. Pass integers.")
    outside = (
        targets[(targets < 0) | (targets >= columns)]
        if targets.dim()
        else targets[None][(targets < 0) | (targets >= columns)]
    )
    if len(outside):
        valid_range = "0, its only output, whose positive sign means class 1" if columns == 1 else f"0 to {columns - 1}"
        raise SetupError(f"target is {int(outside[0])}; expected {valid_range}. Pass a class of the model.")
    return targets.long().expand(rows).contiguous()


def resolve_class_name(target: Any, names: Sequence[str] | None) -> Any:
    """Return the index of a class given by name; anything else unchanged."""
    if isinstance(target, str) and target not in ("predicted", "true") and target in (names or ()):
        return list(names or ()).index(target)
    return target


def true_classes(labels: Any, rows: int) -> Any:
    """Return the labels of the samples; raise SetupError if there are none."""
    if labels is None:
        raise SetupError("target is 'true' and labels is None; expected the labels. Pass labels=y.")
    labels = torch.as_tensor(labels)
    if labels.dim() == 2 and labels.shape[1] > 1:
        labels = labels.argmax(1)
    return labels.reshape(-1).long() if labels.numel() == rows else labels
