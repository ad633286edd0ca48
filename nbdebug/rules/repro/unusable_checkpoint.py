"""R908: a checkpoint is damaged, not finite, or belongs to another architecture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.tools.checkpoint import CheckpointCheck


@rule("R908", "error")
def unusable_checkpoint(checkpoint: CheckpointCheck) -> Iterator[Finding]:
    """A checkpoint cannot be used: it is truncated, damaged, not finite, or belongs to another architecture.

    ## What it does
    Reads the result of ``dbg.check_checkpoint(path)``: whether the file is whole, can be read without running code in
    it, contains finite weights only, and fits the model.

    ## Why it matters
    A process that is killed while it saves leaves half a file, often in place of the only older one. ``torch.load()``
    does not verify the checksums in a file, so that weights with flipped bits load without an error.

    ## How it is measured
    Exactly: by the checksums in the file, by names and shapes of the tensors, and by their values.

    ## How to fix
    Load the newest other checkpoint in the folder that is whole; the result names it. Write checkpoints to a temporary
    name, and rename them when they are complete. For another architecture, create the model as it was saved.

    ## When to ignore
    Never.

    ## References
    PyTorch documentation of torch.load and torch.serialization.set_crc32_options.
    """
    if not checkpoint.fault:
        return
    other = checkpoint.alternative
    is_other_model = checkpoint.verdict == "another architecture"
    yield Finding(
        message=checkpoint.headline,
        cause="The model was changed since it was saved, or the file belongs to another one."
        if is_other_model
        else "The process was killed while it wrote the file, the disk was full, or training had diverged.",
        fix=f"checkpoint = torch.load({other!r}, weights_only=True)   # the newest other one that is whole"
        if other
        else "Create the model with the settings with which it was saved."
        if is_other_model
        else 'torch.save(state, path + ".new")\nos.replace(path + ".new", path)   # once it is whole',
        evidence={"checkpoint": checkpoint.path, "fault": checkpoint.fault, "other": other},
    )


def bad() -> Setup:
    """A program whose checkpoint is truncated."""
    return classifier()


def good() -> Setup:
    """A program whose checkpoint is whole."""
    return classifier()


def bad_checkpoint(setup: Setup, path: Path) -> None:
    """Write the first half of a checkpoint."""
    good_checkpoint(setup, path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def good_checkpoint(setup: Setup, path: Path) -> None:
    """Write the weights."""
    torch.save(setup.model.state_dict(), path)
