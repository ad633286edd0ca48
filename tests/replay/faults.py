"""Training programs that become NaN or Inf at a known step, line and sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup

SEVENTH, ROW = 6, 5  # the batch, and the row in it, that are odd
ODD = SEVENTH * 16 + ROW


class Fault(NamedTuple):
    """What builds a program, part of the line that is at fault, and what the replay is to say of it."""

    build: Callable[[], Setup]
    source: str
    phase: str = "loss"
    operation: str = ""
    sample: int | None = ROW


class Through(nn.Module):
    """A network with an operation of some kind at its entrance and another in its middle."""

    def __init__(self, enter: Callable[[Tensor], Tensor], act: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.head, self.enter, self.act = nn.Linear(4, 8), nn.Linear(8, 3), enter, act

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.body(self.enter(x))))


def same(x: Tensor) -> Tensor:
    return x


def points(odd: Tensor | float | None = None) -> tuple[Tensor, Tensor]:
    """160 points of three classes; one of them may be odd."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(160, 4, generator=generator)
    y = (x @ torch.randn(4, 3, generator=generator)).argmax(1)
    if odd is not None:
        x[ODD] = odd
    return x, y


def setup(model: nn.Module, data: Any, loss_fn: Any = None, **given: Any) -> Setup:
    """Batches of sixteen in order, trained by Adam unless another optimizer is given."""
    given.setdefault("optimizers", (torch.optim.Adam(model.parameters(), lr=1e-2),))
    loader = DataLoader(data if isinstance(data, list) else TensorDataset(*data), batch_size=16)
    return Setup(model, loader, loss_fn=loss_fn or nn.CrossEntropyLoss(), **given)


def of(
    enter: Callable[[Tensor], Tensor] = same,
    act: Callable[[Tensor], Tensor] = torch.relu,
    odd: Any = None,
    **given: Any,
) -> Callable[[], Setup]:
    def build() -> Setup:
        torch.manual_seed(0)
        return setup(Through(enter, act), points(odd), **given)

    return build


def normalized(x: Tensor) -> Tensor:
    return (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)


def unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=1, keepdim=True)


def overflowing(h: Tensor) -> Tensor:
    return torch.exp(h) / (1 + torch.exp(h))


def behind_where(h: Tensor) -> Tensor:
    apart = (h - h[:, :1]).square()
    return torch.where(apart > 0, apart.sqrt(), torch.zeros_like(apart))


def angle(h: Tensor) -> Tensor:
    return torch.acos(torch.tanh(h))


def length(h: Tensor) -> Tensor:
    flat = torch.where(h.abs().amax(1, keepdim=True) > 1e3, h * 0, h)
    return torch.hypot(flat, flat)


def spread(h: Tensor) -> Tensor:
    flat = torch.where(h.abs().amax(1, keepdim=True) > 1e3, h * 0, h)
    return h + flat.square().sum(1, keepdim=True) ** 0.5


def halved(h: Tensor) -> Tensor:
    return h.half().float()


def masked_attention(x: Tensor) -> Tensor:
    scores = (x.unsqueeze(2) - x.unsqueeze(1)).masked_fill(x.lt(-9).unsqueeze(1), -torch.inf)
    return (scores.softmax(-1) @ x.unsqueeze(2)).squeeze(2)


def by_hand(output: Tensor, target: Tensor) -> Tensor:
    chosen = torch.softmax(output, dim=1)[torch.arange(len(target)), target]
    return -torch.log(chosen).mean()


def binary(output: Tensor, target: Tensor) -> Tensor:
    p, y = torch.sigmoid(output), F.one_hot(target, 3)
    return -(y * torch.log(p) + (1 - y) * torch.log1p(-p)).mean()


class Bottleneck(nn.Module):
    """Batch norm and dropout before distances from the first sample of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.norm, self.drop, self.head = (
            nn.Linear(4, 8),
            nn.BatchNorm1d(8),
            nn.Dropout(0.3),
            nn.Linear(8, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        h = self.drop(self.norm(self.body(x)))
        odd = x[:, :1].gt(50)
        apart = torch.where(odd, h - h, h).square().sum(1, keepdim=True)
        return self.head(h + apart.sqrt())


class TwoInputs(nn.Module):
    """A ratio of two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)

    def forward(self, x: Tensor, scale: Tensor) -> Tensor:
        return self.body(x) / scale


class Own(nn.Module):
    """A model that takes names and gives its own loss."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)

    def forward(self, values: Tensor, weights: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.body(values)
        each = F.cross_entropy(logits, labels, reduction="none") / weights
        return {"loss": each.mean(), "logits": logits}


def two_inputs() -> Setup:
    torch.manual_seed(0)
    x, y = points()
    scale = torch.ones(160, 1)
    scale[ODD] = 0
    return setup(TwoInputs(), (x, scale, y))


def named() -> Setup:
    torch.manual_seed(0)
    x, y = points()
    rows = [
        {"values": a, "weights": torch.tensor(float(i != ODD)), "labels": b}
        for i, (a, b) in enumerate(zip(x, y, strict=True))
    ]
    made = setup(Own(), rows)
    made.loss_fn = None
    return made


def bottleneck() -> Setup:
    torch.manual_seed(0)
    x, y = points()
    x[ODD, 0] = 90
    return setup(Bottleneck(), (x, y))


def too_fast() -> Setup:
    torch.manual_seed(0)
    model = Through(same, same)
    return setup(model, points(), by_squares, optimizers=(torch.optim.SGD(model.parameters(), lr=30.0),))


def by_squares(output: Tensor, target: Tensor) -> Tensor:
    return (output - F.one_hot(target, 3)).square().mean()


def eager_descent() -> Setup:
    torch.manual_seed(0)
    model = Through(same, torch.relu)
    return setup(model, points(), by_hand, optimizers=(torch.optim.SGD(model.parameters(), lr=20.0),))


FAULTS: dict[str, Fault] = {
    "logarithm of a probability that training drives to zero": Fault(
        eager_descent, "torch.log(", operation="log", sample=None
    ),
    "logarithm of 1 - p where p is exactly one": Fault(of(odd=3e3, loss_fn=binary), "torch.log", operation="log"),
    "sample of one value, normalized": Fault(of(normalized, odd=2.0), "/ x.std(1", operation="div"),
    "sample of zeros, brought to length one": Fault(of(unit, odd=0.0), "/ x.norm(", operation="div"),
    "exp of a large value": Fault(of(act=overflowing, odd=1e3), "torch.exp(h)", operation="exp"),
    "softmax over a row that is masked throughout": Fault(
        of(masked_attention, odd=-10.0), "softmax(-1)", operation="softmax"
    ),
    "half precision": Fault(of(act=halved, odd=1e6), ".half()", operation="to_copy"),
    "weight of zero in a loss of the model": Fault(named, "/ weights", operation="div"),
    "ratio of two inputs": Fault(two_inputs, "self.body(x) / scale", operation="div"),
    "angle of what has saturated": Fault(of(act=angle, odd=1e4), "torch.acos(", "gradient", "Acos"),
    "length of nothing": Fault(of(act=length, odd=1e4), "torch.hypot(", "gradient", "Hypot"),
    "power of zero": Fault(of(act=spread, odd=1e4), "** 0.5", "gradient", "Pow"),
    "root behind a where": Fault(of(act=behind_where), "apart.sqrt()", "gradient", "Sqrt", None),
    "distance of zero behind dropout and batch norm": Fault(bottleneck, "apart.sqrt()", "gradient", "Sqrt"),
}
