"""What the model is to learn, inferred from loss and targets."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.setup.batch import Batch
from nbdebug.setup.losses import Kind
from nbdebug.setup.trees import tensors

TASKS = ("classification", "binary", "multi-label", "regression", "language-model", "reconstruction", "other")
ALIASES = {
    "multiclass": "classification",
    "multi-class": "classification",
    "multilabel": "multi-label",
    "lm": "language-model",
    "autoencoder": "reconstruction",
}


@dataclass(frozen=True)
class Task:
    """One of ``TASKS``, and how it is known."""

    name: str
    reason: str

    def __str__(self) -> str:
        """The task with its reason, as it is shown to the user."""
        return f"{self.name} ({self.reason})"


def given(name: str) -> Task:
    """The task a user named; one of a kind of their own counts as "other", a misspelled one is refused."""
    plain = name.lower().replace("_", "-").replace(" ", "-")
    plain = ALIASES.get(plain, plain)
    if plain in TASKS:
        return Task(plain, "as given")
    begun = [one for one in TASKS if plain and one.startswith(plain)]
    if close := begun or get_close_matches(plain, [*TASKS, *ALIASES], n=1, cutoff=0.75):
        raise SetupError(f"task is {name!r}; expected one of {', '.join(TASKS)}. Did you mean {close[0]!r}?")
    return Task("other", f"{name!r}, as given")


def infer(batch: Batch, output: Any, kind: Kind) -> Task:
    """The task that loss and targets point to; ``kind`` is that of the loss, by its name or by its graph."""
    target = next(iter(tensors(batch.targets)), None)
    if target is None:
        return Task("other", "no target tensor was found")
    scores = next((t for t in tensors(output) if t.is_floating_point()), None)
    if same_values(target, batch):
        return Task("reconstruction", "the target is the input")
    if kind in ("cross-entropy", "nll"):
        return predicted_tokens(batch, target, kind)
    if kind in ("bce", "bce-with-logits"):
        outputs = scores.shape[1] if scores is not None and scores.dim() == 2 else 1
        return Task("multi-label" if outputs > 1 else "binary", f"{kind} over {outputs} outputs")
    if kind in ("squared", "absolute"):
        return Task("regression", f"{kind} error")
    return by_values(target, scores)


def same_values(target: Tensor, batch: Batch) -> bool:
    """Whether the target is one of the inputs over again."""
    inputs = tensors((batch.args, batch.kwargs))
    alike = (t for t in inputs if t.shape == target.shape and t.dtype == target.dtype)
    return any(t is target or torch.equal(t, target) for t in alike)


def predicted_tokens(batch: Batch, target: Tensor, kind: Kind) -> Task:
    """Cross-entropy of a sequence of tokens given a sequence of tokens is a language model."""
    inputs = tensors((batch.args, batch.kwargs))
    if target.dim() > 1 and any(not t.is_floating_point() and t.shape == target.shape for t in inputs):
        return Task("language-model", f"{kind}, a token for each token")
    return Task("classification", kind)


def by_values(target: Tensor, scores: Tensor | None) -> Task:
    """The task by the look of the targets alone, for a loss of the user's own."""
    if not target.is_floating_point():
        wide = scores is not None and scores.dim() > target.dim() and scores.shape[-1] > 1
        return Task("classification" if wide else "other", "integer targets")
    if bool(((target == 0) | (target == 1)).all()):
        wide = target.dim() == 2 and target.shape[1] > 1
        one_hot = wide and bool((target.sum(1) == 1).all())
        return Task("classification" if one_hot else "multi-label" if wide else "binary", "targets of 0 and 1")
    return Task("regression", "real-valued targets")
