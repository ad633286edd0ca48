"""Recognizes torch's own losses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.tensors.pytree import tree_tensors

# Messages of gather, indexing and one_hot for a class index that the scores do not have.
_CLASS_OUT_OF_RANGE = re.compile(r"index -?\d+ is out of bounds for dimension \d+ with size \d+|Class values must be")
_MAX_LOSS_DIFFERENCE = 1e-3  # relative; single precision and a different order of sums
LossKind = Literal["cross-entropy", "nll", "bce", "bce-with-logits", "squared", "absolute", "other"]
_PARAMETER_CONTAINERS = (nn.ParameterList, nn.ParameterDict)
_MODULE_KINDS: dict[type[nn.Module], LossKind] = {
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
_FUNCTION_KINDS: dict[Callable[..., Any], LossKind] = {
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
FUNCTION_KINDS_BY_NAME = {function.__name__: kind for function, kind in _FUNCTION_KINDS.items()}
NODE_KINDS: dict[str, LossKind] = {
    "NllLoss": "cross-entropy",
    "NllLoss2D": "cross-entropy",
    "BinaryCrossEntropy": "bce",
    "BinaryCrossEntropyWithLogits": "bce-with-logits",
    "MseLoss": "squared",
    "L1Loss": "absolute",
    "SmoothL1Loss": "absolute",
    "HuberLoss": "absolute",
}


def get_loss_kind(loss_fn: Any) -> LossKind:
    """Return the kind of one of torch's losses, also under ``functools.partial``; "other" for a custom loss."""
    while isinstance(loss_fn, partial):
        loss_fn = loss_fn.func
    if isinstance(loss_fn, nn.Module):
        return next((kind for module_type, kind in _MODULE_KINDS.items() if type(loss_fn) is module_type), "other")
    try:
        return _FUNCTION_KINDS.get(loss_fn, "other")
    except TypeError:
        return "other"


def own_parameters(loss_fn: Any) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the names and parameters of a loss itself, such as learned weights of its terms.

    They are its own, those in its lists and dictionaries of parameters, and those of a part of a class of the user's
    that holds no layer of torch and no matrix. Any other part is a network, such as one that compares features.
    """
    if not isinstance(loss_fn, nn.Module):
        return
    yield from loss_fn.named_parameters(recurse=False)
    for name, part in loss_fn.named_children():
        if isinstance(part, _PARAMETER_CONTAINERS) or not _is_network(part):
            yield from part.named_parameters(name)


def _is_network(part: nn.Module) -> bool:
    holders = [module for module in part.modules() if [*module.parameters(recurse=False)]]
    has_layers = any(
        type(holder).__module__.startswith("torch.") and not isinstance(holder, _PARAMETER_CONTAINERS)
        for holder in holders
    )
    return has_layers or any(parameter.dim() > 1 for parameter in part.parameters())


def is_from_torch(loss_fn: Any) -> bool:
    """Return whether a loss is a module or function of torch, also under ``functools.partial``."""
    while isinstance(loss_fn, partial):
        loss_fn = loss_fn.func
    origin = type(loss_fn).__module__ if isinstance(loss_fn, nn.Module) else getattr(loss_fn, "__module__", None)
    return str(origin).startswith("torch.nn.")


def is_torch_loss(kind: LossKind, scores: Tensor, target: Tensor, value: float) -> bool:
    """Return whether torch's own mean loss of some kind has a value for scores and targets."""
    function = next((function for function, name in _FUNCTION_KINDS.items() if name == kind), None)
    if function is None:
        return False
    is_elementwise = kind not in ("cross-entropy", "nll")
    if is_elementwise and scores.numel() != target.numel():
        return False
    if is_elementwise:
        operands = (scores.flatten(), target.flatten().to(scores.dtype))
    elif scores.dim() > 2 and scores.shape[:-1] == target.shape:
        operands = (scores.flatten(0, -2), target.flatten())  # a class at each position
    else:
        operands = (scores, target)
    try:
        expected = float(function(*operands))
    except (RuntimeError, ValueError, IndexError, TypeError):
        return False
    return abs(expected - value) <= _MAX_LOSS_DIFFERENCE * abs(expected)


def raising_loss_kind(error: BaseException | None) -> LossKind:
    """Return the kind of the torch loss that raised an exception; cross-entropy for a class index out of range."""
    traceback, kind = (
        error.__traceback__ if error else None,
        "cross-entropy" if _CLASS_OUT_OF_RANGE.search(str(error)) else "other",
    )
    while traceback is not None:
        kind = FUNCTION_KINDS_BY_NAME.get(traceback.tb_frame.f_code.co_name, kind)
        traceback = traceback.tb_next
    return cast(LossKind, kind)


def ignore_index(loss_fn: Any) -> int:
    """Return the label that the loss ignores, -100 by default."""
    if isinstance(loss_fn, partial):
        return int(loss_fn.keywords.get("ignore_index", -100))
    return int(getattr(loss_fn, "ignore_index", -100))


def matching_targets(kind: LossKind, output: Any, targets: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return targets in the form that binary cross-entropy requires: floats of the output's shape, (N, 1) for (N,).

    Torch rejects anything else, so a loop that runs without errors reshapes one of the two itself.
    """
    if kind not in ("bce", "bce-with-logits") or not isinstance(output, Tensor) or len(targets) != 1:
        return targets
    target = targets[0]
    if not isinstance(target, Tensor) or not _have_same_squeezed_shape(output, target):
        return targets
    return (target.reshape(output.shape).to(output.dtype),)


def _have_same_squeezed_shape(first: Tensor, second: Tensor) -> bool:
    """Check whether two shapes differ only in axes of size 1."""
    return [size for size in first.shape if size > 1] == [size for size in second.shape if size > 1]


def total_loss(value: Any) -> Any:
    """Return the sum of a dict of scalar loss terms, or its term ``"loss"``; return any other value as it is."""
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("loss"), Tensor):
        return value["loss"]
    terms = list(value.values())
    is_sum = bool(terms) and all(isinstance(term, Tensor) and term.numel() == 1 for term in terms)
    return torch.stack([term.reshape(()) for term in terms]).sum() if is_sum else value


def score_tensor(output: Any) -> Any:
    """Return the tensor that torch's own losses receive: the output, its ``logits``, or its first tensor of samples."""
    if isinstance(output, Tensor):
        return output
    if (logits := named_logits(output)) is not None:
        return logits
    tensors = tree_tensors(output)
    return next((tensor for tensor in tensors if tensor.dim()), next(iter(tensors), output))


def get_own_loss(output: Any) -> Any:
    """Return the loss that a model computed itself: its output, its ``loss``, or its first scalar; None for none."""
    if isinstance(output, Mapping) or hasattr(output, "loss"):
        return output.get("loss") if isinstance(output, Mapping) else output.loss
    first = output[0] if isinstance(output, (tuple, list)) and output else output
    return first if isinstance(first, Tensor) and first.numel() == 1 else None


def named_logits(output: Any) -> Any:
    """Return the entry or attribute ``logits`` of an output; None if there is none."""
    return output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
