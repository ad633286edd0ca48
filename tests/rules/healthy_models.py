"""Correct models that resemble faulty ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.setup import Setup


class Attention(nn.Module):
    """Softmax in a hand-written attention layer and in a torch module."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.layer = nn.Linear(8, 24), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.pool, self.head = nn.Linear(8, 1), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        x = self.layer(x + F.softmax(q @ k.transpose(1, 2) / 8**0.5, dim=-1) @ v)
        return self.head((torch.softmax(self.pool(x), dim=1) * x).sum(1))


class Gated(nn.Module):
    """Two experts with a softmax gate, and a sigmoid gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.switch = nn.Linear(4, 2), nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 3) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        weights = self.gate(x).softmax(-1)
        mixed = torch.stack([expert(x) for expert in self.experts], -1) @ weights.unsqueeze(-1)
        return mixed.squeeze(-1) * torch.sigmoid(self.switch(x))


class VAE(nn.Module):
    """A variational autoencoder, which samples and returns a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(12, 8), nn.Linear(4, 12)

    def forward(self, x: Tensor) -> Any:
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(z), mean, log_variance

    @staticmethod
    def loss(output: Any, x: Tensor) -> Tensor:
        logits, mean, log_variance = output
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1)
        return (F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1) + divergence).mean()


class GAN(nn.Module):
    """A generator and a discriminator in one step; the fakes are detached for the discriminator."""

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.discriminator = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, real: Tensor) -> Any:
        fake = self.generator(torch.randn(len(real), 3))
        return self.discriminator(real), self.discriminator(fake.detach()), self.discriminator(fake)

    @staticmethod
    def loss(scores: Any, ones: Tensor) -> Tensor:
        real, fake, generator_scores = scores
        bce = F.binary_cross_entropy_with_logits
        return bce(real, ones) + bce(fake, 1 - ones) + bce(generator_scores, ones)


class Siamese(nn.Module):
    """Two views, one with a stop-gradient; the loss is negative."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.predictor = nn.Linear(6, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Any:
        prediction, target = self.encoder(x + 0.1 * torch.randn_like(x)), self.encoder(x)
        return self.predictor(prediction), target.detach()

    @staticmethod
    def loss(output: Any, _: Tensor) -> Tensor:
        return -F.cosine_similarity(*output).mean()


class FrozenBackbone(nn.Module):
    """A frozen backbone in eval mode without gradients, and a trained head."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU()).requires_grad_(False).eval()
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            features = self.backbone(x)
        return self.head(features)


class Adapter(nn.Module):
    """A frozen layer with a low-rank update that starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(4, 3).requires_grad_(False)
        self.down, self.up = nn.Linear(4, 2, bias=False), nn.Linear(2, 3, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


class AlternatingHeads(nn.Module):
    """Two heads that are used on alternating batches."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.heads, self.calls = nn.Linear(4, 8), nn.ModuleList([nn.Linear(8, 1), nn.Linear(8, 1)]), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.heads[self.calls % 2](torch.relu(self.body(x)))


class TiedLanguageModel(nn.Module):
    """A causal Transformer whose output layer is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(11, 16), nn.Parameter(0.02 * torch.randn(6, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        nn.init.normal_(self.embed.weight, std=0.05)

    def forward(self, tokens: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.layer(self.embed(tokens) + self.position, src_mask=mask, is_causal=True) @ self.embed.weight.t()

    @staticmethod
    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class SelfAttention(nn.Module):
    """Hand-written self-attention over a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) / 8**0.5
        return self.head((scores.softmax(-1) @ self.value(x)).mean(1))


class TimeFirst(nn.Module):
    """Attention pooling of sequences, computed with time as the first axis."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.head = nn.Linear(4, 1), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(0, 1)
        return self.head((self.score(x).softmax(0) * x).sum(0))


class ContrastivePair(nn.Module):
    """A symmetric contrastive loss between two views of each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        left, right = F.normalize(self.left(x[:, 0]), dim=1), F.normalize(self.right(x[:, 1]), dim=1)
        return left @ right.T / 0.1

    @staticmethod
    def loss(scores: Tensor, _: Tensor) -> Tensor:
        log_likelihood = scores.log_softmax(0).diagonal() + scores.log_softmax(1).diagonal()
        return -log_likelihood.mean() / 2


def with_sgd(setup: Setup, lr: float, momentum: float = 0.0) -> Setup:
    """Replace the optimizer of a setup by SGD."""
    setup.optimizers = (torch.optim.SGD(setup.model.parameters(), lr=lr, momentum=momentum),)
    return setup
