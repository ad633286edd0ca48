"""G405 names the operation that made NaN or Inf of finite numbers, and leaves masks alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup

X, Y = points()
CE = nn.CrossEntropyLoss()
TOKENS = torch.randint(1, 9, (64, 5), generator=torch.Generator().manual_seed(0))
EMPTY = TOKENS.clone()
EMPTY[21] = 0


class Through(nn.Module):
    """A network with an operation of some kind in its middle."""

    def __init__(self, act: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.head, self.act = nn.Linear(4, 8), nn.Linear(8, 3), act

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.act(self.body(x)))


class Attentive(nn.Module):
    """Attention over tokens, with those that are 0 masked."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 8), nn.Linear(8, 3)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        return self.head(self.attention(x, x, x, key_padding_mask=tokens == 0)[0].mean(1))


class Causal(nn.Module):
    """Attention by hand, with a mask that is added."""

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 8), nn.Linear(8, 3)
        self.register_buffer("mask", mask)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        return self.head((x @ x.transpose(1, 2) + self.mask).softmax(-1) @ x).mean(1)


class Masked(Attentive):
    """The same, with the masked positions taken out afterwards: the loss is finite, its gradient is not."""

    def forward(self, tokens: Tensor) -> Tensor:
        x, padded = self.embedding(tokens), tokens == 0
        mixed = self.attention(x, x, x, key_padding_mask=padded)[0]
        return self.head(mixed.masked_fill(padded.unsqueeze(-1), 0).sum(1))


def normalized_by_hand(h: Tensor) -> Tensor:
    h = torch.relu(h - 100)
    return (h - h.mean(1, keepdim=True)) / h.std(1, keepdim=True)


def log_of_softmax(output: Tensor, target: Tensor) -> Tensor:
    one_hot = F.one_hot(target, 3)
    return -(one_hot * torch.log(torch.softmax(output * 1e4, dim=1))).sum()


def of(act: Callable[[Tensor], Tensor]) -> Callable[[], Setup]:
    return lambda: minimal_setup(Through(act), X, Y, CE)


def on(model: Callable[[], nn.Module], tokens: Tensor) -> Callable[[], Setup]:
    return lambda: minimal_setup(model(), tokens, Y, CE)


FAULTY: dict[str, tuple[Callable[[], Setup], str]] = {
    "log of what may be negative": (of(lambda h: torch.log(h)), "torch.log(h)"),
    "root": (of(lambda h: h.sqrt()), "h.sqrt()"),
    "constant rows": (of(normalized_by_hand), "h.std(1"),
    "overflow": (of(lambda h: (h * 1e3).exp()), ".exp()"),
    "half precision": (of(lambda h: (h * 1e5).half().float()), ".half()"),
    "log of softmax in the loss": (lambda: classifier(loss_fn=log_of_softmax), "torch.log("),
    "empty text": (on(Attentive, EMPTY), "self.attention"),
    "mask by multiplication": (of(lambda h: h + torch.zeros(8) * -torch.inf), "* -torch.inf"),
    "empty text, masked out of the loss": (on(Masked, EMPTY), "self.attention"),
    "power": (of(lambda h: h**0.5), "h**0.5"),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "plain": classifier,
    "mask": on(lambda: Causal(torch.full((5, 5), -torch.inf).triu(1)), TOKENS),
    "padding": on(Attentive, torch.where(torch.arange(5) > 2, 0, TOKENS)),
    "guarded by where": of(lambda h: torch.where(h > 0, torch.log(h.clamp_min(1e-6)), h)),
    "unguarded branch not taken": of(lambda h: torch.where(h > 0, torch.log(h), h)),
    "clamped": of(lambda h: torch.log(h.clamp_min(1e-6))),
}


def said(setup: Setup) -> list[Finding]:
    torch.manual_seed(0)
    return [one for one in Debugger.of(setup).checkup() if one.code == "G405"]


@pytest.mark.parametrize("name", FAULTY)
def test_the_operation_is_found_with_its_line(name: str) -> None:
    build, source = FAULTY[name]
    (found,) = said(build())
    assert source in (found.where.source or "")


@pytest.mark.parametrize("name", HEALTHY)
def test_finite_losses_are_left_alone(name: str) -> None:
    assert said(HEALTHY[name]()) == []


def test_the_sample_is_named_in_whichever_batch_it_is() -> None:
    (found,) = said(FAULTY["empty text"][0]())
    assert found.evidence["batch"] == 1
    assert found.where.module == "attention"


def test_what_comes_from_outside_is_no_operation() -> None:
    setup = minimal_setup(network(3), torch.full((64, 4), torch.nan), Y, CE)
    assert said(setup) == []


def test_the_range_of_the_input_is_given() -> None:
    (found,) = said(of(lambda h: torch.log(h * 0))())
    assert found.evidence["input range"] == [0.0, 0.0]
    assert "clamp_min" in found.fix


def test_nan_is_told_by_its_origin_and_not_by_the_loss_that_meets_it() -> None:
    report = Debugger.of(minimal_setup(Through(lambda h: torch.log(h.relu())), X, Y, CE)).checkup()
    assert [one.code for one in report.faults] == ["G405"]
