"""Runs with nothing wrong, many of which look ill to a rule that knows absolute numbers only."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.rules.signal.trials import (
    SGD,
    Adam,
    AdamW,
    ConvNet,
    Recurrent,
    Residual,
    Transformer,
    Trial,
    batches,
    pictures,
    points,
    sentences,
    series,
    stack,
    supervised,
    token_loss,
    values,
)

Build = Callable[[], Trial]


def plain(act: type[nn.Module], optimizer: type[torch.optim.Optimizer], rate: float, depth: int = 2) -> Build:
    def build() -> Trial:
        model = stack(depth, act)
        return Trial(model, optimizer(model.parameters(), lr=rate), supervised(model, points()))

    return build


def residual(zero: bool, norm: bool) -> Build:
    def build() -> Trial:
        model = Residual(zero=zero, norm=norm)
        return Trial(model, Adam(model.parameters(), 1e-3), supervised(model, points()))

    return build


def language(optimizer: type[torch.optim.Optimizer], rate: float, tied: bool = False) -> Build:
    def build() -> Trial:
        model = Transformer(tied=tied)
        return Trial(model, optimizer(model.parameters(), lr=rate), supervised(model, sentences(), token_loss), 80)

    return build


def gan() -> Trial:
    model = nn.ModuleDict({"g": stack(2, nn.ReLU, 32, 4, 2), "d": stack(2, nn.LeakyReLU, 32, 2, 1)})
    first, second = (Adam(model[one].parameters(), 1e-3, betas=(0.5, 0.9)) for one in "gd")
    stream = batches(torch.randn(512, 2) + 2)

    def loss() -> Tensor:
        (real,) = next(stream)
        fake = model["g"](torch.randn(len(real), 4))
        second.zero_grad()
        yes, no = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        judged = F.binary_cross_entropy_with_logits
        (judged(model["d"](real), yes) + judged(model["d"](fake.detach()), no)).backward()
        second.step()
        return judged(model["d"](fake), yes)

    return Trial(model, first, loss)


class Adapted(nn.Module):
    """A frozen layer beside a product of two thin ones, the second of which starts at zero."""

    def __init__(self, layer: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.a, self.b = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.b(self.a(x))


def lora() -> Trial:
    model = stack(3, nn.ReLU)
    for i in (0, 2, 4):
        model[i] = Adapted(model[i])
    return Trial(model, Adam((p for p in model.parameters() if p.requires_grad), 1e-3), supervised(model, points()))


def pretrained(steps: int = 200) -> nn.Module:
    model = stack(3, nn.ReLU)
    before = Trial(model, Adam(model.parameters(), 3e-3), supervised(model, points()), steps)
    before.train()
    return model


def fine_tuned(rate: float, frozen: int) -> Build:
    def build() -> Trial:
        model = pretrained()
        model[:frozen].requires_grad_(False)
        model[6] = nn.Linear(32, 4)
        groups = [{"params": model[frozen:6].parameters(), "lr": rate}, {"params": model[6].parameters()}]
        return Trial(model, Adam(groups, lr=1e-3), supervised(model, points()))

    return build


class Bag(nn.Module):
    """Averaged embeddings and a linear head."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.embed, self.head = nn.EmbeddingBag(2000, 16, sparse=sparse), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embed(x))


def bag(sparse: bool) -> Build:
    def build() -> Trial:
        model = Bag(sparse)
        y = torch.randint(4, (512,))
        x = torch.randint(500, (512, 10)) + 500 * y.unsqueeze(1)
        optimizer = SGD(model.parameters(), 0.5) if sparse else Adam(model.parameters(), 1e-2)
        return Trial(model, optimizer, supervised(model, (x, y)))

    return build


def normed_conv(rate: float) -> Build:
    def build() -> Trial:
        model = ConvNet()
        return Trial(model, SGD(model.parameters(), rate, momentum=0.9), supervised(model, pictures()), 120)

    return build


def normed_mlp() -> Trial:
    model = stack(4, nn.ReLU, norm=nn.BatchNorm1d)
    return Trial(model, SGD(model.parameters(), 1.0), supervised(model, points()), 250)


def warm_up() -> Trial:
    model = Transformer()
    optimizer = AdamW(model.parameters(), 3e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: i / 60)
    return Trial(model, optimizer, supervised(model, sentences(), token_loss), 80, scheduler=scheduler)


def one_cycle() -> Trial:
    model = stack(3, nn.ReLU, norm=nn.BatchNorm1d)
    optimizer = SGD(model.parameters(), 0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=200)
    return Trial(model, optimizer, supervised(model, points()), 200, scheduler=scheduler)


def logistic(rate: float) -> Build:
    def build() -> Trial:
        model = nn.Sequential(nn.Linear(16, 4))
        nn.init.zeros_(model[0].weight)
        x = torch.randn(512, 16)
        data = x, (x @ torch.randn(16, 4)).argmax(1)
        return Trial(model, SGD(model.parameters(), rate), supervised(model, data), 300)

    return build


def linear() -> Trial:
    model, (x, _) = nn.Sequential(nn.Linear(8, 1)), values()
    y = x.sum(1, keepdim=True) + 0.1 * torch.randn(512, 1)
    return Trial(model, SGD(model.parameters(), 0.1), supervised(model, (x, y), F.mse_loss), 200)


class Embedder(nn.Module):
    """Three samples at a time, seen by one network."""

    def __init__(self) -> None:
        super().__init__()
        self.body = stack(2, nn.ReLU, outputs=8)

    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(self.body(x), dim=1)


def triplets() -> Trial:
    model, centers = Embedder(), 4 * torch.randn(4, 16)

    def loss() -> Tensor:
        y = torch.randint(4, (32,))
        other = (y + torch.randint(1, 4, (32,))) % 4
        anchor, same, far = (model(centers[k] + 0.5 * torch.randn(32, 16)) for k in (y, y, other))
        return F.triplet_margin_loss(anchor, same, far, margin=0.3)

    return Trial(model, Adam(model.parameters(), 1e-3), loss)


class Bottleneck(nn.Module):
    """An autoencoder with a ReLU over few units."""

    def __init__(self, units: int, last: nn.Module) -> None:
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, units), nn.ReLU())
        self.decode = nn.Sequential(nn.Linear(units, 32), nn.ReLU(), nn.Linear(32, 16), last)

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))


def bottleneck(units: int) -> Build:
    def build() -> Trial:
        model, x = Bottleneck(units, nn.Identity()), torch.randn(512, 3) @ torch.randn(3, 16)
        return Trial(model, Adam(model.parameters(), 3e-3), supervised(model, (x, x), F.mse_loss), 250)

    return build


def binary_autoencoder() -> Trial:
    model, hidden = Bottleneck(8, nn.Sigmoid()), torch.randn(512, 3)
    x = (hidden @ torch.randn(3, 16) > 1.5).float()
    return Trial(model, Adam(model.parameters(), 1e-2), supervised(model, (x, x), F.binary_cross_entropy), 250)


class Variational(nn.Module):
    """An encoder to means and log variances, and a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.mean, self.spread = nn.Linear(16, 32), nn.Linear(32, 4), nn.Linear(32, 4)
        self.decode = stack(1, nn.ReLU, 32, 4, 16)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = F.relu(self.body(x))
        mean, spread = self.mean(h), self.spread(h)
        return self.decode(mean + torch.randn_like(mean) * (spread / 2).exp()), mean, spread


def variational() -> Trial:
    model, x = Variational(), torch.randn(512, 3) @ torch.randn(3, 16)

    def elbo(found: tuple[Tensor, Tensor, Tensor], target: Tensor) -> Tensor:
        made, mean, spread = found
        divergence = 0.5 * (mean.square() + spread.exp() - 1 - spread).sum(1)
        return ((made - target).square().sum(1) + divergence).mean()

    return Trial(model, Adam(model.parameters(), 1e-3), supervised(model, (x, x), elbo), 200)


def recurrent(kind: type[nn.Module], clip: float | None, rate: float = 1e-2) -> Build:
    def build() -> Trial:
        model = Recurrent(kind)
        return Trial(model, Adam(model.parameters(), rate), supervised(model, series(), F.mse_loss), 100, clip=clip)

    return build


def noise_floor() -> Trial:
    model = stack(2, nn.ReLU)
    return Trial(model, Adam(model.parameters(), 1e-3), supervised(model, points(noise=8.0)), 300)


def sparse_units() -> Trial:
    model = stack(2, nn.ReLU, 128)
    nn.init.constant_(model[2].bias, -0.35)
    return Trial(model, Adam(model.parameters(), 1e-3), supervised(model, points()))


HEALTHY: dict[str, Build] = {
    "ReLUs by SGD": plain(nn.ReLU, SGD, 0.1),
    "ReLUs by Adam": plain(nn.ReLU, Adam, 1e-3),
    "four tanhs": plain(nn.Tanh, Adam, 3e-3, 4),
    "eight GELUs": plain(nn.GELU, Adam, 1e-3, 8),
    "residual, branches from zero": residual(True, False),
    "residual, normalized, from zero": residual(True, True),
    "a language model, tied": language(Adam, 1e-3, True),
    "a GAN": gan,
    "LoRA": lora,
    "fine-tuned, all": fine_tuned(1e-5, 0),
    "a head alone": fine_tuned(1e-3, 6),
    "a bag of words, sparse": bag(True),
    "convolutions": normed_conv(0.05),
    "batch normalization at rate 1": normed_mlp,
    "warm-up from zero": warm_up,
    "one cycle": one_cycle,
    "logistic regression at 5": logistic(5.0),
    "triplets": triplets,
    "a bottleneck of three": bottleneck(3),
    "binary pictures coded": binary_autoencoder,
    "variational": variational,
    "an RNN with clipping": recurrent(nn.RNN, 1.0),
    "at the noise floor": noise_floor,
    "sparse units": sparse_units,
}
