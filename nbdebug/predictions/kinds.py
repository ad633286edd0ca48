"""Which table the outputs of a model call for: by the task, the loss, and the shapes of output and target."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.predictions import made
from nbdebug.predictions.gathering import Gathering, Whole
from nbdebug.predictions.layouts import images_first, is_shifted, one_mask, shifted, token_layout
from nbdebug.predictions.losses import Each, each
from nbdebug.predictions.pixels import Pixels
from nbdebug.predictions.reconstruction import Differences
from nbdebug.predictions.tokens import Decode, Tokens
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import ignore_index, named
from nbdebug.setup.task import infer
from nbdebug.setup.unpack import TARGET_KEYS

OUTPUTS = 64  # of a regression; more of them are a map, of which only the error is kept

CUTS = {"bce": 0.5, "bce-with-logits": 0.0}


def gathering(setup: Setup, batch: Batch, output: Any, target: Any, rows: int | None, decode: Decode) -> Gathering:
    """The way to keep the batches of a set-up, known by its first one, which is of ``rows`` samples where known.

    Raises SetupError for outputs and targets that are of no table.
    """
    fit(output, target)
    kind = named(setup.loss_fn)
    task = (setup.task or infer(batch, output, kind)).name
    if not isinstance(target, Tensor):
        return Gathering(Whole(partial(made.classification, setup)))
    if task == "regression" or (target.is_floating_point() and task in ("reconstruction", "other")):
        return numbers(setup, output, target, task)
    found = bits(setup, output, target) if task in ("binary", "multi-label") else None
    return found or labels(setup, batch, output, target, rows, decode)


def target_of(batch: Batch) -> Any:
    """The target of a batch, also of one that the model is given to compute its own loss."""
    target = batch.target
    if target is None:
        return next((batch.kwargs[key] for key in TARGET_KEYS if key in batch.kwargs), None)
    return target


def fit(output: Any, target: Any) -> None:
    """Refuses an output that is no tensor, and a target that is neither a tensor nor texts."""
    if not isinstance(output, Tensor) or not output.dim():
        said = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        raise SetupError(f"the model gives {said}; expected a tensor with a row a sample. Pass predictions= yourself.")
    texts = isinstance(target, (list, tuple)) and bool(target) and all(isinstance(one, str) for one in target)
    if not texts and not (isinstance(target, Tensor) and target.dim()):
        said = type(target).__name__ if target is not None else "None"
        raise SetupError(f"the target is {said}; expected one tensor with a row a sample. Pass unpack=.")


def numbers(setup: Setup, output: Tensor, target: Tensor, task: str) -> Gathering:
    """Real numbers: a few a sample are kept, of more only how far they are off."""
    each_row = output[0].numel()
    if output.numel() != target.numel() or len(output) != len(target):
        raise refused(output, target)
    if task != "reconstruction" and each_row <= OUTPUTS:
        return Gathering(Whole(partial(made.regression, setup)))
    notes: tuple[str, ...] = ()
    if task != "reconstruction":
        notes = (f"outputs of {each_row} numbers are not kept, only how far they are off",)
    loss = torch_loss(setup)
    if loss is None and setup.loss_fn is not None:
        notes += (made.INSTEAD.format("the squared difference"),)
    return Gathering(Differences(loss, notes), lambda output, target: (output, target.view(output.shape)))


def bits(setup: Setup, output: Tensor, target: Tensor) -> Gathering | None:
    """Yes or no: for a sample, for each of its labels, or for each of its pixels; None where it is of more classes."""
    if len(output) == output.numel():
        return Gathering(Whole(partial(made.binary, setup)))
    if output.dim() == 2 and output.shape == target.shape:
        return Gathering(Whole(partial(made.multi_label, setup)))
    if output.dim() > 2 and one_mask(output).dim() == 3 and output.numel() == target.numel():
        return Gathering(pixels(setup, 2), lambda output, target: (one_mask(output), one_mask(target)))
    if target.is_floating_point():
        raise refused(output, target)
    return None


def labels(setup: Setup, batch: Batch, output: Tensor, target: Tensor, rows: int | None, decode: Decode) -> Gathering:
    """One class of several: for a sample, for each of its tokens, or for each of its pixels."""
    if output.dim() > 3:
        adapt = images_first(output, target)
        if adapt is None:
            raise refused(output, target)
        return Gathering(pixels(setup, None), adapt)
    if layout := token_layout(batch, output, target, rows, named(setup.loss_fn)):
        tokens = Tokens(setup.class_names, ignore_index(setup.loss_fn), decode=decode, loss=torch_loss(setup))
        return Gathering(tokens, shifted(layout) if is_shifted(setup, batch, target) else layout)
    if len(output) != len(target) or output.dim() > 2:
        raise refused(output, target)
    one = len(output) == output.numel()
    return Gathering(Whole(partial(made.binary if one else made.classification, setup)))


def pixels(setup: Setup, classes: int | None) -> Pixels:
    """Keeps what is to be known of masks."""
    ignored, cut = ignore_index(setup.loss_fn), CUTS.get(named(setup.loss_fn))
    return Pixels(setup.class_names, ignored, classes=classes, loss=torch_loss(setup), cut=cut)


def torch_loss(setup: Setup) -> Each | None:
    """The user's loss without its mean, where it is one of torch's."""
    return each(setup.loss_fn) if named(setup.loss_fn) != "other" else None


def refused(output: Tensor, target: Tensor) -> SetupError:
    """What is said of an output that is of no table."""
    return SetupError(
        f"the model gives {tuple(output.shape)} for targets {tuple(target.shape)}; expected scores of a class, a "
        "label, a number, a mask or tokens. Pass predictions= yourself."
    )
