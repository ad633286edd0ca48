"""Losses below zero, losses with a floor of their own, and losses that a schedule raises."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from tests.rules.real.datasets import diabetes, digits, loader, moons, padded, sentences, split, tumors
from tests.rules.unusual.catalog import TrainingLoop, batches, unusual


def train_plainly(model: nn.Module, data: Any, loss_fn: Any, optimizer: torch.optim.Optimizer, epochs: int) -> None:
    for x, y in batches(data, epochs):
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()


class Coupling(nn.Module):
    """An affine coupling of the two coordinates."""

    def __init__(self, swap: bool) -> None:
        super().__init__()
        self.swap, self.net = swap, nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = (x[:, 1:], x[:, :1]) if self.swap else (x[:, :1], x[:, 1:])
        scale, shift = self.net(a).chunk(2, 1)
        b = b * scale.tanh().exp() + shift
        return torch.cat([b, a] if self.swap else [a, b], 1), scale.tanh().sum(1)


class Flow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Coupling(bool(i % 2)) for i in range(4))

    def forward(self, x: Tensor) -> Tensor:
        log_det = x.new_zeros(len(x))
        for layer in self.layers:
            x, change = layer(x)
            log_det = log_det + change
        return -0.5 * (x.square().sum(1) + 2 * math.log(2 * math.pi)) + log_det


@unusual
def normalizing_flow_below_zero() -> tuple[Debugger, TrainingLoop]:
    flow = Flow()
    data = loader(0.2 * moons()[0])
    optimizer = torch.optim.Adam(flow.parameters(), lr=3e-3)

    def train() -> None:
        for (x,) in batches(data, 12):
            optimizer.zero_grad()
            (-flow(x).mean()).backward()
            optimizer.step()

    return Debugger(flow, data, loss_fn=lambda log_p: -log_p.mean(), optimizer=optimizer), train


@unusual
def mixture_density() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 9))
    y = torch.rand(512, 1) * 2 - 1
    x = y + 0.3 * torch.sin(6 * y) + 0.02 * torch.randn_like(y)
    data = loader(x, y)

    def loss_fn(output: Tensor, target: Tensor) -> Tensor:
        weight, mean, log_std = output.chunk(3, 1)
        parts = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp()).log_prob(target)
        return -(weight.log_softmax(1) + parts).logsumexp(1).mean()

    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    return Debugger(model, data, loss_fn=loss_fn, optimizer=optimizer), lambda: train_plainly(
        model, data, loss_fn, optimizer, 12
    )


@unusual
def gaussian_likelihood_of_precise_targets() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    x = torch.randn(512, 4)
    y = 0.1 * torch.sin(x[:, :1]) + 0.01 * torch.randn(512, 1)

    def loss_fn(output: Tensor, target: Tensor) -> Tensor:
        return F.gaussian_nll_loss(output[:, :1], target, output[:, 1:].exp())

    (data, val), optimizer = split(x, y), torch.optim.Adam(model.parameters(), lr=5e-3)
    return Debugger(model, data, val, loss_fn=loss_fn, optimizer=optimizer), lambda: train_plainly(
        model, data, loss_fn, optimizer, 12
    )


@unusual
def poisson_counts() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
    x = torch.randn(512, 3)
    y = torch.poisson((0.8 * x[:, :1] + 2).exp())
    (data, val), loss_fn = split(x, y), nn.PoissonNLLLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    return Debugger(model, data, val, loss_fn=loss_fn, optimizer=optimizer), lambda: train_plainly(
        model, data, loss_fn, optimizer, 12
    )


@unusual
def hinge_of_a_support_vector_machine() -> tuple[Debugger, TrainingLoop]:
    model = nn.Linear(30, 1)
    x, y = tumors()
    (data, val), optimizer = (
        split(x, 2.0 * y[:, None] - 1),
        torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-3),
    )

    def hinge(score: Tensor, sign: Tensor) -> Tensor:
        return F.relu(1 - score * sign).mean()

    return Debugger(model, data, val, loss_fn=hinge, optimizer=optimizer), lambda: train_plainly(
        model, data, hinge, optimizer, 10
    )


@unusual
def separable_hinge_at_exactly_zero() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
    y = torch.randint(2, (256,))
    x = torch.randn(256, 2) * 0.2 + (4.0 * y - 2)[:, None]
    data, loss_fn = loader(x, y), nn.MultiMarginLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return Debugger(model, data, loss_fn=loss_fn, optimizer=optimizer), lambda: train_plainly(
        model, data, loss_fn, optimizer, 12
    )


class MaskedLanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(21, 24), nn.Parameter(0.1 * torch.randn(12, 24))
        self.layer, self.head = nn.TransformerEncoderLayer(24, 2, 48, 0.0, batch_first=True), nn.Linear(24, 21)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layer(self.embed(tokens) + self.position)).transpose(1, 2)


@unusual
def masked_language_model_ignoring_most_positions() -> tuple[Debugger, TrainingLoop]:
    model, loss_fn = MaskedLanguageModel(), nn.CrossEntropyLoss()
    words, mask_token = sentences(), 20

    def collate(rows: list[Tensor]) -> tuple[Tensor, Tensor]:
        tokens = torch.stack(rows)
        masked = torch.rand(tokens.shape) < 0.15
        masked[:, 5] = True
        return tokens.masked_fill(masked, mask_token), tokens.masked_fill(~masked, -100)

    data = torch.utils.data.DataLoader(list(words), 32, shuffle=True, collate_fn=collate)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    return Debugger(model, data, loss_fn=loss_fn, optimizer=optimizer), lambda: train_plainly(
        model, data, loss_fn, optimizer, 12
    )


@unusual
def language_model_that_ignores_index_zero() -> tuple[Debugger, TrainingLoop]:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.gru = nn.Embedding(20, 16, padding_idx=0), nn.GRU(16, 32, batch_first=True)
            self.head = nn.Linear(32, 20)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.gru(self.embed(tokens))[0]).transpose(1, 2)

    model, loss_fn = Model(), nn.CrossEntropyLoss(ignore_index=0)
    words, _ = padded()
    data, val = split(words[:, :-1], words[:, 1:])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    return Debugger(model, data, val, loss_fn=loss_fn, optimizer=optimizer), lambda: train_plainly(
        model, data, loss_fn, optimizer, 10
    )


@unusual
def connectionist_temporal_classification() -> tuple[Debugger, TrainingLoop]:
    class Recognizer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.head = nn.GRU(6, 24, batch_first=True), nn.Linear(24, 6)

        def forward(self, frames: Tensor) -> Tensor:
            return self.head(self.gru(frames)[0]).log_softmax(2).transpose(0, 1)

    model, words = Recognizer(), torch.randint(1, 6, (256, 4))
    frames = F.one_hot(words.repeat_interleave(3, 1), 6).float() + 0.1 * torch.randn(256, 12, 6)
    data, ctc = loader(frames, words), nn.CTCLoss()

    def loss_fn(output: Tensor, target: Tensor) -> Tensor:
        size = len(target)
        return ctc(output, target, torch.full((size,), 12), torch.full((size,), 4))

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return Debugger(model, data, loss_fn=loss_fn, optimizer=optimizer), lambda: train_plainly(
        model, data, loss_fn, optimizer, 12
    )


@unusual
def quantiles_by_pinball_loss() -> tuple[Debugger, TrainingLoop]:
    model, levels = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 3)), torch.tensor([0.1, 0.5, 0.9])

    def pinball(output: Tensor, target: Tensor) -> Tensor:
        error = target - output
        return torch.maximum(levels * error, (levels - 1) * error).mean()

    (data, val), optimizer = split(*diabetes()), torch.optim.Adam(model.parameters(), lr=2e-3)
    return Debugger(model, data, val, loss_fn=pinball, optimizer=optimizer), lambda: train_plainly(
        model, data, pinball, optimizer, 10
    )


@unusual
def proportional_hazards_with_censoring() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
    x = torch.randn(400, 5)
    time = torch.distributions.Exponential((x[:, 0] - 0.5 * x[:, 1]).exp()).sample()
    event = (time < 1.5).float()
    data = loader(x, torch.stack([time.clamp(max=1.5), event], 1), batch_size=64)

    def cox(risk: Tensor, target: Tensor) -> Tensor:
        order = target[:, 0].argsort(descending=True)
        risk, observed = risk.squeeze(1)[order], target[order, 1]
        return -((risk - risk.logcumsumexp(0)) * observed).sum() / observed.sum()

    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    return Debugger(model, data, loss_fn=cox, optimizer=optimizer), lambda: train_plainly(
        model, data, cox, optimizer, 20
    )


@unusual
def tversky_segmentation_of_rare_pixels() -> tuple[Debugger, TrainingLoop]:
    images = torch.rand(128, 1, 12, 12)
    masks = (F.avg_pool2d(images, 3, 1, 1) > 0.62).float()
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))

    def tversky(logits: Tensor, target: Tensor) -> Tensor:
        p = logits.sigmoid()
        hits = (p * target).sum()
        return 1 - (hits + 1) / (hits + 0.3 * (p * (1 - target)).sum() + 0.7 * ((1 - p) * target).sum() + 1)

    (data, val), optimizer = split(images, masks, batch_size=16), torch.optim.Adam(model.parameters(), lr=1e-2)
    return Debugger(model, data, val, loss_fn=tversky, optimizer=optimizer), lambda: train_plainly(
        model, data, tversky, optimizer, 20
    )


@unusual
def focal_loss_of_rare_positives() -> tuple[Debugger, TrainingLoop]:
    x = torch.randn(1000, 6)
    y = (x[:, :1] + x[:, 1:2] > 2.2).float()
    model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 1))

    def focal(logits: Tensor, target: Tensor) -> Tensor:
        bce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        return ((1 - (-bce).exp()).square() * (0.25 + 0.5 * target) * bce).mean()

    (data, val), optimizer = split(x, y), torch.optim.Adam(model.parameters(), lr=5e-3)
    return Debugger(model, data, val, loss_fn=focal, optimizer=optimizer), lambda: train_plainly(
        model, data, focal, optimizer, 8
    )


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))
        self.decoder = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, x: Tensor) -> Any:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        return self.decoder(mean + torch.randn_like(mean) * (log_variance / 2).exp()), mean, log_variance


@unusual
def variational_autoencoder_with_annealed_divergence() -> tuple[Debugger, TrainingLoop]:
    model, weight = VAE(), [0.0]
    images = digits()[0].flatten(1)
    data = loader(images, images)

    def elbo(output: Any, x: Tensor) -> Tensor:
        logits, mean, log_variance = output
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        return F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / len(x) + weight[0] * divergence

    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def train() -> None:
        for step, (x, y) in enumerate(batches(data, 12)):
            weight[0] = min(1.0, step / 100)
            optimizer.zero_grad()
            elbo(model(x), y).backward()
            optimizer.step()

    return Debugger(model, data, loss_fn=elbo, optimizer=optimizer), train


class VectorQuantizer(nn.Module):
    """An autoencoder with a codebook and a straight-through gradient (van den Oord 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(64, 8), nn.Linear(8, 64)
        self.codes = nn.Embedding(32, 8)

    def forward(self, x: Tensor) -> Any:
        z = self.encoder(x)
        code = self.codes(torch.cdist(z, self.codes.weight).argmin(1))
        return self.decoder(z + (code - z).detach()), z, code


@unusual
def vector_quantization_with_straight_through() -> tuple[Debugger, TrainingLoop]:
    model, images = VectorQuantizer(), digits()[0].flatten(1)
    model.codes.weight.data = model.encoder(images[:32]).detach().clone()
    data = loader(images, images)

    def loss_fn(output: Any, x: Tensor) -> Tensor:
        reconstruction, z, code = output
        return F.mse_loss(reconstruction, x) + F.mse_loss(code, z.detach()) + 0.25 * F.mse_loss(z, code.detach())

    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return Debugger(model, data, loss_fn=loss_fn, optimizer=optimizer), lambda: train_plainly(
        model, data, loss_fn, optimizer, 15
    )


@unusual
def denoising_scores_of_a_diffusion() -> tuple[Debugger, TrainingLoop]:
    model = nn.Sequential(nn.Linear(3, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 2))
    data = loader(moons()[0])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def train() -> None:
        for (x,) in batches(data, 15):
            time = torch.rand(len(x), 1)
            noise, keep = torch.randn_like(x), torch.cos(time * math.pi / 2)
            predicted = model(torch.cat([keep * x + (1 - keep**2).sqrt() * noise, time], 1))
            optimizer.zero_grad()
            (predicted - noise).square().mean().backward()
            optimizer.step()

    return Debugger(model, data, optimizer=optimizer), train
