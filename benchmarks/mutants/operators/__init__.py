"""Mutation operators by family."""

from benchmarks.mutants.operators import (
    architecture,
    attention,
    blocks,
    checkpoints,
    criteria,
    data,
    evaluation,
    loop,
    loss,
    metrics,
    model,
    optimizer,
    outputs,
    preparation,
    recurrence,
    sampling,
    schedule,
    sequence,
    steps,
    structure,
    visibility,
)
from benchmarks.mutants.operators.registry import OPERATORS, Operator

__all__ = ["OPERATORS", "Operator", "architecture", "attention", "blocks", "checkpoints", "data", "evaluation", "loop"]
__all__ += ["loss", "model", "optimizer", "outputs", "recurrence", "sampling", "schedule", "sequence", "structure"]
__all__ += ["criteria", "metrics", "preparation", "steps", "visibility"]
