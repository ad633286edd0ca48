"""What cannot be used is refused in words, at the call that brought it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug import Debugger, SetupError
from nbdebug.rules.examples import network, points

X, Y = points()
LOSS = nn.CrossEntropyLoss()


def loader(x: Tensor = X, y: Tensor = Y) -> Any:
    return DataLoader(TensorDataset(x, y), batch_size=16)


class Uncopyable(nn.Module):
    """Keeps an activation, which cannot be deep-copied."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(3)
        self.kept: Any = None

    def forward(self, x: Tensor) -> Tensor:
        self.kept = self.inner(x)
        return self.kept


class Elsewhere(nn.Linear):
    """Adds a constant that is on another device."""

    def __init__(self) -> None:
        super().__init__(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + torch.ones(4, device="meta"))


class Raises(nn.Module):
    """Raises in the third forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = network(3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == 3:
            raise ArithmeticError("third pass")
        return self.inner(x)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda x: x, "model is a function; expected a torch.nn.Module"),
        (nn.ReLU, "model is the class ReLU, not an instance; expected a torch.nn.Module"),
        (nn.ReLU(), "model has 0 parameters; expected at least one"),
        (nn.LazyLinear(3), "weight has no shape yet; expected one. Run one batch through the model"),
        (nn.Linear(4, 3, device="meta"), "model is on the meta device; expected a device with data"),
    ],
    ids=["function", "class", "no parameters", "lazy", "meta"],
)
def test_models_that_cannot_be_used(model: Any, words: str) -> None:
    with pytest.raises(SetupError, match=words):
        Debugger(model, loader(), loss_fn=LOSS)


def test_a_model_elsewhere_than_the_device_that_was_named() -> None:
    with pytest.raises(SetupError, match=r"model is on cpu; expected cuda:0 \(device=\). Call model.to"):
        Debugger(network(3), loader(), loss_fn=LOSS, device="cuda:0")


@pytest.mark.parametrize("wrong", ["adam", torch.optim.Adam, [3]])
def test_what_is_no_optimizer(wrong: Any) -> None:
    with pytest.raises(SetupError, match=r"optimizer is (an?|the class) .*; expected a torch.optim.Optimizer or"):
        Debugger(network(3), loader(), loss_fn=LOSS, optimizer=wrong)


@pytest.mark.parametrize("wrong", ["cross-entropy", nn.CrossEntropyLoss])
def test_what_is_no_loss(wrong: Any) -> None:
    with pytest.raises(SetupError, match=r"loss_fn is (a str|the class CrossEntropyLoss, not an instance); expected"):
        Debugger(network(3), loader(), loss_fn=wrong)


@pytest.mark.parametrize(
    ("loss_fn", "words"),
    [
        (nn.CrossEntropyLoss(reduction="none"), r"the loss has shape \(16,\); expected a scalar. Use reduction='mean'"),
        (lambda o, t: F.cross_entropy(o, t).item(), "the loss is a float; expected a scalar tensor"),
        (lambda o, t: None, "the loss is None; expected a scalar tensor"),
        (None, "loss_fn is None and the model returns no loss; expected either"),
    ],
    ids=["vector", "float", "none", "missing"],
)
def test_losses_that_are_no_scalar(loss_fn: Any, words: str) -> None:
    debugger = Debugger(network(3), loader(), loss_fn=loss_fn)
    for tool in (debugger.checkup, debugger.overfit):
        with pytest.raises(SetupError, match=words):
            tool()


@pytest.mark.parametrize(
    ("model", "x", "words"),
    [
        (
            nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(72, 3)),
            torch.ones(64, 3, 8, 8, dtype=torch.uint8),
            "float",
        ),
        (network(3), X.to(torch.int64), r"expected inputs of the dtype of the weights\. Convert them"),
        (nn.Linear(9, 3), X, "a layer that takes 4 features, not 9. Set its in_features to 4"),
        (Elsewhere(), X, "expected one device for model and data. Call model.to"),
        (nn.Transformer(4, 2), X, "every argument of forward. Pass unpack="),
    ],
    ids=["uint8 images", "integers", "features", "devices", "arguments"],
)
def test_a_forward_pass_that_raises_is_told_with_the_next_act(model: nn.Module, x: Tensor, words: str) -> None:
    debugger = Debugger(model, loader(x), loss_fn=LOSS, forward=lambda model, x: model(x))
    with pytest.raises(SetupError, match=words) as caught:
        debugger.checkup()
    assert "the forward pass raised" in str(caught.value)
    assert debugger.findings.checked_rules


def test_targets_of_another_length_are_a_finding() -> None:
    batches = [(X[:16], Y[:15])]
    assert [one.code for one in nbdebug.checkup(network(3), batches, loss_fn=LOSS)] == ["D102"]


def test_a_model_that_raises_later_is_no_trouble_for_a_checkup() -> None:
    assert len(nbdebug.checkup(Raises(), loader(), loss_fn=LOSS)) == 0


def test_without_an_optimizer_its_rules_say_so() -> None:
    report = nbdebug.checkup(network(3), loader(), loss_fn=LOSS)
    skipped = {one.code: one.why for one in report.not_checked}
    assert {"O503", "O504"} <= set(skipped)
    assert "no optimizer was given" in skipped["O503"]


def test_nan_everywhere_is_a_finding() -> None:
    report = nbdebug.checkup(network(3), loader(torch.full((64, 4), torch.nan)), loss_fn=LOSS)
    assert report[0].code == "D103"
    assert "64 of 64" in report[0].message


def test_a_model_that_cannot_be_copied() -> None:
    model = Uncopyable()
    model(X)
    debugger = Debugger(model, loader(), loss_fn=LOSS)
    assert len(debugger.checkup()) == 0
    assert debugger.overfit(steps=60).in_place


def test_a_compiled_model_is_read_as_the_code_it_was_made_of() -> None:
    model = torch.compile(network(3, nn.Softmax(dim=1)), backend="eager")
    report = nbdebug.checkup(model, loader(), loss_fn=LOSS)
    assert [(one.code, one.where.module) for one in report] == [("L201", "3")]


@pytest.mark.parametrize("make", [torch.jit.script, lambda model: torch.jit.trace(model, X[:16])])
def test_a_script_module_is_read_without_lines(make: Any) -> None:
    report = nbdebug.checkup(make(network(3, nn.Softmax(dim=1))), loader(), loss_fn=LOSS)
    assert [one.code for one in report] == ["L201"]


@pytest.mark.parametrize("given", [{"class_names": ["a", "b"]}, {"feature_names": ["one"]}])
def test_names_that_do_not_fit_are_refused(given: dict[str, list[str]]) -> None:
    debugger = Debugger(network(3), loader(), loss_fn=LOSS, **given)
    with pytest.raises(SetupError, match=r"(class|feature)_names has \d names?; expected \d"):
        debugger.checkup()


def test_unpack_that_returns_something_else() -> None:
    debugger = Debugger(network(3), loader(), loss_fn=LOSS, unpack=lambda batch: batch[0])
    with pytest.raises(SetupError, match=r"unpack returned a Tensor; expected \(inputs, target\)"):
        debugger.checkup()


def pairs(output: Tensor, batch: Any) -> Tensor:
    """A loss that a loop gives more than a target."""
    action, advantage = batch
    return -(output.log_softmax(1).gather(1, action[:, None])[:, 0] * advantage).mean()


def test_a_loss_of_ones_own_that_takes_other_arguments_is_told_and_the_loop_still_watched() -> None:
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, loader(), loss_fn=pairs, optimizer=optimizer)
    report = debugger.checkup()
    assert "the loss raised ValueError: too many values to unpack" in report.loss_error
    assert "Pass step_fn=" in str(report)
    with debugger.watch() as watch:
        for x, y in debugger.setup.train_loader:
            optimizer.zero_grad()
            pairs(model(x), (y, torch.ones(len(y)))).backward()
            optimizer.step()
    assert len(watch.result.record.series("loss")[1])
    with pytest.raises(SetupError, match="the loss raised ValueError"):
        nbdebug.assert_healthy(model, loader(), loss_fn=pairs)
