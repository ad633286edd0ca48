"""Checkups of healthy setups that resemble faulty ones: no rule may report an error or a warning."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier, minimal_setup, network, points, regressor
from nbdebug.setup import Setup
from tests.rules import loss_cases
from tests.rules.healthy_models import (
    GAN,
    VAE,
    Adapter,
    AlternatingHeads,
    Attention,
    FrozenBackbone,
    Gated,
    Siamese,
    TiedLanguageModel,
)
from tests.rules.rule_findings import broken_rules

X, Y = points()
ONE_HOT = F.one_hot(Y, 3).float()


def focal_loss(logits: Tensor, target: Tensor) -> Tensor:
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return (ce * (p * (1 - target) + (1 - p) * target) ** 2).mean()


def distillation_loss(logits: Tensor, target: Tensor) -> Tensor:
    with torch.no_grad():
        teacher = F.softmax(torch.randn_like(logits), dim=1)
    student = F.log_softmax(logits / 2, dim=1)
    return F.kl_div(student, teacher, reduction="batchmean") + F.cross_entropy(logits, target)


def gaussian_nll(output: Tensor, target: Tensor) -> Tensor:
    return F.gaussian_nll_loss(output[:, :1], target, F.softplus(output[:, 1:]) + 1e-3)


def quantile_loss(output: Tensor, target: Tensor) -> Tensor:
    levels = torch.tensor([0.1, 0.5, 0.9])
    error = target - output
    return torch.maximum(levels * error, (levels - 1) * error).mean()


def contrastive_loss(output: Tensor, target: Tensor) -> Tensor:
    z = F.normalize(output, dim=1)
    alike = (target.unsqueeze(0) == target.unsqueeze(1)).float().fill_diagonal_(0)
    scores = (z @ z.t() / 0.5).masked_fill(torch.eye(len(z), dtype=torch.bool), -1e9)
    return -(F.log_softmax(scores, dim=1) * alike).sum() / alike.sum()


def ranking_loss(output: Tensor, target: Tensor) -> Tensor:
    order = torch.sign(target.unsqueeze(1) - target.unsqueeze(0))
    return F.softplus(-order * (output.unsqueeze(1) - output.unsqueeze(0))).mean()


def weighted_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    weight = 1.0 + (target > 1).float()
    return (F.cross_entropy(output, target, reduction="none") * weight).mean()


def masked_tokens() -> Setup:
    tokens, targets = torch.randint(0, 9, (32, 6)), torch.randint(0, 9, (32, 6))
    targets[:, 4:] = -100
    model = nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9))
    return minimal_setup(model, tokens, targets, lambda o, t: F.cross_entropy(o.transpose(1, 2), t))


def segmentation() -> Setup:
    images, masks = torch.rand(16, 1, 8, 8), (torch.rand(16, 8, 8) > 0.9).long()
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 1))
    return minimal_setup(model, images, masks, nn.CrossEntropyLoss(ignore_index=255))


def two_optimizers() -> Setup:
    model = network(3)
    optimizers = (torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.Adam(model[2].parameters()))
    return minimal_setup(model, X, Y, nn.CrossEntropyLoss(), optimizers=optimizers)


def pretrained_classifier() -> Setup:
    setup = classifier()
    for _ in range(200):
        setup.optimizers[0].zero_grad()
        F.cross_entropy(setup.model(X), Y).backward()
        setup.optimizers[0].step()
    return setup


def center_loss() -> Setup:
    class Centers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.centers = nn.Parameter(torch.randn(3, 3))

        def forward(self, output: Tensor, target: Tensor) -> Tensor:
            return F.cross_entropy(output, target) + 0.1 * (output - self.centers[target]).square().mean()

    model, loss = network(3), Centers()
    optimizer = torch.optim.Adam([*model.parameters(), *loss.parameters()], lr=1e-2)
    return minimal_setup(model, X, Y, loss, optimizers=(optimizer,))


def raw_into_batch_norm() -> Setup:
    x = X * torch.tensor([1.0, 1e3, 1e5, 10.0]) + 500
    return minimal_setup(nn.Sequential(nn.BatchNorm1d(4), network(3)), x, Y, nn.CrossEntropyLoss())


TOKENS = torch.randint(0, 11, (32, 7), generator=torch.Generator().manual_seed(1))
HEALTHY_SETUPS: dict[str, Callable[[], Setup]] = {
    "label smoothing": lambda: classifier(loss_fn=nn.CrossEntropyLoss(label_smoothing=0.1)),
    "class weights": lambda: classifier(loss_fn=nn.CrossEntropyLoss(torch.tensor([1.0, 5.0, 0.2]))),
    "weights by sample": lambda: classifier(loss_fn=weighted_cross_entropy),
    "sum reduction": lambda: classifier(loss_fn=partial(F.cross_entropy, reduction="sum")),
    "soft labels": lambda: minimal_setup(network(3), X, 0.8 * ONE_HOT + 0.2 / 3, nn.CrossEntropyLoss()),
    "log-softmax and nll": lambda: classifier(nn.LogSoftmax(dim=1), loss_fn=nn.NLLLoss()),
    "sigmoid and bce": lambda: minimal_setup(network(3, nn.Sigmoid()), X, ONE_HOT, nn.BCELoss()),
    "focal": lambda: minimal_setup(network(3), X, ONE_HOT, focal_loss),
    "positive weights": lambda: minimal_setup(
        network(3), X, ONE_HOT, nn.BCEWithLogitsLoss(pos_weight=torch.full((3,), 2.0))
    ),
    "distillation": lambda: classifier(loss_fn=distillation_loss),
    "gaussian nll": lambda: minimal_setup(network(2), X, X.sum(1, keepdim=True) / 2, gaussian_nll),
    "quantiles": lambda: minimal_setup(network(3), X, X.sum(1, keepdim=True) / 2, quantile_loss),
    "contrastive": lambda: classifier(loss_fn=contrastive_loss),
    "pairwise ranking": lambda: minimal_setup(network(1), X, X.sum(1, keepdim=True), ranking_loss),
    "huber": lambda: regressor(loss_fn=nn.HuberLoss()),
    "attention": lambda: minimal_setup(Attention(), torch.randn(32, 6, 8), torch.arange(32) % 3, nn.CrossEntropyLoss()),
    "gating": lambda: minimal_setup(Gated(), X, Y, nn.CrossEntropyLoss()),
    "vae": lambda: minimal_setup(VAE(), torch.rand(64, 12), torch.rand(64, 12), VAE.loss),
    "gan": lambda: minimal_setup(GAN(), torch.randn(64, 2), torch.ones(64, 1), GAN.loss),
    "siamese stop-gradient": lambda: minimal_setup(Siamese(), torch.randn(64, 6), torch.zeros(64), Siamese.loss),
    "frozen backbone": lambda: minimal_setup(FrozenBackbone(), X, Y, nn.CrossEntropyLoss()),
    "low-rank adapter": lambda: minimal_setup(Adapter(), X, Y, nn.CrossEntropyLoss()),
    "heads in turns": lambda: minimal_setup(AlternatingHeads(), X, torch.randn(64, 1), nn.MSELoss()),
    "tied language model": lambda: minimal_setup(
        TiedLanguageModel(), TOKENS[:, :-1], TOKENS[:, 1:], TiedLanguageModel.loss
    ),
    "two optimizers": two_optimizers,
    "masked tokens": masked_tokens,
    "segmentation": segmentation,
    "pretrained": pretrained_classifier,
    "center loss": center_loss,
    "raw features into batch norm": raw_into_batch_norm,
}


ALL_HEALTHY_SETUPS = {**HEALTHY_SETUPS, **loss_cases.HEALTHY_SETUPS}


@pytest.mark.parametrize("name", ALL_HEALTHY_SETUPS)
def test_checkup_of_healthy_setup_has_no_faults(name: str) -> None:
    torch.manual_seed(0)
    report = Debugger.of(ALL_HEALTHY_SETUPS[name]()).checkup()
    assert [str(finding) for finding in report.faults] == []
    assert broken_rules(report) == []
