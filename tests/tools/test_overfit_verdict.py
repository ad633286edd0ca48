"""What the tiny-batch test says of healthy and of broken programs."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import classifier, minimal_setup, network, points, regressor
from nbdebug.setup import Setup
from nbdebug.tools.overfit import Overfit, overfit


def said(result: Overfit) -> str:
    """All reasons in one text."""
    return " | ".join([result.headline, *result.reasons, *result.ruled_out])


def test_a_sound_classifier_passes_with_the_settings_of_its_user() -> None:
    result = overfit(classifier())
    assert (result.verdict, len(result.attempts)) == ("pass", 1)
    assert result.attempts[0].name == "your Adam, lr 0.01"
    assert result.attempts[0].modes_met == ("eval", "train")
    assert result.last is not None
    assert result.last.accuracy == result.last.eval_accuracy == 1
    assert result.last.loss <= result.goal
    assert result.ruled_out == ()


def test_a_softmax_before_cross_entropy_fails_although_every_answer_is_right() -> None:
    result = overfit(classifier(nn.Softmax(1)))
    assert (result.verdict, result.cause) == ("fail", "model")
    assert result.last is not None
    assert result.last.loss > math.log(1 + 2 / math.e)
    for word in ("contradictory labels", "a high loss floor", "dropout", "optimizer settings", "capacity", "gradients"):
        assert word in said(result)


def test_a_sigmoid_before_its_loss_fails() -> None:
    x, y = points(2)
    bad = minimal_setup(network(1, nn.Sigmoid()), x, y.float()[:, None], nn.BCEWithLogitsLoss())
    good = minimal_setup(network(1, nn.Sigmoid()), x, y.float()[:, None], nn.BCELoss())
    assert overfit(bad).verdict == "fail"
    assert overfit(good).verdict == "pass"


def test_regression_is_judged_against_the_spread_of_its_targets() -> None:
    assert overfit(regressor()).verdict == "pass"
    assert overfit(regressor(nn.Sigmoid())).verdict == "fail"


@pytest.mark.parametrize("smoothing", [0.1, 0.3])
def test_label_smoothing_passes_at_its_floor(smoothing: float) -> None:
    result = overfit(classifier(loss_fn=nn.CrossEntropyLoss(label_smoothing=smoothing)))
    assert result.verdict == "pass"
    assert result.last is not None
    assert result.last.loss > result.floor > smoothing


def test_contradictory_examples_are_named_and_lift_the_goal() -> None:
    x, y = points()
    x[1], y[1] = x[0], (y[0] + 1) % 3
    result = overfit(minimal_setup(network(3), x, y, nn.CrossEntropyLoss()))
    assert result.verdict == "pass"
    assert "1 examples contradict another one: examples 0 and 1" in said(result)
    assert result.floor == pytest.approx(2 * math.log(2) / 16, rel=1e-3)


def test_dropout_passes_in_eval_mode_and_says_so() -> None:
    result = overfit(minimal_setup(wide(nn.Dropout(0.8)), *points(), nn.CrossEntropyLoss()))
    assert result.verdict == "pass"
    assert result.attempts[0].modes_met == ("eval",)
    assert "only in eval mode: in train mode (dropout)" in said(result)


def test_running_statistics_that_lag_behind_are_a_gap_and_no_failure() -> None:
    result = overfit(minimal_setup(wide(nn.BatchNorm1d(32, momentum=1e-4)), *points(), nn.CrossEntropyLoss()))
    assert result.verdict == "pass"
    assert "only in train mode: in eval mode (batch normalization)" in said(result)


def wide(middle: nn.Module) -> nn.Sequential:
    """A network of thirty-two units."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 32), middle, nn.ReLU(), nn.Linear(32, 3))


@pytest.mark.parametrize("rate", [1e-7, 1e8])
def test_a_rate_far_off_is_a_fault_of_the_settings(rate: float) -> None:
    model = network(3)
    optimizers = (torch.optim.SGD(model.parameters(), rate),)
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers))
    assert (result.verdict, result.cause) == ("fail", "settings")
    assert "O501 and O502" in said(result)
    assert result.attempts[1].name.startswith("Adam, lr 0.01")


def test_an_optimizer_of_another_model_is_a_fault_of_the_settings() -> None:
    stale = torch.optim.Adam(network(3).parameters(), 1e-2)
    result = overfit(classifier(optimizers=(stale,)))
    assert (result.verdict, result.cause) == ("fail", "settings")
    assert "the optimizer holds 0 of 67 trainable parameters" in said(result)


def test_a_slow_optimizer_is_no_fault() -> None:
    model = network(3)
    slow = torch.optim.SGD(model.parameters(), 0.03)
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(slow,)))
    assert result.verdict == "pass"
    assert len(result.attempts) == 2
    assert "your SGD, lr 0.03 reached loss" in result.headline


def test_without_an_optimizer_adam_alone_has_all_steps() -> None:
    result = overfit(classifier(nn.Softmax(1), optimizers=()))
    assert [len(one.losses) for one in result.attempts] == [300]
    assert "no optimizer was given" in said(result)


def test_nan_everywhere_is_a_verdict() -> None:
    x, y = points()
    result = overfit(minimal_setup(network(3), torch.full_like(x, math.nan), y, nn.CrossEntropyLoss()))
    assert (result.verdict, result.cause) == ("fail", "not finite")
    assert "nan at step 0" in result.headline
    assert result.steps == 1


def test_a_loss_without_gradient_is_a_verdict() -> None:
    result = overfit(classifier(loss_fn=lambda output, y: F.cross_entropy(output.detach(), y)))
    assert (result.verdict, result.cause) == ("fail", "no gradient")


def test_a_model_that_is_frozen_whole_is_a_verdict() -> None:
    setup = classifier()
    setup.model.requires_grad_(False)
    result = overfit(setup)
    assert (result.verdict, result.cause) == ("fail", "no gradient")
    assert "No parameter requires a gradient" in result.headline


def test_zero_gradients_name_their_parameters() -> None:
    model = network(3)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    model[2].bias.requires_grad_(False)
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss()))
    assert (result.verdict, result.cause) == ("fail", "no gradient")
    assert "0.weight" in result.attempts[-1].without_gradient


def test_a_linear_model_of_few_features_is_not_accused() -> None:
    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    y = (torch.rand(64, generator=torch.Generator().manual_seed(1)) < 0.5).float()[:, None]
    result = overfit(minimal_setup(nn.Linear(2, 1), x, y, nn.BCEWithLogitsLoss()))
    assert result.verdict == "cannot tell"
    assert "linear in 2 features" in said(result)


def test_targets_that_are_all_alike_tell_nothing() -> None:
    x, _ = points()
    result = overfit(minimal_setup(network(3), x, torch.zeros(64, dtype=torch.long), nn.CrossEntropyLoss()))
    assert result.verdict == "cannot tell"
    assert "all targets of these examples are the same" in said(result)


def test_a_loss_that_falls_without_end_tells_nothing() -> None:
    def likelihood(output: Tensor, y: Tensor) -> Tensor:
        mean, log_variance = output.chunk(2, 1)
        return (log_variance + (mean - y) ** 2 / log_variance.exp()).mean()

    x, _ = points()
    result = overfit(minimal_setup(network(2), x, x[:, :1], likelihood))
    assert result.verdict == "cannot tell"
    assert "unbounded below" in said(result)


def test_a_random_model_is_not_accused() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 20 * torch.randn_like(x)

    result = overfit(classifier(Noisy()))
    assert result.verdict == "cannot tell"
    assert "random in eval mode" in said(result)


def test_a_loss_still_falling_at_the_last_step_is_not_accused() -> None:
    model = network(3)
    slow = torch.optim.SGD(model.parameters(), 0.05)
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(slow,)), steps=40)
    assert result.verdict == "cannot tell"
    assert "still falling" in said(result)


def test_multi_label_targets_pass() -> None:
    x, _ = points()
    y = (x > 0).float()
    assert overfit(minimal_setup(network(4), x, y, nn.BCEWithLogitsLoss())).verdict == "pass"


def test_a_language_model_with_padding_passes() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(9, 24), nn.Linear(24, 9)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.embedding(tokens))

    torch.manual_seed(0)
    tokens = torch.randint(0, 9, (32, 6))
    after = (tokens * 2 + 1) % 9
    after[:, -1] = -100

    def loss_fn(logits: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())

    result = overfit(minimal_setup(Tokens(), tokens, after, loss_fn))
    assert result.verdict == "pass"
    assert result.needed == 16 * 5


class Recording(nn.Module):
    """A linear classifier that keeps, in its class, all inputs that any copy of it was given."""

    inputs: list[Tensor] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(3)

    def forward(self, x: Tensor) -> Tensor:
        Recording.inputs.append(x.clone())
        return self.inner(x)


class Augmented(TensorDataset):
    """Other noise each time a sample is read."""

    def __getitem__(self, index: int) -> Any:
        x, y = super().__getitem__(index)
        return x + 0.1 * torch.randn_like(x), y


def test_every_pass_sees_the_very_same_examples_whatever_the_loader_does() -> None:
    Recording.inputs = []
    loader = DataLoader(Augmented(*points()), batch_size=16, shuffle=True)
    model = Recording()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    assert overfit(Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,))).verdict == "pass"
    assert len(Recording.inputs) > 10
    assert all(torch.equal(one, Recording.inputs[0]) for one in Recording.inputs)
