"""Tests of nbdebug.compare: where two computations part, within which tolerance, and that nothing is changed."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.tools.agreement import Agreement
from nbdebug.tools.agreement.tolerance import Deviation, RoundingNoise
from tests.preserve.fingerprint import fingerprint
from tests.programs import PROGRAMS


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.drop, self.head = nn.Dropout(0.5), nn.Linear(144, 3)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.drop(F.relu(self.norm(self.conv(images))).flatten(1)))


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    with nbdebug.seed(0):
        yield


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def images() -> Tensor:
    return torch.randn(6, 1, 8, 8)


def test_copy_agrees_forward_backward_in_both_modes(net: Net, images: Tensor) -> None:
    result = nbdebug.compare(net, copy.deepcopy(net), images)
    assert result.agrees
    assert result.checked == (
        "forward in eval mode", "backward in eval mode", "forward in train mode", "backward in train mode",
    )  # fmt: skip
    assert all(row.matched == row.operations for row in result.rows)


@pytest.mark.parametrize(
    ("change", "module", "phase", "cause"),
    [
        (lambda net: setattr(net.norm, "eps", 1e-3), "norm", "forward", "eps of norm is 1e-05"),
        (lambda net: setattr(net.norm, "momentum", 0.5), "norm", "buffers", "momentum of norm is 0.1"),
        (lambda net: net.head.weight.data[0].add_(1e-3), "head", "forward", "has the values of head.weight"),
        (lambda net: net.conv.bias.requires_grad_(False), "conv", "backward", "only a has a gradient of conv.bias"),
    ],
)  # fmt: skip
def test_divergence_is_located_with_its_cause(
    net: Net, images: Tensor, change: Callable[[Any], Any], module: str, phase: str, cause: str
) -> None:
    other = copy.deepcopy(net)
    change(other)
    result = nbdebug.compare(net, other, images)
    assert not result.agrees
    assert (result.module, result.phase) == (module, phase)
    assert cause in "\n".join(result.causes)


@pytest.mark.parametrize("relative", [1e-9, 1e-5])
def test_tolerance_lies_between_rounding_and_a_small_mistake(net: Net, images: Tensor, relative: float) -> None:
    other = copy.deepcopy(net)
    with torch.no_grad():
        other.conv.weight.copy_((net.conv.weight.double() * (1 + relative)).float())
    assert nbdebug.compare(net, other, images).agrees == (relative < 1e-7)


def test_tolerance_follows_the_type(net: Net, images: Tensor) -> None:
    low = copy.deepcopy(net).bfloat16()
    result = nbdebug.compare(net, lambda x: low(x.bfloat16()).float(), images)
    assert result.agrees
    assert result.roundoff == torch.finfo(torch.bfloat16).eps / 2
    low.head.bias.data += 1
    assert nbdebug.compare(net, lambda x: low(x.bfloat16()).float(), images).module == "head"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_model_in_another_type_gets_the_inputs_in_it(net: Net, images: Tensor, dtype: torch.dtype) -> None:
    other = copy.deepcopy(net).to(dtype)
    assert nbdebug.compare(net, other, images).agrees
    assert nbdebug.compare(other, net, images).agrees
    other.head.bias.data += 1
    assert nbdebug.compare(net, other, images).module == "head"


def test_compiled_model_agrees_with_the_eager_one(images: Tensor) -> None:
    net = Net().eval()
    compiled = torch.compile(net, backend="eager")
    hook = register_module_forward_hook(lambda *_: None)  # torch warns of it where it calls a compiled model
    try:
        assert nbdebug.compare(net, compiled, images).agrees
    finally:
        hook.remove()
    net.head.bias.data += 1
    other = copy.deepcopy(net)
    other.head.bias.data -= 1
    result = nbdebug.compare(other, compiled, images)
    assert not result.agrees
    assert result.notes == ("b is compiled and does not show its operations, so only its output is compared",)


def test_other_names_and_channels_last_agree(net: Net, images: Tensor) -> None:
    port = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    with torch.no_grad():
        for mine, theirs in zip(net.parameters(), port.parameters(), strict=True):
            theirs.copy_(mine)
    assert nbdebug.compare(net, port.to(memory_format=torch.channels_last), images).agrees
    port[2] = nn.LeakyReLU()
    result = nbdebug.compare(net, port, images)
    assert result.first.operation == "relu"
    assert (result.second.module, result.second.kind) == ("2", "LeakyReLU")


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return gradient * 1.001


class WrongBackward(nn.BatchNorm2d):
    def forward(self, inputs: Tensor) -> Tensor:
        return Scaled.apply(super().forward(inputs))


def test_wrong_backward_pass_is_located(net: Net, images: Tensor) -> None:
    other = copy.deepcopy(net)
    other.norm.__class__ = WrongBackward
    result = nbdebug.compare(net, other, images)
    assert (result.phase, result.module) == ("backward", "norm")


def debugger(net: nn.Module, optimizer: torch.optim.Optimizer, loss_fn: Any = None) -> nbdebug.Debugger:
    loader = DataLoader(TensorDataset(torch.randn(24, 1, 8, 8), torch.randint(0, 3, (24,))), batch_size=8)
    return nbdebug.Debugger(net, loader, loss_fn=loss_fn or nn.CrossEntropyLoss(), optimizer=optimizer)


def test_update_of_two_setups_is_compared(net: Net) -> None:
    other = copy.deepcopy(net)
    first = debugger(net, torch.optim.Adam(net.parameters(), lr=1e-3))
    same = debugger(other, torch.optim.Adam(other.parameters(), lr=1e-3, foreach=False))
    assert nbdebug.compare(first, same).checked[-1] == "update"
    assert nbdebug.compare(first, same).agrees
    changed = debugger(other, torch.optim.Adam(other.parameters(), lr=1.01e-3))
    result = nbdebug.compare(first, changed)
    assert result.phase == "update"
    assert result.causes == ("lr is 0.001 in a, and 0.00101 in b",)


@pytest.mark.parametrize(
    ("first", "second", "cause"),
    [
        ({}, {"momentum": 0.9}, "momentum is 0 in a, and 0.9 in b"),
        ({}, {"momentum": 1e-4}, "momentum is 0 in a, and 0.0001 in b"),
        ({"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.1}, "dampening is 0 in a, and 0.1 in b"),
    ],
)
def test_settings_that_the_first_update_does_not_use_are_compared(
    net: Net, first: dict[str, float], second: dict[str, float], cause: str
) -> None:
    other = copy.deepcopy(net)
    optimizers = [torch.optim.SGD(n.parameters(), lr=1e-2, **o) for n, o in ((net, first), (other, second))]
    result = nbdebug.compare(debugger(net, optimizers[0]), debugger(other, optimizers[1]))
    assert (result.phase, result.causes) == ("update", (cause,))


def test_operation_that_the_second_side_adds_is_located_in_its_module(net: Net, images: Tensor) -> None:
    other = copy.deepcopy(net)
    other.norm.forward = lambda x: nn.BatchNorm2d.forward(other.norm, x).clamp_max(0.5)
    result = nbdebug.compare(net, other, images)
    assert (result.phase, result.module) == ("forward", "norm")
    assert result.first.operation == "clamp_max"


def test_folded_norm_agrees_with_a_note_on_its_gradients(net: Net, images: Tensor) -> None:
    for _ in range(3):
        net(1 + images)
    other = copy.deepcopy(net.eval())
    other.conv = torch.nn.utils.fusion.fuse_conv_bn_eval(other.conv, other.norm)
    other.norm = nn.Identity()
    result = nbdebug.compare(net, other, 1 + images)
    assert result.agrees
    assert result.notes == ("conv.weight, conv.bias differ in value, so their gradients are not compared",)


def test_weight_whose_effect_rounding_hides_is_named_by_the_gradients(images: Tensor) -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 8), nn.Linear(8, 2))
    other = copy.deepcopy(net)
    with torch.no_grad():
        for model in (net, other):
            model[3].weight.mul_(1e-4)
        other[2].weight.mul_(3)
    low = other.bfloat16()
    result = nbdebug.compare(net, lambda x: low(x.bfloat16()).float(), images[0, 0])
    assert not result.agrees
    assert result.module == "2"
    assert any("2.weight" in cause for cause in result.causes)


def test_loss_of_two_setups_is_compared(net: Net) -> None:
    other = copy.deepcopy(net)
    first = debugger(net, torch.optim.SGD(net.parameters(), lr=1e-3))
    second = debugger(other, torch.optim.SGD(other.parameters(), lr=1e-3), nn.CrossEntropyLoss(label_smoothing=0.01))
    result = nbdebug.compare(first, second)
    assert (result.phase, result.first.operation, result.module) == ("forward", "cross_entropy", "")


def test_number_of_outputs_and_shapes_are_compared(net: Net, images: Tensor) -> None:
    assert "returns 1 tensors" in nbdebug.compare(net, lambda x: (net(x), x), images).headline
    result = nbdebug.compare(net, lambda x: net(x)[:, :2], images)
    assert "the shapes are (6, 3) and (6, 2)" in result.causes


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_changed(name: str) -> None:
    first, second = PROGRAMS[name](), PROGRAMS[name]()
    loader = first.loader()
    debuggers = [nbdebug.Debugger(p.model, loader, loss_fn=p.loss_fn, optimizer=p.optimizer) for p in (first, second)]
    before = fingerprint(*first[:3], *second[:3], loaders=[loader])
    nbdebug.compare(*debuggers)
    before.check()


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_nothing_is_changed_after_an_exception(net: Net, images: Tensor, error: type[BaseException]) -> None:
    other = copy.deepcopy(net)
    passes = []

    def stop(x: Tensor) -> Tensor:
        passes.append(x)
        if len(passes) > 1:
            raise error
        return other(x)

    net.drop.eval()
    before = fingerprint(net, other)
    with pytest.raises((nbdebug.SetupError, KeyboardInterrupt)):
        nbdebug.compare(net, stop, images)
    before.check()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda net: nbdebug.compare(net, net), "inputs is None; expected the inputs of the models"),
        (lambda net: nbdebug.compare(net, 3, torch.zeros(1)), "b is an int; expected a model, a function, a Debugger"),
        (lambda net: nbdebug.compare(net, net, "x"), "inputs is a str; expected tensors"),
        (lambda net: nbdebug.compare(net, net, torch.zeros(2, 3)), "in the eval pass of a"),
        (lambda net: nbdebug.compare(net, net, input=1), "option of compare is 'input'.*'inputs'"),
    ],
)
def test_unusable_argument_raises(net: Net, call: Callable[[Net], Any], message: str) -> None:
    with pytest.raises(nbdebug.SetupError, match=message):
        call(net)


@pytest.fixture
def different(net: Net, images: Tensor) -> Agreement:
    other = copy.deepcopy(net)
    other.norm.eps = 1e-2
    return nbdebug.compare(net, other, images)


def test_result_is_plain_data(different: Agreement) -> None:
    copied = pickle.loads(pickle.dumps(different))
    assert copied.to_text() == different.to_text()
    assert "tolerance" in copied.to_text()
    assert list(copied.to_frame().columns) == ["module", "operations", "matched", "ratio"]
    assert copied.plot().get_title() == "differ"
    assert "http" not in copied.to_html().replace("http://www.w3.org", "")
    assert "batch_norm in norm (BatchNorm2d)" in copied.view().html()


def test_deviation_counts_values_that_are_not_finite() -> None:
    first, second = torch.tensor([1.0, float("nan"), float("inf")]), torch.tensor([1.0, float("nan"), float("inf")])
    assert Deviation.between(first, second) == Deviation()
    second[0] = float("nan")
    assert Deviation.between(first, second).largest == float("inf")


def test_rounding_noise_is_of_the_size_of_rounding() -> None:
    values = torch.randn(1000)
    noisy = RoundingNoise(2**-8, 0)(values)
    relative = ((noisy - values) / values).abs()
    assert 0.2 * 2**-8 < float(relative.mean()) < 2 * 2**-8
    assert torch.equal(RoundingNoise(2**-8, 0)(values), noisy)
