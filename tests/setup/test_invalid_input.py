"""Tests of the errors and findings for models, losses, optimizers and data that cannot be used."""

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


def make_loader(x: Tensor = X, y: Tensor = Y) -> Any:
    return DataLoader(TensorDataset(x, y), batch_size=16)


class UncopyableModel(nn.Module):
    """Stores an activation, which cannot be deep-copied."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(3)
        self.activation: Any = None

    def forward(self, x: Tensor) -> Tensor:
        self.activation = self.inner(x)
        return self.activation


class MixedDeviceModel(nn.Linear):
    """Adds a constant that is on another device."""

    def __init__(self) -> None:
        super().__init__(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + torch.ones(4, device="meta"))


class FailingModel(nn.Module):
    """Raises in the third forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.calls = network(3), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == 3:
            raise ArithmeticError("third pass")
        return self.inner(x)


OPTIMIZER_MESSAGE = r"optimizer is (an?|the class) .*; expected a torch.optim.Optimizer or"
LOSS_MESSAGE = r"loss_fn is (a str|the class CrossEntropyLoss, not an instance); expected"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": lambda x: x}, "model is a function; expected a torch.nn.Module"),
        ({"model": nn.ReLU}, "model is the class ReLU, not an instance; expected a torch.nn.Module"),
        ({"model": nn.ReLU()}, "model has 0 parameters; expected at least one"),
        ({"model": nn.LazyLinear(3)}, "weight has no shape yet; expected one. Run one batch through the model"),
        ({"model": nn.Linear(4, 3, device="meta")}, "model is on the meta device; expected a device with data"),
        ({"device": "cuda:0"}, r"model is on cpu; expected cuda:0 \(device=\). Call model.to"),
        ({"optimizer": "adam"}, OPTIMIZER_MESSAGE),
        ({"optimizer": torch.optim.Adam}, OPTIMIZER_MESSAGE),
        ({"optimizer": [3]}, OPTIMIZER_MESSAGE),
        ({"loss_fn": "cross-entropy"}, LOSS_MESSAGE),
        ({"loss_fn": nn.CrossEntropyLoss}, LOSS_MESSAGE),
    ],
    ids=[
        "function as model",
        "class as model",
        "model without parameters",
        "lazy model",
        "meta model",
        "other device",
        "text as optimizer",
        "class as optimizer",
        "list of numbers as optimizer",
        "text as loss",
        "class as loss",
    ],
)
def test_debugger_with_invalid_argument_raises(options: dict[str, Any], message: str) -> None:
    arguments = {"model": network(3), "train_loader": make_loader(), "loss_fn": LOSS, **options}
    with pytest.raises(SetupError, match=message):
        Debugger(**arguments)


@pytest.mark.parametrize(
    ("loss_fn", "message"),
    [
        (lambda o, t: F.cross_entropy(o, t)[None][:0], r"the loss has shape \(0,\); expected a value"),
        (lambda o, t: F.cross_entropy(o, t).item(), "the loss is a float; expected a tensor"),
        (lambda o, t: None, "the loss is None; expected a tensor"),
        (lambda o, t: {}, "the loss is a dict; expected a tensor"),
        (lambda o, t: {"each": F.cross_entropy(o, t, reduction="none")}, "the loss is a dict; expected a tensor"),
        (None, "loss_fn is None and the model returns no loss; expected either"),
    ],
    ids=["no value", "float", "none", "empty dict", "dict of vectors", "missing"],
)
def test_checkup_and_overfit_without_a_loss_tensor_raise(loss_fn: Any, message: str) -> None:
    debugger = Debugger(network(3), make_loader(), loss_fn=loss_fn)
    for tool in (debugger.checkup, debugger.overfit):
        with pytest.raises(SetupError, match=message):
            tool()


@pytest.mark.parametrize(
    ("loss_fn", "factor"),
    [
        (lambda o, t: {"class": F.cross_entropy(o, t), "penalty": F.cross_entropy(o, t).reshape(1)}, 2),
        (lambda o, t: {"loss": F.cross_entropy(o, t), "share of classes": o.softmax(1).mean(0)}, 1),
    ],
    ids=["sum of terms", "a term named loss"],
)
def test_loss_of_a_dict_is_its_total(loss_fn: Any, factor: int) -> None:
    model = network(3)
    setup = nbdebug.setup.Setup(model, make_loader(), loss_fn=loss_fn)
    batch = next(setup.batches(1))
    output, loss = setup.output_and_loss(batch)
    assert torch.allclose(loss, factor * LOSS(output, batch.target_or_label))
    assert loss.requires_grad
    Debugger(model, make_loader(), loss_fn=loss_fn).checkup()


def test_losses_of_the_samples_are_averaged() -> None:
    model, loss_fn = network(3), nn.CrossEntropyLoss(reduction="none")
    setup = nbdebug.setup.Setup(model, make_loader(), loss_fn=loss_fn)
    batch = next(setup.batches(1))
    output, loss = setup.output_and_loss(batch)
    assert torch.equal(loss, loss_fn(output, batch.target_or_label).mean())
    debugger = Debugger(model, make_loader(), loss_fn=loss_fn)
    assert {finding.code for finding in debugger.checkup()} == {
        finding.code for finding in Debugger(model, make_loader(), loss_fn=nn.CrossEntropyLoss()).checkup()
    }


@pytest.mark.parametrize(
    ("model", "x", "code"),
    [
        (
            nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(72, 3)),
            torch.ones(64, 3, 8, 8, dtype=torch.uint8),
            "X1014",
        ),
        (network(3), X.to(torch.int64), "X1014"),
        (nn.Linear(9, 3), X, "X1001"),
        (nn.Transformer(4, 2), X, "X1027"),
    ],
    ids=["uint8 images", "integers", "features", "arguments"],
)
def test_checkup_with_failing_forward_pass_reports_crash(model: nn.Module, x: Tensor, code: str) -> None:
    debugger = Debugger(model, make_loader(x), loss_fn=LOSS, forward=lambda model, x: model(x))
    errors = [finding.code for finding in debugger.checkup() if finding.severity == "error"]
    assert code in errors
    assert debugger.findings.checked_rules


def test_checkup_with_parts_on_two_devices_names_the_remedy() -> None:
    debugger = Debugger(MixedDeviceModel(), make_loader(X), loss_fn=LOSS, forward=lambda model, x: model(x))
    with pytest.raises(SetupError, match=r"expected one device for model and data\. Call model\.to"):
        debugger.checkup()


def test_checkup_of_targets_of_another_length_reports_d102_and_crash() -> None:
    batches = [(X[:16], Y[:15])]
    assert {finding.code for finding in nbdebug.checkup(network(3), batches, loss_fn=LOSS)} == {"D102", "X1017"}


def test_checkup_of_model_failing_in_third_pass_reports_nothing() -> None:
    assert len(nbdebug.checkup(FailingModel(), make_loader(), loss_fn=LOSS)) == 0


def test_checkup_without_optimizer_lists_its_rules_as_not_checked() -> None:
    report = nbdebug.checkup(network(3), make_loader(), loss_fn=LOSS)
    reasons = {rule.code: rule.why for rule in report.not_checked}
    assert {"O503", "O504"} <= set(reasons)
    assert "no optimizer was given" in reasons["O503"]


def test_checkup_of_nan_inputs_reports_d103() -> None:
    report = nbdebug.checkup(network(3), make_loader(torch.full((64, 4), torch.nan)), loss_fn=LOSS)
    assert report[0].code == "D103"
    assert "64 of 64" in report[0].message


def test_checkup_and_overfit_of_uncopyable_model_run_in_place() -> None:
    model = UncopyableModel()
    model(X)
    debugger = Debugger(model, make_loader(), loss_fn=LOSS)
    assert len(debugger.checkup()) == 0
    assert debugger.overfit(steps=60).in_place


def test_checkup_of_compiled_model_locates_module() -> None:
    model = torch.compile(network(3, nn.Softmax(dim=1)), backend="eager")
    report = nbdebug.checkup(model, make_loader(), loss_fn=LOSS)
    assert [(finding.code, finding.where.module) for finding in report] == [("L201", "3")]


@pytest.mark.parametrize(
    "convert", [torch.jit.script, lambda model: torch.jit.trace(model, X[:16])], ids=["script", "trace"]
)
def test_checkup_of_script_module_reports_finding(convert: Any) -> None:
    report = nbdebug.checkup(convert(network(3, nn.Softmax(dim=1))), make_loader(), loss_fn=LOSS)
    assert [finding.code for finding in report] == ["L201"]


@pytest.mark.parametrize(
    "options", [{"class_names": ["a", "b"]}, {"feature_names": ["one"]}], ids=["classes", "features"]
)
def test_checkup_with_wrong_number_of_names_raises(options: dict[str, list[str]]) -> None:
    debugger = Debugger(network(3), make_loader(), loss_fn=LOSS, **options)
    with pytest.raises(SetupError, match=r"(class|feature)_names has \d names?; expected \d"):
        debugger.checkup()


def test_checkup_with_invalid_unpack_raises() -> None:
    debugger = Debugger(network(3), make_loader(), loss_fn=LOSS, unpack=lambda batch: batch[0])
    with pytest.raises(SetupError, match=r"unpack returned a Tensor; expected \(inputs, target\)"):
        debugger.checkup()


def policy_gradient_loss(output: Tensor, batch: Any) -> Tensor:
    """A loss whose target is a pair of action and advantage."""
    action, advantage = batch
    return -(output.log_softmax(1).gather(1, action[:, None])[:, 0] * advantage).mean()


class PackedSequences(nn.Module):
    """A recurrent network that takes rows in decreasing order of their lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.lstm, self.head = nn.Embedding(9, 4), nn.LSTM(4, 6, batch_first=True), nn.Linear(6, 3)

    def forward(self, rows: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(self.table(rows), lengths, batch_first=True)
        return self.head(self.lstm(packed)[1][0][-1])


class NeedsMask(nn.Module):
    """A network with a required mask that the loop computes."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(9, 4), nn.Linear(4, 3)

    def forward(self, rows: Tensor, *, mask: Tensor) -> Tensor:
        return self.head((self.table(rows) * mask[..., None]).sum(1))


def call_packed(model: nn.Module, rows: Tensor) -> tuple[Tensor, Any]:
    lengths = (rows != 0).sum(1)
    order = lengths.argsort(descending=True)
    return model(rows[order], lengths[order]), order


def call_masked(model: nn.Module, rows: Tensor) -> tuple[Tensor, Any]:
    return model(rows, mask=(rows != 0).float()), slice(None)


@pytest.mark.parametrize(("model", "call"), [(PackedSequences(), call_packed), (NeedsMask(), call_masked)])
def test_checkup_of_model_that_the_loop_feeds_differently_checks_the_other_rules(model: nn.Module, call: Any) -> None:
    rows = torch.randint(1, 9, (64, 5), generator=torch.Generator().manual_seed(0))
    rows[::2, 3:] = 0
    optimizer = torch.optim.SGD([*model.parameters()][:-1], lr=0.1)
    debugger = Debugger(model, make_loader(rows), loss_fn=LOSS, optimizer=optimizer)
    report = debugger.checkup()
    assert "the forward pass raised" in report.pass_error
    assert "watch() needs neither" in str(report)
    assert [finding.code for finding in report.faults] == ["O503"]
    assert {"D103", "D107", "O504"} <= report.checked_rules
    with debugger.watch() as watch:
        for x, y in [*debugger.setup.train_loader] * 3:
            optimizer.zero_grad()
            output, order = call(model, x)
            LOSS(output, y[order]).backward()
            optimizer.step()
    assert watch.result is not None
    assert not watch.result.errors
    with pytest.raises(SetupError, match="the forward pass raised"):
        nbdebug.assert_healthy(model, make_loader(rows), loss_fn=LOSS)


def test_checkup_of_scores_that_the_loop_flattens_reports_the_loss_error_and_checks_the_other_rules() -> None:
    rows = torch.randint(1, 9, (64, 5), generator=torch.Generator().manual_seed(0))
    debugger = Debugger(nn.Embedding(9, 3), make_loader(rows, rows % 3), loss_fn=nn.CrossEntropyLoss())
    report = debugger.checkup()
    assert "the loss raised RuntimeError: Expected target size" in report.pass_error
    assert "D103" in report.checked_rules


def test_checkup_with_custom_loss_arguments_reports_error_and_watch_still_records() -> None:
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, make_loader(), loss_fn=policy_gradient_loss, optimizer=optimizer)
    report = debugger.checkup()
    assert "the loss raised ValueError: too many values to unpack" in report.pass_error
    assert "Pass step_fn=" in str(report)
    with debugger.watch() as watch:
        for x, y in debugger.setup.train_loader:
            optimizer.zero_grad()
            policy_gradient_loss(model(x), (y, torch.ones(len(y)))).backward()
            optimizer.step()
    assert len(watch.result.record.series("loss")[1])
    with pytest.raises(SetupError, match="the loss raised ValueError"):
        nbdebug.assert_healthy(model, make_loader(), loss_fn=policy_gradient_loss)
