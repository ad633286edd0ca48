"""Choice of the table that fits the outputs, by task, loss and shapes."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.options import Decode
from nbdebug.predictions import accumulators
from nbdebug.predictions.accumulators import Adapt, BatchCollector, OutputAccumulator, keep_layout
from nbdebug.predictions.regression import DifferenceAccumulator
from nbdebug.predictions.sample_losses import UnreducedLoss, get_unreduced_loss
from nbdebug.predictions.segmentation import MaskAccumulator
from nbdebug.predictions.sequences import TokenAccumulator
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import LossKind, get_loss_kind, ignore_index
from nbdebug.setup.task import infer_task
from nbdebug.tensors.pytree import tree_tensors

_MAX_STORED_OUTPUTS = 64  # maximum outputs of a regression; of larger outputs only the error is stored
_SCORE_THRESHOLDS = {"bce": 0.5, "bce-with-logits": 0.0}


def _get_token_layout(
    batch: Batch, output: Tensor, target: Tensor, rows: int | None, loss_kind: LossKind
) -> Adapt | None:
    """Return a conversion of scores to sequences × tokens × classes; None if they are not of tokens.

    If the numbers of classes and tokens are equal, torch's own losses decide: their classes are on axis 1.
    """
    if output.dim() == 2 and output.shape != target.shape and output.shape[1] > 1:
        return _get_flat_token_layout(batch, output, target)
    if output.dim() != 3 or target.dim() != 2:
        return None
    classes_last, classes_middle = (
        output.shape[:2] == target.shape,
        (output.shape[0], output.shape[2]) == tuple(target.shape),
    )
    if classes_middle and (not classes_last or loss_kind in ("cross-entropy", "nll")):
        return lambda output, target: (output.transpose(1, 2), target)
    if not classes_last:
        return None
    if rows is not None and target.shape[0] != rows == target.shape[1]:
        return lambda output, target: (output.transpose(0, 1), target.transpose(0, 1))
    return keep_layout


def _get_flat_token_layout(batch: Batch, output: Tensor, target: Tensor) -> Adapt | None:
    """Return a conversion of flattened scores back to sequences; None if they were not flattened."""
    if target.dim() == 2 and target.numel() == len(output) and target.shape[1] > 1:
        return lambda output, target: (output.view(*target.shape, -1), target)
    inputs = next((leaf for leaf in tree_tensors((batch.args, batch.kwargs)) if leaf.dim() > 1), None)
    if inputs is None or target.dim() != 1 or len(target) != len(output):
        return None
    count, steps = inputs.shape[:2]
    if count * steps != len(output) or steps < 2:
        return None
    return lambda output, target: (output.view(-1, steps, output.shape[-1]), target.view(-1, steps))


def _predicts_next_token(setup: Setup, batch: Batch, target: Tensor) -> bool:
    """Return whether a model that computes its own loss receives its input as target: next-token prediction."""
    if setup.loss_fn is not None:
        return False
    same_shape = (
        leaf for leaf in tree_tensors((batch.args, batch.kwargs)) if leaf.shape == target.shape and leaf is not target
    )
    return any(not leaf.is_floating_point() and bool(((leaf == target) | (target < 0)).all()) for leaf in same_shape)


def _shift_targets(layout: Adapt) -> Adapt:
    """Return the layout with the scores of each token compared with the next token."""

    def adapt(output: Any, target: Any) -> tuple[Any, Any]:
        output, target = layout(output, target)
        return output[:, :-1], target[:, 1:]

    return adapt


def _get_mask_layout(output: Tensor, target: Tensor) -> Adapt | None:
    """Return a conversion of scores to images × classes × height × width; slices of volumes are stacked."""
    squeezed = target.squeeze(1) if target.dim() == output.dim() and target.shape[1] == 1 else target
    if output.shape == target.shape or (output.shape[0], *output.shape[2:]) == tuple(squeezed.shape):
        return lambda output, target: (_stack_volume_slices(output), _stack_target_slices(target, output))
    if output.shape[:-1] == target.shape:
        return lambda output, target: (
            _stack_volume_slices(output.movedim(-1, 1)),
            _stack_target_slices(target, output),
        )
    return None


def _stack_volume_slices(output: Tensor) -> Tensor:
    """Return scores of a volume as those of one tall image."""
    return output.flatten(2, -2) if output.dim() > 4 else output


def _stack_target_slices(target: Tensor, output: Tensor) -> Tensor:
    """Return the matching masks, also for soft targets and those with an axis of size one."""
    if target.dim() == output.dim():
        target = target.argmax(1) if target.shape[1] > 1 else target.squeeze(1)
    return target.flatten(1, -2) if target.dim() > 3 else target


def _squeeze_single_mask(values: Tensor) -> Tensor:
    """Return images × height × width if there is one mask per image, else the values unchanged."""
    flat = values.squeeze(1) if values.dim() > 3 and values.shape[1] == 1 else values
    return flat.flatten(1, -2) if flat.dim() == 4 and values.dim() == 5 else flat


def choose_collector(
    setup: Setup, batch: Batch, output: Any, target: Any, rows: int | None, decode: Decode
) -> BatchCollector:
    """Return the collector for the outputs, chosen from the first batch with ``rows`` samples, if known.

    Raises SetupError for outputs and targets that fit no table.
    """
    _check_output_and_target(output, target)
    loss_kind = get_loss_kind(setup.loss_fn)
    task = (setup.task or infer_task(batch, output, loss_kind)).name
    if not isinstance(target, Tensor):
        return BatchCollector(OutputAccumulator(partial(accumulators.make_classification_table, setup)))
    if task == "regression" or (target.is_floating_point() and task in ("reconstruction", "other")):
        return _collect_numbers(setup, output, target, task)
    collector = _collect_binary(setup, output, target) if task in ("binary", "multi-label") else None
    return collector or _collect_labels(setup, batch, output, target, rows, decode)


def _check_output_and_target(output: Any, target: Any) -> None:
    """Raise SetupError for an output that is no tensor, and a target that is neither a tensor nor texts."""
    if not isinstance(output, Tensor) or not output.dim():
        received = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise SetupError(
            f"the model returns {received}; expected a tensor with one row per sample. Pass predictions= yourself."
        )
    is_text = isinstance(target, (list, tuple)) and bool(target) and all(isinstance(label, str) for label in target)
    if not is_text and not (isinstance(target, Tensor) and target.dim()):
        received = type(target).__name__ if target is not None else "None"
        raise SetupError(f"the target is {received}; expected one tensor with one row per sample. Pass unpack=.")


def _collect_numbers(setup: Setup, output: Tensor, target: Tensor, task: str) -> BatchCollector:
    """Return the collector of real numbers: whole outputs if they are small, else only their errors."""
    outputs_per_row = output[0].numel()
    if output.numel() != target.numel() or len(output) != len(target):
        raise _unsupported_output_error(output, target)
    if task != "reconstruction" and outputs_per_row <= _MAX_STORED_OUTPUTS:
        return BatchCollector(OutputAccumulator(partial(accumulators.make_regression_table, setup)))
    notes: tuple[str, ...] = ()
    if task != "reconstruction":
        notes = (f"outputs of {outputs_per_row} numbers are not stored, only their errors",)
    loss = _get_torch_loss(setup)
    if loss is None and setup.loss_fn is not None:
        notes += (accumulators.LOSS_NOTE.format("the squared difference"),)
    return BatchCollector(
        DifferenceAccumulator(loss, notes), lambda output, target: (output, target.view(output.shape))
    )


def _collect_binary(setup: Setup, output: Tensor, target: Tensor) -> BatchCollector | None:
    """Return the collector of binary outputs per sample, label or pixel; None if there are more classes."""
    if len(output) == output.numel():
        return BatchCollector(OutputAccumulator(partial(accumulators.make_binary_table, setup)))
    if output.dim() == 2 and output.shape == target.shape:
        return BatchCollector(OutputAccumulator(partial(accumulators.make_multilabel_table, setup)))
    if output.dim() > 2 and _squeeze_single_mask(output).dim() == 3 and output.numel() == target.numel():
        return BatchCollector(
            _make_mask_accumulator(setup, 2),
            lambda output, target: (_squeeze_single_mask(output), _squeeze_single_mask(target)),
        )
    if target.is_floating_point():
        raise _unsupported_output_error(output, target)
    return None


def _collect_labels(
    setup: Setup, batch: Batch, output: Tensor, target: Tensor, rows: int | None, decode: Decode
) -> BatchCollector:
    """Return the collector of class labels per sample, token or pixel."""
    if output.dim() > 3:
        adapt = _get_mask_layout(output, target)
        if adapt is None:
            raise _unsupported_output_error(output, target)
        return BatchCollector(_make_mask_accumulator(setup, None), adapt)
    if layout := _get_token_layout(batch, output, target, rows, get_loss_kind(setup.loss_fn)):
        tokens = TokenAccumulator(
            setup.class_names, ignore_index(setup.loss_fn), decode=decode, loss=_get_torch_loss(setup)
        )
        return BatchCollector(tokens, _shift_targets(layout) if _predicts_next_token(setup, batch, target) else layout)
    if len(output) != len(target) or output.dim() > 2:
        raise _unsupported_output_error(output, target)
    is_binary = len(output) == output.numel()
    return BatchCollector(
        OutputAccumulator(
            partial(accumulators.make_binary_table if is_binary else accumulators.make_classification_table, setup)
        )
    )


def _make_mask_accumulator(setup: Setup, classes: int | None) -> MaskAccumulator:
    ignored_label, threshold = ignore_index(setup.loss_fn), _SCORE_THRESHOLDS.get(get_loss_kind(setup.loss_fn))
    return MaskAccumulator(
        setup.class_names, ignored_label, classes=classes, loss=_get_torch_loss(setup), threshold=threshold
    )


def _get_torch_loss(setup: Setup) -> UnreducedLoss | None:
    """Return the user's loss without reduction if it is one of torch's."""
    return get_unreduced_loss(setup.loss_fn) if get_loss_kind(setup.loss_fn) != "other" else None


def _unsupported_output_error(output: Tensor, target: Tensor) -> SetupError:
    """Return the error for an output that fits no table."""
    return SetupError(
        f"the model returns shape {tuple(output.shape)} for targets {tuple(target.shape)}; expected scores of "
        "classes or labels, numbers, masks or tokens. Pass predictions= yourself."
    )
