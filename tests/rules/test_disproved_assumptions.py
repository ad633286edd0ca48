"""Tests of checkup assumptions about the loop, which a watched loop can disprove."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.loop_monitor.loss_graph import loss_operands, nearest_graph
from nbdebug.rules.examples import network, points

Loss = Callable[[Tensor, Tensor], Tensor]


def error_codes_after_loop(
    model: nn.Module, loss_fn: Loss, y: Tensor, transform_output: Callable[[Tensor], Tensor]
) -> set[str]:
    """Return the error codes after a checkup and a loop that transforms the output before the loss."""
    x, _ = points()
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    debugger.checkup()
    with debugger.watch():
        for _ in range(2):
            for inputs, target in loader:
                optimizer.zero_grad()
                loss_fn(transform_output(model(inputs)), target).backward()
                optimizer.step()
    return {finding.code for finding in debugger.findings if finding.severity == "error"}


@pytest.mark.parametrize(
    ("loss_fn", "y"),
    [(nn.BCEWithLogitsLoss(), points()[1] > 0), (nn.MSELoss(), points()[0].sum(1))],
    ids=["bce", "mse"],
)
def test_checkup_errors_when_loop_squeezes_output_are_disproved(loss_fn: nn.Module, y: Tensor) -> None:
    assert error_codes_after_loop(network(1), loss_fn, y.float(), lambda output: output.squeeze(1)) == set()


def test_broadcast_loss_when_loop_broadcasts_is_still_reported() -> None:
    assert "L205" in error_codes_after_loop(network(1), nn.MSELoss(), points()[0].sum(1), lambda output: output)


SHARES = torch.rand(len(points()[1]), 3, generator=torch.Generator().manual_seed(0)).softmax(1)


@pytest.mark.parametrize(
    ("to_scores", "is_sound"),
    [
        (lambda z: F.log_softmax(z, dim=1), True),
        (lambda z: z.log_softmax(-1), True),
        (lambda z: z - z.logsumexp(1, keepdim=True), True),
        (lambda z: z.softmax(1).clamp(1e-8).log(), True),
        (nn.LogSoftmax(1), True),
        (lambda z: z, False),
        (lambda z: z.softmax(1), False),
        (lambda z: z.sigmoid(), False),
        (lambda z: 2 * z, False),
        (lambda z: F.logsigmoid(z), False),
    ],
)
def test_divergence_of_logits_is_disproved_by_a_loop_that_takes_their_log_softmax(
    to_scores: Callable[[Tensor], Tensor], is_sound: bool
) -> None:
    codes = error_codes_after_loop(network(3), nn.KLDivLoss(reduction="batchmean"), SHARES, to_scores)
    assert ("L204" in codes) is not is_sound


def own_huber(output: Tensor, target: Tensor) -> Tensor:
    size = (output - target).abs()
    return torch.where(size < 1, 0.5 * size**2, size - 0.5).mean()


def own_square(output: Tensor, target: Tensor) -> Tensor:
    return torch.sub(output, target).pow(2).mean()


@pytest.mark.parametrize("own_loss", [own_huber, own_square])
@pytest.mark.parametrize("is_squeezed", [False, True])
def test_broadcast_loss_beside_cross_entropy_is_reported_unless_shapes_agree(own_loss: Loss, is_squeezed: bool) -> None:
    x, y = points()
    values, model = x.sum(1), nn.Linear(4, 4)

    def loss_fn(output: Tensor, targets: tuple[Tensor, Tensor]) -> Tensor:
        column = output[:, :1].squeeze(1) if is_squeezed else output[:, :1]
        return own_loss(column, targets[0]) + F.cross_entropy(output[:, 1:], targets[1])

    loader = DataLoader([(a, (b, c)) for a, b, c in zip(x, values, y, strict=True)], batch_size=16)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    debugger.checkup()
    with debugger.watch():
        for inputs, targets in [*loader, *loader]:
            optimizer.zero_grad()
            loss_fn(model(inputs), targets).backward()
            optimizer.step()
    errors = {finding.code for finding in debugger.findings if finding.severity == "error"}
    assert errors & {"L205", "L213"} == (set() if is_squeezed else {"L205"})


def test_untrained_head_findings_when_second_optimizer_trains_it_are_disproved() -> None:
    x, y = points()
    model = nn.ModuleDict({"body": nn.Linear(4, 8), "one": nn.Linear(8, 3), "two": nn.Linear(8, 3)})
    model.forward = lambda x, head="one": model[head](model["body"](x).relu())
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    first_optimizer = torch.optim.SGD([*model["body"].parameters(), *model["one"].parameters()], lr=0.1)
    second_optimizer = torch.optim.SGD(model["two"].parameters(), lr=0.1)
    debugger = Debugger(model, loader, loss_fn=F.cross_entropy, optimizer=first_optimizer)
    debugger.checkup(select=["O503", "M301"])
    assert {finding.code for finding in debugger.findings} == {"O503", "M301"}
    with debugger.watch():
        for batch, label in loader:
            for head, optimizer in (("one", first_optimizer), ("two", second_optimizer)):
                optimizer.zero_grad()
                F.cross_entropy(model(batch, head), label).backward()
                optimizer.step()
    assert not {"O503", "M301"} & {finding.code for finding in debugger.findings}


def test_loss_operands_of_graph_tells_broadcast() -> None:
    output, target = torch.zeros(4, 1, requires_grad=True), torch.ones(4)
    assert loss_operands(nearest_graph([F.mse_loss(output, target[:, None]) / 2])) is not None
    with pytest.warns(UserWarning, match="target size"):
        broadcast_operands = loss_operands(
            nearest_graph([F.mse_loss(output[:, 0], target) + F.mse_loss(output, target)])
        )
    assert broadcast_operands is not None
    assert broadcast_operands.broadcast
    assert loss_operands(nearest_graph([output.sum()])) is None


def test_watch_report_after_loop_omits_disproved_findings() -> None:
    model = nn.ModuleDict({"one": nn.Linear(4, 3), "two": nn.Linear(4, 3)})
    model.forward = lambda x, head="one": model[head](x)
    loader = DataLoader(TensorDataset(*points()), batch_size=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, loader, loss_fn=F.cross_entropy, optimizer=optimizer)
    with debugger.watch() as run:
        for number, (batch, label) in enumerate(loader):
            optimizer.zero_grad()
            F.cross_entropy(model(batch, ("one", "two")[number % 2]), label).backward()
            optimizer.step()
    assert run.result is not None
    assert "M301" not in {finding.code for finding in debugger.reports["watch"]}


@pytest.mark.parametrize("is_flattened", [True, False])
def test_error_of_the_first_call_is_withdrawn_after_a_loop_that_runs(is_flattened: bool) -> None:
    x, y = points()
    loader = DataLoader(TensorDataset(torch.stack([x, x], 1), y), batch_size=16)
    model = nn.Linear(2 * x.shape[1], 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    debugger = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizer=optimizer)
    (finding,) = (f for f in debugger.checkup().findings if f.code.startswith("X"))
    assert finding.severity == "error"
    with contextlib.suppress(RuntimeError), debugger.watch(final_tests=False):
        for inputs, target in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(inputs.flatten(1) if is_flattened else inputs), target).backward()
            optimizer.step()
    severities = {f.severity for f in debugger.findings if f.code == finding.code}
    assert severities == (set() if is_flattened else {"error"})


@pytest.mark.parametrize("divisor", [1, 4, 16], ids=["summed", "divided by four", "averaged"])
def test_summed_loss_that_the_loop_averages_is_not_reported(divisor: int) -> None:
    x, y = points()
    model, loss_fn = network(3), nn.CrossEntropyLoss(reduction="sum")
    loader = DataLoader(TensorDataset(x, y), batch_size=16, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    assert "L216" in {finding.code for finding in debugger.checkup(select=["L216"])}
    with debugger.watch(final_tests=False):
        for inputs, target in [*loader, *loader]:
            optimizer.zero_grad()
            (loss_fn(model(inputs), target) / divisor).backward()
            optimizer.step()
    assert ("L216" in {finding.code for finding in debugger.findings}) == (divisor < 16)


Change = Callable[[nn.Module, int], None]


def clip_norm(model: nn.Module, step: int) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)


def clip_each_layer(model: nn.Module, step: int) -> None:
    for parameter in model.parameters():
        nn.utils.clip_grad_norm_(parameter, 0.1)


def normalize(model: nn.Module, step: int) -> None:
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    for gradient in gradients:
        gradient.mul_(0.5 / norm)


def take_signs(model: nn.Module, step: int) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.sign_().mul_(0.05)


def clip_by_hand(model: nn.Module, step: int) -> None:
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = float(sum(gradient.square().sum() for gradient in gradients)) ** 0.5
    for gradient in gradients:
        gradient *= min(1.0, 0.5 / norm)


def clip_above_all_norms(model: nn.Module, step: int) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 1e4)


def clip_at_first(model: nn.Module, step: int) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 0.5 if step < 6 else 1e4)


def clip_every_other_step(model: nn.Module, step: int) -> None:
    if step % 2:
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)


def scale(model: nn.Module, step: int) -> None:
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad *= 0.02


def clip_in_ascent(model: nn.Module, step: int) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    scale_of_ascent = -1.0
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad *= scale_of_ascent


STEPS_OF_FIXED_NORM: tuple[Change, ...] = (clip_norm, clip_each_layer, normalize, take_signs, clip_by_hand)
STEPS_OF_OTHER_NORMS: tuple[Change, ...] = (
    *(clip_above_all_norms, clip_at_first, clip_every_other_step, scale, clip_in_ascent),
)


@pytest.mark.parametrize("change", [*STEPS_OF_FIXED_NORM, *STEPS_OF_OTHER_NORMS], ids=lambda change: change.__name__)
def test_summed_loss_is_not_reported_if_the_loop_sets_the_norm_of_all_gradients(change: Change) -> None:
    torch.manual_seed(0)
    x, y = points()
    model, loss_fn = network(3), nn.CrossEntropyLoss(reduction="sum")
    loader = DataLoader(TensorDataset(x, y), batch_size=16, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    (finding,) = debugger.checkup(select=["L216"])
    assert finding.severity == "warning"
    with debugger.watch(final_tests=False):
        for step, (inputs, target) in enumerate(batch for _ in range(10) for batch in loader):
            optimizer.zero_grad()
            loss_fn(model(inputs), target).backward()
            change(model, step)
            optimizer.step()
    assert ("L216" in {finding.code for finding in debugger.findings}) == (change in STEPS_OF_OTHER_NORMS)
