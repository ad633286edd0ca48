"""Changes of loader and loss: batch size, balanced classes, label smoothing, augmentation."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Subset, WeightedRandomSampler

from nbdebug.setup.loaders import is_map_style
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.training.changed_loaders import rebuild_loader

_MAX_LABELS, _READ_SIZE = 50_000, 256
_SHIFT_SHARE = 0.125  # of the side of an image: 4 of 32 pixels, as He et al. 2016, arXiv:1512.03385
_NOISE = 0.1  # standard deviations that are added to inputs that are no images


def set_batch_size(treated: TreatedSetup, size: int) -> bool:
    """Draw batches of another size; the trial has as many samples as before."""
    loader, present = treated.train_loader, max(batch.size for batch in treated.batches)
    if not is_map_style(loader) or loader.batch_size is None or size == present:
        return False
    treated.train_loader = rebuild_loader(loader, batch_size=size)
    treated.samples_per_step = size / present
    return True


def hide_column(treated: TreatedSetup, column: int) -> bool:
    """Give the model zeros instead of one column of its first input, a table."""
    first = treated.batches[0].args[0] if treated.batches[0].args else None
    if not isinstance(first, Tensor) or first.dim() != 2 or column >= first.shape[1]:
        return False

    def hidden(tensor: Tensor, position: int) -> Tensor:
        is_kept = torch.arange(tensor.shape[-1], device=tensor.device) != column
        return tensor * is_kept if position == 0 else tensor

    treated.change_inputs(hidden)
    return True


def balance_sampler(treated: TreatedSetup, _: None) -> bool:
    """Draw all classes equally often, with replacement."""
    labels = _training_labels(treated)
    if labels is None:
        return False
    weights = 1.0 / torch.bincount(labels).clamp_min(1)[labels].double()
    sampler = WeightedRandomSampler(weights.tolist(), len(labels))
    treated.train_loader = rebuild_loader(treated.train_loader, sampler=sampler)
    return True


def balance_loss(treated: TreatedSetup, _: None) -> bool:
    """Weight the classes in the loss by their inverse frequencies; of a binary loss, the positive samples."""
    labels, device = _training_labels(treated), treated.setup.model_device
    if labels is None or treated.loss_kind not in ("cross-entropy", "nll", "bce-with-logits"):
        return False
    if treated.loss_kind == "bce-with-logits":
        positive = labels.float().mean()
        return _change_loss(treated, pos_weight=((1 - positive) / positive.clamp_min(1e-6)).to(device))
    counts = torch.bincount(labels, minlength=_class_count(treated))
    weights = len(labels) / (len(counts) * counts.clamp_min(1)).float()
    return _change_loss(treated, weight=torch.where(counts > 0, weights, torch.ones_like(weights)).to(device))


def smooth_labels(treated: TreatedSetup, share: float) -> bool:
    """Set the label smoothing of a cross-entropy (Szegedy et al. 2016, arXiv:1512.00567)."""
    if treated.loss_kind != "cross-entropy" or getattr(treated.loss_fn, "label_smoothing", 0.0) == share:
        return False
    return _change_loss(treated, label_smoothing=share)


def set_augmentation(treated: TreatedSetup, state: str) -> bool:
    """Switch augmentation off by the transform of the validation data, or add flips and shifts, or noise."""
    return _remove_augmentation(treated) if state == "off" else _add_augmentation(treated)


def _change_loss(treated: TreatedSetup, **options: Any) -> bool:
    loss = treated.loss_fn
    if isinstance(loss, nn.Module):
        changed = copy(loss)
        changed._buffers = dict(loss._buffers)
        for name, value in options.items():
            setattr(changed, name, value)
        treated.loss_fn = changed
    else:
        treated.loss_fn = partial(loss, **options)
    return True


def _class_count(treated: TreatedSetup) -> int:
    with torch.no_grad():
        output = treated.setup.predict(treated.batches[0])
    return output.shape[1] if isinstance(output, Tensor) and output.dim() > 1 else 2


def _training_labels(treated: TreatedSetup) -> Tensor | None:
    """Return the class of each training sample in the order of the dataset; None if a sample has no single class."""
    loader = treated.train_loader
    if not is_map_style(loader) or loader.batch_size is None or len(loader.dataset) > _MAX_LABELS:
        return None
    parts = list(_read_labels(treated, loader))
    if any(part is None for part in parts):
        return None
    labels = torch.cat([part for part in parts if part is not None])
    return labels if len(labels) == len(loader.dataset) and int(labels.min()) >= 0 else None


def _read_labels(treated: TreatedSetup, loader: DataLoader[Any]) -> Iterator[Tensor | None]:
    for raw in DataLoader(loader.dataset, _READ_SIZE, collate_fn=loader.collate_fn):
        target = treated.setup.split_batch(raw).target
        if not isinstance(target, Tensor) or target.numel() != len(target):
            yield None
            return
        is_binary = bool(((target == 0) | (target == 1)).all())
        yield target.reshape(-1).long().cpu() if not target.is_floating_point() or is_binary else None


def _remove_augmentation(treated: TreatedSetup) -> bool:
    loader, validation = treated.train_loader, treated.val_loader
    transforms = [_with_transform(getattr(item, "dataset", None)) for item in (loader, validation)]
    if not is_map_style(loader) or None in transforms or transforms[0].transform is transforms[1].transform:
        return False
    own = copy(transforms[0])
    own.transform = transforms[1].transform
    dataset = own if loader.dataset is transforms[0] else Subset(own, loader.dataset.indices)
    treated.train_loader = rebuild_loader(loader, dataset=dataset)
    return True


def _with_transform(dataset: Any) -> Any:
    """Return the dataset with a ``transform``, also inside one ``Subset``; None without one."""
    inner = dataset.dataset if isinstance(dataset, Subset) else dataset
    return inner if getattr(inner, "transform", None) is not None else None


def _add_augmentation(treated: TreatedSetup) -> bool:
    first = next(iter(treated.batches)).args[:1]
    if not first or not isinstance(first[0], Tensor) or not first[0].is_floating_point():
        return False
    scale = float(torch.cat([batch.args[0].flatten().float() for batch in islice(treated.batches, 4)]).std())
    model = treated.model

    def augmented(tensor: Tensor, position: int) -> Tensor:
        if position or not model.training:
            return tensor
        return _flip_and_shift(tensor) if tensor.dim() == 4 else tensor + _NOISE * scale * torch.randn_like(tensor)

    treated.change_inputs(augmented)
    return True


def _flip_and_shift(images: Tensor) -> Tensor:
    """Flip half of the images, and shift each by up to an eighth of its side."""
    flipped = torch.rand(len(images), device=images.device) < 0.5
    images = torch.where(flipped[:, None, None, None], images.flip(3), images)
    reach = max(1, round(_SHIFT_SHARE * images.shape[-1]))
    padded = F.pad(images, (reach,) * 4)
    down, right = torch.randint(0, 2 * reach + 1, (2, len(images))).tolist()
    height, width = images.shape[2:]
    rows = [image[:, y : y + height, x : x + width] for image, y, x in zip(padded, down, right, strict=True)]
    return torch.stack(rows)
