"""Which of torch's losses a callable is."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast

from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.setup.trees import tensors

# What gather, indexing and one_hot say of a class that the scores do not have.
OUTSIDE = re.compile(r"index -?\d+ is out of bounds for dimension \d+ with size \d+|Class values must be")
Kind = Literal["cross-entropy", "nll", "bce", "bce-with-logits", "squared", "absolute", "other"]

MODULES: dict[type[nn.Module], Kind] = {
    nn.CrossEntropyLoss: "cross-entropy",
    nn.NLLLoss: "nll",
    nn.BCELoss: "bce",
    nn.BCEWithLogitsLoss: "bce-with-logits",
    nn.MultiLabelSoftMarginLoss: "bce-with-logits",
    nn.MSELoss: "squared",
    nn.L1Loss: "absolute",
    nn.SmoothL1Loss: "absolute",
    nn.HuberLoss: "absolute",
}
FUNCTIONS: dict[Callable[..., Any], Kind] = {
    F.cross_entropy: "cross-entropy",
    F.nll_loss: "nll",
    F.binary_cross_entropy: "bce",
    F.binary_cross_entropy_with_logits: "bce-with-logits",
    F.multilabel_soft_margin_loss: "bce-with-logits",
    F.mse_loss: "squared",
    F.l1_loss: "absolute",
    F.smooth_l1_loss: "absolute",
    F.huber_loss: "absolute",
}
NODES: dict[str, Kind] = {
    "NllLoss": "cross-entropy",
    "NllLoss2D": "cross-entropy",
    "BinaryCrossEntropy": "bce",
    "BinaryCrossEntropyWithLogits": "bce-with-logits",
    "MseLoss": "squared",
    "L1Loss": "absolute",
    "SmoothL1Loss": "absolute",
    "HuberLoss": "absolute",
}


def named(loss_fn: Any) -> Kind:
    """The kind of a loss that is torch's own, also under ``functools.partial``; "other" for the user's own."""
    while isinstance(loss_fn, partial):
        loss_fn = loss_fn.func
    if isinstance(loss_fn, nn.Module):
        return next((kind for known, kind in MODULES.items() if type(loss_fn) is known), "other")
    try:
        return FUNCTIONS.get(loss_fn, "other")
    except TypeError:
        return "other"


def raised_in(error: BaseException | None) -> Kind:
    """The kind of the torch loss that an exception came out of; cross-entropy where a class index was out of range."""
    known = {function.__name__: kind for function, kind in FUNCTIONS.items()}
    trace, kind = error.__traceback__ if error else None, "cross-entropy" if OUTSIDE.search(str(error)) else "other"
    while trace is not None:
        kind = known.get(trace.tb_frame.f_code.co_name, kind)
        trace = trace.tb_next
    return cast(Kind, kind)


def ignore_index(loss_fn: Any) -> int:
    """The label that the loss leaves out, -100 unless it was set."""
    if isinstance(loss_fn, partial):
        return int(loss_fn.keywords.get("ignore_index", -100))
    return int(getattr(loss_fn, "ignore_index", -100))


def met(kind: Kind, output: Any, targets: tuple[Any, ...]) -> tuple[Any, ...]:
    """Targets as a loop must hand them to a binary cross-entropy: floats, of the shape of the output, (N, 1) for (N,).

    Torch refuses anything else, so that a loop which runs reshapes one of the two itself.
    """
    if kind not in ("bce", "bce-with-logits") or not isinstance(output, Tensor) or len(targets) != 1:
        return targets
    target = targets[0]
    if not isinstance(target, Tensor) or not same_but_for_ones(output, target):
        return targets
    return (target.reshape(output.shape).to(output.dtype),)


def same_but_for_ones(one: Tensor, other: Tensor) -> bool:
    """Whether two shapes differ in axes of length one alone."""
    return [size for size in one.shape if size > 1] == [size for size in other.shape if size > 1]


def scores(output: Any) -> Any:
    """The tensor that one of torch's own losses takes: the output, its ``logits``, or its first tensor."""
    if isinstance(output, Tensor):
        return output
    logits = getattr(output, "logits", None)
    return logits if logits is not None else next(iter(tensors(output)), output)
