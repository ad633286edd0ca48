"""Programs whose loss, data or trained part changes in phases, and losses that only part of a batch has."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from tests.rules.real.datasets import diabetes, digits, loader, moons, padded, split, tumors
from tests.rules.unusual.catalog import TrainingLoop, batches, unusual
from tests.rules.unusual.rewards import GAMMA, mlp, transition_columns


@unusual
def fitted_q_iteration_with_a_target_per_epoch() -> tuple[Debugger, TrainingLoop]:
    q = mlp(2, 2)
    target = copy.deepcopy(q).requires_grad_(False)
    data = loader(*transition_columns())
    optimizer = torch.optim.Adam(q.parameters(), lr=3e-3)

    def step_loss(batch: list[Tensor]) -> Tensor:
        state, action, reward, after, done = batch
        with torch.no_grad():
            wanted = reward + GAMMA * (1 - done) * target(after).amax(1)
        return F.mse_loss(q(state).gather(1, action[:, None]).squeeze(1), wanted)

    def train() -> None:
        for _ in range(10):
            for batch in data:
                optimizer.zero_grad()
                step_loss(batch).backward()
                optimizer.step()
            target.load_state_dict(q.state_dict())

    return Debugger(q, data, optimizer=optimizer, step_fn=step_loss, extra_state=[target]), train


@unusual
def universal_perturbation_beside_training() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(30, 30), nn.ReLU(), nn.Linear(30, 2))
    patch = torch.zeros(30, requires_grad=True)
    data, val = split(*tumors())
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    attack = torch.optim.SGD([patch], lr=0.1, maximize=True)

    def train() -> None:
        for x, y in batches(data, 8):
            attack.zero_grad()
            F.cross_entropy(model(x + patch), y).backward()
            attack.step()
            with torch.no_grad():
                patch.clamp_(-0.2, 0.2)
            optimizer.zero_grad()
            F.cross_entropy(model(x + patch.detach()), y).backward()
            optimizer.step()

    return Debugger(model, data, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer), train


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.lstm = (
            nn.Embedding(20, 12, padding_idx=0),
            nn.LSTM(12, 16, batch_first=True, bidirectional=True),
        )
        self.head = nn.Linear(32, 4)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.lstm(self.embed(tokens))[0]).transpose(1, 2)


@unusual
def tags_with_most_positions_ignored_as_class_zero() -> tuple[Debugger, TrainingLoop]:
    words, _ = padded(length=16)
    tags = torch.where(words > 0, 1 + words % 3, 0)
    tags[:, 8:] = 0
    model, loss_fn = Tagger(), nn.CrossEntropyLoss(ignore_index=0)
    data, val = split(words, tags)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def train() -> None:
        for x, y in batches(data, 8):
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()

    return Debugger(model, data, val, loss_fn=loss_fn, optimizer=optimizer), train


@unusual
def wasserstein_critic_with_clipped_weights() -> tuple[Debugger, TrainingLoop]:
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    data = loader(moons()[0])
    first = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
    second = torch.optim.RMSprop(generator.parameters(), lr=1e-3)

    def train() -> None:
        for step, (real,) in enumerate(batches(data, 12)):
            first.zero_grad()
            fake = generator(torch.randn(len(real), 4)).detach()
            (critic(fake).mean() - critic(real).mean()).backward()
            first.step()
            with torch.no_grad():
                for p in critic.parameters():
                    p.clamp_(-0.1, 0.1)
            if step % 3 == 2:
                second.zero_grad()
                (-critic(generator(torch.randn(len(real), 4))).mean()).backward()
                second.step()

    return Debugger(critic, data, optimizer=first), train


@unusual
def bidirectional_gan_generator_with_given_loss() -> tuple[Debugger, TrainingLoop]:
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    data = loader(torch.randn(512, 4), moons()[0])
    adam = {"lr": 1e-3, "betas": (0.5, 0.99)}
    first, second = torch.optim.Adam(generator.parameters(), **adam), torch.optim.Adam(critic.parameters(), **adam)

    def fooling(fake: Tensor, _: Tensor) -> Tensor:
        return F.softplus(-critic(fake)).mean()

    def train() -> None:
        for noise, real in batches(data, 10):
            fake = generator(noise)
            first.zero_grad()
            fooling(fake, real).backward()
            first.step()
            second.zero_grad()
            (F.softplus(-critic(real)) + F.softplus(critic(fake.detach()))).mean().backward()
            second.step()

    return Debugger(generator, data, loss_fn=fooling, optimizer=first, extra_state=[critic, second]), train


@unusual
def layerwise_pretraining_and_fine_tuning() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))
    data, val = split(*tumors())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def train() -> None:
        for depth in (0, 2):
            decoder = nn.Linear(model[depth].out_features, model[depth].in_features)
            layer_optimizer = torch.optim.Adam([*model[depth].parameters(), *decoder.parameters()], lr=5e-3)
            for x, _ in batches(data, 3):
                with torch.no_grad():
                    inputs = model[:depth](x)
                layer_optimizer.zero_grad()
                F.mse_loss(decoder(torch.relu(model[depth](inputs))), inputs).backward()
                layer_optimizer.step()
        for x, y in batches(data, 8):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    return Debugger(model, data, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer), train


@unusual
def pseudo_labels_of_confident_samples() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    images, labels = digits()
    labeled, unlabeled = loader(images[:160], labels[:160], batch_size=16), loader(images[160:], batch_size=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def train() -> None:
        for _ in range(12):
            for (x, y), (u,) in zip(labeled, unlabeled, strict=True):
                with torch.no_grad():
                    confidence, guess = model(u).softmax(1).max(1)
                extra = F.cross_entropy(model(u + 0.1 * torch.randn_like(u)), guess, reduction="none")
                loss = F.cross_entropy(model(x), y) + (extra * (confidence > 0.9)).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

    return Debugger(model, labeled, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer), train


@unusual
def last_batch_of_two_rows() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(10, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 1))
    x, y = diabetes()
    data, val = loader(x[:354], y[:354]), loader(x[354:], y[354:], shuffle=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def train() -> None:
        for _ in range(10):
            model.train()
            for inputs, target in data:
                optimizer.zero_grad()
                F.mse_loss(model(inputs), target).backward()
                optimizer.step()
            model.eval()

    return Debugger(model, data, val, loss_fn=nn.MSELoss(), optimizer=optimizer), train


@unusual
def residual_branches_that_start_at_zero() -> tuple[Debugger, TrainingLoop]:
    class ReZero(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.head = nn.Linear(64, 24), nn.Linear(24, 10)
            self.layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(6))
            self.alpha = nn.Parameter(torch.zeros(6))

        def forward(self, x: Tensor) -> Tensor:
            x = self.stem(x.flatten(1))
            for alpha, layer in zip(self.alpha, self.layers, strict=True):
                x = x + alpha * torch.relu(layer(x))
            return self.head(x)

    model = ReZero()
    data, val = split(*digits())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def train() -> None:
        for x, y in batches(data, 8):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    return Debugger(model, data, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer), train


@unusual
def rate_set_by_hand_down_to_zero() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Linear(24, 2))
    data, val = split(*tumors())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 / 15, momentum=0.9)

    def train() -> None:
        steps = 10 * len(data)
        for step, (x, y) in enumerate(batches(data, 10)):
            optimizer.param_groups[0]["lr"] = 0.1 * min(1.0, (step + 1) / 15) * (1 - step / (steps - 1))
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    return Debugger(model, data, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer), train


@unusual
def stateful_lstm_that_is_not_done() -> tuple[Debugger, TrainingLoop]:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head, self.state = nn.LSTM(1, 12, batch_first=True), nn.Linear(12, 1), None

        def forward(self, x: Tensor) -> Tensor:
            state = self.state if self.state is not None and self.state[0].shape[1] == len(x) else None
            output, state = self.lstm(x, state)
            self.state = tuple(part.detach() for part in state)
            return self.head(output)

    model = Counter()
    signal = torch.randn(8, 160, 1)
    chunks = [(signal[:, i : i + 20], signal[:, : i + 20].cumsum(1)[:, -20:] / 5) for i in range(0, 160, 20)]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def train() -> None:
        for _ in range(15):
            model.state = None
            for x, y in chunks:
                optimizer.zero_grad()
                F.mse_loss(model(x), y).backward()
                optimizer.step()

    return Debugger(model, chunks, loss_fn=nn.MSELoss(), optimizer=optimizer), train


@unusual
def noise_contrastive_density() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    data = loader(moons()[0])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def log_density(x: Tensor) -> Tensor:
        return torch.distributions.Normal(0.0, 1.5).log_prob(x).sum(1, keepdim=True)

    def train() -> None:
        for (x,) in batches(data, 12):
            noise = 1.5 * torch.randn_like(x)
            real, fake = model(x) - log_density(x), model(noise) - log_density(noise)
            optimizer.zero_grad()
            (F.softplus(-real) + F.softplus(fake)).mean().backward()
            optimizer.step()

    return Debugger(model, data, optimizer=optimizer), train


@unusual
def continual_tasks_in_sequence() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    images, labels = digits()
    data = loader(images, labels)
    tasks = [DataLoader(TensorDataset(images[m], labels[m]), 16, shuffle=True) for m in (labels < 5, labels >= 5)]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def train() -> None:
        memory: list[Any] = []
        for task in tasks:
            for x, y in batches(task, 12):
                loss = F.cross_entropy(model(x), y)
                if memory:
                    old, old_labels = memory[int(torch.randint(len(memory), ()))]
                    loss = loss + F.cross_entropy(model(old), old_labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            memory += list(task)

    return Debugger(model, data, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer), train


@unusual
def coordinate_descent_over_blocks() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
    data, val = split(*diabetes())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def train() -> None:
        for step, (x, y) in enumerate(batches(data, 12)):
            model.requires_grad_(False)
            model[2 * (step % 3)].requires_grad_(True)
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
        model.requires_grad_(True)

    return Debugger(model, data, val, loss_fn=nn.MSELoss(), optimizer=optimizer), train
