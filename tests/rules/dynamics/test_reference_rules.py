"""Tests of the rules that compare a run with a reference learner: T610, T607 and O502."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.finding import Finding
from nbdebug.rules.examples import mlp, rings, train, training_setup, waves
from nbdebug.setup import Setup
from nbdebug.setup.task import parse_task
from tests.rules.dynamics.healthy_runs import CE, MSE, Run
from tests.rules.dynamics.test_training_runs import watch_report

NOISY = rings(480, noise=0.6), rings(256, noise=0.6, seed=1)


def clusters(samples: int = 480, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Six clusters in eight dimensions."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 6, (samples,), generator=generator)
    centers = 2 * torch.randn(6, 8, generator=torch.Generator().manual_seed(9))
    return centers[labels] + torch.randn(samples, 8, generator=generator), labels


def sequences(samples: int = 480, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Token sequences whose class is the commonest of three groups of tokens."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 3, (samples,), generator=generator)
    tokens = torch.randint(0, 30, (samples, 12), generator=generator)
    is_own = torch.rand(samples, 12, generator=generator) < 0.5
    return torch.where(is_own, 10 * labels[:, None] + tokens % 10, tokens), labels


class WordAverage(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.embedding, self.dropout, self.head = nn.Embedding(30, 8), dropout, nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(F.dropout(self.embedding(tokens).mean(1), self.dropout, self.training))


class SampleDataset(Dataset[Any]):
    """Two inputs for each sample: its first four columns and the others."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return self.x[index, :4], self.x[index, 4:], self.y[index]


class TwoInputs(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(4, width), nn.Linear(4, width), nn.Linear(width, 6)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return self.head(torch.relu(self.first(first) + self.second(second)))


def run(model: nn.Module, data: tuple[Any, Any], loss: Any, *, epochs: int = 12, lr: float = 5e-3) -> Run:
    setup = training_setup(model, *data, loss, lr=lr)
    return setup, lambda: train(setup, epochs)


def two_inputs_run(width: int) -> Run:
    model = TwoInputs(width)
    loaders = [DataLoader(SampleDataset(*clusters(seed=seed)), 32, shuffle=not seed) for seed in (0, 1)]
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    setup = Setup(model, *loaders, loss_fn=CE, optimizers=(optimizer,))

    def loop() -> None:
        for first, second, y in [*loaders[0]] * 12:
            optimizer.zero_grad()
            CE(model(first, second), y).backward()
            optimizer.step()

    return setup, loop


def tiny_weights() -> nn.Module:
    model = mlp(8, 32, 32, 6)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.01)
    return model


def shuffled_inputs_run() -> Run:
    setup = training_setup(mlp(8, 32, 6), clusters(), clusters(seed=1), CE, lr=5e-3)

    def loop() -> None:
        for x, y in [*setup.train_loader] * 10:
            setup.optimizers[0].zero_grad()
            CE(setup.model(x[torch.randperm(len(x))]), y).backward()
            setup.optimizers[0].step()

    return setup, loop


def weighted(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """One class in twelve, which overlaps with the other."""
    generator = torch.Generator().manual_seed(len(x))
    rare = (torch.rand(len(x), generator=generator) < 1 / 12).long()
    return x + 0.8 * rare[:, None], rare


UNDERFITTING: dict[str, Callable[[], Run]] = {
    "bottleneck of one unit": lambda: run(
        nn.Sequential(mlp(8, 32, 1), nn.ReLU(), mlp(1, 32, 6)), (clusters(), clusters(seed=1)), CE
    ),
    "heavy dropout in a function": lambda: run(
        WordAverage(0.97), (sequences(), sequences(seed=1)), CE, epochs=15, lr=2e-3
    ),
    "a linear model of rings": lambda: run(mlp(8, 2), (rings(), rings(256, seed=1)), CE, lr=2e-2),
    "regression with one unit": lambda: run(
        nn.Sequential(mlp(4, 1), nn.ReLU(), mlp(1, 1)), (waves(), waves(256, seed=1)), MSE
    ),
    "two inputs, one unit": lambda: two_inputs_run(1),
    "binary, one logit": lambda: run(
        nn.Sequential(mlp(8, 1), nn.Tanh(), mlp(1, 1)),
        tuple((x, y[:, None].float()) for x, y in (rings(), rings(256, seed=1))),  # type: ignore[arg-type]
        nn.BCEWithLogitsLoss(),
        lr=1e-2,
    ),
}
FITTED: dict[str, Callable[[], Run]] = {
    "noise floor": lambda: run(mlp(8, 16, 2), NOISY, CE),
    "clusters": lambda: run(mlp(8, 32, 6), (clusters(), clusters(seed=1)), CE),
    "two inputs": lambda: two_inputs_run(32),
    "tokens": lambda: run(WordAverage(0.2), (sequences(), sequences(seed=1)), CE, lr=2e-2),
    "class weights": lambda: run(
        mlp(8, 16, 2),
        (weighted(*rings()), weighted(*rings(256, seed=1))),
        nn.CrossEntropyLoss(weight=torch.tensor([1.0, 12.0])),
        epochs=20,
        lr=1e-2,
    ),
    "stopped early": lambda: run(mlp(8, 32, 6), (clusters(), clusters(seed=1)), CE, epochs=2, lr=5e-4),
}


def findings_of(code: str, build: Callable[[], Run]) -> list[Finding]:
    torch.manual_seed(0)
    return [finding for finding in watch_report(*build()) if finding.code == code]


@pytest.mark.parametrize("name", UNDERFITTING)
def test_underfitting_of_network_below_the_reference_is_a_warning(name: str) -> None:
    (finding,) = findings_of("T610", UNDERFITTING[name])
    metric = "explained variance" if "regression" in name else "accuracy"
    assert finding.severity == "warning"
    assert finding.evidence[f"reference {metric}"] > finding.evidence[f"network {metric}"] + 0.05


@pytest.mark.parametrize("name", FITTED)
def test_underfitting_of_network_as_good_as_the_reference_is_quiet(name: str) -> None:
    assert [finding for finding in findings_of("T610", FITTED[name]) if finding.severity != "note"] == []


@pytest.mark.parametrize("scale", [float("nan"), float("inf")])
@pytest.mark.parametrize("task", ["regression", "classes"])
def test_underfitting_of_run_that_ends_as_not_finite_is_quiet(scale: float, task: str) -> None:
    is_regression = task == "regression"
    data = (waves(), waves(256, seed=1)) if is_regression else (clusters(), clusters(seed=1))
    setup = training_setup(mlp(4, 16, 1) if is_regression else mlp(8, 16, 6), *data, MSE if is_regression else CE)

    def loop() -> None:
        for number, (x, y) in enumerate([*setup.train_loader] * 20):
            setup.optimizers[0].zero_grad()
            assert setup.loss_fn is not None
            (setup.loss_fn(setup.model(x), y) * (scale if number > 60 else 1)).backward()
            setup.optimizers[0].step()

    codes = {finding.code for finding in watch_report(setup, loop)}
    assert "T603" in codes
    assert not codes & {"T610", "T607", "O502"}


@pytest.mark.parametrize("name", ["inputs shuffled in the loop", "tiny initial weights"])
def test_stuck_at_chance_of_learnable_task_names_the_reference(name: str) -> None:
    tiny = training_setup(tiny_weights(), clusters(), clusters(seed=1), CE, optimizer=None, lr=1e-6)
    builders: dict[str, Callable[[], Run]] = {
        "inputs shuffled in the loop": shuffled_inputs_run,
        "tiny initial weights": lambda: (tiny, lambda: train(tiny, 6)),
    }
    (finding,) = findings_of("T607", builders[name])
    assert finding.severity == "error"
    assert "a kernel ridge" in finding.message


def accumulation_run(divide: Callable[[Tensor], Tensor], labels: Tensor) -> Run:
    x, _ = clusters()
    setup = training_setup(mlp(8, 4, 6), (x, labels), (x[:128], labels[:128]), CE, lr=1e-3, batch_size=16)

    def loop() -> None:
        for number, (x, y) in enumerate([*setup.train_loader] * 8):
            divide(CE(setup.model(x), y)).backward()
            if number % 4 == 3:
                setup.optimizers[0].step()
                setup.optimizers[0].zero_grad()

    return setup, loop


@pytest.mark.parametrize(
    "divide", [lambda loss: loss / 4, lambda loss: 0.25 * loss, lambda loss: loss], ids=["divided", "scaled", "whole"]
)
def test_stuck_at_chance_of_accumulated_random_labels_compares_at_one_scale(
    divide: Callable[[Tensor], Tensor],
) -> None:
    labels = torch.randint(0, 6, (480,), generator=torch.Generator().manual_seed(5))
    (finding,) = findings_of("T607", lambda: accumulation_run(divide, labels))
    assert finding.severity == "warning"


@pytest.mark.parametrize("noise", [0.0, 0.6])
def test_lr_too_low_of_network_as_good_as_the_reference_is_quiet(noise: float) -> None:
    data = rings(480, noise=noise), rings(256, noise=noise, seed=1)
    assert findings_of("O502", lambda: run(mlp(8, 64, 2), data, CE, epochs=25, lr=2e-3)) == []


def bootstrapped(setup: Setup) -> None:
    """Learns from its own later values instead of a target of the loader."""
    assert setup.loss_fn is not None
    for _ in range(30):
        for state, reward, following, _ in setup.train_loader:
            with torch.no_grad():
                goal = 0.2 * reward + 0.9 * setup.model(following)
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(state), goal).backward()
            setup.optimizers[0].step()


def states_setup(loss_fn: nn.Module) -> Setup:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(480, 4, generator=generator)
    reward = 2 * torch.randn(480, 1, generator=generator)
    train_data = TensorDataset(states, reward, states.roll(1, 0), torch.zeros(480))
    val_data = TensorDataset(states[:64], torch.zeros(64, 1))
    model = mlp(4, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = DataLoader(train_data, 40, shuffle=True)
    return Setup(model, loader, DataLoader(val_data, 32), loss_fn=loss_fn, optimizers=(optimizer,))


@pytest.mark.parametrize("loss_fn", [nn.SmoothL1Loss(), nn.MSELoss()])
def test_validation_better_of_bootstrapped_targets_is_not_checked(loss_fn: nn.Module) -> None:
    torch.manual_seed(0)
    setup = states_setup(loss_fn)
    report = watch_report(setup, lambda: bootstrapped(setup))
    assert "T611" not in [finding.code for finding in report]


def noisy_targets(y: Tensor) -> Tensor:
    return y + 0.6 * torch.randn(y.shape, generator=torch.Generator().manual_seed(5))


def targets_of_others(y: Tensor) -> Tensor:
    return y.where(torch.arange(len(y))[:, None] % 4 > 0, y.roll(1, 0))


@pytest.mark.parametrize(("change", "severity"), [(noisy_targets, "note"), (targets_of_others, "warning")])
def test_validation_better_than_training_with_noise_that_did_no_harm_is_a_note(
    change: Callable[[Tensor], Tensor], severity: str
) -> None:
    torch.manual_seed(0)
    (x, y), val = waves(3000), waves(256, seed=1)
    setup = training_setup(mlp(4, 64, 1), (x, change(y)), val, nn.MSELoss(), lr=1e-2)
    report = watch_report(setup, lambda: train(setup, 12))
    assert [finding.severity for finding in report if finding.code == "T611"] == [severity]


def drawn(distribution: torch.distributions.Distribution, y: Tensor) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return distribution.sample(y.shape)


Change = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
NORMAL, LAPLACE, UNIFORM = (
    torch.distributions.Normal(0.0, 1.0),
    torch.distributions.Laplace(0.0, 0.5),
    torch.distributions.Uniform(-1.2, 1.2),
)
# What happens to the training targets only: more noise, which the training and the validation rows show alike.
NOISE: dict[str, Change] = {
    "normal": lambda x, y: (x, y + 0.7 * drawn(NORMAL, y)),
    "uniform": lambda x, y: (x, y + drawn(UNIFORM, y)),
    "heavy tails": lambda x, y: (x, y + drawn(LAPLACE, y)),
    "more noise for large inputs": lambda x, y: (x, y + (0.4 + 0.3 * x[:, 3:].abs()) * drawn(NORMAL, y)),
    "two readings": lambda x, y: (x, y + torch.where(drawn(NORMAL, y) > 0, 0.7, -0.7)),
}


def every(step: int, y: Tensor) -> Tensor:
    return torch.arange(len(y))[:, None] % step == 0


# Training and validation rows: wrong targets or inputs of training, or validation rows that are easier.
EASIER: dict[str, tuple[Change, Change]] = {
    "targets of other samples": (lambda x, y: (x, y.where(~every(3, y), y.roll(1, 0))), lambda x, y: (x, y)),
    "a few targets of other samples": (lambda x, y: (x, y.where(~every(5, y), y.roll(1, 0))), lambda x, y: (x, y)),
    "inputs of other samples": (lambda x, y: (x.where(~every(4, y), x.roll(1, 0)), y), lambda x, y: (x, y)),
    "reversed signs": (lambda x, y: (x, y.where(~every(6, y), -y)), lambda x, y: (x, y)),
    "validation without the noisy region": (
        lambda x, y: (x, y + 1.2 * (x[:, :1] > 0) * drawn(NORMAL, y)),
        lambda x, y: (x[x[:, 0] < 0], y[x[:, 0] < 0]),
    ),
}


def validation_findings(change_train: Change, change_val: Change) -> list[Finding]:
    torch.manual_seed(0)
    train_data, val_data = change_train(*waves(1000)), change_val(*waves(256, seed=1))
    setup = training_setup(mlp(4, 64, 1), train_data, val_data, nn.MSELoss(), lr=1e-2)
    return [finding for finding in watch_report(setup, lambda: train(setup, 20)) if finding.code == "T611"]


@pytest.mark.parametrize("name", NOISE)
def test_validation_better_by_the_noise_of_training_targets_is_a_note(name: str) -> None:
    findings = validation_findings(NOISE[name], lambda x, y: (x, y))
    assert [finding.severity for finding in findings] in ([], ["note"])


def test_validation_better_by_noise_names_the_errors_of_the_learner() -> None:
    (finding,) = validation_findings(NOISE["uniform"], lambda x, y: (x, y))
    assert "A simple learner of the training samples has a squared error" in finding.cause


@pytest.mark.parametrize("name", EASIER)
def test_validation_that_is_easier_by_other_causes_stays_a_warning(name: str) -> None:
    assert [finding.severity for finding in validation_findings(*EASIER[name])] == ["warning"]


@pytest.mark.parametrize("flat", [True, False])
def test_underfitting_of_an_autoencoder_has_no_reference_learner(flat: bool) -> None:
    x, _ = clusters(480)
    images = x if flat else x.unflatten(1, (1, 2, 4))
    pairs = (images, images)
    model = mlp(8, 1, 8) if flat else nn.Sequential(nn.Flatten(), mlp(8, 1, 8), nn.Unflatten(1, (1, 2, 4)))
    setup = training_setup(model, pairs, pairs, MSE, lr=1e-2)
    setup = replace(setup, task=parse_task("regression"))
    report = watch_report(setup, lambda: train(setup, 20))
    assert not [finding for finding in report if finding.code == "T610" and "on the same" in finding.message]


def listwise(scores: Tensor, relevance: Tensor) -> Tensor:
    return -(relevance.softmax(1) * scores.log_softmax(1)).sum(1).mean()


def rankings(samples: int, seed: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(samples, 8, generator=torch.Generator().manual_seed(seed))
    return x, x @ torch.randn(8, 6, generator=torch.Generator().manual_seed(9)) / 4


@pytest.mark.parametrize("loss_fn", [listwise, nn.CrossEntropyLoss()])
def test_plateau_and_underfitting_of_soft_targets_at_their_entropy_are_quiet(loss_fn: Any) -> None:
    torch.manual_seed(0)
    (x, scores), (val_x, val_scores) = rankings(480, 0), rankings(128, 1)
    if loss_fn is not listwise:
        scores, val_scores = scores.softmax(1), val_scores.softmax(1)
    setup = training_setup(mlp(8, 32, 6), (x, scores), (val_x, val_scores), loss_fn, lr=1e-2)
    report = watch_report(setup, lambda: train(setup, 40))
    assert not {"T606", "T610"} & {finding.code for finding in report}
