"""Tests of the callbacks of all trainers: findings, unchanged training, epochs, validation losses and early ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import nbdebug
from nbdebug.integrations import trainer_watch
from nbdebug.integrations.trainer_watch import TrainerWatch
from nbdebug.source.location import is_library_code
from tests.integrations.trainers import (
    EPOCHS,
    FITS,
    ROWS,
    STEPS,
    Program,
    fit_bare,
    lightning_trainer,
    make_callback,
    transformers_trainer,
)

FAULTS = {
    "": set(),
    "softmax before cross-entropy": {"L201"},
    "raw units": {"D104"},
    "rate too low": {"O502"},
}
TRAINERS = list(FITS)
REQUIRE_VALIDATION = ("fastai",)


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run in an empty folder, and leave no run behind."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not trainer_watch._running
    assert torch.autograd.backward.__module__ == "torch.autograd"


def codes(findings: nbdebug.Report) -> set[str]:
    """Return the codes of the errors and warnings."""
    return {finding.code for finding in findings if finding.severity != "note"}


def watch(trainer: str, program: Program, **options: Any) -> TrainerWatch:
    """Fit with the callback of a trainer, and return it."""
    callback = make_callback(trainer, program, **options)
    FITS[trainer](program, callback)
    return callback


@cache
def bare_codes(fault: str) -> set[str]:
    """Return what a bare loop shows."""
    program = Program(fault)
    debugger = program.debugger()
    with debugger.watch(final_tests=False):
        fit_bare(program)
    return codes(debugger.findings)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("trainer", TRAINERS)
def test_findings_equal_those_of_a_bare_loop(trainer: str, fault: str) -> None:
    callback = watch(trainer, Program(fault), final_tests=False)
    findings = callback.debugger.findings
    assert codes(findings) == bare_codes(fault)
    assert FAULTS[fault] <= codes(findings)
    assert not [finding for finding in findings if finding.where.file and is_library_code(finding.where.file)]


def own_loss(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return a cross-entropy that no rule knows by its name."""
    return -scores.log_softmax(1)[torch.arange(len(targets)), targets].mean()


class OwnLoss(torch.nn.Module):
    """The same as a module, which reshapes its operands."""

    def forward(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return own_loss(scores.reshape(-1, 2), targets.reshape(-1))


OWN_LOSSES = {"function": own_loss, "module": OwnLoss()}


def program_with_own_loss(form: str) -> Program:
    """Return a program whose model ends with a ReLU, before a loss of the user's own."""
    program = Program()
    program.model.append(torch.nn.ReLU())
    program.loss_fn = OWN_LOSSES[form]
    return program


@pytest.mark.parametrize("form", OWN_LOSSES)
@pytest.mark.parametrize("trainer", ["lightning", "transformers", "ignite"])
def test_findings_on_an_own_loss_equal_those_of_a_bare_loop(trainer: str, form: str) -> None:
    program = program_with_own_loss(form)
    debugger = program.debugger()
    with debugger.watch(every=1):
        fit_bare(program)
    callback = watch(trainer, program_with_own_loss(form), every=1)
    assert callback.debugger.setup.loss_fn is program.loss_fn
    assert "L210" in codes(debugger.findings)
    assert codes(callback.debugger.findings) == codes(debugger.findings)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_epochs_and_validation_losses_arrive_and_training_is_bit_identical(trainer: str) -> None:
    make_callback(trainer, Program())  # the first import of a trainer may draw random numbers
    watched = Program()
    callback = watch(trainer, watched)
    watched_state, plain = watched.state(), Program()
    FITS[trainer](plain, None)
    for one, other in zip(watched_state, plain.state(), strict=True):
        assert torch.equal(one, other)
    record = callback.debugger.watched.record
    assert [event.kind for event in record.events].count("epoch") == EPOCHS
    steps, losses = record.series("eval_loss")
    assert list(steps) == [STEPS // EPOCHS * epoch for epoch in range(1, EPOCHS + 1)]
    model, loss_fn = watched.model.eval(), watched.loss_fn
    with torch.no_grad():
        batch_losses = [float(loss_fn(model(x), y)) for x, y in watched.val_loader]
    assert losses[-1] == pytest.approx(sum(batch_losses) / len(batch_losses), rel=1e-5)
    assert callback.result.steps == STEPS
    assert not callback.debugger.watched.error_summary


def test_metrics_that_lightning_logs_in_training_are_no_metrics_of_validation() -> None:
    lightning = pytest.importorskip("lightning")
    program = Program()

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = program.model

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            loss = program.loss_fn(self.net(batch[0]), batch[1])
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            self.log("accuracy", 0.25)

        def configure_optimizers(self) -> Any:
            return program.optimizer

    callback = make_callback("lightning", program, final_tests=False)
    lightning_trainer(max_epochs=2, callbacks=[callback]).fit(Module(), program.train_loader, program.val_loader)
    record = callback.debugger.watched.record
    assert list(record.series("eval_loss")[1]) == []
    assert list(record.series("accuracy")[1]) == [0.25, 0.25]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_exception_in_the_middle_ends_the_run(trainer: str) -> None:
    def raise_in_second_epoch(reads: int) -> None:
        if reads > ROWS * 1.8:
            raise ValueError("a broken row")

    callbacks = []
    program = Program(on_item=raise_in_second_epoch, has_validation=trainer in REQUIRE_VALIDATION)
    with pytest.raises(ValueError, match="a broken row"):
        callbacks.append(make_callback(trainer, program))
        FITS[trainer](program, callbacks[0])
    result = callbacks[0].result
    assert 0 < result.steps < STEPS


@pytest.mark.parametrize("trainer", TRAINERS)
def test_stop_ends_the_trainer_without_an_exception(trainer: str) -> None:
    callbacks: list[TrainerWatch] = []

    def stop_in_second_epoch(reads: int) -> None:
        if reads > ROWS * 1.8 and callbacks and callbacks[0].is_running:
            callbacks[0].debugger.watched.controls.stop_reason = "the Stop button"

    program = Program(on_item=stop_in_second_epoch, has_validation=trainer in REQUIRE_VALIDATION)
    callbacks.append(make_callback(trainer, program))
    FITS[trainer](program, callbacks[0])
    assert 0 < callbacks[0].result.steps < STEPS
    assert callbacks[0].result.interrupted
    events = [event.text for event in callbacks[0].debugger.watched.record.events if event.kind == "stopped"]
    assert events == ["stopped by the Stop button"]


def test_two_callbacks_are_refused_and_one_serves_several_runs() -> None:
    program = Program(has_validation=False)
    first, second = (make_callback("ignite", program, final_tests=False) for _ in range(2))
    from ignite.engine import create_supervised_trainer

    trainer = create_supervised_trainer(program.model, program.optimizer, program.loss_fn)
    first.attach(trainer)
    trainer.run(program.train_loader, 1)
    result = first.result
    trainer.run(program.train_loader, 1)
    assert first.result is not result
    second.attach(trainer)
    with pytest.raises(nbdebug.SetupError, match="two callbacks"):
        trainer.run(program.train_loader, 1)
    assert first.result.steps == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "every is 0"),
        ({"stop_on": "note"}, "stop_on is 'note'"),
        ({"budgte": 0.1}, "budgte"),
        ({"debugger": 3}, "debugger is"),
    ],
)
def test_wrong_options_are_refused_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(nbdebug.SetupError, match=message):
        TrainerWatch(**options)


def test_callback_without_a_run_and_ignite_without_a_debugger_say_so() -> None:
    with pytest.raises(nbdebug.SetupError, match="None before the first run"):
        TrainerWatch().debugger  # noqa: B018
    pytest.importorskip("ignite")
    from ignite.engine import Engine

    from nbdebug.integrations.ignite import IgniteWatch

    with pytest.raises(nbdebug.SetupError, match="debugger is None"):
        IgniteWatch().attach(Engine(lambda *_: None))


def test_interrupt_of_a_trainer_that_tells_no_callback_ends_the_run(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")

    class Interrupt(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 5:
                raise KeyboardInterrupt

    program = Program()
    callback = make_callback("transformers", program)
    trainer = transformers_trainer(program, tmp_path, callback)
    trainer.add_callback(Interrupt)
    with suppress(KeyboardInterrupt):
        trainer.train()
    assert callback.result.interrupted
    assert callback.result.steps == 5
