"""Mutation operators by family."""

from benchmarks.mutants.operators import (
    architecture,
    attention,
    blocks,
    checkpoints,
    data,
    evaluation,
    loop,
    loss,
    model,
    optimizer,
    outputs,
    recurrence,
    sampling,
    schedule,
    sequence,
    structure,
    visibility,
)
from benchmarks.mutants.operators.registry import OPERATORS, Operator

__all__ = ["OPERATORS", "Operator", "architecture", "attention", "blocks", "checkpoints", "data", "evaluation", "loop"]
__all__ += ["loss", "model", "optimizer", "outputs", "recurrence", "sampling", "schedule", "sequence", "structure"]
__all__ += ["visibility"]
