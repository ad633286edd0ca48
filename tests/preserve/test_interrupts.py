"""Tests of Ctrl-C before, during and after the restoration."""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from typing import Any

import pytest

from nbdebug.preserve import Preserve, restore
from nbdebug.preserve.block import defer_interrupts
from tests.preserve.fingerprint import fingerprint
from tests.preserve.state_dict_callbacks import StateDictCallbacks
from tests.programs import Program, train


def raise_interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_interrupt_during_restoration_is_raised_after_it(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    with (
        pytest.raises(KeyboardInterrupt),
        Preserve(StateDictCallbacks(on_load=raise_interrupt), program.model, program.optimizer),
    ):
        train(program, program.loader(), 2)
    before.check()


def test_interrupt_during_entry_leaves_state_unchanged(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    with (
        pytest.raises(KeyboardInterrupt),
        Preserve(StateDictCallbacks(on_read=raise_interrupt), program.model, program.optimizer),
    ):
        pytest.fail("the block began")
    before.check()


def test_interrupt_during_entry_is_raised_after_it() -> None:
    reads: list[int] = []
    last_object = StateDictCallbacks(on_read=lambda: reads.append(1))
    with pytest.raises(KeyboardInterrupt), Preserve(StateDictCallbacks(on_read=raise_interrupt), last_object):
        pytest.fail("the block began")
    assert reads == [1]


def test_interrupt_just_before_restoration_restores_state(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    preserve = Preserve(program.model, program.optimizer)
    preserve.__enter__()
    train(program, program.loader(), 2)
    interruptions = iter([True])
    original_restore = preserve.restore

    def interrupted_restore() -> None:
        if next(interruptions, False):
            raise KeyboardInterrupt
        original_restore()

    preserve.restore = interrupted_restore  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        preserve.__exit__(None, None, None)
    before.check()


def test_interrupt_at_first_instruction_of_exit_is_raised_after_restoration(program: Program) -> None:
    before, handler = fingerprint(program.model, program.optimizer), signal.getsignal(signal.SIGINT)
    interruptions: list[bool] = []

    def interrupt_exit(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is Preserve.__exit__.__code__ and not interruptions:
            interruptions.append(True)
            raise_interrupt()

    with pytest.raises(KeyboardInterrupt), Preserve(program.model, program.optimizer):
        train(program, program.loader(), 2)
        sys.setprofile(interrupt_exit)
    sys.setprofile(None)
    assert interruptions
    before.check()
    assert restore() == 0
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_defer_interrupts_delivers_interrupt_once_at_end(handler: Any) -> None:
    before = signal.signal(signal.SIGINT, handler)
    events = []
    try:
        with defer_interrupts(), defer_interrupts():
            raise_interrupt()
            events.append(1)
    except KeyboardInterrupt:
        events.append(2)
    finally:
        assert signal.getsignal(signal.SIGINT) is handler
        signal.signal(signal.SIGINT, before)
    assert events == ([1, 2] if handler is signal.default_int_handler else [1])


def test_defer_interrupts_in_other_thread_keeps_handler() -> None:
    handler = signal.getsignal(signal.SIGINT)
    handlers = []

    def work() -> None:
        with defer_interrupts():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [handler]


def test_block_interrupted_at_random_moments_restores_state(program: Program) -> None:
    before, random_delays = fingerprint(program.model, program.optimizer), random.Random(0)
    interrupt_count = 0
    for _ in range(40):
        timer = threading.Timer(random_delays.uniform(0, 0.006), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            for _ in range(100):
                with Preserve(program.model, program.optimizer):
                    train(program, program.loader(), 1)
        except KeyboardInterrupt:
            interrupt_count += 1
        before.check()
    assert interrupt_count > 30  # Python drops interrupts that arrive in a destructor
