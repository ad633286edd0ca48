"""A fixed sample of each split, measured in eval mode now and then: how the model does, without the user's help."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nbdebug.evidence import Evidence
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.preserve import Preserve
from nbdebug.setup import Setup
from nbdebug.setup.batch import Batch
from nbdebug.setup.losses import named, scores
from nbdebug.setup.modes import in_mode

MOST_SAMPLES, MOST_VALUES, MOST_BATCHES, LEAST_CHANCE = 256, 2_000_000, 16, 1e-3


@dataclass
class Fixed:
    """Some batches of each split, and what the model says of them.

    ``about`` tells of the data: label counts or the variance of the targets, and the loss of a constant guess.
    ``cost`` is what the last measurement took, in seconds, ``spent`` what all of them did.
    """

    setup: Setup
    batches: dict[str, list[Batch]] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, Tensor] = field(default_factory=dict)
    cost: float = 0.0
    spent: float = 0.0
    trouble: str = ""

    @classmethod
    def of(cls, setup: Setup) -> Fixed:
        """The fixed samples of a set-up; without any where its loaders give none that its model and loss can take."""
        found = cls(setup)
        if "train" not in loaders(setup):
            return found
        try:
            with Preserve(*setup.owned, loaders=(setup.train_loader, setup.val_loader)):
                found.batches = {split: drawn(setup, split) for split in loaders(setup)}
                found.about = {**facts(found.batches["train"]), **chance(setup, found.batches["train"])}
        except Exception as error:
            found.trouble = f"{type(error).__name__}: {error}"
        return found

    def measured(self) -> dict[str, float]:
        """Loss and score of each split, and the share of its predictions that have changed; nothing where it fails."""
        if not self.batches or self.trouble:
            return {}
        begun, row = time.perf_counter(), {}
        try:
            with Preserve(*self.setup.owned), in_mode(self.setup.eager, False), torch.no_grad():
                for split, several in self.batches.items():
                    row.update(self.of_split(split, several))
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"
        self.cost = time.perf_counter() - begun
        self.spent += self.cost
        return row

    def of_split(self, split: str, several: list[Batch]) -> dict[str, float]:
        """Loss and score of one split."""
        runs = [(self.setup.run(one), one) for one in several]
        sizes = torch.tensor([float(max(one.size, 1)) for one in several])
        losses = torch.tensor([float(loss) for (_, loss), _ in runs])
        row = {f"sample_{split}_loss": float((losses * sizes).sum() / sizes.sum())}
        if (score := self.score(split, [(output, one.target) for (output, _), one in runs], row)) is not None:
            row[f"sample_{split}_score"] = score
        return row

    def score(self, split: str, pairs: list[tuple[Any, Any]], row: dict[str, float]) -> float | None:
        """Accuracy for classes, explained variance for real values; None for what is neither."""
        outputs = [scores(output) for output, _ in pairs]
        targets = [target for _, target in pairs]
        if not all(isinstance(one, Tensor) for one in (*outputs, *targets)):
            return None
        kind = named(self.setup.loss_fn)
        if kind in ("cross-entropy", "nll") and not targets[0].is_floating_point():
            right = [answer(output, target) for output, target in zip(outputs, targets, strict=True)]
            said = torch.cat([one for one, _ in right])
            if split == "val" or "val" not in self.batches:
                before = self.answers.get(split)
                row["sample_changed"] = float((said != before).float().mean()) if before is not None else 1.0
                self.answers[split] = said
            return float(torch.cat([hit for _, hit in right]).float().mean())
        if kind in ("bce", "bce-with-logits") and outputs[0].shape == targets[0].shape:
            middle = 0.5 if kind == "bce" else 0.0
            return float(
                torch.cat([((o > middle) == (t > 0.5)).flatten() for o, t in pairs_of(outputs, targets)]).float().mean()
            )
        if kind in ("squared", "absolute") and outputs[0].shape == targets[0].shape:
            said, true = (torch.cat([one.flatten() for one in many]).double() for many in (outputs, targets))
            spread = float(((true - true.mean()) ** 2).mean())
            return 1 - float(((said - true) ** 2).mean()) / spread if spread > 0 else None
        return None


def pairs_of(outputs: list[Tensor], targets: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Outputs with their targets."""
    return list(zip(outputs, targets, strict=True))


def answer(output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The predicted classes and whether they are right, leaving out labels that are negative."""
    axis = 1 if output.dim() > 1 else 0
    said = output.argmax(axis)
    if said.shape != target.shape:
        return said.flatten(), torch.zeros(0)
    counts = target >= 0
    return said[counts], said[counts] == target[counts]


def loaders(setup: Setup) -> dict[str, Any]:
    """The loaders that there are, by split."""
    given = {"train": setup.train_loader, "val": setup.val_loader}
    return {split: one for split, one in given.items() if one is not None and one != ()}


def drawn(setup: Setup, split: str) -> list[Batch]:
    """The first batches of a split, up to 256 samples and two million values; the last one is cut to fit."""
    found: list[Batch] = []
    samples = values = 0
    for batch in setup.batches(MOST_BATCHES, split):
        if setup.step_fn is None and samples + batch.size > MOST_SAMPLES:
            batch = shortened(batch, MOST_SAMPLES - samples)
        found.append(batch)
        samples += max(batch.size, 1)
        values += sum(one.numel() for one in tensors_of(batch))
        if samples >= MOST_SAMPLES or values >= MOST_VALUES:
            break
    return found


def shortened(batch: Batch, size: int) -> Batch:
    """The first samples of a batch; all of it where they cannot be told apart."""
    try:
        return batch.take(range(size))
    except NotChecked:
        return batch


def tensors_of(batch: Batch) -> list[Tensor]:
    """All tensors of a batch."""
    from nbdebug.setup.trees import tensors

    return tensors((batch.args, batch.kwargs, batch.targets))


def facts(several: list[Batch]) -> dict[str, Any]:
    """How often each label comes up, or how the targets spread."""
    targets = [one.target for one in several if isinstance(one.target, Tensor)]
    size = {"batch_size": several[0].size} if several else {}
    if not targets:
        return size
    whole = torch.cat([one.flatten() for one in targets])
    if not whole.is_floating_point():
        return {
            **size,
            "label_counts": {str(label): count for label, count in sorted(Counter(whole.tolist()).items())[:1000]},
        }
    return {**size, "target_variance": float(whole.double().var(unbiased=False))}


def chance(setup: Setup, several: list[Batch]) -> dict[str, Any]:
    """The task, and what a constant guess of the label frequencies gets under the user's own loss.

    That is measured on the first batch, and corrected by how much more the labels of all batches differ.
    """
    evidence, found = Evidence(setup, budget="quick"), dict[str, Any]()
    with suppress(NotChecked, SetupError):
        found["task"] = evidence["task"].name
    with suppress(NotChecked, SetupError):
        expected = evidence["expected_loss"]
        more = entropy(several) - entropy(several[:1]) if expected.classes > 2 else 0.0
        # Where all targets are the same, as those of a player in a game, a constant guess has nothing to say.
        if expected.prior + more > LEAST_CHANCE * expected.uniform:
            found["chance"] = expected.prior + more
    return found


def entropy(several: list[Batch]) -> float:
    """The entropy of the labels in nats; 0 where they are no classes. Corrected for few by Miller and Madow (1955)."""
    labels = torch.cat([one.target.flatten() for one in several])
    if labels.is_floating_point():
        return 0.0
    counts = torch.bincount(labels[labels >= 0]).double()
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * shares.log()).sum() + (len(shares) - 1) / (2 * counts.sum()))
