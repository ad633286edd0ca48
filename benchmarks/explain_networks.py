"""Networks that other explainers fail on, and the data and training of the ones that are timed."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

KINDS = (
    "plain ReLU modules", "in-place ReLU", "reused ReLU module", "functional F.relu", "residual add",
    "multiplicative gate", "GELU", "SiLU", "tanh", "LeakyReLU", "LayerNorm", "BatchNorm (eval)",
    "Dropout (left in train mode)", "softmax output", "attention", "transformer block", "GRU",
    "in-place op on the input", "tuple output", "1-d output (no class axis)", "under torch.no_grad inside",
)  # fmt: skip
SIMPLE = {"GELU": F.gelu, "SiLU": F.silu, "tanh": torch.tanh, "LeakyReLU": F.leaky_relu, "functional F.relu": F.relu}


class Body(nn.Module):
    """A small network on 30 features that does one thing which explainers stumble over."""

    def __init__(self, kind: str, width: int = 30) -> None:
        super().__init__()
        self.kind = kind
        self.first, self.second, self.gate = nn.Linear(width, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.out = nn.Linear(32, 2)
        self.relu, self.other = nn.ReLU(), nn.ReLU()
        self.inplace = nn.ReLU(inplace=True)
        self.layer_norm, self.batch_norm, self.dropout = nn.LayerNorm(32), nn.BatchNorm1d(32), nn.Dropout(0.3)
        self.token, self.place = nn.Linear(1, 16), nn.Parameter(torch.randn(width, 16) * 0.3)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 2)
        self.recurrent, self.last = nn.GRU(1, 24, batch_first=True), nn.Linear(24, 2)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Two logits, or what the kind makes of them."""
        if self.kind in ("attention", "transformer block"):
            tokens = self.token(x[..., None]) + self.place
            mixed = (
                self.block(tokens) if self.kind == "transformer block" else self.attention(tokens, tokens, tokens)[0]
            )
            return self.head(mixed.mean(1))
        if self.kind == "GRU":
            return self.last(self.recurrent(x[..., None])[0][:, -1])
        return self.ending(x, self.hidden(x))

    def hidden(self, x: Tensor) -> Tensor:
        """The last hidden state."""
        if self.kind == "in-place op on the input":
            x += 0.0
        if self.kind == "under torch.no_grad inside":
            with torch.no_grad():
                return self.relu(self.first(x))
        first = self.first(x)
        if self.kind in SIMPLE:
            return SIMPLE[self.kind](self.second(SIMPLE[self.kind](first)))
        if self.kind == "in-place ReLU":
            return self.inplace(self.second(self.inplace(first)))
        if self.kind == "residual add":
            state = self.relu(first)
            return self.other(self.second(state) + state)
        if self.kind == "multiplicative gate":
            return self.relu(self.second(first)) * self.gate(first).sigmoid()
        if self.kind == "LayerNorm":
            return self.relu(self.second(self.layer_norm(first)))
        if self.kind == "BatchNorm (eval)":
            return self.relu(self.second(self.batch_norm(first)))
        between = self.relu if self.kind == "reused ReLU module" else self.other
        return between(self.second(self.relu(first)))

    def ending(self, x: Tensor, state: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """The output."""
        if self.kind == "Dropout (left in train mode)":
            state = self.dropout(state)
        found = self.out(state)
        if self.kind == "softmax output":
            return found.softmax(-1)
        if self.kind == "tuple output":
            return found, x
        return found[:, 0] if self.kind.startswith("1-d") else found


def mlp() -> nn.Module:
    """30-64-64-2."""
    return nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


def cnn() -> nn.Module:
    """Two convolutions on pictures of 8 × 8."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def cancer() -> tuple[Tensor, Tensor]:
    """569 rows of 30 standardized features."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    return torch.tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32), torch.tensor(y)


def digits() -> tuple[Tensor, Tensor]:
    """1,797 pictures of 8 × 8."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return torch.tensor(data.images / 16, dtype=torch.float32)[:, None], torch.tensor(data.target)


def trained(model: nn.Module, x: Tensor, y: Tensor, steps: int = 300) -> nn.Module:
    """The model after some steps of Adam, in eval mode."""
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    model.train()
    for _ in range(steps):
        rows = torch.randint(0, len(x), (64,))
        output = model(x[rows].clone())
        output = output[0] if isinstance(output, tuple) else output
        if output.dim() == 1:
            loss = F.binary_cross_entropy_with_logits(output, y[rows].float())
        else:
            loss = F.cross_entropy(output, y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()
