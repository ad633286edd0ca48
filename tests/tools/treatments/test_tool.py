"""Tests of the treatments on programs with one planted ailment, and on healthy ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from sklearn.datasets import load_diabetes, load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.treatments import Treatments, treatments
from tests.preserve.fingerprint import fingerprint
from tests.tools.stopping_screens import StopAfterChecks


@dataclass
class DigitProgram:
    """A classifier of digits, some part of which a test replaces."""

    model: nn.Module = field(default_factory=lambda: classifier())
    scale: float = 1.0
    loss_fn: nn.Module = field(default_factory=nn.CrossEntropyLoss)
    optimizer: Callable[[Any], torch.optim.Optimizer] = lambda parameters: torch.optim.Adam(parameters, lr=1e-2)
    is_sorted: bool = False
    dtype: torch.dtype = torch.float32

    def setup(self) -> Setup:
        """The setup of the program."""
        features, labels = load_digits(return_X_y=True)
        x, y = torch.tensor(features / 16 * self.scale, dtype=self.dtype), torch.tensor(labels)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
        train, val = order[:800], order[800:1200]
        if self.is_sorted:
            train = train[y[train].argsort()]
        return Setup.of(
            model=self.model,
            train_loader=DataLoader(TensorDataset(x[train], y[train]), 32, shuffle=not self.is_sorted),
            val_loader=DataLoader(TensorDataset(x[val], y[val]), 64),
            loss_fn=self.loss_fn,
            optimizer=self.optimizer(self.model.parameters()),
        )


def classifier(activation: type[nn.Module] = nn.ReLU, *head: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), activation(), nn.Linear(32, 10), *head)


class DroppingClassifier(nn.Module):
    """Drops nearly everything by the function, not by a layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.second(nn.functional.dropout(self.first(x).relu(), 0.97, self.training))
        return output


def scaled(model: nn.Module, factor: float) -> nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(factor)
    return model


def frozen(model: nn.Module) -> nn.Module:
    first = next(model.children())
    for parameter in model.parameters():
        parameter.requires_grad_(not any(parameter is own for own in first.parameters()))
        if not parameter.requires_grad:
            parameter.data.mul_(1e-3)
    return model


def sgd(**settings: Any) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.SGD(parameters, **settings)


def adam(**settings: Any) -> Callable[[Any], torch.optim.Optimizer]:
    return lambda parameters: torch.optim.Adam(parameters, **settings)


AILING: dict[str, tuple[Callable[[], DigitProgram], set[str]]] = {
    "inputs": (lambda: DigitProgram(scale=3000, optimizer=sgd(lr=0.1)), {"standardized inputs"}),
    "low rate": (lambda: DigitProgram(optimizer=sgd(lr=1e-4)), {"learning rate × 1000"}),
    "high rate": (lambda: DigitProgram(optimizer=adam(lr=3.0)), {"learning rate × 0.01"}),
    "weight decay": (lambda: DigitProgram(optimizer=sgd(lr=0.1, weight_decay=1.0)), {"no weight decay"}),
    "epsilon": (lambda: DigitProgram(optimizer=adam(lr=1e-3, eps=10.0)), {"default optimizer settings"}),
    "dropout": (lambda: DigitProgram(DroppingClassifier()), {"no dropout"}),
    "smoothing": (lambda: DigitProgram(loss_fn=nn.CrossEntropyLoss(label_smoothing=0.999)), {"loss without weights"}),
    "softmax": (
        lambda: DigitProgram(classifier(nn.ReLU, nn.Softmax(1)), optimizer=sgd(lr=0.05)),
        {"loss on logits", "learning rate × 10", "learning rate × 100"},
    ),
    "order": (lambda: DigitProgram(is_sorted=True), {"shuffled batches"}),
    "frozen": (lambda: DigitProgram(frozen(classifier()), optimizer=sgd(lr=0.5)), {"all parameters trained"}),
    "half precision": (
        lambda: DigitProgram(classifier().half(), scale=3000.0, optimizer=adam(lr=1e-2), dtype=torch.half),
        {"single precision", "standardized inputs"},
    ),
    "initialization": (
        lambda: DigitProgram(scaled(classifier(nn.Tanh), 0.0), optimizer=sgd(lr=0.5)),
        {"default initialization"},
    ),
}


@pytest.mark.parametrize("name", AILING)
def test_treatments_name_what_cures_an_ailing_setup(name: str) -> None:
    make_program, cures = AILING[name]
    result = treatments(make_program().setup(), steps=50, seeds=2)
    assert result.verdict == "cure"
    assert result.best is not None
    assert result.best.name in cures
    assert result.best.score > result.untreated_score
    assert result.best.name in result.headline


def diabetes_setup(factor: float) -> Setup:
    features, progress = load_diabetes(return_X_y=True)
    x = torch.tensor(features, dtype=torch.float32) * 20
    y = torch.tensor(progress, dtype=torch.float32)[:, None]
    y = (y - y.mean()) / y.std() if factor == 1 else y * factor
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
    return Setup.of(
        model=model,
        train_loader=DataLoader(TensorDataset(x[:300], y[:300]), 32, shuffle=True),
        val_loader=DataLoader(TensorDataset(x[300:], y[300:]), 64),
        loss_fn=nn.MSELoss(),
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-2),
    )


def test_treatments_of_unscaled_targets_standardize_them_and_score_in_their_units() -> None:
    result = treatments(diabetes_setup(10.0), steps=50, seeds=2)
    assert result.metric == "explained variance"
    assert result.best is not None
    assert result.best.name == "standardized targets"
    assert result.best.score > 0.3


HEALTHY: dict[str, Callable[[], Setup]] = {
    "digits": lambda: DigitProgram().setup(),
    "regression": lambda: diabetes_setup(1.0),
    "slow but steady": lambda: DigitProgram(optimizer=adam(lr=1e-3)).setup(),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_treatments_of_healthy_setup_name_no_cure(name: str) -> None:
    result = treatments(HEALTHY[name](), steps=50, seeds=2)
    assert result.verdict in ("learns", "faster", "none")
    assert result.best is None
    assert not result.code


def test_treatments_after_own_loop_that_wipes_gradients_blame_the_loop() -> None:
    setup = DigitProgram().setup()
    debugger = Debugger.of(setup)
    optimizer, loss_fn = setup.optimizers[0], nn.CrossEntropyLoss()
    with debugger.watch(final_tests=False):
        for _ in range(8):
            for x, y in setup.train_loader:
                loss_fn(setup.model(x), y).backward()
                optimizer.zero_grad()
                optimizer.step()
    result = debugger.treatments(steps=50, seeds=2)
    assert result.verdict == "loop"
    assert [finding.code for finding in debugger.findings if finding.code == "T615"] == ["T615"]


def test_treatments_without_single_target_compare_the_loss() -> None:
    torch.manual_seed(0)
    x = torch.randn(400, 12)
    model = nn.Sequential(nn.Linear(12, 4), nn.Linear(4, 12))
    setup = Setup.of(
        model=model,
        train_loader=DataLoader(TensorDataset(x, x), 32, shuffle=True),
        loss_fn=lambda output, target: (output - target).square().mean() + 0 * output.sum(),
        optimizer=torch.optim.Adam(model.parameters(), lr=1e-5),
    )
    result = treatments(setup, steps=50, seeds=2)
    assert result.metric == "share of the initial loss removed"
    assert result.best is not None
    assert result.best.name.startswith(("learning rate × 1", "Adam"))


@pytest.mark.parametrize("failing", [False, True])
def test_treatments_preserve_state(failing: bool) -> None:
    setup = DigitProgram(classifier(nn.ReLU), optimizer=sgd(lr=1e-4, momentum=0.9)).setup()
    passes: list[int] = []

    def fail_late(*_: Any) -> None:
        passes.append(1)
        if failing and len(passes) > 60:
            raise RuntimeError("the sixtieth pass fails")

    setup.model.register_forward_pre_hook(fail_late)
    loaders = [setup.train_loader, setup.val_loader]
    before = fingerprint(setup.model, setup.loss_fn, setup.optimizers[0], None, loaders=loaders)
    if failing:
        with pytest.raises(SetupError, match="the sixtieth pass fails"):
            treatments(setup, steps=20, seeds=1)
    else:
        treatments(setup, steps=20, seeds=1)
    before.check()


def test_treatments_stopped_early_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.tools.treatments.tool.show_view", lambda view: StopAfterChecks(70))
    result = treatments(DigitProgram(optimizer=sgd(lr=1e-4)).setup(), steps=20, seeds=1)
    assert result.verdict == "stopped"
    assert result.total_steps <= 120


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"steps": 3}, "^steps is 3; expected a whole number from 20 to"),
        ({"seeds": 0}, "^seeds is 0; expected a whole number from 1 to"),
    ],
)
def test_treatments_with_invalid_option_raise(options: dict[str, int], expected: str) -> None:
    with pytest.raises(SetupError, match=expected):
        treatments(DigitProgram().setup(), **options)


def test_treatments_of_step_function_raise() -> None:
    setup = DigitProgram().setup()
    setup.step_fn = lambda batch: setup.model(batch[0]).sum()
    with pytest.raises(SetupError, match=r"^treatments need a copy of the model, but step_fn trains its own model"):
        treatments(setup)


def test_treatments_of_frozen_model_raise() -> None:
    setup = Setup.of(
        model=classifier().requires_grad_(False),
        train_loader=DigitProgram().setup().train_loader,
        loss_fn=nn.CrossEntropyLoss(),
    )
    with pytest.raises(SetupError, match=r"^model has no parameter that requires a gradient"):
        treatments(setup)


def test_treatments_of_data_with_nan_say_that_the_loss_is_not_finite() -> None:
    x = torch.randn(128, 64)
    x[5] = torch.nan
    loader = DataLoader(TensorDataset(x, torch.arange(128) % 10), 32)
    result = treatments(Setup.of(model=classifier(), train_loader=loader, loss_fn=nn.CrossEntropyLoss()), steps=20)
    assert result.verdict == "none"
    assert "become NaN or infinite" in result.headline


def test_treatments_of_empty_loader_raise() -> None:
    model = classifier()
    setup = Setup.of(model=model, train_loader=[], loss_fn=nn.CrossEntropyLoss())
    with pytest.raises(SetupError, match="train_loader is empty"):
        treatments(setup)


@pytest.fixture(scope="module")
def low_rate_result() -> Treatments:
    return treatments(DigitProgram(optimizer=sgd(lr=1e-4)).setup(), steps=30, seeds=2)


def test_treatments_result_has_text_table_figure_and_view(low_rate_result: Treatments) -> None:
    text = str(low_rate_result)
    assert text.startswith("nbdebug treatments: cure. Without treatment, the validation accuracy is ")
    assert low_rate_result.code.splitlines()[0] in text
    frame = low_rate_result.to_frame()
    assert list(frame.columns) == ["treatment", "seed", "step", "score"]
    assert {"", low_rate_result.entries[0].name} <= set(frame["treatment"])
    assert "without treatment" in [line.get_label() for line in low_rate_result.plot().get_lines()]
    state = low_rate_result.view().state()
    assert state["verdict"] == "cure"
    assert state["outcome"] == "clear"
    assert state["panels"][0]["name"] == "without treatment"


def test_thorough_checkup_of_setup_that_nothing_explains_names_the_treatment() -> None:
    debugger = Debugger.of(DigitProgram(optimizer=sgd(lr=0.1, weight_decay=1.0)).setup())
    report = debugger.checkup("thorough", select=["L", "T615"])
    assert [finding.code for finding in report if finding.severity != "note"] == ["T615"]
    assert "T615" in [finding.code for finding in debugger.findings]
