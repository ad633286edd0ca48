"""Healthy runs with other optimizers, initializations, losses and training methods."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.rules.signal.training_runs import (
    SGD,
    Adam,
    AdamW,
    LanguageModel,
    TrainingRun,
    batches,
    class_points,
    mlp,
    regression_data,
    reinitialize,
    sentences,
    supervised,
    token_loss,
)

BuildRun = Callable[[], TrainingRun]


def mlp_with_optimizer(optimizer: Callable[..., torch.optim.Optimizer], **options: Any) -> BuildRun:
    def build() -> TrainingRun:
        model = mlp(3, nn.ReLU)
        closure, full_batch = optimizer is torch.optim.LBFGS, optimizer in (torch.optim.LBFGS, torch.optim.Rprop)
        stepper = optimizer(model.parameters(), **options)
        data = class_points()
        loss = (lambda: F.cross_entropy(model(data[0]), data[1])) if full_batch else supervised(model, data)
        return TrainingRun(model, stepper, loss, 40 if closure else 150, closure=closure)

    return build


class LayerScaleNetwork(nn.Module):
    """Residual blocks whose branches start with a scale of 1e-5."""

    def __init__(self) -> None:
        super().__init__()
        self.entrance, self.head = nn.Linear(16, 32), nn.Linear(32, 4)
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(4))
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
        self.scales = nn.ParameterList(1e-5 * torch.ones(32) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        x = self.entrance(x)
        for norm, layer, scale in zip(self.norms, self.layers, self.scales, strict=True):
            x = x + scale * F.gelu(layer(norm(x)))
        return self.head(x)


def layer_scale() -> TrainingRun:
    model = LayerScaleNetwork()
    return TrainingRun(model, AdamW(model.parameters(), 1e-3), supervised(model, class_points()))


class DifferenceNetwork(nn.Module):
    """Compares embeddings, so that the bias of the last embedding layer cancels and has no gradient."""

    def __init__(self, centered: bool) -> None:
        super().__init__()
        self.centered = centered
        self.embed = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 24))
        self.head = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x: Tensor) -> Tensor:
        features = self.embed(x)
        other = features.mean(0) if self.centered else self.embed(torch.zeros_like(x))
        return self.head((features - other).abs())


def difference(centered: bool) -> BuildRun:
    def build() -> TrainingRun:
        model = DifferenceNetwork(centered)
        return TrainingRun(model, Adam(model.parameters(), 1e-3), supervised(model, class_points()))

    return build


def gpt_initialization(vocabulary: int = 20) -> TrainingRun:
    model = reinitialize(LanguageModel(), partial(nn.init.normal_, std=0.02), 0.0)
    nn.init.normal_(model.embed.weight, std=0.02)
    optimizer = AdamW(model.parameters(), 3e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1.0, (i + 1) / 20) * (1 - i / 100))
    return TrainingRun(model, optimizer, supervised(model, sentences(), token_loss), 100, 1.0, schedule)


def sigmoids_at_three() -> TrainingRun:
    model, (x, y) = mlp(1, nn.Sigmoid, 30), class_points()
    loss = supervised(model, (x, F.one_hot(y, 4).float()), lambda a, b: (a.sigmoid() - b).square().sum(1).mean() / 2)
    return TrainingRun(model, SGD(model.parameters(), 3.0), loss, 200)


def few_units() -> TrainingRun:
    x = torch.randint(2, (512, 2)).float()
    model = mlp(1, nn.ReLU, 6, 2, 2)
    return TrainingRun(model, Adam(model.parameters(), 0.02), supervised(model, (2 * x - 1, x.sum(1).long() % 2)), 200)


def averaged_target() -> TrainingRun:
    online = mlp(2, nn.ReLU, outputs=8)
    model = nn.ModuleDict({"online": online, "predictor": nn.Linear(8, 8), "target": copy.deepcopy(online)})
    model["target"].requires_grad_(False)
    stream = batches(class_points()[0])

    def loss() -> Tensor:
        (x,) = next(stream)
        prediction = model["predictor"](model["online"](x + 0.1 * torch.randn_like(x)))
        return 2 - 2 * F.cosine_similarity(prediction, model["target"](x)).mean()

    def update_target(_: int) -> None:
        with torch.no_grad():
            for target, source in zip(model["target"].parameters(), online.parameters(), strict=True):
                target.lerp_(source, 0.02)

    parameters = [p for p in model.parameters() if p.requires_grad]
    return TrainingRun(model, Adam(parameters, 1e-3), loss, after=update_target)


def critic_clipped() -> TrainingRun:
    model, real = mlp(2, nn.LeakyReLU, 32, 2, 1), torch.randn(512, 2) + 1
    stream = batches(real)

    def loss() -> Tensor:
        (x,) = next(stream)
        return model(torch.randn(len(x), 2)).mean() - model(x).mean()

    def clip(_: int) -> None:
        for p in model.parameters():
            p.data.clamp_(-0.05, 0.05)

    return TrainingRun(model, torch.optim.RMSprop(model.parameters(), 5e-4), loss, after=clip)


class MixtureOfExperts(nn.Module):
    """Experts, one for each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(16, 6), nn.ModuleList(mlp(1, nn.ReLU) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        best, choice = self.gate(x).softmax(1).max(1)
        output = torch.stack([expert(x) for expert in self.experts], 1)
        return best.unsqueeze(1) * output[torch.arange(len(x)), choice]


def experts() -> TrainingRun:
    model = MixtureOfExperts()
    return TrainingRun(model, Adam(model.parameters(), 3e-3), supervised(model, class_points()))


class AuxiliaryHead(nn.Module):
    """An auxiliary head on an early layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.side, self.rest = nn.Linear(16, 32), nn.Linear(32, 4), mlp(2, nn.ReLU, 32, 32)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(x).relu()
        return self.rest(x), self.side(x)


def auxiliary() -> TrainingRun:
    model = AuxiliaryHead()

    def total_loss(output: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
        return F.cross_entropy(output[0], y) + 1e-4 * F.cross_entropy(output[1], y)

    return TrainingRun(model, Adam(model.parameters(), 1e-3), supervised(model, class_points(), total_loss))


def factors() -> TrainingRun:
    model = nn.ModuleDict({"users": nn.Embedding(200, 8), "things": nn.Embedding(300, 8), "head": nn.Linear(8, 1)})
    for table in ("users", "things"):
        nn.init.normal_(model[table].weight, std=0.3)
    u, i = torch.randint(200, (4000,)), torch.randint(300, (4000,))
    y = (torch.randn(200, 3)[u] * torch.randn(300, 3)[i]).sum(1)
    stream = batches(u, i, y, size=128)

    def loss() -> Tensor:
        u, i, y = next(stream)
        return F.mse_loss(model["head"](model["users"](u) * model["things"](i)).squeeze(1), y)

    return TrainingRun(model, Adam(model.parameters(), 1e-2), loss, 200)


def continued_run() -> TrainingRun:
    model, data = mlp(2, nn.ReLU), class_points()
    TrainingRun(model, Adam(model.parameters(), 3e-3), supervised(model, data), 400).train()
    return TrainingRun(model, Adam(model.parameters(), 1e-5), supervised(model, data), 100)


def weight_norm() -> TrainingRun:
    model = mlp(3, nn.ReLU)
    for i in (0, 2, 4):
        model[i] = nn.utils.parametrizations.weight_norm(model[i])
    return TrainingRun(model, Adam(model.parameters(), 3e-3), supervised(model, class_points()))


def sparse_code() -> TrainingRun:
    model, x = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16)), torch.randn(512, 5) @ torch.randn(5, 16)

    def loss_fn(output: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(output, y) + 1e-3 * model[0].weight.abs().sum()

    return TrainingRun(model, Adam(model.parameters(), 3e-3), supervised(model, (x, x), loss_fn), 250)


def short_run() -> TrainingRun:
    model = mlp(3, nn.ReLU)
    return TrainingRun(model, Adam(model.parameters(), 1e-3), supervised(model, class_points()), 30)


def gaussian() -> TrainingRun:
    model, (x, y) = mlp(2, nn.Tanh, inputs=8, outputs=2), regression_data()

    def loss_fn(output: Tensor, y: Tensor) -> Tensor:
        return F.gaussian_nll_loss(output[:, :1], y, F.softplus(output[:, 1:]) + 1e-3)

    return TrainingRun(model, Adam(model.parameters(), 3e-3), supervised(model, (x, y), loss_fn), 300)


class GatedNetwork(nn.Module):
    """A hidden layer with a sigmoid gate that starts open."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.gate, self.head = nn.Linear(16, 32), nn.Sequential(nn.Linear(16, 32), nn.Sigmoid()), None
        nn.init.constant_(self.gate[0].bias, 4.0)
        self.head = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).relu() * self.gate(x))


def gated() -> TrainingRun:
    model = GatedNetwork()
    return TrainingRun(model, Adam(model.parameters(), 3e-3), supervised(model, class_points()))


def policy() -> TrainingRun:
    model = mlp(1, nn.Tanh, 32, 8, 4)
    best = torch.randn(8, 4)

    def loss() -> Tensor:
        x = torch.randn(32, 8)
        choice = torch.distributions.Categorical(logits=model(x))
        activation = choice.sample()
        reward = (activation == (x @ best).argmax(1)).float()
        return -(choice.log_prob(activation) * (reward - reward.mean())).mean()

    return TrainingRun(model, Adam(model.parameters(), 3e-3), loss, 250)


def two_tasks() -> TrainingRun:
    model = nn.ModuleDict({"body": mlp(2, nn.ReLU, outputs=16), "a": nn.Linear(16, 4), "b": nn.Linear(16, 4)})
    turns = {name: supervised(nn.Sequential(model["body"], model[name]), class_points()) for name in "ab"}
    count = iter(range(10**6))
    return TrainingRun(model, Adam(model.parameters(), 1e-3), lambda: turns["ab"[next(count) % 2]]())


MORE_HEALTHY: dict[str, BuildRun] = {
    "open gates": gated,
    "difference of two embeddings": difference(False),
    "centered embeddings": difference(True),
    "REINFORCE": policy,
    "alternating heads": two_tasks,
    "LBFGS": mlp_with_optimizer(torch.optim.LBFGS, lr=1.0, max_iter=5, line_search_fn="strong_wolfe"),
    "Adagrad": mlp_with_optimizer(torch.optim.Adagrad, lr=0.05),
    "SGD with momentum": mlp_with_optimizer(SGD, lr=0.05, momentum=0.9, weight_decay=5e-4),
    "Adam at 3e-4": mlp_with_optimizer(Adam, lr=3e-4),
    "AdamW with decay 1": mlp_with_optimizer(AdamW, lr=1e-3, weight_decay=1.0),
    "layer scale": layer_scale,
    "GPT initialization": gpt_initialization,
    "sigmoids at rate 3": sigmoids_at_three,
    "six units": few_units,
    "a target network": averaged_target,
    "a critic with clipped weights": critic_clipped,
    "a mixture of experts": experts,
    "a weak auxiliary head": auxiliary,
    "factors of users and items": factors,
    "continued training": continued_run,
    "weight norm": weight_norm,
    "a sparse code": sparse_code,
    "thirty steps": short_run,
    "mean and variance": gaussian,
}
