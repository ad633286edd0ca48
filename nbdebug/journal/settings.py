"""Settings of a setup as short texts, so that a journal can show which of them changed between two entries."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2s

from torch import nn

from nbdebug.setup import Setup
from nbdebug.setup.loaders import dataset_length

_IGNORED = frozenset(("params", "lr", "initial_lr"))  # a schedule changes the rate; the initial one is a setting
_MAX_TEXT = 60


def describe_settings(setup: Setup) -> dict[str, str]:
    """Return the settings that a user changes: optimizer, rates, loss, structure, data sizes; weights are none."""
    texts = {"loss": _loss_text(setup.loss_fn), "model": _structure_text(setup.eager_model)}
    for number, optimizer in enumerate(setup.optimizers):
        name = "optimizer" if not number else f"optimizer {number + 1}"
        texts[name] = type(optimizer).__name__
        rates = sorted({f"{float(group.get('initial_lr', group['lr'])):.4g}" for group in optimizer.param_groups})
        texts[f"{name} learning rate"] = ", ".join(rates)
        options = {key: value for group in optimizer.param_groups for key, value in group.items()}
        plain = {key: value for key, value in options.items() if isinstance(value, (bool, int, float, tuple))}
        texts |= {f"{name} {key}": f"{value}" for key, value in plain.items() if key not in _IGNORED}
    texts |= {f"scheduler {i + 1}": type(scheduler).__name__ for i, scheduler in enumerate(setup.schedulers)}
    texts["trainable parameters"] = f"{sum(p.numel() for p in setup.model.parameters() if p.requires_grad):,}"
    for split, loader in (("training", setup.train_loader), ("validation", setup.val_loader)):
        texts[f"{split} samples"] = str(dataset_length(loader))
        texts[f"{split} batch size"] = str(getattr(loader, "batch_size", None))
    return texts


def _loss_text(loss: object) -> str:
    """Return a loss with its options; its repr leaves out most of them."""
    if not isinstance(loss, nn.Module):
        return getattr(loss, "__name__", type(loss).__name__)
    plain = {name: value for name, value in vars(loss).items() if isinstance(value, (bool, int, float, str))}
    options = [f"{name}={value}" for name, value in plain.items() if name != "training" and not name.startswith("_")]
    tensors = [f"{name} of sum {float(value.sum()):.4g}" for name, value in loss.named_buffers()]
    return f"{type(loss).__name__}({', '.join([*options, *tensors])})"


def _structure_text(model: nn.Module) -> str:
    """Return the class of a model with a digest of its structure: layers, sizes, dropout rates."""
    return f"{type(model).__name__} {blake2s(repr(model).encode(), digest_size=3).hexdigest()}"


def changed_settings(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return what changed, as texts such as ``optimizer learning rate 0.1 → 0.01``."""
    names = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    return [f"{name} {_shorten(before.get(name, 'none'))} → {_shorten(after.get(name, 'none'))}" for name in names]


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 1]}…"
