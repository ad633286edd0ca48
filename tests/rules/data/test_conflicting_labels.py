"""Tests of D122: equal inputs with different labels."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import fault_messages, rule_findings, setup_builder

X, Y = points()
CE = nn.CrossEntropyLoss()
REPEATED_X, CONFLICTING_Y = torch.cat([X, X[:8]]), torch.cat([Y, (Y[:8] + 1) % 3])
GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.randint(0, 256, (64, 1, 8, 8), generator=GENERATOR).float() / 255
FLAGS = (torch.randn(200, 3, generator=GENERATOR) > 0).float()
TOKENS = torch.randint(0, 5, (200, 3), generator=GENERATOR)
UNRELATED_Y = torch.arange(200) % 3


LONG_TOKENS = torch.randint(0, 16, (200, 8), generator=GENERATOR)
BITS = (torch.randn(200, 24, generator=GENERATOR) > 0).float()


def token_setup(tokens: Tensor, y: Tensor) -> Callable[[], Setup]:
    layers = [nn.Embedding(16, 4), nn.Flatten(), nn.Linear(4 * tokens.shape[1], 3)]
    return setup_builder(nn.Sequential(*layers), tokens, y)


def dict_setup() -> Setup:
    rows = [{"x": x, "labels": y} for x, y in zip(REPEATED_X, CONFLICTING_Y, strict=True)]
    return Setup(network(3), DataLoader(rows, 16), loss_fn=CE)


class WithOwnLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = network(3)

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.net(x)
        return {"loss": CE(logits, labels), "logits": logits}


def own_loss_setup() -> Setup:
    return Setup(WithOwnLoss(), dict_setup().train_loader, loss_fn=CE)


def image_setup() -> Setup:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    return minimal_setup(model, torch.cat([IMAGES, IMAGES[:6]]), torch.cat([Y, (Y[:6] + 2) % 3]), CE)


def binary_setup() -> Setup:
    target = (CONFLICTING_Y > 0).float().unsqueeze(1)
    target[64:] = 1 - target[:8]
    return minimal_setup(network(1), REPEATED_X, target, nn.BCEWithLogitsLoss())


SIGNED = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))
IS_READ = (torch.arange(64) % 4 != 0).float()[:, None]  # a product with zero keeps the sign of each value


def custom_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(output.log_softmax(1), target)


FAULTY: dict[str, Callable[[], Setup]] = {
    "table": setup_builder(network(3), REPEATED_X, CONFLICTING_Y),
    "custom loss": setup_builder(network(3), REPEATED_X, CONFLICTING_Y, custom_loss),
    "dictionaries": dict_setup,
    "labels that the model takes": own_loss_setup,
    "images": image_setup,
    "binary": binary_setup,
    "tokens twice": token_setup(LONG_TOKENS.repeat(2, 1), torch.cat([UNRELATED_Y, UNRELATED_Y.roll(1)])),
    "tokens three times": token_setup(LONG_TOKENS.repeat(3, 1), torch.randint(0, 3, (600,), generator=GENERATOR)),
    "some tokens twice": token_setup(
        torch.cat([LONG_TOKENS, LONG_TOKENS[:120]]), torch.cat([UNRELATED_Y, UNRELATED_Y[:120].roll(1)])
    ),
    "bits twice": setup_builder(nn.Linear(24, 3), BITS.repeat(2, 1), torch.cat([UNRELATED_Y, UNRELATED_Y.roll(1)])),
    "rows multiplied by zero": setup_builder(network(3), SIGNED * IS_READ, Y),
    "half precision multiplied by zero": setup_builder(network(3).double(), (SIGNED * IS_READ).half().double(), Y),
    "images multiplied by zero": setup_builder(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), (IMAGES - 0.5) * IS_READ[:, :, None, None], Y
    ),
    "rows rounded to zero": setup_builder(network(3), torch.where(IS_READ > 0, SIGNED, (SIGNED / 99).round()), Y),
    "binary, multiplied by zero": setup_builder(
        network(1), SIGNED * IS_READ, (Y[:, None] > 0).float(), nn.BCEWithLogitsLoss()
    ),
    "whole classes": setup_builder(network(3), torch.cat([X, X]), torch.cat([Y, (Y + 1) % 3])),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "no copies": setup_builder(network(3), X, Y),
    "copies that agree": setup_builder(network(3), torch.cat([X, X]), torch.cat([Y, Y])),
    "flags": setup_builder(nn.Linear(3, 3), FLAGS, UNRELATED_Y),
    "tokens": setup_builder(nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(12, 3)), TOKENS, UNRELATED_Y),
    "tokens with few rows": token_setup(TOKENS[:, :2].repeat(2, 1), UNRELATED_Y.repeat(2).roll(1)),
    "tokens with likely rows": token_setup(
        LONG_TOKENS[torch.randn(600, generator=GENERATOR).mul(40).long().abs()], UNRELATED_Y.repeat(3)
    ),
    "tokens with rows as frequent": token_setup(
        LONG_TOKENS[torch.randint(0, 200, (400,), generator=GENERATOR)], UNRELATED_Y.repeat(2)
    ),
    "tokens of a rare class": token_setup(torch.cat([LONG_TOKENS, LONG_TOKENS[:5]]), torch.arange(205) % 3),
    "tokens twice, with one label": token_setup(LONG_TOKENS.repeat(2, 1), UNRELATED_Y.repeat(2)),
    "all combinations of three factors, five times each": setup_builder(
        nn.Linear(3, 3), torch.cartesian_prod(*[torch.arange(4.0)] * 3).repeat(5, 1), (torch.arange(320) // 7) % 3
    ),
    "all bits, four times each": setup_builder(
        nn.Linear(6, 3), torch.cartesian_prod(*[torch.arange(2.0)] * 6).repeat(4, 1), (torch.arange(256) // 7) % 3
    ),
    "one of forty conditions, eight times each": setup_builder(
        nn.Linear(40, 3), torch.eye(40).repeat(8, 1), (torch.arange(320) // 7) % 3
    ),
    "rows multiplied by zero, with one label": setup_builder(network(3), SIGNED * IS_READ, Y * IS_READ[:, 0].long()),
    "rows multiplied by a sign": setup_builder(network(3), torch.cat([SIGNED, -SIGNED]), torch.cat([Y, (Y + 1) % 3])),
    "signs of zero in some columns": setup_builder(
        network(3), torch.cat([SIGNED[:, :2], (SIGNED * 0)[:, :2]], dim=1), Y
    ),
    "one constant input": setup_builder(network(3), torch.ones(64, 4), Y),
    "repeated measurements": setup_builder(network(1), torch.cat([X, X]), torch.randn(128, 1), nn.MSELoss()),
    "several labels per sample": setup_builder(network(3), X, F.one_hot(Y, 3).float(), nn.BCEWithLogitsLoss()),
}


@pytest.mark.parametrize("name", FAULTY)
def test_conflicting_labels_of_copies_are_a_warning_at_the_first_sample(name: str) -> None:
    (finding,) = rule_findings(FAULTY[name](), "D122")
    assert finding.severity == "warning"
    assert finding.where.sample == 0


@pytest.mark.parametrize("name", HEALTHY)
def test_conflicting_labels_that_are_expected_are_at_most_a_note(name: str) -> None:
    assert fault_messages(HEALTHY[name](), "D122") == []


def test_conflicting_labels_finding_counts_and_lists_the_pairs() -> None:
    (finding,) = rule_findings(FAULTY["table"](), "D122")
    assert "16 of 72 train samples" in finding.message
    assert finding.evidence["groups of (index, label)"][3] == [(3, int(Y[3])), (67, int(CONFLICTING_Y[67]))]


def test_conflicting_labels_of_a_dataset_that_reads_one_sample_is_an_error() -> None:
    (finding,) = rule_findings(minimal_setup(network(3), X[:1].expand(len(X), -1).clone(), Y, CE), "D122")
    assert finding.severity == "error"
    assert finding.cause == "The dataset reads the same input for each index."
