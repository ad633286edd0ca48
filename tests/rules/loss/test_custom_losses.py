"""Tests of custom losses: manual logarithms, signs, loops over steps, class numbers, divergences, units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import classifier, minimal_setup, network, points, regressor
from nbdebug.setup import Setup
from nbdebug.setup.task import parse_task
from tests.rules.rule_findings import fault_messages, rule_findings

X, Y = points()
VALUES = X.sum(1, keepdim=True) / 2
PROBABILITIES = torch.softmax(X[:, :3], 1)
BINARY = (X[:, :1] > 0).float()
TOKENS = torch.randint(0, 9, (32, 9), generator=torch.Generator().manual_seed(0))
Loss = Callable[[Any, Tensor], Tensor]


def manual_bce(logits: Tensor, target: Tensor) -> Tensor:
    probability = 1 / (1 + torch.exp(-logits))
    return -(target * torch.log(probability) + (1 - target) * torch.log(1 - probability)).mean()


def manual_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    exponents = torch.exp(logits)
    return -torch.log(exponents / exponents.sum(1, keepdim=True))[torch.arange(len(target)), target].mean()


def guarded_bce(logits: Tensor, target: Tensor) -> Tensor:
    probability = 1 / (1 + torch.exp(-logits))
    return -(target * torch.log(probability + 1e-7) + (1 - target) * torch.log(1 - probability + 1e-7)).mean()


def contrastive_loss(features: Tensor, target: Tensor) -> Tensor:
    normalized = F.normalize(features, dim=1)
    similarities = torch.exp(normalized @ normalized.t() / 0.5)
    return -torch.log(similarities.diag() / similarities.sum(1)).mean() + 0 * target.sum()


def gaussian_nll(output: Tensor, target: Tensor) -> Tensor:
    mean, log_variance = output[:, :1], output[:, 1:]
    return (log_variance / 2 + (target - mean) ** 2 / (2 * log_variance.exp())).mean()


def normal_log_likelihood(output: tuple[Tensor, Tensor], target: Tensor) -> Tensor:
    log_likelihood: Tensor = torch.distributions.Normal(*output).log_prob(target).mean()  # type: ignore[no-untyped-call]
    return log_likelihood


def kl_divergence(output: Tensor, target: Tensor) -> Tensor:
    return F.kl_div(F.log_softmax(output, 1), target, reduction="batchmean")


def log_likelihood(output: Tensor, target: Tensor) -> Tensor:
    return F.log_softmax(output, -1).gather(-1, target[..., None]).mean()


def kl_divergence_of_probabilities(output: Tensor, target: Tensor) -> Tensor:
    return F.kl_div(F.softmax(output, 1), target, reduction="batchmean")


def last_step_loss(output: Tensor, target: Tensor) -> Tensor:
    loss = output.sum() * 0
    for step in range(target.shape[1]):
        loss = F.cross_entropy(output[:, step], target[:, step])
    return loss


def sequence_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=0)


def log_cosh_loss(output: Tensor, target: Tensor) -> Tensor:
    return torch.log(torch.cosh(output - target)).mean()


def error_to_class_number(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output, target[:, None].expand_as(output).float())


def error_to_one_hot(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output, F.one_hot(target, 3).float())


class NormalParameters(nn.Module):
    """A network that returns a mean and a scale."""

    def __init__(self) -> None:
        super().__init__()
        self.body = network(2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, scale = self.body(x).chunk(2, 1)
        return mean, F.softplus(scale) + 0.01


def negate(loss: Loss) -> Loss:
    return lambda output, target: -loss(output, target)


def language_model(loss: Loss, tokens: Tensor = TOKENS) -> Setup:
    return minimal_setup(nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 9)), tokens[:, :-1], tokens[:, 1:], loss)


def padded_tokens() -> Tensor:
    tokens = TOKENS.clamp(min=1)
    tokens[:, 4:] = 0
    return tokens


def class_number_setup(outputs: int, loss: Any, **options: Any) -> Setup:
    target = Y if outputs == 3 else 1.0 + Y[:, None]
    return minimal_setup(network(outputs), X, target, loss, **options)


FAULTY: dict[str, tuple[str, Callable[[], Setup]]] = {
    "log of sigmoid": ("L203", lambda: minimal_setup(network(1), X, BINARY, manual_bce)),
    "log of softmax": ("L203", lambda: classifier(loss_fn=manual_cross_entropy)),
    "kl_div of probabilities": (
        "L204",
        lambda: minimal_setup(network(3), X, PROBABILITIES, kl_divergence_of_probabilities),
    ),
    "kl_div module on logits": (
        "L204",
        lambda: minimal_setup(network(3), X, PROBABILITIES, nn.KLDivLoss(reduction="batchmean")),
    ),
    "tanh under log-cosh": ("L209", lambda: regressor(nn.Tanh(), loss_fn=log_cosh_loss)),
    "clamp instead of sigmoid": ("L210", lambda: minimal_setup(network(1, nn.Hardtanh(0, 1)), X, BINARY, nn.BCELoss())),
    "outputs against the class number": ("L211", lambda: class_number_setup(3, error_to_class_number)),
    "one output for classes": (
        "L211",
        lambda: class_number_setup(1, nn.MSELoss(), task=parse_task("classification")),
    ),
    "negated gaussian": ("L213", lambda: minimal_setup(network(2), X, VALUES, negate(gaussian_nll))),
    "normal log-likelihood of a tuple": (
        "L213",
        lambda: minimal_setup(NormalParameters(), X, VALUES, normal_log_likelihood),
    ),
    "negated divergence": ("L213", lambda: minimal_setup(network(3), X, PROBABILITIES, negate(kl_divergence))),
    "log-likelihood of tokens": ("L213", lambda: language_model(log_likelihood)),
    "last step of a loop": ("L214", lambda: language_model(last_step_loss)),
    "targets in dollars": ("L208", lambda: minimal_setup(network(1), X, 2e5 + 1e5 * VALUES, nn.MSELoss())),
}
HEALTHY: dict[str, tuple[str, Callable[[], Setup]]] = {
    "guarded logarithm": ("L203", lambda: minimal_setup(network(1), X, BINARY, guarded_bce)),
    "similarities": ("L203", lambda: classifier(loss_fn=contrastive_loss)),
    "divergence of log-probabilities": ("L204", lambda: minimal_setup(network(3), X, PROBABILITIES, kl_divergence)),
    "linear head under log-cosh": ("L209", lambda: regressor(loss_fn=log_cosh_loss)),
    "clamped sigmoid": (
        "L210",
        lambda: minimal_setup(network(1, nn.Sigmoid(), nn.Hardtanh(0, 1)), X, BINARY, nn.BCELoss()),
    ),
    "one-hot rows": ("L211", lambda: class_number_setup(3, error_to_one_hot)),
    "ratings": ("L211", lambda: class_number_setup(1, nn.MSELoss())),
    "gaussian": ("L213", lambda: minimal_setup(network(2), X, VALUES, gaussian_nll)),
    "negated normal log-likelihood": (
        "L213",
        lambda: minimal_setup(NormalParameters(), X, VALUES, negate(normal_log_likelihood)),
    ),
    "divergence": ("L213", lambda: minimal_setup(network(3), X, PROBABILITIES, kl_divergence)),
    "negated log-likelihood": ("L213", lambda: language_model(negate(log_likelihood))),
    "padding at the end": ("L214", lambda: language_model(sequence_loss, padded_tokens())),
    "targets of unit scale": ("L208", lambda: minimal_setup(network(1), X, VALUES, nn.MSELoss())),
}


@pytest.mark.parametrize("name", FAULTY)
def test_checkup_of_faulty_custom_loss_reports_its_rule(name: str) -> None:
    code, build = FAULTY[name]
    assert fault_messages(build(), code)


@pytest.mark.parametrize("name", HEALTHY)
def test_checkup_of_healthy_custom_loss_is_quiet(name: str) -> None:
    code, build = HEALTHY[name]
    assert fault_messages(build(), code) == []


@pytest.mark.parametrize(
    ("code", "build", "line"),
    [
        ("L203", FAULTY["log of softmax"][1], "return -torch.log(exponents"),
        ("L204", FAULTY["kl_div of probabilities"][1], "F.kl_div(F.softmax(output, 1)"),
        ("L211", FAULTY["outputs against the class number"][1], "F.mse_loss(output, target[:, None]"),
        ("L213", FAULTY["log-likelihood of tokens"][1], "return F.log_softmax(output, -1).gather"),
        ("L214", FAULTY["last step of a loop"][1], "loss = F.cross_entropy(output[:, step]"),
    ],
)
def test_checkup_of_faulty_custom_loss_names_its_line(code: str, build: Callable[[], Setup], line: str) -> None:
    assert [line in (finding.where.source or "") for finding in rule_findings(build(), code)] == [True]


def test_initial_loss_off_of_large_head_weights_names_the_layer() -> None:
    model = network(3)
    nn.init.normal_(model[2].weight, std=5.0)
    findings = rule_findings(minimal_setup(model, X, Y, nn.CrossEntropyLoss()), "L208")
    assert [finding.where.module for finding in findings] == ["2"]


def test_nll_without_log_softmax_of_logits_names_the_head() -> None:
    assert [finding.where.module for finding in rule_findings(classifier(loss_fn=nn.NLLLoss()), "L204")] == ["2"]


@pytest.mark.parametrize("shape", [(32, 6), (8, 6, 4)])
def test_loss_task_mismatch_of_several_classes_counts_the_rows_of_the_first_batch(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(64, *shape[1:], generator=generator) < 0.35).float()
    model = nn.Conv1d(6, 6, 1) if len(shape) == 3 else nn.Linear(6, 6)
    x = torch.randn(64, *shape[1:], generator=generator)
    setup = Setup(model, DataLoader(TensorDataset(x, target), shape[0]), loss_fn=nn.CrossEntropyLoss())
    (finding,) = rule_findings(setup, "L211")
    rows = target[: shape[0]].sum(1).flatten()
    assert finding.message.startswith(f"In the first batch, {int((rows != 1).sum())} of the {len(rows)} target rows")


@pytest.mark.parametrize(
    ("name", "message", "fix", "edits"),
    [
        (
            "kl_div of probabilities",
            "is probabilities: its rows sum to 1",
            "F.kl_div(F.log_softmax(output, 1), target",
            1,
        ),
        ("kl_div module on logits", "is not log-probabilities", "F.kl_div(F.log_softmax(logits, dim=1)", 0),
    ],
)
def test_first_argument_of_a_divergence_is_named_by_its_own_sums(name: str, message: str, fix: str, edits: int) -> None:
    (finding,) = rule_findings(FAULTY[name][1](), "L204")
    assert message in finding.message
    assert fix in finding.fix
    assert len(finding.edits) == edits
