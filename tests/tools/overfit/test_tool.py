"""Tests of the training in the overfit test: optimizers, copies, modes and number of steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.tools.overfit import overfit
from nbdebug.tools.overfit.tiny_batch import first_tiny_pass
from nbdebug.tools.overfit.tool import OverfitTrial
from tests.tools.stopping_screens import StopAfterRows


class BackwardCounter(nn.Module):
    """Counts, in its class, the backward passes of all its copies."""

    backward = 0

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.inner(x)
        if output.requires_grad:
            output.register_hook(BackwardCounter.count)
        return output

    @staticmethod
    def count(_: Tensor) -> None:
        BackwardCounter.backward += 1


@pytest.mark.parametrize("optimizer_class", [torch.optim.Adam, torch.optim.LBFGS, None], ids=["Adam", "LBFGS", "none"])
def test_overfit_makes_at_most_300_steps(optimizer_class: Any) -> None:
    model = BackwardCounter(network(3, nn.Softmax(1)))
    optimizers = () if optimizer_class is None else (optimizer_class(model.parameters()),)
    BackwardCounter.backward = 0
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers))
    assert result.verdict != "pass"
    assert result.steps == BackwardCounter.backward == 300
    assert sum(len(attempt.points) for attempt in result.attempts) <= 60


def lbfgs(model: nn.Sequential) -> tuple[torch.optim.Optimizer, ...]:
    return (torch.optim.LBFGS(model.parameters()),)


def sgd_with_two_groups(model: nn.Sequential) -> tuple[torch.optim.Optimizer, ...]:
    groups = [{"params": model[0].parameters(), "lr": 0.5}, {"params": model[2].parameters()}]
    return (torch.optim.SGD(groups, lr=0.2),)


def adam_and_sgd(model: nn.Sequential) -> tuple[torch.optim.Optimizer, ...]:
    return torch.optim.Adam(model[0].parameters(), 1e-2), torch.optim.SGD(model[2].parameters(), 0.5)


@pytest.mark.parametrize(
    ("make_optimizers", "name"),
    [
        (lbfgs, "your LBFGS, lr 1"),
        (sgd_with_two_groups, "your SGD, lr 0.5 and 0.2"),
        (adam_and_sgd, "your Adam, lr 0.01 and SGD, lr 0.5"),
    ],
    ids=["LBFGS", "two groups", "two optimizers"],
)
def test_overfit_first_attempt_uses_optimizers_of_user(make_optimizers: Any, name: str) -> None:
    model = network(3)
    optimizers = make_optimizers(model)
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers))
    assert (result.verdict, result.attempts[0].name) == ("pass", name)


def test_overfit_trains_copy_and_leaves_model_and_optimizer_unchanged() -> None:
    setup = classifier(nn.Softmax(1))
    before = [p.clone() for p in setup.model.parameters()]
    result = overfit(setup)
    assert result.in_place == ""
    assert all(torch.equal(a, b) for a, b in zip(before, setup.model.parameters(), strict=True))
    assert not setup.optimizers[0].state


def test_overfit_with_schedule_uses_peak_rate_and_does_not_step_schedule() -> None:
    model = network(3)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 100)
    result = overfit(
        minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,), scheduler=scheduler)
    )
    assert (result.verdict, result.attempts[0].name) == ("pass", "your Adam, lr 0.01")
    assert scheduler.last_epoch == 0
    assert optimizer.param_groups[0]["lr"] == 0


def test_overfit_sparse_gradients_are_made_dense_for_adam() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(64, 3, sparse=True))
    tokens, y = torch.arange(64), torch.arange(64) % 3
    too_slow = (torch.optim.SparseAdam(model.parameters(), 1e-9),)
    result = overfit(minimal_setup(model, tokens, y, nn.CrossEntropyLoss(), optimizers=too_slow))
    assert (result.verdict, result.cause) == ("fail", "settings")


def test_overfit_optimizer_that_cannot_be_rebuilt_is_left_out() -> None:
    class OptimizerWithExtraArgument(torch.optim.SGD):
        def __init__(self, params: Any, *, extra: int) -> None:
            super().__init__(params, lr=1e-2)

    model = network(3)
    optimizers = (OptimizerWithExtraArgument(model.parameters(), extra=1),)
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers))
    assert result.verdict == "pass"
    assert any("OptimizerWithExtraArgument could not be rebuilt" in reason for reason in result.reasons)


class ModelWithCachedActivation(nn.Module):
    """Stores an activation, so that it cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(3)
        self.activation = self.inner(torch.zeros(1, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.activation = self.inner(x)
        return self.activation


def test_overfit_model_that_cannot_be_copied_is_trained_in_place_and_restored() -> None:
    model = ModelWithCachedActivation()
    before = [p.clone() for p in model.parameters()]
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss()))
    assert result.verdict == "pass"
    assert "cannot be copied" in result.in_place
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_overfit_step_fn_trains_model_in_place_and_restores_it() -> None:
    model = network(3)
    before = [p.clone() for p in model.parameters()]

    def step_fn(batch: Any) -> Tensor:
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    loader = DataLoader(TensorDataset(*points()), batch_size=16)
    optimizers = (torch.optim.Adam(model.parameters(), 1e-2),)
    result = overfit(Setup(model, loader, optimizers=optimizers, step_fn=step_fn))
    assert result.verdict == "pass"
    assert "step_fn" in result.in_place
    assert result.floor is None
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_overfit_loss_that_reads_parameters_is_trained_in_place() -> None:
    model = network(3)

    def penalized_loss(output: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output, y) + 1e-4 * sum(p.square().sum() for p in model.parameters())

    result = overfit(minimal_setup(model, *points(), penalized_loss))
    assert result.verdict == "pass"
    assert "reaches the model itself" in result.in_place


def test_overfit_scripted_model_passes() -> None:
    model = torch.jit.script(network(3))
    assert overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss())).verdict == "pass"


def test_overfit_compiled_model_passes_as_copy() -> None:
    model = torch.compile(network(3))
    optimizers = (torch.optim.Adam(model.parameters(), 1e-2),)
    result = overfit(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers))
    assert (result.verdict, result.in_place) == ("pass", "")


def test_overfit_model_in_eval_mode_is_trained_in_train_mode_and_restored() -> None:
    setup = classifier(nn.BatchNorm1d(3))
    setup.model.eval()
    assert overfit(setup).verdict == "pass"
    assert not any(module.training for module in setup.model.modules())


def test_overfit_trial_stopped_keeps_completed_steps() -> None:
    setup = classifier(nn.Softmax(1))
    trial = OverfitTrial(setup, first_tiny_pass(setup, 16), 16, 300, 0)
    trial.run(StopAfterRows(7))
    result = trial.result()
    assert (result.verdict, result.stopped, result.steps) == ("cannot tell", True, 7)
    assert result.headline.startswith("Stopped at loss")


def test_overfit_same_seed_gives_same_curve() -> None:
    curves = [overfit(classifier(nn.Dropout(0.3)), seed=seed).attempts[0].losses for seed in (1, 1, 2)]
    assert curves[0] == curves[1] != curves[2]
