"""R907: training that resumes from a checkpoint does not continue as it would have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import nn

from nbdebug.finding import Finding
from nbdebug.formatting import join_names
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.tools.checkpoint import CheckpointCheck


@rule("R907", "warning")
def incomplete_checkpoint(checkpoint: CheckpointCheck) -> Iterator[Finding]:
    """A checkpoint lacks a part of the training state, or loading it leaves a part as it was.

    ## What it does
    Reads the result of ``dbg.check_checkpoint()``: which parts of the state (model, optimizers, schedulers, gradient
    scaler, averages of the weights) a checkpoint contains, and which of them are as saved after loading.

    ## Why it matters
    A run that resumes with a new scheduler trains at its first learning rate again; one with a new optimizer has lost
    its averages of the gradients. Nothing raises an error, and the loss jumps.

    ## How it is measured
    Exactly: each part after loading is compared, bit by bit, with the one that was saved. With ``save=``, the next
    steps after saving and after loading are compared too, on the same batches and with the same random numbers.

    ## How to fix
    Save ``state_dict()`` of each part, and load it after all objects were created.

    ## When to ignore
    For a checkpoint that serves for inference only. A checkpoint with the weights alone is therefore a note. The
    random state is listed in the result, but is no finding.

    ## References
    PyTorch tutorial "Saving and loading a general checkpoint": to resume training, save more than the weights.
    """
    if checkpoint.verdict not in ("incomplete", "weights only"):
        return
    parts = checkpoint.faulty_parts
    steps = f" {checkpoint.steps.text}" if checkpoint.steps is not None else ""
    yield Finding(
        message=f"{' '.join(f'The {part.name} is {part.text}.' for part in parts)}{steps}".strip(),
        cause=f"The checkpoint, or load(), leaves out: {join_names([part.name for part in parts])}."
        if parts
        else "The steps depend on state that no object of the setup holds, such as an attribute or a counter.",
        fix=checkpoint.code or "Pass the object that holds this state as extra_state=, and save it too.",
        evidence={"checkpoint": checkpoint.path, "parts": {part.name: part.status for part in checkpoint.parts}},
        explains=("O507",),
        severity="note" if checkpoint.verdict == "weights only" else None,
    )


def _setup() -> Setup:
    """A program with a schedule."""
    model = network(3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,), scheduler=scheduler)


def bad() -> Setup:
    """A program that saves model and optimizer, but not the scheduler."""
    return _setup()


def good() -> Setup:
    """A program that saves the scheduler too."""
    return _setup()


def bad_checkpoint(setup: Setup, path: Path) -> None:
    """Write the checkpoint of ``bad``."""
    torch.save({"model": setup.model.state_dict(), "optimizer": setup.optimizers[0].state_dict()}, path)


def good_checkpoint(setup: Setup, path: Path) -> None:
    """Write the checkpoint of ``good``."""
    objects = {"model": setup.model, "optimizer": setup.optimizers[0], "scheduler": setup.scheduler}
    torch.save({name: item.state_dict() for name, item in objects.items()}, path)
