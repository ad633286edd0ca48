"""Treatments of data and loss."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from nbdebug.setup.loaders import dataset_length, is_map_style
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.training.changed_loaders import rebuild_loader

_MIN_BATCHES = 4  # an epoch with fewer batches is tried with smaller ones
_MIN_RATIO = 1e-3  # of the deviations of two features
_MIN_LEVEL, _MAX_LEVEL = 0.1, 5.0  # of the largest root mean square of the features
_MIN_SPREAD = 0.1  # of the largest standard deviation, relative to that level
_EPSILON = 1e-12


def use_logits(treated: TreatedSetup) -> bool:
    """Undo a softmax or sigmoid in front of a loss that contains one, and add a missing log-softmax."""
    scores = _first_output(treated)
    if scores is None or treated.loss_kind not in ("cross-entropy", "bce-with-logits", "nll"):
        return False
    is_unit = bool(((scores >= 0) & (scores <= 1)).all())
    if treated.loss_kind == "nll":
        if bool((scores <= 1e-6).all()):
            return False
        treated.change_loss(lambda output, target, loss_fn: loss_fn(output.log_softmax(1), target))
        return True
    if not is_unit:
        return False
    if treated.loss_kind == "bce-with-logits":
        treated.change_loss(lambda output, target, loss_fn: loss_fn(torch.logit(output, 1e-6), target))
        return True
    treated.change_loss(lambda output, target, loss_fn: loss_fn((output + _EPSILON).log(), target))
    return True


def use_plain_loss(treated: TreatedSetup) -> bool:
    """Set weights, label smoothing and reduction of a loss of torch to their defaults."""
    loss_fn = treated.setup.loss_fn
    if not isinstance(loss_fn, nn.Module) or treated.loss_kind == "other":
        return False
    plain = type(loss_fn)()
    names = ("weight", "pos_weight", "label_smoothing", "reduction", "ignore_index")
    changed = [name for name in names if _differs(getattr(loss_fn, name, None), getattr(plain, name, None))]
    if "ignore_index" in changed:
        plain.ignore_index = loss_fn.ignore_index  # the labels decide which value is padding
        changed.remove("ignore_index")
    treated.change_setup(loss_fn=plain)
    return bool(changed)


def _differs(first: Any, second: Any) -> bool:
    return isinstance(first, Tensor) or isinstance(second, Tensor) or first != second


def shuffle_batches(treated: TreatedSetup) -> bool:
    """Draw the batches at random from the whole dataset."""
    loader = treated.setup.train_loader
    if not is_map_style(loader) or loader.batch_sampler is None:
        return False
    if type(loader.batch_sampler) is BatchSampler and isinstance(loader.sampler, RandomSampler):
        return False
    treated.change_setup(train_loader=_shuffled_loader(loader, _batch_size(treated)))
    return True


def use_smaller_batches(treated: TreatedSetup) -> bool:
    """Divide the batches of an epoch that has only a few of them."""
    loader = treated.setup.train_loader
    length = dataset_length(loader)
    if not is_map_style(loader) or not length or _batch_size(treated) * _MIN_BATCHES <= length:
        return False
    size = max(_batch_size(treated) // _MIN_BATCHES, 2)
    treated.change_setup(train_loader=_shuffled_loader(loader, size))
    treated.samples_per_step = size / _batch_size(treated)
    return True


def _batch_size(treated: TreatedSetup) -> int:
    return max(batch.size for batch in treated.batches)


def _shuffled_loader(loader: DataLoader[Any], size: int) -> DataLoader[Any]:
    return rebuild_loader(loader, batch_size=size, shuffle=True, drop_last=False, generator=torch.Generator())


def standardize_inputs(treated: TreatedSetup) -> bool:
    """Standardize real-valued inputs by their training mean and standard deviation."""
    scales: dict[int, tuple[Tensor, Tensor]] = {}
    for position in range(min(len(batch.args) for batch in treated.batches)):
        parts = [batch.args[position] for batch in treated.batches]
        scale = _feature_scale(parts) if all(map(_is_real_valued, parts)) else None
        if scale is not None:
            scales[position] = scale
    if not scales or any(batch.kwargs for batch in treated.batches):
        return False

    def standardized(tensor: Tensor, position: int) -> Tensor:
        if position not in scales:
            return tensor
        mean, deviation = scales[position]
        return (tensor - mean) / deviation

    treated.change_inputs(standardized)
    return True


def _is_real_valued(part: Any) -> bool:
    return isinstance(part, Tensor) and part.is_floating_point() and part.dim() > 1 and bool(part.isfinite().all())


def _feature_scale(parts: list[Tensor]) -> tuple[Tensor, Tensor] | None:
    """Return mean and standard deviation of the features; None if they are standardized already.

    The features are the columns of a table, and otherwise lie along the axis after the samples or the last one, where
    their scales differ most.
    """
    if len({part.shape[1:] for part in parts}) == 1:
        x = torch.cat(parts).float()
        axes = [1] if x.dim() == 2 else [1, x.dim() - 1]
        mean, deviation = max((_moments(x, axis) for axis in axes), key=lambda moments: _ratio(moments[1]))
    else:
        x = torch.cat([part.flatten().float() for part in parts])[:, None]
        mean, deviation = x.mean(), x.std()
    is_constant = deviation < 1e-6 * (1 + mean.abs())
    deviation = torch.where(is_constant, torch.ones_like(deviation), deviation)
    return None if _is_standard(mean, deviation, is_constant) else (mean, deviation)


def _is_standard(mean: Tensor, deviation: Tensor, is_constant: Tensor) -> bool:
    """Check whether the largest feature has a usual level, and features differ from their means by a usual part.

    None of them may be so small, relative to the largest one, that the first layer cannot see it.
    """
    spread = float(torch.where(is_constant, torch.zeros_like(deviation), deviation).max())
    smallest = float(torch.where(is_constant, torch.full_like(deviation, spread), deviation).min())
    level = float((mean.square() + deviation.square()).sqrt().max())
    return _MIN_LEVEL < level < _MAX_LEVEL and spread > _MIN_SPREAD * level and smallest > _MIN_RATIO * spread


def _moments(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    others = [other for other in range(x.dim()) if other != axis]
    return x.mean(others, keepdim=True), x.std(others, keepdim=True)


def _ratio(deviation: Tensor) -> float:
    return float(deviation.max() / deviation.min().clamp_min(_EPSILON))


def standardize_targets(treated: TreatedSetup) -> bool:
    """Train on standardized targets, and convert the predictions back to their units."""
    targets = [batch.target for batch in treated.batches]
    if treated.loss_kind not in ("squared", "absolute") or not all(isinstance(target, Tensor) for target in targets):
        return False
    values = torch.cat([target.reshape(len(target), -1).float() for target in targets])
    mean, deviation = values.mean(), values.std()
    if not bool(deviation > 0) or _is_standard(mean, deviation, deviation < 0):
        return False
    treated.change_loss(lambda output, target, loss_fn: loss_fn(output, (target - mean) / deviation))
    treated.prediction_of = lambda output: output * deviation + mean if isinstance(output, Tensor) else output
    return True


def _first_output(treated: TreatedSetup) -> Tensor | None:
    with torch.no_grad():
        output = treated.setup.predict(treated.batches[0])
    return output if isinstance(output, Tensor) and output.is_floating_point() else None
