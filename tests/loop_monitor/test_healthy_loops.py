"""Tests that healthy loops in unusual styles cause no finding of the rules on events."""

from __future__ import annotations

import copy
import random
from collections import deque
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import ModeDependentNetwork, TrainFunction, batch_loss, batches, event_findings

X, Y = points()


def deep_q_network(setup: Setup) -> None:
    """A replay buffer, a target network, and actions computed without gradients."""
    target = copy.deepcopy(setup.model).eval()
    buffer: deque[Any] = deque(maxlen=200)
    for step, (x, _) in enumerate(batches(setup, 10)):
        with torch.no_grad():
            actions = setup.model(x).argmax(1)
        buffer.extend(zip(x, actions, torch.rand(len(x)), x.roll(1, 0), strict=True))
        transitions = random.sample(list(buffer), 16)
        state, action, reward, after = (torch.stack(values) for values in zip(*transitions, strict=True))
        with torch.no_grad():
            target_values = reward + 0.9 * target(after).max(1).values
        loss = F.smooth_l1_loss(setup.model(state).gather(1, action.unsqueeze(1)).squeeze(1), target_values)
        setup.optimizers[0].zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(setup.model.parameters(), 100.0)
        setup.optimizers[0].step()
        if step % 10 == 0:
            target.load_state_dict(setup.model.state_dict())


def policy_gradients(setup: Setup) -> None:
    """REINFORCE: many forward passes per backward pass."""
    for _ in range(20):
        log_probabilities, rewards = [], []
        for x, _ in batches(setup, 3):
            choice = torch.distributions.Categorical(logits=setup.model(x[:1]))
            action = choice.sample()
            log_probabilities.append(choice.log_prob(action))
            rewards.append(float(action))
        setup.optimizers[0].zero_grad()
        losses = [-log_p * reward for log_p, reward in zip(log_probabilities, rewards, strict=True)]
        torch.stack(losses).sum().backward()
        setup.optimizers[0].step()


def critic_with_gradient_penalty(setup: Setup) -> None:
    """A gradient penalty by autograd.grad; two backward passes from two lines per step."""
    for x, _ in batches(setup, 4):
        setup.optimizers[0].zero_grad()
        setup.model(x).mean().backward()
        mixed = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(setup.model(mixed).sum(), mixed, create_graph=True)
        ((slope.norm(dim=1) - 1) ** 2).mean().backward()
        setup.optimizers[0].step()


def manual_descent(setup: Setup) -> None:
    """Gradient descent without an optimizer object."""
    for x, y in batches(setup, 4):
        batch_loss(setup, x, y).backward()
        with torch.no_grad():
            for p in setup.model.parameters():
                p -= 0.1 * p.grad
                p.grad = None


def functional_descent(setup: Setup) -> None:
    """Gradient descent by autograd.grad, without backward()."""
    parameters = list(setup.model.parameters())
    for x, y in batches(setup, 4):
        slopes = torch.autograd.grad(batch_loss(setup, x, y), parameters)
        with torch.no_grad():
            for p, slope in zip(parameters, slopes, strict=True):
                p -= 0.1 * slope


def momentum_contrast(setup: Setup) -> None:
    """Momentum contrast: keys of a slow copy, kept for many steps without graphs."""
    keys, queue = copy.deepcopy(setup.model), F.normalize(torch.randn(64, 3), dim=1)
    for x, _ in batches(setup, 10):
        query = F.normalize(setup.model(x), dim=1)
        with torch.no_grad():
            for slow, fast in zip(keys.parameters(), setup.model.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
            key = F.normalize(keys(x), dim=1)
        logits = torch.cat([(query * key).sum(1, keepdim=True), query @ queue.t()], 1) / 0.1
        setup.optimizers[0].zero_grad()
        F.cross_entropy(logits, torch.zeros(len(x), dtype=torch.long)).backward()
        setup.optimizers[0].step()
        queue = torch.cat([queue, key])[-64:]


def siamese_network(setup: Setup) -> None:
    for x, _ in batches(setup, 6):
        first, second = setup.model(x), setup.model(x + 0.1 * torch.randn_like(x))
        setup.optimizers[0].zero_grad()
        loss = F.cosine_similarity(first, second.detach()) + F.cosine_similarity(second, first.detach())
        (-loss.mean()).backward()
        setup.optimizers[0].step()


def loss_statistics(setup: Setup) -> None:
    """A decaying average, a window of the last losses, and the best weights so far."""
    average, window, best = 0.0, deque[float](maxlen=50), copy.deepcopy(setup.model.state_dict())
    for x, y in batches(setup, 20):
        setup.optimizers[0].zero_grad()
        loss = batch_loss(setup, x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(setup.model.parameters(), 5.0)
        setup.optimizers[0].step()
        average = 0.9 * average + 0.1 * loss.item()
        window.append(loss.item())
        if loss.item() <= min(window):
            best = copy.deepcopy(setup.model.state_dict())
    setup.model.load_state_dict(best)


@pytest.mark.parametrize(
    "train",
    [
        deep_q_network,
        policy_gradients,
        critic_with_gradient_penalty,
        manual_descent,
        functional_descent,
        momentum_contrast,
        siamese_network,
        loss_statistics,
    ],
)
def test_event_rules_on_healthy_loop_find_nothing(train: TrainFunction) -> None:
    torch.manual_seed(0)
    has_optimizer = train not in (manual_descent, functional_descent)
    options: dict[str, Any] = {} if has_optimizer else {"optimizers": ()}
    assert not event_findings(train, minimal_setup(network(3), X, Y, nn.CrossEntropyLoss(), **options))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.GRU(4, 8, batch_first=True, num_layers=2, dropout=0.1), nn.Linear(8, 3)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        out, state = self.cell(x, state)
        return self.head(out), state


def test_event_rules_on_truncated_backpropagation_find_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(32, 20, 4, generator=generator), torch.randint(0, 3, (32, 20), generator=generator)

    def train(setup: Setup) -> None:
        for _ in range(4):
            setup.model.train()
            for x, y in setup.train_loader:
                state = None
                for part in range(0, 20, 5):
                    output, state = setup.model(x[:, part : part + 5], state)
                    state = state.detach()
                    setup.optimizers[0].zero_grad()
                    F.cross_entropy(output.transpose(1, 2), y[:, part : part + 5]).backward()
                    nn.utils.clip_grad_norm_(setup.model.parameters(), 0.25)
                    setup.optimizers[0].step()
            setup.model.eval()
            with torch.no_grad():
                for x, y in setup.val_loader:
                    output, _ = setup.model(x)
                    (output.argmax(-1) == y).float().mean().item()

    model, data = Recurrent(), TensorDataset(x, y)
    loss = lambda output, target: F.cross_entropy(output[0].transpose(1, 2), target)  # noqa: E731
    optimizers = (torch.optim.SGD(model.parameters(), lr=1.0),)
    loaders = DataLoader(data, batch_size=8), DataLoader(data, batch_size=16)
    setup = Setup(model, *loaders, loss_fn=loss, optimizers=optimizers)
    assert not event_findings(train, setup)


def test_event_rules_on_sharpness_aware_steps_find_nothing() -> None:
    def train(setup: Setup) -> None:
        for x, y in batches(setup, 4):
            setup.model.train()
            batch_loss(setup, x, y).backward()
            with torch.no_grad():
                moves = [0.05 * p.grad / (p.grad.norm() + 1e-9) for p in setup.model.parameters()]
                for p, move in zip(setup.model.parameters(), moves, strict=True):
                    p.add_(move)
            setup.optimizers[0].zero_grad()
            setup.model[1].eval()
            batch_loss(setup, x, y).backward()
            with torch.no_grad():
                for p, move in zip(setup.model.parameters(), moves, strict=True):
                    p.sub_(move)
            setup.optimizers[0].step()
            setup.optimizers[0].zero_grad()

    assert not event_findings(train, minimal_setup(ModeDependentNetwork(), X, Y, nn.CrossEntropyLoss()))
