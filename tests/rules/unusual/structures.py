"""Networks in unusual forms: adapters, prompts, masks, fixed points, weights made by networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune

from nbdebug.debugger import Debugger
from tests.rules.real.datasets import diabetes, digits, loader, sentences, split, tumors
from tests.rules.unusual.catalog import TrainingLoop, batches, unusual


def trained(
    model: nn.Module, data: Any, val: Any, loss_fn: Any, optimizer: Any, epochs: int = 10, **options: Any
) -> tuple[Debugger, TrainingLoop]:
    """Return the debugger of a model and its plain loop with validation after each epoch."""

    def train() -> None:
        for _ in range(epochs):
            model.train()
            for x, y in data:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for x, y in val or ():
                    loss_fn(model(x), y)

    return Debugger(model, data, val, loss_fn=loss_fn, optimizer=optimizer, **options), train


class LowRank(nn.Module):
    """A frozen layer and a low-rank update that starts at zero (Hu 2021)."""

    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + x @ self.a.T @ self.b.T


@unusual
def low_rank_adapters_on_a_pretrained_net() -> tuple[Debugger, TrainingLoop]:
    data, val = split(*digits())
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    pretraining = torch.optim.Adam(body.parameters(), lr=5e-3)
    for x, y in batches(data, 4):
        pretraining.zero_grad()
        F.cross_entropy(body(x), (y * 3) % 10).backward()
        pretraining.step()
    model = nn.Sequential(body[0], LowRank(body[1]), body[2], LowRank(body[3]))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    return trained(model, data, val, nn.CrossEntropyLoss(), optimizer, 5)


class PromptTuned(nn.Module):
    """A frozen transformer with trained vectors before its tokens (Lester 2021)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 24)
        self.layer = nn.TransformerEncoderLayer(24, 2, 48, 0.0, batch_first=True)
        for p in self.parameters():
            p.requires_grad = False
        self.prompt, self.head = nn.Parameter(0.1 * torch.randn(4, 24)), nn.Linear(24, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = torch.cat([self.prompt.expand(len(tokens), -1, -1), self.embed(tokens)], 1)
        return self.head(self.layer(x)[:, :4].mean(1))


@unusual
def prompt_tuning_of_a_frozen_transformer() -> tuple[Debugger, TrainingLoop]:
    words = sentences()
    model = PromptTuned()
    data, val = split(words, (words[:, 0] > 11).long())
    optimizer = torch.optim.Adam([model.prompt, *model.head.parameters()], lr=1e-2)
    return trained(model, data, val, nn.CrossEntropyLoss(), optimizer)


@unusual
def pruned_weights_under_masks() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))
    prune.random_unstructured(model[0], "weight", amount=0.7)
    data, val = split(*tumors())
    return trained(model, data, val, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=3e-3))


@unusual
def weights_normalized_and_orthogonal() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(30, 32)), nn.ReLU(),
        parametrizations.orthogonal(nn.Linear(32, 32)), nn.ReLU(), nn.Linear(32, 2),
    )  # fmt: skip
    data, val = split(*tumors())
    return trained(model, data, val, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=2e-3))


class Quantized(torch.autograd.Function):
    """Rounding to 1/8, with the gradient of the identity."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return (x * 8).round() / 8

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


class QuantizedLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, Quantized.apply(self.weight), self.bias)


@unusual
def quantization_aware_training() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Flatten(), QuantizedLinear(64, 48), nn.ReLU(), QuantizedLinear(48, 10))
    data, val = split(*digits())
    return trained(model, data, val, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=3e-3))


class Equilibrium(nn.Module):
    """The fixed point of a layer, found without gradients and attached by one more step (Bai 2019)."""

    def __init__(self) -> None:
        super().__init__()
        self.inject, self.layer, self.head = nn.Linear(30, 16), nn.Linear(16, 16), nn.Linear(16, 2)
        with torch.no_grad():
            self.layer.weight.mul_(0.5)

    def forward(self, x: Tensor) -> Tensor:
        injected = self.inject(x)
        with torch.no_grad():
            z = torch.zeros_like(injected)
            for _ in range(20):
                z = torch.tanh(self.layer(z) + injected)
        return self.head(torch.tanh(self.layer(z) + injected))


@unusual
def deep_equilibrium() -> tuple[Debugger, TrainingLoop]:
    model = Equilibrium()
    data, val = split(*tumors())
    return trained(model, data, val, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=3e-3))


class NeuralODE(nn.Module):
    """An ordinary differential equation, integrated by Euler's method."""

    def __init__(self) -> None:
        super().__init__()
        self.field = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 2))

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(10):
            x = x + 0.1 * self.field(x)
        return x


@unusual
def neural_differential_equation() -> tuple[Debugger, TrainingLoop]:
    x = torch.randn(256, 2)
    y = x @ torch.linalg.matrix_exp(torch.tensor([[0.0, 1.0], [-1.0, -0.2]]))
    model = NeuralODE()
    data, val = split(x, y)
    return trained(model, data, val, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=1e-2))


class HyperNetwork(nn.Module):
    """A network that makes the weights of another from a task vector."""

    def __init__(self) -> None:
        super().__init__()
        self.make = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3 * 8 + 8))

    def forward(self, pair: Tensor) -> Tensor:
        task, x = pair[:, :2], pair[:, 2:]
        weights = self.make(task)
        hidden = torch.tanh(torch.einsum("bi,bio->bo", x, weights[:, :24].view(-1, 3, 8)))
        return (hidden * weights[:, 24:]).sum(1, keepdim=True)


@unusual
def hypernetwork() -> tuple[Debugger, TrainingLoop]:
    x = torch.randn(512, 5)
    y = x[:, :1] * x[:, 2:3] + x[:, 1:2] * x[:, 3:4]
    model = HyperNetwork()
    data, val = split(x, y)
    return trained(model, data, val, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=5e-3), 20)


class Experts(nn.Module):
    """Two of eight experts per sample, chosen by a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(64, 8), nn.ModuleList(nn.Linear(64, 10) for _ in range(8))

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        weight, index = self.gate(x).softmax(1).topk(2)
        outputs = torch.stack([expert(x) for expert in self.experts], 1)
        chosen = outputs.gather(1, index[:, :, None].expand(-1, -1, 10))
        return (chosen * weight[:, :, None]).sum(1)


@unusual
def mixture_of_top_experts() -> tuple[Debugger, TrainingLoop]:
    model = Experts()
    data, val = split(*digits())
    return trained(model, data, val, nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr=5e-3))


class Factorization(nn.Module):
    """Users times items, with sparse gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item = nn.Embedding(60, 4, sparse=True), nn.Embedding(40, 4, sparse=True)
        for embedding in (self.user, self.item):
            nn.init.normal_(embedding.weight, std=0.5)

    def forward(self, pair: Tensor) -> Tensor:
        return (self.user(pair[:, 0]) * self.item(pair[:, 1])).sum(1)


@unusual
def sparse_matrix_factorization() -> tuple[Debugger, TrainingLoop]:
    model, pairs = Factorization(), torch.stack([torch.randint(60, (1500,)), torch.randint(40, (1500,))], 1)
    users, items = torch.randn(60, 3), torch.randn(40, 3)
    ratings = (users[pairs[:, 0]] * items[pairs[:, 1]]).sum(1)
    data, val = split(pairs, ratings, batch_size=64)
    return trained(model, data, val, nn.MSELoss(), torch.optim.SparseAdam(model.parameters(), lr=2e-2), 10)


class DeepSet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.phi, self.rho = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 24)), nn.Linear(24, 1)

    def forward(self, points: Tensor) -> Tensor:
        return self.rho(self.phi(points).mean(1))


@unusual
def deep_sets_of_points() -> tuple[Debugger, TrainingLoop]:
    points = torch.randn(400, 10, 2)
    model = DeepSet()
    data, val = split(points, points.square().mean((1, 2))[:, None])
    return trained(model, data, val, nn.MSELoss(), torch.optim.Adam(model.parameters(), lr=5e-3), 15)


@unusual
def physics_informed_oscillator() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
    data = loader(torch.rand(256, 1) * 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def train() -> None:
        zero = torch.zeros(1, 1)
        for (time,) in batches(data, 25):
            time.requires_grad_()
            u = model(time)
            (slope,) = torch.autograd.grad(u.sum(), time, create_graph=True)
            (curvature,) = torch.autograd.grad(slope.sum(), time, create_graph=True)
            start = zero.clone().requires_grad_()
            u0 = model(start)
            (slope0,) = torch.autograd.grad(u0.sum(), start, create_graph=True)
            loss = (curvature + 4 * u).square().mean() + 10 * ((u0 - 1).square() + slope0.square()).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return Debugger(model, data, optimizer=optimizer), train


class Image(nn.Module):
    """An image whose pixels are the parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.pixels = nn.Parameter(torch.rand(1, 64))

    def forward(self) -> Tensor:
        return self.pixels


@unusual
def optimization_of_an_input_against_a_frozen_net() -> tuple[Debugger, TrainingLoop]:
    critic = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).requires_grad_(False)
    picture = Image()
    optimizer = torch.optim.Adam(picture.parameters(), lr=5e-2)

    def train() -> None:
        for _ in range(80):
            optimizer.zero_grad()
            pixels = picture()
            (-critic(pixels)[0, 3] + 0.01 * pixels.square().sum()).backward()
            optimizer.step()

    return Debugger(picture, [torch.zeros(1)] * 4, optimizer=optimizer, forward=lambda model, _: model()), train


@unusual
def auxiliary_head_only_in_training() -> tuple[Debugger, TrainingLoop]:
    class TwoHeads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.main, self.auxiliary = nn.Linear(64, 32), nn.Linear(32, 10), nn.Linear(32, 10)

        def forward(self, x: Tensor) -> Any:
            hidden = torch.relu(self.body(x.flatten(1)))
            return (self.main(hidden), self.auxiliary(hidden)) if self.training else self.main(hidden)

    def loss_fn(output: Any, target: Tensor) -> Tensor:
        if isinstance(output, tuple):
            return F.cross_entropy(output[0], target) + 0.3 * F.cross_entropy(output[1], target)
        return F.cross_entropy(output, target)

    model = TwoHeads()
    data, val = split(*digits())
    return trained(model, data, val, loss_fn, torch.optim.Adam(model.parameters(), lr=3e-3))


@unusual
def regression_of_residuals_from_a_zero_head() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    nn.init.zeros_(model[2].weight)
    nn.init.zeros_(model[2].bias)
    data, val = split(*diabetes())
    return trained(model, data, val, nn.HuberLoss(), torch.optim.AdamW(model.parameters(), lr=2e-3), 8)
