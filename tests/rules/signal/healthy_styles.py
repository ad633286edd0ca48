"""More healthy runs: other optimizers, starts, losses and ways to train."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.rules.signal.trials import (
    SGD,
    Adam,
    AdamW,
    Transformer,
    Trial,
    batches,
    drawn,
    points,
    sentences,
    stack,
    supervised,
    token_loss,
    values,
)

Build = Callable[[], Trial]


def by(optimizer: Callable[..., torch.optim.Optimizer], **options: Any) -> Build:
    def build() -> Trial:
        model = stack(3, nn.ReLU)
        closure, whole = optimizer is torch.optim.LBFGS, optimizer in (torch.optim.LBFGS, torch.optim.Rprop)
        made = optimizer(model.parameters(), **options)
        data = points()
        loss = (lambda: F.cross_entropy(model(data[0]), data[1])) if whole else supervised(model, data)
        return Trial(model, made, loss, 40 if closure else 150, closure=closure)

    return build


class Scaled(nn.Module):
    """Residual blocks whose branches begin at a hundred-thousandth."""

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


def layer_scale() -> Trial:
    model = Scaled()
    return Trial(model, AdamW(model.parameters(), 1e-3), supervised(model, points()))


def like_gpt(vocabulary: int = 20) -> Trial:
    model = drawn(Transformer(), partial(nn.init.normal_, std=0.02), 0.0)
    nn.init.normal_(model.embed.weight, std=0.02)
    optimizer = AdamW(model.parameters(), 3e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: min(1.0, (i + 1) / 20) * (1 - i / 100))
    return Trial(model, optimizer, supervised(model, sentences(), token_loss), 100, 1.0, schedule)


def sigmoids_at_three() -> Trial:
    model, (x, y) = stack(1, nn.Sigmoid, 30), points()
    loss = supervised(model, (x, F.one_hot(y, 4).float()), lambda a, b: (a.sigmoid() - b).square().sum(1).mean() / 2)
    return Trial(model, SGD(model.parameters(), 3.0), loss, 200)


def few_units() -> Trial:
    x = torch.randint(2, (512, 2)).float()
    model = stack(1, nn.ReLU, 6, 2, 2)
    return Trial(model, Adam(model.parameters(), 0.02), supervised(model, (2 * x - 1, x.sum(1).long() % 2)), 200)


def averaged_target() -> Trial:
    online = stack(2, nn.ReLU, outputs=8)
    model = nn.ModuleDict({"online": online, "predictor": nn.Linear(8, 8), "target": copy.deepcopy(online)})
    model["target"].requires_grad_(False)
    stream = batches(points()[0])

    def loss() -> Tensor:
        (x,) = next(stream)
        guess = model["predictor"](model["online"](x + 0.1 * torch.randn_like(x)))
        return 2 - 2 * F.cosine_similarity(guess, model["target"](x)).mean()

    def follow(_: int) -> None:
        with torch.no_grad():
            for mine, theirs in zip(model["target"].parameters(), online.parameters(), strict=True):
                mine.lerp_(theirs, 0.02)

    trained = [p for p in model.parameters() if p.requires_grad]
    return Trial(model, Adam(trained, 1e-3), loss, after=follow)


def critic_clipped() -> Trial:
    model, real = stack(2, nn.LeakyReLU, 32, 2, 1), torch.randn(512, 2) + 1
    stream = batches(real)

    def loss() -> Tensor:
        (x,) = next(stream)
        return model(torch.randn(len(x), 2)).mean() - model(x).mean()

    def clip(_: int) -> None:
        for p in model.parameters():
            p.data.clamp_(-0.05, 0.05)

    return Trial(model, torch.optim.RMSprop(model.parameters(), 5e-4), loss, after=clip)


class Mixture(nn.Module):
    """Experts of which each sample goes to one."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(16, 6), nn.ModuleList(stack(1, nn.ReLU) for _ in range(6))

    def forward(self, x: Tensor) -> Tensor:
        best, chosen = self.gate(x).softmax(1).max(1)
        made = torch.stack([expert(x) for expert in self.experts], 1)
        return best.unsqueeze(1) * made[torch.arange(len(x)), chosen]


def experts() -> Trial:
    model = Mixture()
    return Trial(model, Adam(model.parameters(), 3e-3), supervised(model, points()))


class Auxiliary(nn.Module):
    """A head of its own on an early layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.side, self.rest = nn.Linear(16, 32), nn.Linear(32, 4), stack(2, nn.ReLU, 32, 32)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.body(x).relu()
        return self.rest(x), self.side(x)


def auxiliary() -> Trial:
    model = Auxiliary()

    def both(made: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
        return F.cross_entropy(made[0], y) + 1e-4 * F.cross_entropy(made[1], y)

    return Trial(model, Adam(model.parameters(), 1e-3), supervised(model, points(), both))


def factors() -> Trial:
    model = nn.ModuleDict({"users": nn.Embedding(200, 8), "things": nn.Embedding(300, 8), "head": nn.Linear(8, 1)})
    for one in ("users", "things"):
        nn.init.normal_(model[one].weight, std=0.3)
    u, i = torch.randint(200, (4000,)), torch.randint(300, (4000,))
    y = (torch.randn(200, 3)[u] * torch.randn(300, 3)[i]).sum(1)
    stream = batches(u, i, y, size=128)

    def loss() -> Tensor:
        u, i, y = next(stream)
        return F.mse_loss(model["head"](model["users"](u) * model["things"](i)).squeeze(1), y)

    return Trial(model, Adam(model.parameters(), 1e-2), loss, 200)


def continued() -> Trial:
    model, data = stack(2, nn.ReLU), points()
    Trial(model, Adam(model.parameters(), 3e-3), supervised(model, data), 400).train()
    return Trial(model, Adam(model.parameters(), 1e-5), supervised(model, data), 100)


def weight_norm() -> Trial:
    model = stack(3, nn.ReLU)
    for i in (0, 2, 4):
        model[i] = nn.utils.parametrizations.weight_norm(model[i])
    return Trial(model, Adam(model.parameters(), 3e-3), supervised(model, points()))


def sparse_code() -> Trial:
    model, x = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16)), torch.randn(512, 5) @ torch.randn(5, 16)

    def loss_fn(made: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(made, y) + 1e-3 * model[0].weight.abs().sum()

    return Trial(model, Adam(model.parameters(), 3e-3), supervised(model, (x, x), loss_fn), 250)


def short() -> Trial:
    model = stack(3, nn.ReLU)
    return Trial(model, Adam(model.parameters(), 1e-3), supervised(model, points()), 30)


def gaussian() -> Trial:
    model, (x, y) = stack(2, nn.Tanh, inputs=8, outputs=2), values()

    def loss_fn(made: Tensor, y: Tensor) -> Tensor:
        return F.gaussian_nll_loss(made[:, :1], y, F.softplus(made[:, 1:]) + 1e-3)

    return Trial(model, Adam(model.parameters(), 3e-3), supervised(model, (x, y), loss_fn), 300)


class Gated(nn.Module):
    """Channels weighed by a sigmoid gate, and a mixture that a softmax chooses from."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.gate, self.head = nn.Linear(16, 32), nn.Sequential(nn.Linear(16, 32), nn.Sigmoid()), None
        nn.init.constant_(self.gate[0].bias, 4.0)
        self.head = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).relu() * self.gate(x))


def gated() -> Trial:
    model = Gated()
    return Trial(model, Adam(model.parameters(), 3e-3), supervised(model, points()))


def policy() -> Trial:
    model = stack(1, nn.Tanh, 32, 8, 4)
    best = torch.randn(8, 4)

    def loss() -> Tensor:
        x = torch.randn(32, 8)
        chosen = torch.distributions.Categorical(logits=model(x))
        act = chosen.sample()
        reward = (act == (x @ best).argmax(1)).float()
        return -(chosen.log_prob(act) * (reward - reward.mean())).mean()

    return Trial(model, Adam(model.parameters(), 3e-3), loss, 250)


def two_tasks() -> Trial:
    model = nn.ModuleDict({"body": stack(2, nn.ReLU, outputs=16), "a": nn.Linear(16, 4), "b": nn.Linear(16, 4)})
    turns = {name: supervised(nn.Sequential(model["body"], model[name]), points()) for name in "ab"}
    count = iter(range(10**6))
    return Trial(model, Adam(model.parameters(), 1e-3), lambda: turns["ab"[next(count) % 2]]())


STYLES: dict[str, Build] = {
    "open gates": gated,
    "REINFORCE": policy,
    "two heads taking turns": two_tasks,
    "LBFGS": by(torch.optim.LBFGS, lr=1.0, max_iter=5, line_search_fn="strong_wolfe"),
    "Adagrad": by(torch.optim.Adagrad, lr=0.05),
    "SGD with momentum": by(SGD, lr=0.05, momentum=0.9, weight_decay=5e-4),
    "Adam at 3e-4": by(Adam, lr=3e-4),
    "AdamW with decay 1": by(AdamW, lr=1e-3, weight_decay=1.0),
    "layer scale": layer_scale,
    "as GPT begins": like_gpt,
    "sigmoids at rate 3": sigmoids_at_three,
    "six units": few_units,
    "a target that follows": averaged_target,
    "a critic with clipped weights": critic_clipped,
    "a mixture of experts": experts,
    "a weak auxiliary head": auxiliary,
    "factors of users and items": factors,
    "trained on": continued,
    "weight norm": weight_norm,
    "a sparse code": sparse_code,
    "thirty steps": short,
    "mean and variance": gaussian,
}
