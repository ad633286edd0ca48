"""Tests of the verdict of the overfit test on healthy and on faulty setups."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import classifier, minimal_setup, network, points, regressor
from nbdebug.setup import Setup
from nbdebug.tools.overfit import Overfit, overfit


def verdict_text(result: Overfit) -> str:
    """The headline, reasons and ruled-out causes in one text."""
    return " | ".join([result.headline, *result.reasons, *result.ruled_out])


def wide_network(middle: nn.Module) -> nn.Sequential:
    """A network with 32 hidden units and ``middle`` after the first layer."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 32), middle, nn.ReLU(), nn.Linear(32, 3))


def test_overfit_healthy_classifier_passes_with_user_settings() -> None:
    result = overfit(classifier())
    assert (result.verdict, len(result.attempts)) == ("pass", 1)
    assert result.attempts[0].name == "your Adam, lr 0.01"
    assert result.attempts[0].modes_met == ("eval", "train")
    assert result.last is not None
    assert result.last.accuracy == result.last.eval_accuracy == 1
    assert result.last.loss <= result.goal
    assert result.ruled_out == ()


def test_overfit_softmax_before_cross_entropy_fails_and_rules_out_other_causes() -> None:
    result = overfit(classifier(nn.Softmax(1)))
    assert (result.verdict, result.cause) == ("fail", "model")
    assert result.last is not None
    assert result.last.loss > math.log(1 + 2 / math.e)
    causes = ("contradictory labels", "a high loss floor", "dropout", "optimizer settings", "capacity", "gradients")
    assert all(cause in verdict_text(result) for cause in causes)


def test_overfit_sigmoid_before_bce_with_logits_fails() -> None:
    x, y = points(2)
    bad = minimal_setup(network(1, nn.Sigmoid()), x, y.float()[:, None], nn.BCEWithLogitsLoss())
    good = minimal_setup(network(1, nn.Sigmoid()), x, y.float()[:, None], nn.BCELoss())
    assert overfit(bad).verdict == "fail"
    assert overfit(good).verdict == "pass"


def test_overfit_regression_passes_and_with_bounded_output_fails() -> None:
    assert overfit(regressor()).verdict == "pass"
    assert overfit(regressor(nn.Sigmoid())).verdict == "fail"


@pytest.mark.parametrize("smoothing", [0.1, 0.3])
def test_overfit_label_smoothing_passes_above_its_floor(smoothing: float) -> None:
    result = overfit(classifier(loss_fn=nn.CrossEntropyLoss(label_smoothing=smoothing)))
    assert result.verdict == "pass"
    assert result.last is not None
    assert result.last.loss > result.floor > smoothing


def test_overfit_contradictory_examples_are_named_and_raise_floor() -> None:
    x, y = points()
    x[1], y[1] = x[0], (y[0] + 1) % 3
    result = overfit(minimal_setup(network(3), x, y, nn.CrossEntropyLoss()))
    assert result.verdict == "pass"
    assert "1 examples contradict another one: examples 0 and 1" in verdict_text(result)
    assert result.floor == pytest.approx(2 * math.log(2) / 16, rel=1e-3)


def test_overfit_dropout_passes_in_eval_mode_only() -> None:
    result = overfit(minimal_setup(wide_network(nn.Dropout(0.8)), *points(), nn.CrossEntropyLoss()))
    assert result.verdict == "pass"
    assert result.attempts[0].modes_met == ("eval",)
    assert "only in eval mode: in train mode (dropout)" in verdict_text(result)


def test_overfit_lagging_running_statistics_pass_in_train_mode_only() -> None:
    result = overfit(minimal_setup(wide_network(nn.BatchNorm1d(32, momentum=1e-4)), *points(), nn.CrossEntropyLoss()))
    assert result.verdict == "pass"
    assert "only in train mode: in eval mode (batch normalization)" in verdict_text(result)


@pytest.mark.parametrize("rate", [1e-7, 1e8])
def test_overfit_unsuitable_rate_fails_because_of_settings(rate: float) -> None:
    model = network(3)
    optimizers = (torch.optim.SGD(model.parameters(), rate),)
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers))
    assert (result.verdict, result.cause) == ("fail", "settings")
    assert "O501 and O502" in verdict_text(result)
    assert result.attempts[1].name.startswith("Adam, lr 0.01")


def test_overfit_optimizer_of_another_model_fails_because_of_settings() -> None:
    optimizer = torch.optim.Adam(network(3).parameters(), 1e-2)
    result = overfit(classifier(optimizers=(optimizer,)))
    assert (result.verdict, result.cause) == ("fail", "settings")
    assert "the optimizer holds 0 of 67 trainable parameters" in verdict_text(result)


def test_overfit_slow_optimizer_passes_in_second_attempt() -> None:
    model = network(3)
    slow = torch.optim.SGD(model.parameters(), 0.03)
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(slow,)))
    assert result.verdict == "pass"
    assert len(result.attempts) == 2
    assert "your SGD, lr 0.03 reached loss" in result.headline


def test_overfit_without_optimizer_gives_adam_all_steps() -> None:
    result = overfit(classifier(nn.Softmax(1), optimizers=()))
    assert [len(attempt.losses) for attempt in result.attempts] == [300]
    assert "no optimizer was given" in verdict_text(result)


def test_overfit_nan_inputs_fail_at_first_step() -> None:
    x, y = points()
    result = overfit(minimal_setup(network(3), torch.full_like(x, math.nan), y, nn.CrossEntropyLoss()))
    assert (result.verdict, result.cause) == ("fail", "not finite")
    assert "nan at step 0" in result.headline
    assert result.steps == 1


def test_overfit_detached_loss_fails_for_lack_of_gradient() -> None:
    result = overfit(classifier(loss_fn=lambda output, y: F.cross_entropy(output.detach(), y)))
    assert (result.verdict, result.cause) == ("fail", "no gradient")


def test_overfit_frozen_model_fails_for_lack_of_gradient() -> None:
    setup = classifier()
    setup.model.requires_grad_(False)
    result = overfit(setup)
    assert (result.verdict, result.cause) == ("fail", "no gradient")
    assert "No parameter requires a gradient" in result.headline


def test_overfit_zero_gradients_fail_and_name_parameters() -> None:
    model = network(3)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    model[2].bias.requires_grad_(False)
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss()))
    assert (result.verdict, result.cause) == ("fail", "no gradient")
    assert "0.weight" in result.attempts[-1].without_gradient


def linear_classifier_of_few_features() -> Setup:
    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    y = (torch.rand(64, generator=torch.Generator().manual_seed(1)) < 0.5).float()[:, None]
    return minimal_setup(nn.Linear(2, 1), x, y, nn.BCEWithLogitsLoss())


def classifier_of_identical_targets() -> Setup:
    x, _ = points()
    return minimal_setup(network(3), x, torch.zeros(64, dtype=torch.long), nn.CrossEntropyLoss())


def regressor_with_unbounded_loss() -> Setup:
    def negative_log_likelihood(output: Tensor, y: Tensor) -> Tensor:
        mean, log_variance = output.chunk(2, 1)
        return (log_variance + (mean - y) ** 2 / log_variance.exp()).mean()

    x, _ = points()
    return minimal_setup(network(2), x, x[:, :1], negative_log_likelihood)


def classifier_with_random_output() -> Setup:
    class Noise(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 20 * torch.randn_like(x)

    return classifier(Noise())


def classifier_with_slow_optimizer() -> Setup:
    model = network(3)
    optimizers = (torch.optim.SGD(model.parameters(), 0.05),)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers)


@pytest.mark.parametrize(
    ("make_setup", "options", "reason"),
    [
        (linear_classifier_of_few_features, {}, "linear in 2 features"),
        (classifier_of_identical_targets, {}, "all targets of these examples are the same"),
        (regressor_with_unbounded_loss, {}, "unbounded below"),
        (classifier_with_random_output, {}, "random in eval mode"),
        (classifier_with_slow_optimizer, {"steps": 40}, "still falling"),
    ],
    ids=["linear model", "identical targets", "unbounded loss", "random output", "still falling"],
)
def test_overfit_inconclusive_setup_cannot_tell_and_gives_reason(
    make_setup: Callable[[], Setup], options: dict[str, Any], reason: str
) -> None:
    result = overfit(make_setup(), **options)
    assert result.verdict == "cannot tell"
    assert reason in verdict_text(result)


def test_overfit_multi_label_targets_pass() -> None:
    x, _ = points()
    y = (x > 0).float()
    assert overfit(minimal_setup(network(4), x, y, nn.BCEWithLogitsLoss())).verdict == "pass"


def test_overfit_language_model_with_padding_passes() -> None:
    class TokenModel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(9, 24), nn.Linear(24, 9)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.embedding(tokens))

    torch.manual_seed(0)
    tokens = torch.randint(0, 9, (32, 6))
    targets = (tokens * 2 + 1) % 9
    targets[:, -1] = -100

    def loss_fn(logits: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())

    result = overfit(minimal_setup(TokenModel(), tokens, targets, loss_fn))
    assert result.verdict == "pass"
    assert result.needed == 16 * 5
