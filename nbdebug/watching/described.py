"""What a record tells of the training set-up."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import torch
from torch import nn

from nbdebug.setup import Setup


def described(setup: Setup) -> dict[str, Any]:
    """What is trained, in words and numbers."""
    loader = setup.train_loader
    about: dict[str, Any] = {
        "model": type(setup.eager).__name__,
        "parameters": sum(p.numel() for p in setup.eager.parameters()),
        "optimizer": ", ".join(type(one).__name__ for one in setup.optimizers),
        "loss": type(setup.loss_fn).__name__
        if isinstance(setup.loss_fn, nn.Module)
        else getattr(setup.loss_fn, "__name__", ""),
        "torch": torch.__version__,
        "finished": False,
    }
    if isinstance(loader, Sized) and len(loader):
        about["batches_per_epoch"] = len(loader)
    for split, one in (("train", loader), ("val", setup.val_loader)):
        dataset = getattr(one, "dataset", None)
        if isinstance(dataset, Sized):
            about[f"{split}_samples"] = len(dataset)
    return about
