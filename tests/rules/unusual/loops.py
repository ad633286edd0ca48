"""Loops in unusual forms: inner loops, teachers, averages, curricula, closures, steps by hand."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from tests.rules.real.datasets import diabetes, digits, loader, split, tumors
from tests.rules.unusual.catalog import TrainingLoop, batches, unusual


def tumor_network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Linear(24, 2))


def digit_network() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))


def evaluate(model: nn.Module, data: Any) -> float:
    """The user's own validation."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        hits = [(model(x).argmax(1) == y).float().mean() for x, y in data]
    model.train(was_training)
    return float(torch.stack(hits).mean())


@unusual
def meta_learning_of_sines() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    phase = torch.rand(128) * 3
    x = torch.rand(128, 20, 1) * 4 - 2
    tasks = loader(x, torch.sin(x + phase[:, None, None]), batch_size=4)

    def adapted(inputs: Tensor, target: Tensor) -> dict[str, Tensor]:
        parameters = dict(model.named_parameters())
        loss = F.mse_loss(torch.func.functional_call(model, parameters, (inputs,)), target)
        slopes = torch.autograd.grad(loss, list(parameters.values()), create_graph=True)
        return {name: p - 0.1 * slope for (name, p), slope in zip(parameters.items(), slopes, strict=True)}

    def train() -> None:
        for inputs, target in batches(tasks, 4):
            losses = []
            for support, wanted in zip(inputs, target, strict=True):
                fast = adapted(support[:10], wanted[:10])
                losses.append(F.mse_loss(torch.func.functional_call(model, fast, (support[10:],)), wanted[10:]))
            optimizer.zero_grad()
            torch.stack(losses).mean().backward()
            optimizer.step()

    return Debugger(model, tasks, loss_fn=nn.MSELoss(), optimizer=optimizer), train


@unusual
def distillation_from_a_larger_teacher() -> tuple[Debugger, TrainingLoop]:
    teacher, student = digit_network(), nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))
    data, val = split(*digits())
    teacher_optimizer = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for x, y in batches(data, 6):
        teacher_optimizer.zero_grad()
        F.cross_entropy(teacher(x), y).backward()
        teacher_optimizer.step()
    teacher.eval().requires_grad_(False)
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)

    def train() -> None:
        for _ in range(8):
            for x, y in data:
                with torch.no_grad():
                    soft = (teacher(x) / 4).softmax(1)
                output = student(x)
                loss = 16 * F.kl_div((output / 4).log_softmax(1), soft, reduction="batchmean")
                optimizer.zero_grad()
                (0.7 * loss + 0.3 * F.cross_entropy(output, y)).backward()
                optimizer.step()
            evaluate(student, val)

    return Debugger(student, data, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer), train


@unusual
def mean_teacher_with_few_labels() -> tuple[Debugger, TrainingLoop]:
    student = digit_network()
    teacher = copy.deepcopy(student).requires_grad_(False)
    images, labels = digits()
    given = torch.where(torch.arange(len(labels)) % 4 == 0, labels, -1)
    data = loader(images, given)
    loss_fn, optimizer = nn.CrossEntropyLoss(ignore_index=-1), torch.optim.Adam(student.parameters(), lr=3e-3)

    def train() -> None:
        for x, y in batches(data, 8):
            output = student(x + 0.05 * torch.randn_like(x))
            with torch.no_grad():
                wanted = teacher(x).softmax(1)
            loss = loss_fn(output, y) + F.mse_loss(output.softmax(1), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                    slow.lerp_(fast, 0.02)

    return Debugger(student, data, loss_fn=loss_fn, optimizer=optimizer, extra_state=[teacher]), train


@unusual
def stochastic_weight_averaging() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(30, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 2))
    data, val = split(*tumors())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=0.01)
    schedule = SWALR(optimizer, swa_lr=0.02, anneal_epochs=2)

    def train() -> None:
        averaged = AveragedModel(model)
        for epoch in range(10):
            for x, y in data:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            if epoch >= 5:
                averaged.update_parameters(model)
                schedule.step()
        update_bn(data, averaged)
        evaluate(averaged, val)

    return Debugger(model, data, val, loss_fn=F.cross_entropy, optimizer=optimizer, scheduler=schedule), train


@unusual
def progressive_unfreezing_of_a_pretrained_net() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU(), nn.Linear(32, 10))
    images, labels = digits()
    data, val = split(images, labels)
    pretraining = torch.optim.Adam(model.parameters(), lr=5e-3)
    for x, y in batches(data, 2):
        pretraining.zero_grad()
        F.cross_entropy(model(x), (y + 3) % 10).backward()
        pretraining.step()
    model[5].reset_parameters()
    model[1].requires_grad_(False)
    model[3].requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3)

    def train() -> None:
        for epoch in range(9):
            if epoch in (3, 6):
                layer = model[3] if epoch == 3 else model[1]
                layer.requires_grad_(True)
                optimizer.add_param_group({"params": layer.parameters(), "lr": 1e-3})
            for x, y in data:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            evaluate(model, val)

    return Debugger(model, data, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer), train


@unusual
def curriculum_from_easy_to_hard() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    x = torch.randn(512, 4)
    margin = x[:, 0] + x[:, 1] * x[:, 2]
    order = margin.abs().argsort(descending=True)
    data = loader(x[order], (margin > 0).long()[order], shuffle=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def train() -> None:
        for stage in range(1, 9):
            kept = DataLoader(TensorDataset(*data.dataset[: 64 * stage]), 32, shuffle=True)
            for inputs, target in batches(kept, 2):
                optimizer.zero_grad()
                F.cross_entropy(model(inputs), target).backward()
                optimizer.step()

    return Debugger(model, data, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer), train


class Forecaster(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(1, 16, batch_first=True), nn.Linear(16, 1)

    def forward(self, x: Tensor, state: Any = None) -> Any:
        output, state = self.lstm(x, state)
        return self.head(output), state


def long_series(length: int = 1280) -> Tensor:
    time = torch.arange(length) / 8
    return (torch.sin(time) + 0.5 * torch.sin(0.37 * time))[:, None] + 0.05 * torch.randn(length, 1)


@unusual
def stateful_lstm_in_order() -> tuple[Debugger, TrainingLoop]:
    model, series = Forecaster(), long_series()
    windows = series.view(8, -1, 1).unfold(1, 20, 20).permute(1, 0, 3, 2)
    chunks = [(window[:, :-1], window[:, 1:]) for window in windows]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def train() -> None:
        for _ in range(15):
            state = None
            for x, y in chunks:
                output, state = model(x, state)
                optimizer.zero_grad()
                F.mse_loss(output, y).backward()
                optimizer.step()
                state = tuple(part.detach() for part in state)

    loss_fn = lambda output, y: F.mse_loss(output[0], y)  # noqa: E731
    return Debugger(model, chunks, loss_fn=loss_fn, optimizer=optimizer), train


@unusual
def truncated_backpropagation_through_time() -> tuple[Debugger, TrainingLoop]:
    model = nn.ModuleDict({"cell": nn.GRUCell(1, 16), "head": nn.Linear(16, 1)})
    series = long_series(600)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def train() -> None:
        for _ in range(3):
            hidden, loss = torch.zeros(1, 16), torch.zeros(())
            for time in range(len(series) - 1):
                hidden = model["cell"](series[time : time + 1], hidden)
                loss = loss + F.mse_loss(model["head"](hidden), series[time + 1 : time + 2])
                if time % 12 == 11:
                    optimizer.zero_grad()
                    (loss / 12).backward()
                    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    hidden, loss = hidden.detach(), torch.zeros(())

    return Debugger(model, [series[i : i + 12] for i in range(0, 588, 12)], optimizer=optimizer), train


class SharpnessAware(torch.optim.Optimizer):
    """Two steps: up to the sharpest point nearby, and down with its gradient (Foret 2021)."""

    def __init__(self, parameters: Any, base: Callable[..., torch.optim.Optimizer], rho: float, **options: Any) -> None:
        super().__init__(parameters, {"rho": rho, **options})
        self.base_optimizer = base(self.param_groups, **options)
        self.param_groups = self.base_optimizer.param_groups

    def parameters(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"] if p.grad is not None]

    @torch.no_grad()
    def first_step(self) -> None:
        norm = torch.stack([p.grad.norm() for p in self.parameters()]).norm() + 1e-12
        for p in self.parameters():
            self.state[p]["before"] = p.clone()
            p.add_(p.grad * self.param_groups[0]["rho"] / norm)
        self.zero_grad()

    @torch.no_grad()
    def second_step(self) -> None:
        for p in self.parameters():
            p.copy_(self.state[p]["before"])
        self.base_optimizer.step()
        self.zero_grad()


@unusual
def sharpness_aware_minimization() -> tuple[Debugger, TrainingLoop]:
    model = digit_network()
    data, val = split(*digits())
    optimizer = SharpnessAware(model.parameters(), torch.optim.SGD, 0.05, lr=0.1, momentum=0.9)

    def train() -> None:
        for x, y in batches(data, 8):
            F.cross_entropy(model(x), y).backward()
            optimizer.first_step()
            F.cross_entropy(model(x), y).backward()
            optimizer.second_step()

    return Debugger(model, data, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer), train


class Lookahead:
    """Slow weights that follow fast ones every few steps (Zhang 2019)."""

    def __init__(self, optimizer: torch.optim.Optimizer, period: int = 5, share: float = 0.5) -> None:
        self.optimizer, self.period, self.share, self.steps = optimizer, period, share, 0
        self.param_groups = optimizer.param_groups
        self.slow = [p.detach().clone() for group in self.param_groups for p in group["params"]]

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()

    @torch.no_grad()
    def step(self) -> None:
        self.optimizer.step()
        self.steps += 1
        if self.steps % self.period == 0:
            fast_parameters = [p for group in self.param_groups for p in group["params"]]
            for slow, fast in zip(self.slow, fast_parameters, strict=True):
                slow.lerp_(fast, self.share)
                fast.copy_(slow)


@unusual
def lookahead_around_adam() -> tuple[Debugger, TrainingLoop]:
    model = tumor_network()
    data, val = split(*tumors())
    optimizer: Any = Lookahead(torch.optim.Adam(model.parameters(), lr=3e-3))

    def train() -> None:
        for x, y in batches(data, 10):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    return Debugger(model, data, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer), train


@unusual
def full_batch_lbfgs() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 1))
    x, y = diabetes()
    data = [(x[:350], y[:350])]
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=5, line_search_fn="strong_wolfe")

    def train() -> None:
        inputs, target = data[0]

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = F.mse_loss(model(inputs), target) + 3e-2 * sum(p.square().sum() for p in model.parameters())
            loss.backward()
            return loss

        for _ in range(20):
            optimizer.step(closure)

    return Debugger(model, data, [(x[350:], y[350:])], loss_fn=nn.MSELoss(), optimizer=optimizer), train


@unusual
def gradient_descent_by_hand() -> tuple[Debugger, TrainingLoop]:
    model = tumor_network()
    data, val = split(*tumors())

    def train() -> None:
        for x, y in batches(data, 10):
            F.cross_entropy(model(x), y).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
            model.zero_grad()

    return Debugger(model, data, val, loss_fn=nn.CrossEntropyLoss()), train


@unusual
def worker_models_that_push_gradients() -> tuple[Debugger, TrainingLoop]:
    shared, worker = tumor_network(), tumor_network()
    data, val = split(*tumors())
    optimizer = torch.optim.Adam(shared.parameters(), lr=3e-3)

    def train() -> None:
        for x, y in batches(data, 8):
            worker.load_state_dict(shared.state_dict())
            worker.zero_grad()
            F.cross_entropy(worker(x), y).backward()
            for own, other in zip(shared.parameters(), worker.parameters(), strict=True):
                own.grad = other.grad.clone()
            optimizer.step()

    return Debugger(shared, data, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer), train


@unusual
def optimizers_in_turns_on_two_parts() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    first = torch.optim.SGD(model[0].parameters(), lr=0.05)
    second = torch.optim.Adam(model[2].parameters(), lr=5e-3)
    data, val = split(*diabetes())

    def train() -> None:
        for step, (x, y) in enumerate(batches(data, 12)):
            optimizer = (first, second)[step // 3 % 2]
            model.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()

    return Debugger(model, data, val, loss_fn=nn.MSELoss(), optimizer=[first, second]), train


class UncertaintyWeights(nn.Module):
    """Two tasks, weighed by learned variances (Kendall 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.log_variance = nn.Parameter(torch.zeros(2))

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        losses = (output - target).square().mean(0)
        return ((-self.log_variance).exp() * losses + self.log_variance).sum()


@unusual
def two_tasks_with_uncertainty_weights() -> tuple[Debugger, TrainingLoop]:
    model, loss_fn = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2)), UncertaintyWeights()
    x = torch.randn(512, 10)
    y = torch.stack([x[:, 0] * 0.1 + 0.02 * x[:, 1], torch.sin(x[:, 2])], 1) + 0.01 * torch.randn(512, 2)
    data, val = split(x, y)
    optimizer = torch.optim.Adam([*model.parameters(), *loss_fn.parameters()], lr=5e-3)

    def train() -> None:
        for inputs, target in batches(data, 15):
            optimizer.zero_grad()
            loss_fn(model(inputs), target).backward()
            optimizer.step()

    return Debugger(model, data, val, loss_fn=loss_fn, optimizer=optimizer), train


@unusual
def cyclic_restarts_of_the_learning_rate() -> tuple[Debugger, TrainingLoop]:
    model = digit_network()
    data, val = split(*digits())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 24)

    def train() -> None:
        for _ in range(8):
            for x, y in data:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                schedule.step()
            evaluate(model, val)

    return Debugger(model, data, val, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer, scheduler=schedule), train


class PairDistance(nn.Module):
    """The distance of the codes of two halves of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.code = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, pairs: Tensor) -> Tensor:
        return (self.code(pairs[:, 0]) - self.code(pairs[:, 1])).square().sum(1).add(1e-6).sqrt()


def contrastive(distance: Tensor, alike: Tensor) -> Tensor:
    return (alike * distance.square() + (1 - alike) * F.relu(1 - distance).square()).mean()


@unusual
def contrastive_pairs_by_distance() -> tuple[Debugger, TrainingLoop]:
    model = PairDistance()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    alike = (torch.rand(512) < 0.5).float()
    first = torch.randn(512, 8)
    second = torch.where(alike[:, None] > 0, first + 0.1 * torch.randn(512, 8), torch.randn(512, 8))
    data = loader(torch.stack([first, second], 1), alike)

    def train() -> None:
        for pairs, target in batches(data, 8):
            optimizer.zero_grad()
            contrastive(model(pairs), target).backward()
            optimizer.step()

    return Debugger(model, data, loss_fn=contrastive, optimizer=optimizer), train
