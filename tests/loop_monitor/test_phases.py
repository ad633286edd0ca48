"""Tests of events in one phase or at one place of a loop: an epoch's last batches, validation, after an unfreeze."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import (
    ModeDependentNetwork,
    TrainFunction,
    all_findings,
    batch_loss,
    load_loop,
    source_line,
)

X, Y = points()
EPOCHS = 10


def make_setup(batch_size: int = 16, model: nn.Module | None = None, *, is_adaptive: bool = False) -> Setup:
    model = model or network(3)
    make_optimizer = torch.optim.Adam if is_adaptive else torch.optim.SGD
    loader = DataLoader(TensorDataset(X, Y), batch_size=batch_size)
    validation = DataLoader(TensorDataset(X[::2].clone(), Y[::2].clone()), batch_size=8)
    optimizers = (make_optimizer(model.parameters(), lr=0.01),)
    return Setup(model, loader, validation, nn.CrossEntropyLoss(), optimizers)


def findings_of(code: str, train: TrainFunction, setup: Setup | None = None) -> list[Finding]:
    return [finding for finding in all_findings(train, setup or make_setup()) if finding.code == code]


def epochs_of(batch: Callable[[Setup, int, Tensor, Tensor], None], after: TrainFunction = lambda setup: None) -> Any:
    """Return a loop that calls ``batch`` with the number of each batch in its epoch, and ``after`` each epoch."""

    def train(setup: Setup) -> None:
        for _ in range(EPOCHS):
            setup.model.train()
            for number, (x, y) in enumerate(setup.train_loader):
                batch(setup, number, x, y)
            after(setup)

    return train


def plain_step(setup: Setup, _: int, x: Tensor, y: Tensor) -> None:
    setup.optimizers[0].zero_grad()
    batch_loss(setup, x, y).backward()
    setup.optimizers[0].step()


# Groups of accumulated batches.


def accumulating(size: int, *, clears_at_start: bool = False, steps_at_end: bool = False) -> TrainFunction:
    def batch(setup: Setup, number: int, x: Tensor, y: Tensor) -> None:
        if clears_at_start and number == 0:
            setup.optimizers[0].zero_grad()
        (batch_loss(setup, x, y) / size).backward()
        if (number + 1) % size == 0 or (steps_at_end and number + 1 == len(setup.train_loader)):
            setup.optimizers[0].step()
            setup.optimizers[0].zero_grad()

    return epochs_of(batch)  # type: ignore[no-any-return]


def accumulating_lists(setup: Setup) -> None:
    """Groups as lists of losses; the gradients are cleared by hand before each epoch."""
    for _ in range(EPOCHS):
        for p in setup.model.parameters():
            p.grad = None
        pending = []
        for x, y in setup.train_loader:
            pending.append(batch_loss(setup, x, y) / 5)
            pending[-1].backward()
            if len(pending) == 5:
                setup.optimizers[0].step()
                setup.optimizers[0].zero_grad()
                pending = []


def accumulating_across_epochs(setup: Setup) -> None:
    count = 0
    for _ in range(EPOCHS):
        for x, y in setup.train_loader:
            (batch_loss(setup, x, y) / 5).backward()
            count += 1
            if count % 5 == 0:
                setup.optimizers[0].step()
                setup.optimizers[0].zero_grad()


@pytest.mark.parametrize("train", [accumulating(5, clears_at_start=True), accumulating_lists])
def test_lost_group_of_more_than_a_quarter_is_a_warning(train: TrainFunction) -> None:
    (finding,) = findings_of("O506", train, make_setup(batch_size=8))
    assert finding.severity == "warning"
    assert "27 of 80 batches (34%)" in finding.message
    assert "last batches of 9 epochs" in finding.message


@pytest.mark.parametrize(("size", "severity"), [(5, "warning"), (7, "note")])
def test_group_carried_into_the_next_epoch_is_reported_by_its_size(size: int, severity: str) -> None:
    (finding,) = findings_of("O505", accumulating(size), make_setup(batch_size=8))
    assert finding.severity == severity
    assert f"sum 8 batches, of which {8 - size} belong to the previous epoch; expected {size}" in finding.message


@pytest.mark.parametrize(
    "train", [accumulating(5, steps_at_end=True), accumulating_across_epochs, accumulating(4), accumulating(8)]
)
def test_complete_groups_have_no_finding(train: TrainFunction) -> None:
    findings = all_findings(train, make_setup(batch_size=8))
    assert not [finding for finding in findings if finding.code in ("O505", "O506", "O511")]


def clearing_within_groups(number_to_clear: int) -> TrainFunction:
    def batch(setup: Setup, number: int, x: Tensor, y: Tensor) -> None:
        if number % 4 == number_to_clear:
            setup.model.zero_grad()
        (batch_loss(setup, x, y) / 4).backward()
        if number % 4 == 3:
            setup.optimizers[0].step()

    return epochs_of(batch)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("number_to_clear", "severity"), [(1, "warning"), (3, "error")])
def test_gradients_cleared_within_each_group_are_reported(number_to_clear: int, severity: str) -> None:
    (finding,) = findings_of("O506", clearing_within_groups(number_to_clear), make_setup(batch_size=8))
    assert finding.severity == severity


def dividing(by_loss: int, by_gradient: int, factor: float = 1.0) -> TrainFunction:
    def batch(setup: Setup, number: int, x: Tensor, y: Tensor) -> None:
        (factor * batch_loss(setup, x, y) / by_loss).backward()
        if number % 4 == 3:
            for p in setup.model.parameters():
                p.grad /= by_gradient
            setup.optimizers[0].step()
            setup.optimizers[0].zero_grad()

    return epochs_of(batch)  # type: ignore[no-any-return]


@pytest.mark.parametrize("train", [dividing(16, 1), dividing(4, 4)])
def test_accumulated_gradients_divided_twice_are_a_warning(train: TrainFunction) -> None:
    (finding,) = findings_of("O511", train, make_setup(batch_size=8))
    assert finding.severity == "warning"
    assert "twice by 4" in finding.message


def test_accumulated_gradients_divided_twice_are_a_note_for_an_adaptive_optimizer() -> None:
    (finding,) = findings_of("O511", dividing(16, 1), make_setup(batch_size=8, is_adaptive=True))
    assert finding.severity == "note"


@pytest.mark.parametrize("train", [dividing(4, 1), dividing(1, 4, 0.5), dividing(4, 1, 0.1)])
def test_accumulated_gradients_divided_once_have_no_finding(train: TrainFunction) -> None:
    assert not findings_of("O511", train, make_setup(batch_size=8))


# Several backward passes for one step.


class TwoHeads(nn.Module):
    """An encoder, a decoder of the inputs and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder, self.head = nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Reconstruction and logits."""
        code = torch.relu(self.encoder(x))
        return self.decoder(code), self.head(code)


def two_losses(setup: Setup, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    picture, scores = setup.model(x)
    return F.mse_loss(picture, x), F.cross_entropy(scores, y)


def clear_by_hand(setup: Setup) -> None:
    for p in setup.model.parameters():
        p.grad = None


def clear_in_place(setup: Setup) -> None:
    for p in setup.model.parameters():
        if p.grad is not None:
            p.grad.zero_()


def clear_by_optimizer(setup: Setup) -> None:
    setup.optimizers[0].zero_grad()


def clearing_between(clear: TrainFunction) -> TrainFunction:
    def batch(setup: Setup, _: int, x: Tensor, y: Tensor) -> None:
        for loss in two_losses(setup, x, y):
            clear(setup)
            loss.backward(retain_graph=True)
        setup.optimizers[0].step()

    return epochs_of(batch)  # type: ignore[no-any-return]


def both_passes(setup: Setup, _: int, x: Tensor, y: Tensor) -> None:
    clear_by_optimizer(setup)
    for loss in two_losses(setup, x, y):
        loss.backward(retain_graph=True)
    setup.optimizers[0].step()


def balanced_by_measured_norms(setup: Setup, _: int, x: Tensor, y: Tensor) -> None:
    losses, norms = two_losses(setup, x, y), []
    for loss in losses:
        clear_by_optimizer(setup)
        loss.backward(retain_graph=True)
        norms.append(float(setup.model.encoder.weight.grad.norm()))  # type: ignore[union-attr]
    clear_by_optimizer(setup)
    (losses[0] / norms[0] + losses[1] / norms[1]).backward()
    setup.optimizers[0].step()


def sum_of_kept_gradients(setup: Setup, _: int, x: Tensor, y: Tensor) -> None:
    kept: list[list[Tensor | None]] = []
    for loss in two_losses(setup, x, y):
        clear_by_optimizer(setup)
        loss.backward(retain_graph=True)
        kept.append([p.grad for p in setup.model.parameters()])
    for p, *gradients in zip(setup.model.parameters(), *kept, strict=True):
        p.grad = sum(gradient for gradient in gradients if gradient is not None)  # type: ignore[assignment]
    setup.optimizers[0].step()


def layer_held_fixed(setup: Setup, _: int, x: Tensor, y: Tensor) -> None:
    clear_by_optimizer(setup)
    for loss in two_losses(setup, x, y):
        loss.backward(retain_graph=True)
    for p in setup.model.decoder.parameters():  # type: ignore[union-attr]
        p.grad = None
    setup.optimizers[0].step()


@pytest.mark.parametrize("clear", [clear_by_hand, clear_in_place, clear_by_optimizer])
def test_gradients_cleared_between_two_backward_passes_are_an_error(clear: TrainFunction) -> None:
    (finding,) = findings_of("O506", clearing_between(clear), make_setup(model=TwoHeads()))
    assert finding.severity == "error"
    assert finding.where.module == "decoder"
    assert "none after its last one" in finding.message


@pytest.mark.parametrize("batch", [both_passes, balanced_by_measured_norms, sum_of_kept_gradients, layer_held_fixed])
def test_gradients_of_all_losses_that_reach_the_step_have_no_finding(batch: Any) -> None:
    assert not findings_of("O506", epochs_of(batch), make_setup(model=TwoHeads()))


def overwriting(adds: bool) -> TrainFunction:
    """Losses whose gradients are computed and assigned without backward()."""

    def batch(setup: Setup, _: int, x: Tensor, y: Tensor) -> None:
        parameters = list(setup.model.parameters())
        clear_by_optimizer(setup)
        for loss in two_losses(setup, x, y):
            gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
            for p, gradient in zip(parameters, gradients, strict=True):
                if adds and p.grad is not None and gradient is not None:
                    p.grad += gradient
                elif not adds or gradient is not None:
                    p.grad = gradient
        setup.optimizers[0].step()

    return epochs_of(batch)  # type: ignore[no-any-return]


def test_gradients_overwritten_by_those_of_another_loss_are_reported_without_backward() -> None:
    (finding,) = findings_of("M301", overwriting(adds=False), make_setup(model=TwoHeads()))
    assert (finding.severity, finding.where.module) == ("error", "decoder")
    assert not findings_of("M301", overwriting(adds=True), make_setup(model=TwoHeads()))


# Clipping at some steps.


def clipping(is_late: Callable[[int], bool], logged: bool = False) -> TrainFunction:
    def train(setup: Setup) -> None:
        for step in range(60):
            x, y = X[:16], Y[:16]
            setup.optimizers[0].zero_grad()
            batch_loss(setup, x, y).backward()
            if not is_late(step):
                clip_grad_norm_(setup.model.parameters(), 1.0)
            setup.optimizers[0].step()
            if is_late(step):
                clip_grad_norm_(setup.model.parameters(), 1.0)
            if logged:
                clip_grad_norm_(setup.model.parameters(), float("inf"))

    return train


@pytest.mark.parametrize("is_late", [lambda step: step % 4 == 0, lambda step: step > 40])
def test_clipping_after_some_steps_is_reported_with_its_share(is_late: Callable[[int], bool]) -> None:
    (finding,) = findings_of("O508", clipping(is_late))
    assert "of 60 calls to clip gradients (" in finding.message
    assert "clip_grad_norm_" in source_line(finding)


@pytest.mark.parametrize("train", [clipping(lambda _: False), clipping(lambda _: False, logged=True)])
def test_clipping_before_each_step_has_no_finding(train: TrainFunction) -> None:
    assert not findings_of("O508", train)


# Validation.


def summed_validation_loss(setup: Setup) -> None:
    setup.optimizers[0].zero_grad()
    losses = [batch_loss(setup, x, y) for x, y in setup.val_loader]
    torch.stack(losses).mean().backward()
    setup.optimizers[0].step()


def step_on_validation_tensors(setup: Setup) -> None:
    x, y = setup.val_loader.dataset.tensors
    for begin in range(0, len(x), 8):
        plain_step(setup, 0, x[begin : begin + 8], y[begin : begin + 8])


def backward_on_validation(setup: Setup) -> None:
    for x, y in setup.val_loader:
        batch_loss(setup, x, y).backward()


def clear_after_step(setup: Setup, _: int, x: Tensor, y: Tensor) -> None:
    batch_loss(setup, x, y).backward()
    setup.optimizers[0].step()
    setup.optimizers[0].zero_grad()


def validate(setup: Setup) -> None:
    setup.model.eval()
    with torch.no_grad():
        for x, y in setup.val_loader:
            batch_loss(setup, x, y)


def validate_with_gradients(setup: Setup) -> None:
    for x, y in setup.val_loader:
        batch_loss(setup, x, y)


def test_step_on_the_summed_loss_of_all_validation_batches_is_an_error() -> None:
    (finding,) = findings_of("E711", epochs_of(plain_step, summed_validation_loss))
    assert "10 of 50 optimizer steps" in finding.message


def test_gradients_of_validation_batches_in_the_next_training_step_are_an_error() -> None:
    (finding,) = findings_of("E711", epochs_of(clear_after_step, backward_on_validation))
    assert "9 of 40 optimizer steps also used the gradients" in finding.message


def prefetching(evaluate: TrainFunction) -> TrainFunction:
    """Draw a training batch, evaluate, and train on that batch."""

    def train(setup: Setup) -> None:
        batches: Iterator[Any] = (batch for _ in range(EPOCHS) for batch in setup.train_loader)
        for x, y in batches:
            evaluate(setup)
            plain_step(setup, 0, x, y)

    return train


@pytest.mark.parametrize(
    "train",
    [
        epochs_of(plain_step, validate),
        epochs_of(plain_step, validate_with_gradients),
        epochs_of(plain_step, backward_on_validation),  # which the next step clears
        prefetching(validate),
        prefetching(validate_with_gradients),
    ],
)
def test_validation_beside_training_steps_is_no_training_on_validation(train: TrainFunction) -> None:
    assert not findings_of("E711", train)


# Modes.


def mode_setup() -> Setup:
    return make_setup(model=ModeDependentNetwork())


def validating_tensors(switches: bool) -> TrainFunction:
    def after(setup: Setup) -> None:
        setup.model.train(not switches)
        with torch.no_grad():
            setup.model(setup.val_loader.dataset.tensors[0])

    return epochs_of(plain_step, after)  # type: ignore[no-any-return]


def forgetting_eval(period: int) -> TrainFunction:
    epoch = 0

    def after(setup: Setup) -> None:
        nonlocal epoch
        epoch += 1
        setup.model.train(epoch % period == 0)
        with torch.no_grad():
            for x, _ in setup.val_loader:
                setup.model(x)

    return epochs_of(plain_step, after)  # type: ignore[no-any-return]


def losses_and_scores(setup: Setup) -> None:
    """Loss in train mode and score in eval mode of the same validation batches, as for detectors."""
    with torch.no_grad():
        for x, y in setup.val_loader:
            batch_loss(setup, x, y)
        setup.model.eval()
        for x, _ in setup.val_loader:
            setup.model(x).argmax(1)


@pytest.mark.parametrize(
    ("train", "severity", "share"),
    [
        (forgetting_eval(3), "warning", "3 of 10 validations"),
        (validating_tensors(switches=False), "error", "10 of 10 validations"),
    ],
)
def test_validation_in_train_mode_is_graded_by_its_share(train: TrainFunction, severity: str, share: str) -> None:
    (finding,) = findings_of("E701", train, mode_setup())
    assert finding.severity == severity
    assert share in finding.message


def sampling(passes: int, is_sampled: bool = True, no_grad: bool = True) -> TrainFunction:
    """Predict each validation batch several times in train mode; or each one once, as many times."""

    def predict(setup: Setup) -> None:
        setup.model.train()
        with torch.set_grad_enabled(not no_grad):
            for x, _ in [*setup.val_loader] * (1 if is_sampled else passes):
                torch.stack([setup.model(x) for _ in range(passes if is_sampled else 1)]).mean(0)

    return epochs_of(plain_step, predict)  # type: ignore[no-any-return]


def sampling_by_chunks(setup: Setup) -> None:
    """Predict the validation tensors, without a loader."""
    setup.model.train()
    with torch.no_grad():
        for x in setup.val_loader.dataset.tensors[0].split(16):
            torch.stack([setup.model(x) for _ in range(5)]).std(0)


def dropout_setup() -> Setup:
    return make_setup(model=nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3)))


@pytest.mark.parametrize("train", [sampling(3), sampling(10), epochs_of(plain_step, sampling_by_chunks)])
def test_monte_carlo_dropout_on_validation_is_note(train: TrainFunction) -> None:
    (finding,) = findings_of("E701", train, dropout_setup())
    assert finding.severity == "note"
    assert "Monte Carlo dropout" in finding.cause


@pytest.mark.parametrize(
    ("train", "make"),
    [
        (sampling(10), mode_setup),
        (sampling(2), dropout_setup),
        (sampling(5, is_sampled=False), dropout_setup),
        (sampling(5, no_grad=False), dropout_setup),
    ],
    ids=["batch statistics", "two passes", "one pass of each batch", "gradients"],
)
def test_validation_passes_in_train_mode_that_do_not_sample_dropout_are_error(
    train: TrainFunction, make: Callable[[], Setup]
) -> None:
    (finding,) = findings_of("E701", train, make())
    assert finding.severity == "error"


@pytest.mark.parametrize(
    "train", [forgetting_eval(100), validating_tensors(switches=True), epochs_of(plain_step, losses_and_scores)]
)
def test_validation_in_eval_mode_has_no_finding(train: TrainFunction) -> None:
    assert not findings_of("E701", train, mode_setup())


def unfreezing(leaves_eval: bool, whole: bool) -> TrainFunction:
    """Train the head on a frozen body, then both; the body may stay in eval mode."""

    def train(setup: Setup) -> None:
        body = nn.Sequential(*list(setup.model.children())[:-1])  # type: ignore[union-attr]
        for phase in range(2):
            body.requires_grad_(phase == 1)
            for _ in range(4):
                setup.model.train(not (leaves_eval and whole and phase))
                body.train(phase == 1 and not leaves_eval)
                for x, y in setup.train_loader:
                    plain_step(setup, 0, x, y)

    return train


def pretrained_setup() -> Setup:
    setup = mode_setup()
    setup.model(X)  # updates the running statistics
    return setup


def test_training_in_eval_mode_after_an_unfreeze_is_reported() -> None:
    (finding,) = findings_of("T613", unfreezing(leaves_eval=True, whole=True), pretrained_setup())
    assert finding.severity == "warning"
    assert "16 of 32 training steps (50%)" in finding.message


def test_training_in_eval_mode_in_a_long_loop_speaks_of_the_inspected_steps() -> None:
    def train(setup: Setup) -> None:
        for epoch in range(40):
            setup.model.train(epoch < 2)
            for x, y in setup.train_loader:
                plain_step(setup, 0, x, y)

    (finding,) = findings_of("T613", train, pretrained_setup())
    assert " inspected training steps (" in finding.message
    assert finding.cause == "eval() was called in the loop, and train() was not called after it."


@pytest.mark.parametrize(("leaves_eval", "whole"), [(False, False), (True, False)])
def test_unfrozen_body_in_train_mode_or_kept_in_eval_mode_has_no_finding(leaves_eval: bool, whole: bool) -> None:
    assert not findings_of("T613", unfreezing(leaves_eval, whole), pretrained_setup())


STEPS_ON_TENSORS = """
import torch

def train(setup):
    x, y = setup.val_loader.dataset.tensors
    for _ in range(6):
        setup.model.train()
        for a, b in setup.train_loader:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(a), b).backward()
            setup.optimizers[0].step()
        with torch.inference_mode():
            setup.model(x[:12])
"""


def test_validation_on_a_slice_of_the_validation_tensors_is_located(tmp_path: Any) -> None:
    (finding,) = findings_of("E701", load_loop(tmp_path / "loop.py", STEPS_ON_TENSORS), mode_setup())
    assert source_line(finding) == "setup.model(x[:12])"


def test_minimal_setup_without_validation_has_no_phases() -> None:
    setup = minimal_setup(network(3), X, Y, nn.CrossEntropyLoss())
    assert not [finding for finding in all_findings(epochs_of(plain_step), setup) if finding.severity != "note"]
