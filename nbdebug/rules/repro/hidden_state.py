"""R904: weights or optimizer state changed since a snapshot, while no run was watched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nbdebug.finding import Finding, Location
from nbdebug.formatting import join_names
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.tools.provenance import ProgramSnapshot, SnapshotChanges


@rule("R904", "warning")
def hidden_state(changes: SnapshotChanges) -> Iterator[Finding]:
    """Weights or optimizer state changed since a snapshot while no run was watched.

    ## What it does
    Compares hashes of the tensors of each module, of the optimizers and of the schedulers in two snapshots. Once a
    snapshot was taken, it also compares them at the start and at the end of each watched run, so that a change before,
    between or after watched runs is found.

    ## Why it matters
    Cells run in any order, and some run twice. A result then belongs to weights that the notebook does not show how to
    make again.

    ## How it is measured
    Exactly: by hashes of all bits. The cells that have run between the two snapshots are listed.

    ## How to fix
    Create the model and the optimizer again, and run the cells in order; watch the loop that is meant to train.

    ## When to ignore
    When you have trained without ``dbg.watch()``, or loaded a checkpoint, on purpose.

    ## References
    Pimentel et al. 2019, A large-scale study about quality and reproducibility of Jupyter notebooks,
    doi:10.1109/MSR.2019.00077: few notebooks with a clear order of execution gave the same results again.
    """
    parts = list(changes.hidden_parts)
    if not parts:
        return
    cells = f" Since then, {join_names(changes.new_cells)} have run." if changes.new_cells else ""
    module = next((name.removeprefix("model.") for name in parts if name.startswith("model.")), None)
    yield Finding(
        message=f"The training state has changed since the snapshot of {changes.before}, while no run was watched: "
        f"{join_names(parts)}.{cells}",
        where=Location(module=module),
        cause="A cell has trained the model, loaded weights or created objects again outside of what was watched.",
        fix="Restart the kernel and run all cells in order.",
        evidence={"snapshot": changes.before, "parts": parts, "cells": list(changes.new_cells)},
    )


def older(snapshot: ProgramSnapshot) -> ProgramSnapshot:
    """Return a snapshot as an earlier one, of other weights."""
    return replace(snapshot, state={**snapshot.state, "model.0": "0" * 16})


def bad() -> Setup:
    """A program that is compared with an ``older`` snapshot."""
    return classifier()


def good() -> Setup:
    """A program that is compared with a snapshot of itself."""
    return classifier()
