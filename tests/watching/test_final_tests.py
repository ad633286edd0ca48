"""Tests of the trained model when a watched loop has ended."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import nbdebug

ROWS = 192


def clusters(seed: int, rows: int = ROWS) -> TensorDataset:
    """Three overlapping classes in six dimensions; the third has one sample in six."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 6, (rows,), generator=generator).clamp(max=5) // 2
    return TensorDataset(torch.randn(rows, 6, generator=generator) + 3 * torch.eye(6)[labels], labels)


def numbers(seed: int, noise: float = 0.0, rows: int = ROWS) -> TensorDataset:
    """A sum of two features, with noise."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 6, generator=generator)
    return TensorDataset(x, x[:, :1] + x[:, 1:2] + noise * torch.randn(rows, 1, generator=generator))


def mlp(*widths: int) -> nn.Sequential:
    layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


class ConstantFeatures(nn.Module):
    """A network that passes only the sign of a positive number to the head."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 16), nn.Linear(1, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.sign(self.body(x).square().mean(1, keepdim=True)))


def fit(
    model: nn.Module,
    data: Callable[[int], Any],
    loss_fn: nn.Module,
    lr: float = 1e-2,
    epochs: int = 8,
    **options: Any,
) -> nbdebug.Debugger:
    """Watch a plain loop with Adam, and return the debugger."""
    torch.manual_seed(0)
    loaders = [DataLoader(data(seed), batch_size=32, shuffle=seed == 0) for seed in (0, 1)]
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    debugger = nbdebug.Debugger(model, *loaders, loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch(**options):
        for _ in range(epochs):
            for x, y in loaders[0]:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
    return debugger


def codes(debugger: nbdebug.Debugger) -> set[str]:
    return {finding.code for finding in debugger.findings}


def reasons(debugger: nbdebug.Debugger, code: str) -> str:
    return next((rule.why for rule in debugger.findings.not_checked if rule.code == code), "")


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make()


@pytest.mark.parametrize(
    ("make", "data", "loss_fn"),
    [
        (lambda: nn.Sequential(mlp(6, 16, 1), nn.Sigmoid()), lambda seed: numbers(seed), nn.MSELoss()),
        (lambda: ConstantFeatures(3), clusters, nn.CrossEntropyLoss()),
        (lambda: ConstantFeatures(1), lambda seed: numbers(seed), nn.MSELoss()),
    ],
    ids=["sigmoid for negative numbers", "one class for all", "one number for all"],
)
def test_model_that_cannot_memorize_is_reported_after_watch(
    make: Callable[[], nn.Module], data: Callable[[int], Any], loss_fn: nn.Module
) -> None:
    debugger = fit(seeded(make), data, loss_fn)
    assert "T608" in codes(debugger)
    assert "T608" not in codes(fit(seeded(make), data, loss_fn, final_tests=False))


def test_model_with_too_few_parameters_is_reported_after_watch() -> None:
    def noise(seed: int) -> TensorDataset:
        generator = torch.Generator().manual_seed(seed)
        return TensorDataset(torch.randn(ROWS, 4, generator=generator), torch.randn(ROWS, 1, generator=generator))

    model = nn.Sequential(nn.Linear(4, 1), nn.Tanh(), nn.Linear(1, 1))
    assert "M314" in codes(fit(model, noise, nn.MSELoss()))


@pytest.mark.parametrize(
    ("code", "make", "weights"),
    [
        ("E702", lambda: mlp(6, 16, 3), torch.tensor([1.0, 1.0, 0.0])),
        ("E706", lambda: ConstantFeatures(3), None),
        ("E706", lambda: nn.Sequential(nn.Linear(6, 3), nn.Threshold(50.0, 0.0)), None),
    ],
)
def test_predictions_of_one_class_are_reported_after_watch(
    code: str, make: Callable[[], nn.Module], weights: Tensor | None
) -> None:
    assert code in codes(fit(seeded(make), clusters, nn.CrossEntropyLoss(weights)))


class ModelWithLoss(nn.Module):
    """A model that returns its loss and its scores, in a dictionary or a tuple."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.net, self.form = mlp(6, 16, 3), form
        self.loss_fn = nn.CrossEntropyLoss(torch.tensor([1.0, 1.0, 0.0]))

    def forward(self, x: Tensor, labels: Tensor) -> Any:
        scores = self.net(x)
        loss = self.loss_fn(scores, labels)
        return {"dict": {"loss": loss, "logits": scores}, "tuple": (loss, scores), "two": (scores, scores)}[self.form]


def fit_with_own_loss(form: str) -> nbdebug.Debugger:
    def collate(samples: list[Any]) -> dict[str, Tensor]:
        return {"x": torch.stack([x for x, _ in samples]), "labels": torch.stack([y for _, y in samples])}

    torch.manual_seed(0)
    model = ModelWithLoss(form)
    loaders = [DataLoader(clusters(seed), 32, shuffle=seed == 0, collate_fn=collate) for seed in (0, 1)]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    debugger = nbdebug.Debugger(model, *loaders, loss_fn=model.loss_fn, optimizer=optimizer)
    with debugger.watch():
        for _ in range(8):
            for batch in loaders[0]:
                optimizer.zero_grad()
                outputs = model(**batch)
                first = outputs["loss"] if form == "dict" else outputs[0]
                (model.loss_fn(first, batch["labels"]) if form == "two" else first).backward()
                optimizer.step()
    return debugger


@pytest.mark.parametrize("form", ["dict", "tuple"])
def test_predictions_of_a_model_that_returns_its_loss_are_judged(form: str) -> None:
    assert "E702" in codes(fit_with_own_loss(form))


def test_predictions_among_several_outputs_are_not_judged() -> None:
    assert "several tensors" in reasons(fit_with_own_loss("two"), "E702")


def test_every_other_fault_ranks_above_what_the_predictions_show() -> None:
    debugger = fit(seeded(lambda: ConstantFeatures(3)), clusters, nn.CrossEntropyLoss())
    ranks = [finding.code in ("E702", "E706", "E709", "T608") for finding in debugger.findings.faults]
    assert ranks == sorted(ranks)
    assert False in ranks


@pytest.mark.parametrize(
    ("make", "data", "loss_fn"),
    [
        (lambda: mlp(6, 16, 3), clusters, nn.CrossEntropyLoss()),
        (lambda: mlp(6, 16, 1), lambda seed: numbers(seed, noise=3.0), nn.MSELoss()),
        (lambda: nn.Linear(6, 1), lambda seed: numbers(seed, noise=3.0), nn.MSELoss()),
        (lambda: nn.Sequential(nn.Dropout(0.5), mlp(6, 64, 1)), lambda seed: numbers(seed), nn.L1Loss()),
    ],
    ids=["classes", "noisy numbers", "linear and noisy", "dropout"],
)
def test_healthy_run_adds_no_fault(
    make: Callable[[], nn.Module], data: Callable[[int], Any], loss_fn: nn.Module
) -> None:
    debugger = fit(seeded(make), data, loss_fn)
    assert not {"T608", "M314", "E702", "E703", "E704", "E706", "E709"} & {f.code for f in debugger.findings.faults}
    assert debugger.watched is not None
    assert "tests of the trained model" in str(debugger.watched.result)


def test_run_that_learned_skips_the_tiny_batch_but_not_the_predictions() -> None:
    debugger = fit(seeded(lambda: mlp(6, 16, 3)), clusters, nn.CrossEntropyLoss())
    assert "can learn" in reasons(debugger, "T608")
    assert "E702" in debugger.findings.checked_rules


def test_test_that_does_not_apply_keeps_the_findings_of_an_earlier_call() -> None:
    torch.manual_seed(0)
    model, loader = ConstantFeatures(3), DataLoader(clusters(0), batch_size=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    debugger = nbdebug.Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    debugger.overfit()
    assert "T608" in codes(debugger)
    with debugger.watch():  # too short for a test
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert "T608" in codes(debugger)


class Interrupting(Dataset[tuple[Tensor, Tensor]]):
    """Samples that raise like an interrupt once ``error`` is set."""

    def __init__(self, data: TensorDataset) -> None:
        self.data, self.error = data, False

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if self.error:
            raise KeyboardInterrupt
        return self.data[index]  # type: ignore[return-value]


def test_interrupt_ends_the_tests_and_keeps_the_result() -> None:
    model, loss_fn = seeded(lambda: mlp(6, 16, 3)), nn.CrossEntropyLoss()
    data = Interrupting(clusters(1))
    loaders = DataLoader(clusters(0), batch_size=32), DataLoader(data, batch_size=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    debugger = nbdebug.Debugger(model, *loaders, loss_fn=loss_fn, optimizer=optimizer)
    with pytest.raises(KeyboardInterrupt), debugger.watch() as run:
        for _ in range(8):
            for x, y in loaders[0]:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
        data.error = True
    assert run.result is not None
    assert run.result.steps == 48
    assert "interrupted" in run.result.errors


def state_after_training(final_tests: bool) -> list[Any]:
    """Return weights, optimizer state, random numbers and the next order of a loader with its own generator."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1), nn.Sigmoid())
    generator = torch.Generator().manual_seed(3)
    loaders = [DataLoader(numbers(seed), batch_size=32, shuffle=True, generator=generator) for seed in (0, 1)]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    debugger = nbdebug.Debugger(model, *loaders, loss_fn=nn.MSELoss(), optimizer=optimizer)
    with debugger.watch(final_tests=final_tests) as run:
        for _ in range(8):
            for x, y in loaders[0]:
                optimizer.zero_grad()
                nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
    assert run.result is not None
    assert bool(run.result.test_seconds) == final_tests
    gradients = [parameter.grad for parameter in model.parameters()]
    moments = [value for state in optimizer.state_dict()["state"].values() for value in state.values()]
    modes = [torch.tensor(module.training) for module in model.modules()]
    return [
        *(tensor.clone() for tensor in (*model.state_dict().values(), *gradients, *moments, *modes)),
        torch.rand(3),
        torch.cat([x for x, _ in loaders[0]]),
    ]


def test_model_optimizer_random_numbers_and_loaders_stay_as_they_are() -> None:
    with_tests, without_tests = state_after_training(True), state_after_training(False)
    assert len(with_tests) == len(without_tests) > 20
    assert all(map(torch.equal, with_tests, without_tests))


class Endless(IterableDataset[tuple[Tensor, Tensor]]):
    """Samples without end; counts how many were read."""

    def __init__(self) -> None:
        self.count = 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        x, y = numbers(0).tensors
        while True:
            self.count += 1
            yield x[self.count % ROWS], y[self.count % ROWS]


def test_endless_loader_is_not_read_again() -> None:
    torch.manual_seed(0)
    model, data = mlp(6, 16, 1), Endless()
    loader = DataLoader(data, batch_size=32)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    debugger = nbdebug.Debugger(model, loader, loss_fn=nn.MSELoss(), optimizer=optimizer)
    with debugger.watch():
        for (x, y), _ in zip(loader, range(40), strict=False):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
        count = data.count
    assert data.count == count
    assert "read by index" in reasons(debugger, "E702")


def test_two_optimizers_or_another_loss_are_not_tested() -> None:
    torch.manual_seed(0)
    model = mlp(6, 16, 1)
    loader = DataLoader(numbers(0), batch_size=32)
    optimizers = [torch.optim.SGD(layer.parameters(), lr=1e-2) for layer in (model[0], model[2])]
    debugger = nbdebug.Debugger(model, loader, loss_fn=nn.MSELoss(), optimizer=optimizers)
    with debugger.watch():
        for step in range(10):
            for x, y in loader:
                model.zero_grad()
                nn.functional.mse_loss(model(x), y).backward()
                optimizers[step % 2].step()
    assert "several optimizers" in reasons(debugger, "T608")

    rewarded = copy.deepcopy(model)
    optimizer = torch.optim.SGD(rewarded.parameters(), lr=1e-2)
    debugger = nbdebug.Debugger(rewarded, loader, loss_fn=nn.MSELoss(), optimizer=optimizer)
    with debugger.watch():
        for _ in range(10):
            for x, _ in loader:
                optimizer.zero_grad()
                (-100 * torch.tanh(rewarded(x)).mean()).backward()
                optimizer.step()
    assert "does not minimize the loss" in reasons(debugger, "T608")


class WrittenDropout(nn.Module):
    """Dropout by a random mask."""

    def forward(self, x: Tensor) -> Tensor:
        return x * (torch.rand_like(x) < 0.04) / 0.04 if self.training else x


class FunctionalDropout(nn.Module):
    """Dropout as a function, with the share to keep instead of the share to drop."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 64), nn.Linear(64, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(nn.functional.dropout(torch.relu(self.body(x)), 0.96, self.training))


def with_dropout(dropout: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 64), nn.ReLU(), dropout, nn.Linear(64, 3))


@pytest.mark.parametrize(
    ("make", "module"),
    [
        (lambda: with_dropout(nn.Dropout(0.96)), "2"),
        (lambda: with_dropout(WrittenDropout()), "2"),
        (FunctionalDropout, None),
    ],
)
def test_dropout_that_drowns_the_signal_is_named(make: Callable[[], nn.Module], module: str | None) -> None:
    debugger = fit(seeded(make), clusters, nn.CrossEntropyLoss(), lr=3e-3, epochs=6)
    (finding,) = (f for f in debugger.findings if f.code == "T608")
    assert finding.where.module == module
    assert "at random" in finding.message


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.7])
def test_usual_dropout_is_not_named(rate: float) -> None:
    debugger = fit(seeded(lambda: with_dropout(nn.Dropout(rate))), clusters, nn.CrossEntropyLoss(), lr=1e-5, epochs=6)
    assert "T608" in debugger.findings.checked_rules
    assert "T608" not in codes(debugger)
