"""Fixed samples measured in eval mode."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.measurements import Measurements
from nbdebug.measurements.forward_pass import find_judging_weights
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.setup.batch import Batch
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.setup.loaders import is_map_style
from nbdebug.setup.losses import get_loss_kind, ignore_index, score_tensor
from nbdebug.tensors.pytree import tree_map, tree_tensors

_MAX_SAMPLES, _MAX_VALUES, _MAX_BATCHES, _MIN_CHANCE_SHARE = 256, 2_000_000, 16, 1e-3
_PLANNED_SHARE, _PLANNED_GROWTH = 0.02, 1.4
_PASSES_PER_TRAINING_SAMPLE = 3  # a backward pass takes about twice as long as the forward pass
_MAX_LOSS_DIFFERENCE = 1e-4
_MAX_MERGED_SECONDS = 0.01  # of the pass of a batch; most of that of a small one is overhead of its calls
_MIN_TARGETS = 32  # if these are all
_CERTAIN_TARGETS = 5_000  # a class with a share of a thousandth is missing in one of 150 samples of this size
_MAX_TARGET_SECONDS = 0.2
_MIN_CLASS_SAMPLES = 5  # of a class, before its recall means anything
_JUDGED_GROUPS = 8  # of samples, whose losses show how much the loss of a group varies


@dataclass
class FixedSamples:
    """Fixed batches of each split, and the model's results on them.

    ``data_summary`` summarizes the data: label counts or target variance, and the loss of a constant prediction.
    ``has_judge`` tells whether another network in the loss judges the outputs, and the targets are real samples.
    ``last_seconds`` is the duration of the last measurement in seconds, ``total_seconds`` the total of all
    ``measurements``.
    """

    setup: Setup
    batches: dict[str, list[Batch]] = field(default_factory=dict)
    data_summary: dict[str, Any] = field(default_factory=dict)
    previous_predictions: dict[str, Tensor] = field(default_factory=dict)
    has_judge: bool = False
    last_seconds: float = 0.0
    total_seconds: float = 0.0
    measurements: int = 0
    error_message: str = ""

    @classmethod
    def from_setup(cls, setup: Setup) -> FixedSamples:
        """Return the fixed samples of a setup; empty if its loaders yield no batch that its model and loss accept."""
        samples = cls(setup)
        if "train" not in _loaders_by_split(setup):
            return samples
        try:
            with Preserve(*setup.mutable_objects, loaders=(setup.train_loader, setup.val_loader)):
                seed_all(0)  # the same samples in each run, whatever a trainer has drawn before
                samples.batches = {split: _collect_batches(setup, split) for split in _loaders_by_split(setup)}
                samples.data_summary = _describe_targets(samples.batches["train"], ignore_index(setup.loss_fn))
                are_equal = _have_equal_targets(samples.data_summary)
                samples.data_summary.update(_estimate_chance_loss(setup, are_equal))
                if are_equal and is_map_style(setup.train_loader):
                    samples.data_summary.update(_find_constant_target(setup))
                samples.batches = {split: _merge_batches(setup, parts) for split, parts in samples.batches.items()}
                samples.has_judge = _are_judged(setup, samples.batches["train"])
        except Exception as error:
            samples.error_message = f"{type(error).__name__}: {error}"
        return samples

    @property
    def unmeasured(self) -> str:
        """Why the samples were not measured; "" if they were."""
        return f"fixed samples ({self.error_message})" if self.error_message else ""

    def is_planned(self, step: int, previous_step: int) -> bool:
        """Return whether a measurement at the end of an epoch is planned, independently of the time it takes.

        Planned measurements follow each other at steps that grow by a factor of 1.4, and take at most 2% of the passes
        of the training so far, so that the rules that need them do not depend on the speed of the machine.
        """
        passes = sum(batch.size for batches in self.batches.values() for batch in batches) * (self.measurements + 1)
        training_passes = _PASSES_PER_TRAINING_SAMPLE * step * self.data_summary.get("batch_size", 0)
        return step >= _PLANNED_GROWTH * previous_step and passes <= _PLANNED_SHARE * training_passes

    def evaluate(self) -> dict[str, float]:
        """Return loss and score of each split, and the share of changed predictions; empty on failure."""
        if not self.batches or self.error_message:
            return {}
        started, row = time.perf_counter(), {}
        try:
            with Preserve(*self.setup.mutable_objects), in_mode(self.setup.eager_model, False), torch.no_grad():
                for split, batches in self.batches.items():
                    row.update(self.evaluate_split(split, batches))
        except Exception as error:
            self.error_message = f"{type(error).__name__}: {error}"
        self.last_seconds = time.perf_counter() - started
        self.total_seconds += self.last_seconds
        self.measurements += 1
        return row

    def evaluate_split(self, split: str, batches: list[Batch]) -> dict[str, float]:
        """Return the loss and the score of one split."""
        runs = [(self.setup.output_and_loss(batch), batch) for batch in batches]
        sizes = torch.tensor([float(max(batch.size, 1)) for batch in batches])
        losses = torch.tensor([float(loss) for (_, loss), _ in runs])
        row = {f"sample_{split}_loss": float((losses * sizes).sum() / sizes.sum())}
        if (
            score := self.compute_score(split, [(output, batch.target) for (output, _), batch in runs], row)
        ) is not None:
            row[f"sample_{split}_score"] = score
        if split == "train" and self.has_judge:
            row.update(self.judge([output for (output, _), _ in runs], batches))
        return row

    def judge(self, outputs: list[Tensor], batches: list[Batch]) -> dict[str, float]:
        """Return the losses of outputs and of real samples in their place, and by how many standard errors they differ.

        The difference is positive if the loss of the real samples is higher.
        """
        targets = [batch.target for batch in batches]
        generated, real = (
            torch.cat([_group_losses(self.setup, *pair) for pair in zip(samples, batches, strict=True)])
            for samples in (outputs, targets)
        )
        error = float(((generated.var() + real.var()) / len(real)).sqrt())
        difference = float(real.mean() - generated.mean())
        sigma = difference / error if error > 0 else 0.0
        return {"generated_loss": float(generated.mean()), "real_loss": float(real.mean()), "judged_sigma": sigma}

    def add_recall(
        self, split: str, classes: set[int], targets: Tensor, correct: Tensor, row: dict[str, float]
    ) -> None:
        """Add the lowest recall of the classes, if each of them occurs often enough to tell it."""
        counts = torch.bincount(targets, minlength=max(classes, default=0) + 1)
        if len(classes) > 1 and all(counts[label] >= _MIN_CLASS_SAMPLES for label in classes):
            hits = torch.bincount(targets, weights=correct.float(), minlength=len(counts))
            row[f"sample_{split}_recall"] = min(float(hits[label] / counts[label]) for label in classes)

    def compute_score(self, split: str, pairs: list[tuple[Any, Any]], row: dict[str, float]) -> float | None:
        """Return accuracy for classes and explained variance for real values; None for other tasks."""
        outputs = [score_tensor(output) for output, _ in pairs]
        targets = [target for _, target in pairs]
        if not all(isinstance(tensor, Tensor) for tensor in (*outputs, *targets)):
            return None
        loss_kind = get_loss_kind(self.setup.loss_fn)
        if loss_kind in ("cross-entropy", "nll") and not targets[0].is_floating_point():
            ignored = ignore_index(self.setup.loss_fn)
            targets = [target.long().masked_fill(target == ignored, -1) for target in targets]
            predictions = [_class_predictions(output, target) for output, target in zip(outputs, targets, strict=True)]
            predicted = torch.cat([tensor for tensor, _ in predictions])
            if split == "val" or "val" not in self.batches:
                previous = self.previous_predictions.get(split)
                row["sample_changed"] = float((predicted != previous).float().mean()) if previous is not None else 1.0
                self.previous_predictions[split] = predicted
            correct = torch.cat([correct for _, correct in predictions])
            labels = torch.cat([target[target >= 0].flatten() for target in targets])
            if len(labels) == len(correct):
                classes = {int(label) for label in self.data_summary.get("label_counts", ()) if label.isdigit()}
                self.add_recall(split, classes, labels, correct, row)
            return float(correct.float().mean())
        if loss_kind in ("bce", "bce-with-logits") and outputs[0].shape == targets[0].shape:
            threshold = 0.5 if loss_kind == "bce" else 0.0
            correct = torch.cat([((o > threshold) == (t > 0.5)).flatten() for o, t in _zip_pairs(outputs, targets)])
            if outputs[0].dim() == 1 or outputs[0].shape[1] == 1:
                labels = torch.cat([(target > 0.5).long().flatten() for target in targets])
                self.add_recall(split, {0, 1}, labels, correct, row)
            return float(correct.float().mean())
        if loss_kind in ("squared", "absolute") and outputs[0].shape == targets[0].shape:
            predicted, expected = (
                torch.cat([tensor.flatten() for tensor in tensors]).double() for tensors in (outputs, targets)
            )
            variance = float(((expected - expected.mean()) ** 2).mean())
            return 1 - float(((predicted - expected) ** 2).mean()) / variance if variance > 0 else None
        return None


def _zip_pairs(outputs: list[Tensor], targets: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    return list(zip(outputs, targets, strict=True))


def _class_predictions(output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the predicted classes and whether they are correct, without labels that are negative."""
    axis = 1 if output.dim() > 1 else 0
    predicted = output.argmax(axis)
    if predicted.shape != target.shape:
        return predicted.flatten(), torch.zeros(0)
    is_labeled = target >= 0
    return predicted[is_labeled], predicted[is_labeled] == target[is_labeled]


def _loaders_by_split(setup: Setup) -> dict[str, Any]:
    candidates = {"train": setup.train_loader, "val": setup.val_loader}
    return {split: loader for split, loader in candidates.items() if loader is not None and loader != ()}


def _collect_batches(setup: Setup, split: str) -> list[Batch]:
    """Return the first batches of a split, up to 256 samples and two million values; the last one is cut to fit."""
    batches: list[Batch] = []
    sample_count = value_count = 0
    for batch in setup.batches(_MAX_BATCHES, split):
        if setup.step_fn is None and sample_count + batch.size > _MAX_SAMPLES:
            batch = _take_first(batch, _MAX_SAMPLES - sample_count)
        batches.append(batch)
        sample_count += max(batch.size, 1)
        value_count += sum(tensor.numel() for tensor in _batch_tensors(batch))
        if sample_count >= _MAX_SAMPLES or value_count >= _MAX_VALUES:
            break
    return batches


def _take_first(batch: Batch, size: int) -> Batch:
    """Return the first samples of a batch, or the whole batch if its samples cannot be separated."""
    try:
        return batch.take_samples(range(size))
    except NotChecked:
        return batch


def _merge_batches(setup: Setup, batches: list[Batch]) -> list[Batch]:
    """Return the batches as one, which is faster, if it has the mean loss of the parts; else return them unchanged.

    On an accelerator they stay apart, since a larger batch may not fit into its memory; so do batches whose passes are
    so slow that they would not become faster, and may need much memory.
    """
    if (
        len(batches) == 1
        or setup.step_fn is not None
        or any(t.device.type != "cpu" for t in _batch_tensors(batches[0]))
    ):
        return batches
    try:
        merged = _concatenate_batches(batches)
        with in_mode(setup.eager_model, False), torch.no_grad():
            started = time.thread_time()
            losses = [float(setup.output_and_loss(batch)[1]) * batch.size for batch in batches]
            if time.thread_time() - started > _MAX_MERGED_SECONDS * len(batches):
                return batches
            merged_loss = float(setup.output_and_loss(merged)[1])
    except Exception:
        return batches
    mean_loss = sum(losses) / sum(batch.size for batch in batches)
    return [merged] if abs(merged_loss - mean_loss) <= _MAX_LOSS_DIFFERENCE * abs(mean_loss) else batches


def _concatenate_batches(batches: list[Batch]) -> Batch:
    """Concatenate all tensors of the batches along their first axis; raise an error if that is impossible."""
    columns = zip(*(tree_tensors((batch.args, batch.kwargs, batch.targets)) for batch in batches), strict=True)
    merged = iter([torch.cat(column) for column in columns])
    first = batches[0]
    args, kwargs, targets = tree_map(
        (first.args, first.kwargs, first.targets), lambda leaf: next(merged) if isinstance(leaf, Tensor) else leaf
    )
    return Batch(args, kwargs, targets)


def _batch_tensors(batch: Batch) -> list[Tensor]:
    return tree_tensors((batch.args, batch.kwargs, batch.targets))


def _are_judged(setup: Setup, batches: list[Batch]) -> bool:
    """Return whether another network judges the outputs, and the targets have their form.

    The targets are then real samples, as those that the critic of a generator compares with generated ones.
    """
    try:
        if not find_judging_weights(setup, Measurements(setup, budget="quick")["graph"]):
            return False
    except (NotChecked, SetupError):
        return False
    with in_mode(setup.eager_model, False), torch.no_grad():
        outputs = [setup.predict(batch) for batch in batches]
    return all(
        isinstance(output, Tensor)
        and isinstance(batch.target, Tensor)
        and output.is_floating_point()
        and output.shape == batch.target.shape
        for output, batch in zip(outputs, batches, strict=True)
    )


def _group_losses(setup: Setup, samples: Tensor, batch: Batch) -> Tensor:
    """Return the losses of groups of samples, as if the model had returned them."""
    groups = torch.arange(len(samples)).tensor_split(_JUDGED_GROUPS)
    return torch.stack([setup.loss(samples[rows], batch.take_samples(rows.tolist())) for rows in groups if len(rows)])


def _describe_targets(batches: list[Batch], ignored: int) -> dict[str, Any]:
    """Return the label counts without an index that the loss ignores, or the variance of real targets."""
    targets = [batch.target for batch in batches if isinstance(batch.target, Tensor)]
    size = {"batch_size": batches[0].size} if batches else {}
    if not targets:
        return size
    labels = torch.cat([target.flatten() for target in targets])
    if not labels.is_floating_point():
        labels = labels[labels != ignored]
        return {
            **size,
            "label_counts": {str(label): count for label, count in sorted(Counter(labels.tolist()).items())[:1000]},
        }
    return {**size, "target_variance": float(labels.double().var(unbiased=False))}


def _have_equal_targets(data_summary: Mapping[str, Any]) -> bool:
    """Return whether all targets are equal, as for a player in a game; a constant prediction is then perfect."""
    return data_summary.get("target_variance") == 0 or len(data_summary.get("label_counts", "ab")) < 2


def _find_constant_target(setup: Setup) -> dict[str, float]:
    """Return the value that all targets of training have, if so many of them can be read in time that it is certain."""
    deadline, count, constant = time.thread_time() + _MAX_TARGET_SECONDS, 0, None
    for batch in setup.batches(_CERTAIN_TARGETS, "train"):
        if not isinstance(batch.target, Tensor) or not batch.target.numel() or time.thread_time() > deadline:
            return {}
        first = float(batch.target.flatten()[0])
        if bool((batch.target != first).any()) or constant not in (None, first):
            return {}
        constant, count = first, count + batch.target.numel()
        if count >= _CERTAIN_TARGETS:
            break
    return {"constant_target": constant} if constant is not None and count >= _MIN_TARGETS else {}


def _estimate_chance_loss(setup: Setup, targets_are_equal: bool) -> dict[str, Any]:
    """Return the task and the lowest loss of one constant prediction, if targets differ."""
    evidence, estimates = Measurements(setup, budget="quick"), dict[str, Any]()
    with suppress(NotChecked, SetupError):
        estimates["task"] = evidence["task"].name
    with suppress(NotChecked, SetupError):
        constant_loss = evidence["constant_loss"].value
        # If a constant is nearly perfect (as for a generator), its loss is no reference. The initial loss may be huge.
        is_reference = constant_loss > _MIN_CHANCE_SHARE * min(abs(float(evidence["loss"].detach())), 1.0)
        if is_reference and not targets_are_equal:
            estimates["chance"] = constant_loss
            estimates["floor"] = evidence["loss_floor"]
    return estimates
