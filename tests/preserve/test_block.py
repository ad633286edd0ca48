"""The block itself: nesting, early and forced restoration, threads, failures."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.preserve import Preserve, RestoreError, restore
from tests.preserve.fingerprint import fingerprint
from tests.preserve.stubborn import Stubborn
from tests.programs import Program, train


def _preserve(program: Program) -> Preserve:
    return Preserve(program.model, program.optimizer, None)


def _train(program: Program) -> None:
    train(program, program.loader(), 2)


def test_blocks_nest(program: Program) -> None:
    outside = fingerprint(program.model, program.optimizer)
    with _preserve(program) as outer:
        _train(program)
        between = fingerprint(program.model, program.optimizer)
        gradients = [one.grad for one in program.model.parameters()]
        with _preserve(program) as inner:
            assert [id(grad) for grad in inner.gradients.values()] == [id(grad) for grad in gradients]
            assert set(map(id, gradients)).isdisjoint(map(id, outer.gradients.values()))
            _train(program)
        between.check()
    outside.check()


def test_restoring_early_and_again(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    with _preserve(program) as preserve:
        _train(program)
        preserve.restore()
        before.check()
        preserve.restore()
        _train(program)
        after = fingerprint(program.model, program.optimizer)
    after.check()
    assert preserve.gradients == {}


def test_an_outer_block_that_restores_early_ends_the_inner_one(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    with _preserve(program) as outer:
        _train(program)
        with _preserve(program):
            _train(program)
            outer.restore()
        before.check()


def test_a_block_can_be_used_again_but_not_twice_at_once(program: Program) -> None:
    before, preserve = fingerprint(program.model, program.optimizer), _preserve(program)
    for _ in range(2):
        with preserve:
            _train(program)
        before.check()
    with preserve, pytest.raises(RuntimeError, match="already open"):
        preserve.__enter__()


def test_the_panic_button_restores_all_blocks_in_reverse(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    for _ in range(3):
        _preserve(program).__enter__()
        _train(program)
    assert restore() == 3
    before.check()


def _in_thread(work: Any) -> list[BaseException]:
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return errors


def test_a_block_in_a_worker_thread(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)

    def work() -> None:
        with _preserve(program):
            _train(program)
            raise KeyboardInterrupt

    assert [type(error) for error in _in_thread(work)] == [KeyboardInterrupt]
    before.check()


def test_the_panic_button_reaches_a_block_of_another_thread(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)

    def work() -> None:
        _preserve(program).__enter__()
        torch.set_grad_enabled(False)

    assert _in_thread(work) == []
    torch.set_grad_enabled(False)
    try:
        assert restore() == 1
        assert not torch.is_grad_enabled()  # grad mode belongs to a thread: this one's is its own
    finally:
        torch.set_grad_enabled(True)
    before.check()


def test_one_failure_does_not_stop_the_rest(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    program.model[0].odd = Stubborn(on_load=lambda: 1 / 0)
    owned = Stubborn(on_load=lambda: [][0])
    with (
        pytest.raises(RestoreError, match="ZeroDivisionError") as caught,
        Preserve(owned, program.model, program.optimizer),
    ):
        _train(program)
    del program.model[0].odd
    assert "Stubborn (IndexError" in str(caught.value)
    assert "Sequential._modules['0'].odd (ZeroDivisionError" in str(caught.value)
    before.check()


def test_tensors_of_a_dataset_keep_their_identity() -> None:
    data = TensorDataset(torch.ones(3))
    with Preserve(loaders=[DataLoader(data)]):
        data.tensors = ()
    assert len(data.tensors) == 1
