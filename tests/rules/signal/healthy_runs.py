"""Healthy runs, many of which resemble faulty ones."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.rules.signal.training_runs import (
    SGD,
    Adam,
    AdamW,
    ConvNet,
    LanguageModel,
    RecurrentNetwork,
    ResidualNetwork,
    TrainingRun,
    batches,
    class_points,
    mlp,
    number_sequences,
    sentences,
    stripe_images,
    supervised,
    token_loss,
)

BuildRun = Callable[[], TrainingRun]


def mlp_run(
    activation: type[nn.Module], optimizer: type[torch.optim.Optimizer], rate: float, depth: int = 2
) -> BuildRun:
    def build() -> TrainingRun:
        model = mlp(depth, activation)
        return TrainingRun(model, optimizer(model.parameters(), lr=rate), supervised(model, class_points()))

    return build


def residual(zero: bool, norm: bool) -> BuildRun:
    def build() -> TrainingRun:
        model = ResidualNetwork(zero=zero, norm=norm)
        return TrainingRun(model, Adam(model.parameters(), 1e-3), supervised(model, class_points()))

    return build


def language(optimizer: type[torch.optim.Optimizer], rate: float, tied: bool = False) -> BuildRun:
    def build() -> TrainingRun:
        model = LanguageModel(tied=tied)
        return TrainingRun(
            model, optimizer(model.parameters(), lr=rate), supervised(model, sentences(), token_loss), 80
        )

    return build


def gan() -> TrainingRun:
    model = nn.ModuleDict({"g": mlp(2, nn.ReLU, 32, 4, 2), "d": mlp(2, nn.LeakyReLU, 32, 2, 1)})
    first, second = (Adam(model[player].parameters(), 1e-3, betas=(0.5, 0.9)) for player in "gd")
    stream = batches(torch.randn(512, 2) + 2)

    def loss() -> Tensor:
        (real,) = next(stream)
        fake = model["g"](torch.randn(len(real), 4))
        second.zero_grad()
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        loss_fn = F.binary_cross_entropy_with_logits
        (loss_fn(model["d"](real), ones) + loss_fn(model["d"](fake.detach()), zeros)).backward()
        second.step()
        return loss_fn(model["d"](fake), ones)

    return TrainingRun(model, first, loss)


class LowRankAdapter(nn.Module):
    """A frozen layer with a low-rank update that starts at zero."""

    def __init__(self, layer: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.a, self.b = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.b(self.a(x))


def lora() -> TrainingRun:
    model = mlp(3, nn.ReLU)
    for i in (0, 2, 4):
        model[i] = LowRankAdapter(model[i])
    return TrainingRun(
        model, Adam((p for p in model.parameters() if p.requires_grad), 1e-3), supervised(model, class_points())
    )


def pretrained(steps: int = 200) -> nn.Module:
    model = mlp(3, nn.ReLU)
    before = TrainingRun(model, Adam(model.parameters(), 3e-3), supervised(model, class_points()), steps)
    before.train()
    return model


def fine_tuned(rate: float, frozen: int) -> BuildRun:
    def build() -> TrainingRun:
        model = pretrained()
        model[:frozen].requires_grad_(False)
        model[6] = nn.Linear(32, 4)
        groups = [{"params": model[frozen:6].parameters(), "lr": rate}, {"params": model[6].parameters()}]
        return TrainingRun(model, Adam(groups, lr=1e-3), supervised(model, class_points()))

    return build


class BagOfWords(nn.Module):
    """Averaged embeddings and a linear head."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.embed, self.head = nn.EmbeddingBag(2000, 16, sparse=sparse), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))


def bag(sparse: bool) -> BuildRun:
    def build() -> TrainingRun:
        model = BagOfWords(sparse)
        y = torch.randint(4, (512,))
        x = torch.randint(500, (512, 10)) + 500 * y.unsqueeze(1)
        optimizer = SGD(model.parameters(), 0.5) if sparse else Adam(model.parameters(), 1e-2)
        return TrainingRun(model, optimizer, supervised(model, (x, y)))

    return build


def conv_with_norm(rate: float) -> BuildRun:
    def build() -> TrainingRun:
        model = ConvNet()
        return TrainingRun(model, SGD(model.parameters(), rate, momentum=0.9), supervised(model, stripe_images()), 120)

    return build


def mlp_with_norm() -> TrainingRun:
    model = mlp(4, nn.ReLU, norm=nn.BatchNorm1d)
    return TrainingRun(model, SGD(model.parameters(), 1.0), supervised(model, class_points()), 250)


def warm_up() -> TrainingRun:
    model = LanguageModel()
    optimizer = AdamW(model.parameters(), 3e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: i / 60)
    return TrainingRun(model, optimizer, supervised(model, sentences(), token_loss), 80, scheduler=scheduler)


def one_cycle() -> TrainingRun:
    model = mlp(3, nn.ReLU, norm=nn.BatchNorm1d)
    optimizer = SGD(model.parameters(), 0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=200)
    return TrainingRun(model, optimizer, supervised(model, class_points()), 200, scheduler=scheduler)


def logistic(rate: float) -> BuildRun:
    def build() -> TrainingRun:
        model = nn.Sequential(nn.Linear(16, 4))
        nn.init.zeros_(model[0].weight)
        x = torch.randn(512, 16)
        data = x, (x @ torch.randn(16, 4)).argmax(1)
        return TrainingRun(model, SGD(model.parameters(), rate), supervised(model, data), 300)

    return build


class Embedder(nn.Module):
    """A network with normalized embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp(2, nn.ReLU, outputs=8)

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(self.body(x), dim=1)


def triplets() -> TrainingRun:
    model, centers = Embedder(), 4 * torch.randn(4, 16)

    def loss() -> Tensor:
        y = torch.randint(4, (32,))
        other = (y + torch.randint(1, 4, (32,))) % 4
        anchor, positive, negative = (model(centers[k] + 0.5 * torch.randn(32, 16)) for k in (y, y, other))
        return F.triplet_margin_loss(anchor, positive, negative, margin=0.3)

    return TrainingRun(model, Adam(model.parameters(), 1e-3), loss)


class Bottleneck(nn.Module):
    """An autoencoder with few ReLU units in the middle."""

    def __init__(self, units: int, last: nn.Module) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, units), nn.ReLU())
        self.decode = nn.Sequential(nn.Linear(units, 32), nn.ReLU(), nn.Linear(32, 16), last)

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))


def bottleneck(units: int) -> BuildRun:
    def build() -> TrainingRun:
        model, x = Bottleneck(units, nn.Identity()), torch.randn(512, 3) @ torch.randn(3, 16)
        return TrainingRun(model, Adam(model.parameters(), 3e-3), supervised(model, (x, x), F.mse_loss), 250)

    return build


def binary_autoencoder() -> TrainingRun:
    model, hidden = Bottleneck(8, nn.Sigmoid()), torch.randn(512, 3)
    x = (hidden @ torch.randn(3, 16) > 1.5).float()
    return TrainingRun(model, Adam(model.parameters(), 1e-2), supervised(model, (x, x), F.binary_cross_entropy), 250)


class Variational(nn.Module):
    """An encoder to means and log variances, and a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.mean, self.spread = nn.Linear(16, 32), nn.Linear(32, 4), nn.Linear(32, 4)
        self.decode = mlp(1, nn.ReLU, 32, 4, 16)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = F.relu(self.body(x))
        mean, spread = self.mean(h), self.spread(h)
        return self.decode(mean + torch.randn_like(mean) * (spread / 2).exp()), mean, spread


def variational() -> TrainingRun:
    model, x = Variational(), torch.randn(512, 3) @ torch.randn(3, 16)

    def elbo(output: tuple[Tensor, Tensor, Tensor], target: Tensor) -> Tensor:
        reconstruction, mean, spread = output
        divergence = 0.5 * (mean.square() + spread.exp() - 1 - spread).sum(1)
        return ((reconstruction - target).square().sum(1) + divergence).mean()

    return TrainingRun(model, Adam(model.parameters(), 1e-3), supervised(model, (x, x), elbo), 200)


def recurrent(kind: type[nn.Module], clip: float | None, rate: float = 1e-2) -> BuildRun:
    def build() -> TrainingRun:
        model = RecurrentNetwork(kind)
        return TrainingRun(
            model, Adam(model.parameters(), rate), supervised(model, number_sequences(), F.mse_loss), 100, clip=clip
        )

    return build


def noise_floor() -> TrainingRun:
    model = mlp(2, nn.ReLU)
    return TrainingRun(model, Adam(model.parameters(), 1e-3), supervised(model, class_points(noise=8.0)), 300)


def sparse_units() -> TrainingRun:
    model = mlp(2, nn.ReLU, 128)
    nn.init.constant_(model[2].bias, -0.35)
    return TrainingRun(model, Adam(model.parameters(), 1e-3), supervised(model, class_points()))


HEALTHY: dict[str, BuildRun] = {
    "ReLUs by SGD": mlp_run(nn.ReLU, SGD, 0.1),
    "ReLUs by Adam": mlp_run(nn.ReLU, Adam, 1e-3),
    "four tanhs": mlp_run(nn.Tanh, Adam, 3e-3, 4),
    "eight GELUs": mlp_run(nn.GELU, Adam, 1e-3, 8),
    "residual, branches from zero": residual(True, False),
    "residual, normalized, from zero": residual(True, True),
    "a language model, tied": language(Adam, 1e-3, True),
    "a GAN": gan,
    "LoRA": lora,
    "fine-tuned, all": fine_tuned(1e-5, 0),
    "a head only": fine_tuned(1e-3, 6),
    "a bag of words, sparse": bag(True),
    "convolutions": conv_with_norm(0.05),
    "batch normalization at rate 1": mlp_with_norm,
    "warm-up from zero": warm_up,
    "one cycle": one_cycle,
    "logistic regression at 5": logistic(5.0),
    "triplets": triplets,
    "a bottleneck of three": bottleneck(3),
    "binary autoencoder": binary_autoencoder,
    "variational": variational,
    "an RNN with clipping": recurrent(nn.RNN, 1.0),
    "at the noise floor": noise_floor,
    "sparse units": sparse_units,
}
