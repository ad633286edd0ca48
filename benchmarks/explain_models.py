"""Networks that explainers fail on, and models with the data that they are trained on."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

NETWORKS = (
    "plain ReLU modules", "in-place ReLU", "reused ReLU module", "functional F.relu", "residual add",
    "multiplicative gate", "GELU", "SiLU", "tanh", "LeakyReLU", "LayerNorm", "BatchNorm (eval)",
    "Dropout (left in train mode)", "softmax output", "attention", "transformer block", "GRU",
    "in-place op on the input", "tuple output", "1-d output (no class axis)", "under torch.no_grad inside",
)  # fmt: skip
ACTIVATIONS = {
    "GELU": F.gelu,
    "SiLU": F.silu,
    "tanh": torch.tanh,
    "LeakyReLU": F.leaky_relu,
    "functional F.relu": F.relu,
}


class Network(nn.Module):
    """A small network on 30 features with one construct that explainers may fail on."""

    def __init__(self, kind: str, inputs: int = 30) -> None:
        super().__init__()
        self.kind = kind
        self.linear1, self.linear2, self.gate = nn.Linear(inputs, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.head = nn.Linear(32, 2)
        self.relu1, self.relu2 = nn.ReLU(), nn.ReLU()
        self.inplace_relu = nn.ReLU(inplace=True)
        self.layer_norm, self.batch_norm, self.dropout = nn.LayerNorm(32), nn.BatchNorm1d(32), nn.Dropout(0.3)
        self.embed, self.position = nn.Linear(1, 16), nn.Parameter(torch.randn(inputs, 16) * 0.3)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.token_head = nn.Linear(16, 2)
        self.recurrent, self.recurrent_head = nn.GRU(1, 24, batch_first=True), nn.Linear(24, 2)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return two logits, unless the kind has another output."""
        if self.kind in ("attention", "transformer block"):
            tokens = self.embed(x[..., None]) + self.position
            is_block = self.kind == "transformer block"
            mixed = self.block(tokens) if is_block else self.attention(tokens, tokens, tokens)[0]
            return self.token_head(mixed.mean(1))
        if self.kind == "GRU":
            return self.recurrent_head(self.recurrent(x[..., None])[0][:, -1])
        return self.output(x, self.hidden_state(x))

    def hidden_state(self, x: Tensor) -> Tensor:
        """Return the last hidden state."""
        if self.kind == "in-place op on the input":
            x += 0.0
        if self.kind == "under torch.no_grad inside":
            with torch.no_grad():
                return self.relu1(self.linear1(x))
        state = self.linear1(x)
        if self.kind in ACTIVATIONS:
            activation = ACTIVATIONS[self.kind]
            return activation(self.linear2(activation(state)))
        if self.kind == "in-place ReLU":
            return self.inplace_relu(self.linear2(self.inplace_relu(state)))
        if self.kind == "residual add":
            state = self.relu1(state)
            return self.relu2(self.linear2(state) + state)
        if self.kind == "multiplicative gate":
            return self.relu1(self.linear2(state)) * self.gate(state).sigmoid()
        if self.kind == "LayerNorm":
            return self.relu1(self.linear2(self.layer_norm(state)))
        if self.kind == "BatchNorm (eval)":
            return self.relu1(self.linear2(self.batch_norm(state)))
        last_relu = self.relu1 if self.kind == "reused ReLU module" else self.relu2
        return last_relu(self.linear2(self.relu1(state)))

    def output(self, x: Tensor, state: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        """Return the output for a hidden state."""
        if self.kind == "Dropout (left in train mode)":
            state = self.dropout(state)
        logits = self.head(state)
        if self.kind == "softmax output":
            return logits.softmax(-1)
        if self.kind == "tuple output":
            return logits, x
        return logits[:, 0] if self.kind.startswith("1-d") else logits


def small_mlp() -> nn.Module:
    """Return an MLP 30-64-64-2."""
    return nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


def small_cnn() -> nn.Module:
    """Return a CNN of two convolutions for images of 8 × 8."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def load_cancer() -> tuple[Tensor, Tensor]:
    """Return 569 rows of 30 standardized features, and their classes."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    return torch.tensor((x - x.mean(0)) / x.std(0), dtype=torch.float32), torch.tensor(y)


def load_digits() -> tuple[Tensor, Tensor]:
    """Return 1,797 images of 8 × 8, and their classes."""
    import sklearn.datasets

    data = sklearn.datasets.load_digits()
    return torch.tensor(data.images / 16, dtype=torch.float32)[:, None], torch.tensor(data.target)


def train(model: nn.Module, x: Tensor, y: Tensor, steps: int = 300) -> nn.Module:
    """Train a model with Adam, and return it in eval mode."""
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
