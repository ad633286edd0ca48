"""Tests of the Preserve block: nesting, early restoration, threads and failures."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.preserve import Preserve, RestoreError, restore
from tests.preserve.fingerprint import fingerprint
from tests.preserve.state_dict_callbacks import StateDictCallbacks
from tests.programs import Program, train


def make_block(program: Program) -> Preserve:
    return Preserve(program.model, program.optimizer, None)


def train_two_steps(program: Program) -> None:
    train(program, program.loader(), 2)


def test_nested_blocks_restore_their_own_state(program: Program) -> None:
    before_outer = fingerprint(program.model, program.optimizer)
    with make_block(program) as outer:
        train_two_steps(program)
        before_inner = fingerprint(program.model, program.optimizer)
        gradients = [parameter.grad for parameter in program.model.parameters()]
        with make_block(program) as inner:
            assert [id(grad) for grad in inner.gradients.values()] == [id(grad) for grad in gradients]
            assert set(map(id, gradients)).isdisjoint(map(id, outer.gradients.values()))
            train_two_steps(program)
        before_inner.check()
    before_outer.check()


def test_block_restored_early_does_not_restore_again(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    with make_block(program) as preserve:
        train_two_steps(program)
        preserve.restore()
        before.check()
        preserve.restore()
        train_two_steps(program)
        after = fingerprint(program.model, program.optimizer)
    after.check()
    assert preserve.gradients == {}


def test_early_restore_of_outer_block_ends_inner_block(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    with make_block(program) as outer:
        train_two_steps(program)
        with make_block(program):
            train_two_steps(program)
            outer.restore()
        before.check()


def test_block_is_reusable_but_not_reentrant(program: Program) -> None:
    before, preserve = fingerprint(program.model, program.optimizer), make_block(program)
    for _ in range(2):
        with preserve:
            train_two_steps(program)
        before.check()
    with preserve, pytest.raises(RuntimeError, match="already open"):
        preserve.__enter__()


def test_restore_function_ends_all_open_blocks(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    for _ in range(3):
        make_block(program).__enter__()
        train_two_steps(program)
    assert restore() == 3
    before.check()


def run_in_thread(work: Any) -> list[BaseException]:
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


def test_block_in_worker_thread_restores_after_interrupt(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)

    def work() -> None:
        with make_block(program):
            train_two_steps(program)
            raise KeyboardInterrupt

    assert [type(error) for error in run_in_thread(work)] == [KeyboardInterrupt]
    before.check()


def test_restore_function_ends_block_of_another_thread(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)

    def work() -> None:
        make_block(program).__enter__()
        torch.set_grad_enabled(False)

    assert run_in_thread(work) == []
    torch.set_grad_enabled(False)
    try:
        assert restore() == 1
        assert not torch.is_grad_enabled()  # grad mode is a setting of each thread
    finally:
        torch.set_grad_enabled(True)
    before.check()


def test_block_with_failing_objects_restores_all_others_and_raises(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    program.model[0].failing = StateDictCallbacks(on_load=lambda: 1 / 0)
    failing_object = StateDictCallbacks(on_load=lambda: [][0])
    with (
        pytest.raises(RestoreError, match="ZeroDivisionError") as error,
        Preserve(failing_object, program.model, program.optimizer),
    ):
        train_two_steps(program)
    del program.model[0].failing
    assert "StateDictCallbacks (IndexError" in str(error.value)
    assert "Sequential._modules['0'].failing (ZeroDivisionError" in str(error.value)
    before.check()


def test_block_restores_tensors_of_dataset() -> None:
    data = TensorDataset(torch.ones(3))
    with Preserve(loaders=[DataLoader(data)]):
        data.tensors = ()
    assert len(data.tensors) == 1
