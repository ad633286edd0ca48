"""Tests of O509 on decay that keeps a model from learning."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.setup import Setup


def quadrants(label_noise: float = 0.0) -> tuple[Tensor, Tensor]:
    """Points whose class is the sign of the product of two coordinates, some of them with a random class."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(480, 2, generator=random)
    y = (x.prod(1) > 0).long()
    is_random = torch.rand(480, generator=random) < label_noise
    return x, torch.where(is_random, torch.randint(0, 2, (480,), generator=random), y)


def train(setup: Setup, epochs: int = 12) -> None:
    for _ in range(epochs):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            assert setup.loss_fn is not None
            setup.loss_fn(setup.model(x), y).backward()
            setup.optimizers[0].step()


def decayed_setup(
    optimizer: type[torch.optim.Optimizer], decay: float, label_noise: float = 0.0, seed: int = 0
) -> Setup:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 2))
    x, y = quadrants(label_noise)
    loader = DataLoader(TensorDataset(x[:320], y[:320]), batch_size=16, shuffle=True)
    val_loader = DataLoader(TensorDataset(x[320:], y[320:]), batch_size=160)
    own = optimizer(model.parameters(), lr=5e-3, weight_decay=decay)  # type: ignore[call-arg]
    return Setup(model, loader, val_loader, nn.CrossEntropyLoss(), (own,))


def decay_messages(setup: Setup, *, final_tests: bool = True, epochs: int = 12) -> list[str]:
    debugger = Debugger.of(setup)
    with debugger.watch(final_tests=final_tests):
        train(setup, epochs)
    return [finding.message for finding in debugger.findings if finding.code == "O509"]


@pytest.mark.parametrize(
    ("decay", "training"),
    [
        (0.02, "100 more steps of two copies of the model,"),
        (0.03, "100 steps of two copies of the model from new initial weights,"),
    ],
    ids=["some progress", "collapsed weights"],
)
@pytest.mark.parametrize("seed", range(3))
def test_decay_in_the_gradient_that_hinders_the_training_is_reported_with_both_losses(
    decay: float, training: str, seed: int
) -> None:
    (message,) = decay_messages(decayed_setup(torch.optim.Adam, decay, seed=seed))
    assert f"weight_decay is {decay} in group 0" in message
    assert f"After {training} the loss of held-out samples is" in message


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("decay", [1.0, 3.0, 8.0])
def test_decoupled_decay_that_hinders_the_training_is_reported_with_what_each_step_removes(
    decay: float, seed: int
) -> None:
    (message,) = decay_messages(decayed_setup(torch.optim.AdamW, decay, seed=seed))
    assert f"weight_decay is {decay:g} in group 0: each step removes {5e-3 * decay:.2g} of " in message
    assert "with the decay and" in message


def test_decoupled_decay_that_would_shrink_the_weights_is_tried_after_a_run_that_has_learned() -> None:
    (message,) = decay_messages(decayed_setup(torch.optim.AdamW, 0.3), epochs=36)
    assert "After 100 more steps of two copies" in message


def test_decay_is_not_tried_where_the_trained_model_is_not_tested() -> None:
    assert not decay_messages(decayed_setup(torch.optim.Adam, 0.03), final_tests=False)


@pytest.mark.parametrize(
    ("optimizer", "decay", "label_noise"),
    [
        (torch.optim.AdamW, 0.1, 0.0),
        (torch.optim.AdamW, 1.0, 1.0),
        (torch.optim.Adam, 1e-4, 0.0),
        (torch.optim.Adam, 1e-4, 1.0),
    ],
    ids=["decoupled", "decoupled, random labels", "small", "random labels"],
)
def test_decay_that_does_not_hinder_is_not_reported(
    optimizer: type[torch.optim.Optimizer], decay: float, label_noise: float
) -> None:
    assert not decay_messages(decayed_setup(optimizer, decay, label_noise))
