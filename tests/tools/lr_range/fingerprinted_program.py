"""A program whose state is compared before and after a range test."""

from __future__ import annotations

from typing import Any

import torch

from nbdebug.debugger import Debugger
from tests.preserve.fingerprint import Fingerprint, fingerprint
from tests.preserve.interruption import CallPathHook
from tests.programs import PROGRAMS, Program, train


class FingerprintedProgram:
    """A program after three training steps, with a debugger, a tripwire on all its parts and a fingerprint."""

    def __init__(self, name: str, **options: Any) -> None:
        self.program: Program = PROGRAMS[name]()
        loader = self.program.loader(generator=torch.Generator().manual_seed(3))
        scheduler = torch.optim.lr_scheduler.StepLR(self.program.optimizer, 2)
        train(self.program, loader, 3)
        CallPathHook().attach(self.program)
        model, loss_fn, optimizer, _ = self.program
        options = {"loss_fn": loss_fn, "optimizer": optimizer, "scheduler": scheduler, **options}
        self.debugger = Debugger(model, loader, loader, **options)
        objects = (model, loss_fn, optimizer, scheduler, *options.get("extra_state", ()))
        self.before: Fingerprint = fingerprint(*objects, loaders=[loader])

    def run(self, **options: Any) -> None:
        """Run a short range test."""
        self.debugger.lr_range(steps=10, seeds=2, **options)
