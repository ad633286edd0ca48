"""Ctrl-C before, in and after the restoration."""

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
from tests.preserve.stubborn import Stubborn
from tests.programs import Program, train


def _ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_during_restoration_waits_for_its_end(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    with pytest.raises(KeyboardInterrupt), Preserve(Stubborn(on_load=_ctrl_c), program.model, program.optimizer):
        train(program, program.loader(), 2)
    before.check()


def test_an_interrupt_at_the_entry_leaves_all_as_it_was(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    with pytest.raises(KeyboardInterrupt), Preserve(Stubborn(on_read=_ctrl_c), program.model, program.optimizer):
        pytest.fail("the block began")
    before.check()


def test_an_interrupt_at_the_entry_waits_for_its_end() -> None:
    reached: list[int] = []
    last = Stubborn(on_read=lambda: reached.append(1))
    with pytest.raises(KeyboardInterrupt), Preserve(Stubborn(on_read=_ctrl_c), last):
        pytest.fail("the block began")
    assert reached == [1]


def test_an_interrupt_just_before_restoration_restores_all_the_same(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    preserve = Preserve(program.model, program.optimizer)
    preserve.__enter__()
    train(program, program.loader(), 2)
    first = iter([True])
    plain = preserve.restore

    def interrupted() -> None:
        if next(first, False):
            raise KeyboardInterrupt
        plain()

    preserve.restore = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        preserve.__exit__(None, None, None)
    before.check()


def test_an_interrupt_before_the_first_instruction_of_the_exit_waits_for_its_end(program: Program) -> None:
    before, handler = fingerprint(program.model, program.optimizer), signal.getsignal(signal.SIGINT)
    reached: list[bool] = []

    def strike(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code is Preserve.__exit__.__code__ and not reached:
            reached.append(True)
            _ctrl_c()

    with pytest.raises(KeyboardInterrupt), Preserve(program.model, program.optimizer):
        train(program, program.loader(), 2)
        sys.setprofile(strike)
    sys.setprofile(None)
    assert reached
    before.check()
    assert restore() == 0
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
def test_interrupts_are_delivered_once_at_the_end(handler: Any) -> None:
    before = signal.signal(signal.SIGINT, handler)
    done = []
    try:
        with defer_interrupts(), defer_interrupts():
            _ctrl_c()
            done.append(1)
    except KeyboardInterrupt:
        done.append(2)
    finally:
        assert signal.getsignal(signal.SIGINT) is handler
        signal.signal(signal.SIGINT, before)
    assert done == ([1, 2] if handler is signal.default_int_handler else [1])


def test_interrupts_are_left_alone_in_other_threads() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work() -> None:
        with defer_interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_interrupts_at_random_moments_leave_no_trace(program: Program) -> None:
    before, moments = fingerprint(program.model, program.optimizer), random.Random(0)
    struck = 0
    for _ in range(40):
        timer = threading.Timer(moments.uniform(0, 0.006), os.kill, (os.getpid(), signal.SIGINT))
        try:
            timer.start()
            for _ in range(100):
                with Preserve(program.model, program.optimizer):
                    train(program, program.loader(), 1)
        except KeyboardInterrupt:
            struck += 1
        before.check()
    assert struck > 30  # Python drops an interrupt that strikes in a destructor
