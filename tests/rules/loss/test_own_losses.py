"""What losses of one's own get wrong: logarithms by hand, signs, steps, class numbers, divergences, units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import classifier, minimal_setup, network, points, regressor
from nbdebug.setup import Setup
from nbdebug.setup.task import parse_task
from tests.rules.rule_findings import fault_messages, rule_findings

X, Y = points()
REAL = X.sum(1, keepdim=True) / 2
SHARES = torch.softmax(X[:, :3], 1)
YES = (X[:, :1] > 0).float()
WORDS = torch.randint(0, 9, (32, 9), generator=torch.Generator().manual_seed(0))
Loss = Callable[[Any, Tensor], Tensor]


def sigmoid_by_hand(logits: Tensor, target: Tensor) -> Tensor:
    share = 1 / (1 + torch.exp(-logits))
    return -(target * torch.log(share) + (1 - target) * torch.log(1 - share)).mean()


def softmax_by_hand(logits: Tensor, target: Tensor) -> Tensor:
    exponents = torch.exp(logits)
    return -torch.log(exponents / exponents.sum(1, keepdim=True))[torch.arange(len(target)), target].mean()


def guarded(logits: Tensor, target: Tensor) -> Tensor:
    share = 1 / (1 + torch.exp(-logits))
    return -(target * torch.log(share + 1e-7) + (1 - target) * torch.log(1 - share + 1e-7)).mean()


def contrast(features: Tensor, target: Tensor) -> Tensor:
    unit = F.normalize(features, dim=1)
    like = torch.exp(unit @ unit.t() / 0.5)
    return -torch.log(like.diag() / like.sum(1)).mean() + 0 * target.sum()


def gaussian(output: Tensor, target: Tensor) -> Tensor:
    mean, spread = output[:, :1], output[:, 1:]
    return (spread / 2 + (target - mean) ** 2 / (2 * spread.exp())).mean()


def normal(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    likelihood: Tensor = torch.distributions.Normal(*output).log_prob(target).mean()  # type: ignore[no-untyped-call]
    return likelihood


def divergence(output: Tensor, target: Tensor) -> Tensor:
    return F.kl_div(F.log_softmax(output, 1), target, reduction="batchmean")


def likelihood(output: Tensor, target: Tensor) -> Tensor:
    return F.log_softmax(output, -1).gather(-1, target[..., None]).mean()


def of_probabilities(output: Tensor, target: Tensor) -> Tensor:
    return F.kl_div(F.softmax(output, 1), target, reduction="batchmean")


def last_step(output: Tensor, target: Tensor) -> Tensor:
    loss = output.sum() * 0
    for step in range(target.shape[1]):
        loss = F.cross_entropy(output[:, step], target[:, step])
    return loss


def every_step(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=0)


def log_cosh(output: Tensor, target: Tensor) -> Tensor:
    return torch.log(torch.cosh(output - target)).mean()


def to_number(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output, target[:, None].expand_as(output).float())


def to_row(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output, F.one_hot(target, 3).float())


class Two(nn.Module):
    """A mean and a spread."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network(2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, spread = self.body(x).chunk(2, 1)
        return mean, F.softplus(spread) + 0.01


def turned(loss: Loss) -> Loss:
    return lambda output, target: -loss(output, target)


def language(loss: Loss, words: Tensor = WORDS) -> Setup:
    return minimal_setup(nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9)), words[:, :-1], words[:, 1:], loss)


def padded() -> Tensor:
    words = WORDS.clamp(min=1)
    words[:, 4:] = 0
    return words


def numbers(outputs: int, loss: Any, **task: Any) -> Setup:
    target = Y if outputs == 3 else 1.0 + Y[:, None]
    return minimal_setup(network(outputs), X, target, loss, **task)


FAULTY: dict[str, tuple[str, Callable[[], Setup]]] = {
    "log of a sigmoid": ("L203", lambda: minimal_setup(network(1), X, YES, sigmoid_by_hand)),
    "log of a softmax": ("L203", lambda: classifier(loss_fn=softmax_by_hand)),
    "kl_div of probabilities": ("L204", lambda: minimal_setup(network(3), X, SHARES, of_probabilities)),
    "kl_div module on logits": (
        "L204",
        lambda: minimal_setup(network(3), X, SHARES, nn.KLDivLoss(reduction="batchmean")),
    ),
    "tanh under log-cosh": ("L209", lambda: regressor(nn.Tanh(), loss_fn=log_cosh)),
    "a clamp for a sigmoid": ("L210", lambda: minimal_setup(network(1, nn.Hardtanh(0, 1)), X, YES, nn.BCELoss())),
    "outputs against the class number": ("L211", lambda: numbers(3, to_number)),
    "one output for classes": ("L211", lambda: numbers(1, nn.MSELoss(), task=parse_task("classification"))),
    "gaussian": ("L213", lambda: minimal_setup(network(2), X, REAL, turned(gaussian))),
    "normal of a tuple": ("L213", lambda: minimal_setup(Two(), X, REAL, normal)),
    "divergence": ("L213", lambda: minimal_setup(network(3), X, SHARES, turned(divergence))),
    "likelihood of tokens": ("L213", lambda: language(likelihood)),
    "the last step of a loop": ("L214", lambda: language(last_step)),
    "targets in dollars": ("L208", lambda: minimal_setup(network(1), X, 2e5 + 1e5 * REAL, nn.MSELoss())),
}
HEALTHY: dict[str, tuple[str, Callable[[], Setup]]] = {
    "a guarded logarithm": ("L203", lambda: minimal_setup(network(1), X, YES, guarded)),
    "similarities": ("L203", lambda: classifier(loss_fn=contrast)),
    "divergence of log-probabilities": ("L204", lambda: minimal_setup(network(3), X, SHARES, divergence)),
    "a linear head under log-cosh": ("L209", lambda: regressor(loss_fn=log_cosh)),
    "a clamped sigmoid": (
        "L210",
        lambda: minimal_setup(network(1, nn.Sigmoid(), nn.Hardtanh(0, 1)), X, YES, nn.BCELoss()),
    ),
    "one-hot rows": ("L211", lambda: numbers(3, to_row)),
    "ratings": ("L211", lambda: numbers(1, nn.MSELoss())),
    "gaussian as it is": ("L213", lambda: minimal_setup(network(2), X, REAL, gaussian)),
    "normal as it is": ("L213", lambda: minimal_setup(Two(), X, REAL, turned(normal))),
    "divergence as it is": ("L213", lambda: minimal_setup(network(3), X, SHARES, divergence)),
    "likelihood turned": ("L213", lambda: language(turned(likelihood))),
    "padding at the end": ("L214", lambda: language(every_step, padded())),
    "targets of unit scale": ("L208", lambda: minimal_setup(network(1), X, REAL, nn.MSELoss())),
}


@pytest.mark.parametrize("name", FAULTY)
def test_the_mistake_is_found(name: str) -> None:
    code, build = FAULTY[name]
    assert fault_messages(build(), code)


@pytest.mark.parametrize("name", HEALTHY)
def test_the_sound_loss_is_left_alone(name: str) -> None:
    code, build = HEALTHY[name]
    assert fault_messages(build(), code) == []


@pytest.mark.parametrize(
    ("code", "build", "line"),
    [
        ("L203", FAULTY["log of a softmax"][1], "return -torch.log(exponents"),
        ("L204", FAULTY["kl_div of probabilities"][1], "F.kl_div(F.softmax(output, 1)"),
        ("L211", FAULTY["outputs against the class number"][1], "F.mse_loss(output, target[:, None]"),
        ("L213", FAULTY["likelihood of tokens"][1], "return F.log_softmax(output, -1).gather"),
        ("L214", FAULTY["the last step of a loop"][1], "loss = F.cross_entropy(output[:, step]"),
    ],
)
def test_its_line_is_named(code: str, build: Callable[[], Setup], line: str) -> None:
    assert [line in (one.where.source or "") for one in rule_findings(build(), code)] == [True]


def test_the_layer_with_large_weights_is_named() -> None:
    model = network(3)
    nn.init.normal_(model[2].weight, std=5.0)
    assert [one.where.module for one in rule_findings(minimal_setup(model, X, Y, nn.CrossEntropyLoss()), "L208")] == [
        "2"
    ]


def test_the_head_that_gives_logits_to_nll_is_named() -> None:
    assert [one.where.module for one in rule_findings(classifier(loss_fn=nn.NLLLoss()), "L204")] == ["2"]
