"""Infers the learning task from the loss and the targets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.setup.batch import Batch
from nbdebug.setup.losses import LossKind
from nbdebug.tensors.pytree import tree_tensors

_TASK_NAMES = ("classification", "binary", "multi-label", "regression", "language-model", "reconstruction", "other")
_TYPO_SIMILARITY = 0.85  # "multi-lable" is 0.91 similar to a known name, "masked-language-model" 0.8
# The field's words for a task, without spaces and hyphens.
_TASK_ALIASES = {
    **dict.fromkeys(("multiclass", "classifier", "singlelabel", "imageclassification"), "classification"),
    **dict.fromkeys(("textclassification", "sequenceclassification", "tokenclassification"), "classification"),
    **dict.fromkeys(("sequencelabeling", "sequencelabelling", "tagging", "ner", "postagging"), "classification"),
    **dict.fromkeys(("binaryclassification", "binaryclassifier"), "binary"),
    **dict.fromkeys(("multilabelclassification", "multilabelled", "multilabeled"), "multi-label"),
    **dict.fromkeys(("lm", "causallm", "clm", "languagemodeling", "languagemodelling"), "language-model"),
    **dict.fromkeys(("causallanguagemodeling", "causallanguagemodelling", "nexttokenprediction"), "language-model"),
    **dict.fromkeys(("regressor", "forecasting", "timeseriesforecasting"), "regression"),
    **dict.fromkeys(("autoencoder", "autoencoding", "denoising"), "reconstruction"),
    # Their losses and targets follow none of the other tasks.
    **dict.fromkeys(("multitask", "multihead", "multioutput", "ctc", "speechrecognition", "asr"), "other"),
    **dict.fromkeys(("gan", "vae", "diffusion", "contrastive", "metriclearning", "ranking"), "other"),
    **dict.fromkeys(("reinforcement", "reinforcementlearning", "rl", "detection", "objectdetection"), "other"),
    **dict.fromkeys(("seq2seq", "translation", "segmentation", "semanticsegmentation"), "other"),
}


@dataclass(frozen=True)
class LearningTask:
    """One of the task names, and the reason for it."""

    name: str
    reason: str

    def __str__(self) -> str:
        """Return the task with its reason, for display."""
        return f"{self.name} ({self.reason})"


def parse_task(name: str) -> LearningTask:
    """Return the task that a user named; custom names become "other", raises SetupError for a misspelled one."""
    normalized = "-".join(re.split(r"[\s_-]+", name.strip().lower()))
    by_letters = {**{task_name.replace("-", ""): task_name for task_name in _TASK_NAMES}, **_TASK_ALIASES}
    if known := by_letters.get(normalized.replace("-", "")):
        return LearningTask(known, "as given" if known != "other" else f"{name!r}, as given")
    completions = [task_name for task_name in _TASK_NAMES if normalized and task_name.startswith(normalized)]
    if suggestions := completions or get_close_matches(
        normalized, [*_TASK_NAMES, *_TASK_ALIASES], n=1, cutoff=_TYPO_SIMILARITY
    ):
        raise SetupError(
            f"task is {name!r}; expected one of {', '.join(_TASK_NAMES)}. Did you mean {suggestions[0]!r}?"
        )
    return LearningTask("other", f"{name!r}, as given")


def infer_task(batch: Batch, output: Any, kind: LossKind) -> LearningTask:
    """Infer the task from the targets and the loss, whose ``kind`` is known by its name or its graph."""
    target = next(iter(tree_tensors(batch.targets)), None)
    if target is None:
        return LearningTask("other", "no target tensor was found")
    scores = next((t for t in tree_tensors(output) if t.is_floating_point()), None)
    if _is_reconstruction(target, batch):
        return LearningTask("reconstruction", "the target is the input")
    if kind in ("cross-entropy", "nll"):
        return _infer_token_task(batch, target, kind)
    if kind in ("bce", "bce-with-logits"):
        outputs = scores.shape[1] if scores is not None and scores.dim() == 2 else 1
        return LearningTask("multi-label" if outputs > 1 else "binary", f"{kind} over {outputs} outputs")
    if kind in ("squared", "absolute"):
        return LearningTask("regression", f"{kind} error")
    return _infer_from_targets(target, scores)


def _is_reconstruction(target: Tensor, batch: Batch) -> bool:
    """Check whether the target equals one of the inputs."""
    inputs = tree_tensors(batch.unlabeled_inputs)
    candidates = (t for t in inputs if t.shape == target.shape and t.dtype == target.dtype)
    return any(t is target or torch.equal(t, target) for t in candidates)


def _infer_token_task(batch: Batch, target: Tensor, kind: LossKind) -> LearningTask:
    """Return language modeling for cross-entropy with one target token per input token, else classification."""
    inputs = tree_tensors(batch.unlabeled_inputs)
    is_of_tokens = any(not t.is_floating_point() and t.shape == target.shape for t in inputs)
    if target.dim() > 1 and is_of_tokens:
        return LearningTask("language-model", f"{kind}, a token for each token")
    return LearningTask("classification", kind)


def _infer_from_targets(target: Tensor, scores: Tensor | None) -> LearningTask:
    """Infer the task from the target values alone, for a custom loss."""
    if not target.is_floating_point():
        has_class_axis = scores is not None and scores.dim() > target.dim() and scores.shape[-1] > 1
        return LearningTask("classification" if has_class_axis else "other", "integer targets")
    if bool(((target == 0) | (target == 1)).all()):
        has_class_axis = target.dim() == 2 and target.shape[1] > 1
        one_hot = has_class_axis and bool((target.sum(1) == 1).all())
        return LearningTask(
            "classification" if one_hot else "multi-label" if has_class_axis else "binary", "targets of 0 and 1"
        )
    return LearningTask("regression", "real-valued targets")
