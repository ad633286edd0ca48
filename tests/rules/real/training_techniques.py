"""Training techniques: precision, checkpointing, functional calls, sampling dropout, weight averages."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from nbdebug.debugger import Debugger
from tests.rules.real.catalog import healthy
from tests.rules.real.datasets import diabetes, digits, split, tumors


def convnet() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(32, 10),
    )  # fmt: skip


@healthy
def autocast_to_bfloat16() -> Debugger:
    model = convnet()

    def forward(model: nn.Module, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    train, val = split(*digits())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer, forward=forward)


@healthy
def autocast_with_a_scaler() -> Debugger:
    model, scaler, loss_fn = convnet(), torch.amp.GradScaler("cpu"), nn.CrossEntropyLoss()

    def step(batch: list[Tensor]) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return scaler.scale(loss_fn(model(batch[0]), batch[1]))

    train, val = split(*digits())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    return Debugger(model, train, val, optimizer=optimizer, step_fn=step, extra_state=[scaler])


@healthy
def fine_tuned_in_bfloat16() -> Debugger:
    """All weights in bfloat16, as when large models are fine-tuned with little memory."""
    x, y = tumors()
    model = nn.Sequential(nn.Linear(30, 64), nn.GELU(), nn.Linear(64, 2))
    pretraining = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(30):
        pretraining.zero_grad()
        F.cross_entropy(model(x), y).backward()
        pretraining.step()
    model.to(torch.bfloat16)
    train, val = split(x.bfloat16(), y)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


class CheckpointedNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 16, 3, padding=1)) for _ in range(3)
        )
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = self.stem(x)
        for block in self.blocks:
            h = h + checkpoint(block, h, use_reentrant=False)
        return self.head(h.mean((2, 3)))


@healthy
def activations_checkpointed() -> Debugger:
    model, (train, val) = CheckpointedNetwork(), split(*digits())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)


@healthy
def maml_step() -> Debugger:
    """MAML: the loss after a differentiable inner step."""
    x, y = diabetes()
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))

    def step(batch: list[Tensor]) -> Tensor:
        (x, y), weights = batch, dict(model.named_parameters())
        half = len(x) // 2
        inner = F.mse_loss(functional_call(model, weights, (x[:half],)), y[:half])
        gradients = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
        fast = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), gradients, strict=True)}
        return F.mse_loss(functional_call(model, fast, (x[half:],)), y[half:])

    train, val = split(x, y)
    return Debugger(model, train, val, optimizer=torch.optim.Adam(model.parameters(), lr=1e-3), step_fn=step)


@healthy
def functional_call_with_own_weights() -> Debugger:
    model, (train, val) = convnet(), split(*digits())
    return Debugger(
        model,
        train,
        val,
        loss_fn=nn.CrossEntropyLoss(),
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-3),
        forward=lambda model, x: functional_call(model, dict(model.named_parameters()), (x,)),
    )


class MonteCarlo(nn.Module):
    """Dropout in eval mode, for the uncertainty of predictions (Gal 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Linear(30, 64), nn.Linear(64, 64), nn.Linear(64, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(F.relu(self.first(x)), 0.1, training=True)
        return self.out(F.dropout(F.relu(self.second(x)), 0.1, training=True))


@healthy
def dropout_that_samples() -> Debugger:
    model, (train, val) = MonteCarlo(), split(*tumors())
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters()))


class AlwaysDropout(nn.Dropout):
    """Dropout in both modes."""

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, training=True)


@healthy
def dropout_layer_that_samples() -> Debugger:
    model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), AlwaysDropout(0.1), nn.Linear(64, 2))
    train, val = split(*tumors())
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters()))


@healthy
def averaged_weights() -> Debugger:
    model, (train, val) = convnet(), split(*digits())
    averaged_model = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
    return Debugger(
        model,
        train,
        val,
        loss_fn=nn.CrossEntropyLoss(),
        optimizer=optimizer,
        scheduler=scheduler,
        extra_state=[averaged_model],
    )


@healthy
def summed_loss_with_a_small_learning_rate() -> Debugger:
    model, (train, val) = convnet(), split(*digits())
    loss = nn.CrossEntropyLoss(reduction="sum")
    return Debugger(model, train, val, loss_fn=loss, optimizer=torch.optim.SGD(model.parameters(), lr=1e-3))


@healthy
def clipped_by_hook_and_channels_last() -> Debugger:
    model: Any = convnet().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    for parameter in model.parameters():
        parameter.register_hook(lambda grad: grad.clamp(-1, 1))
    train, val = split(*digits())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(label_smoothing=0.05), optimizer=optimizer)


@healthy
def normalized_weights() -> Debugger:
    spectral = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(64, 32))
    model = nn.Sequential(
        nn.Flatten(), spectral, nn.ReLU(), torch.nn.utils.parametrizations.weight_norm(nn.Linear(32, 10))
    )
    train, val = split(*digits())
    return Debugger(model, train, val, loss_fn=nn.CrossEntropyLoss(), optimizer=torch.optim.Adam(model.parameters()))
