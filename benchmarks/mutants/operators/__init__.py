"""Mutation operators by family."""

from benchmarks.mutants.operators import (
    architecture,
    attention,
    blocks,
    data,
    evaluation,
    loop,
    loss,
    model,
    optimizer,
    outputs,
    recurrence,
    sequence,
    structure,
    visibility,
)
from benchmarks.mutants.operators.registry import OPERATORS, Operator

__all__ = ["OPERATORS", "Operator", "architecture", "attention", "blocks", "data", "evaluation", "loop", "loss"]
__all__ += ["model", "optimizer", "outputs", "recurrence", "sequence", "structure", "visibility"]
