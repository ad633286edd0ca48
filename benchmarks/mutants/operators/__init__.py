"""Mutation operators by family."""

from benchmarks.mutants.operators import (
    attention,
    blocks,
    checkpoints,
    data,
    evaluation,
    loop,
    loss,
    model,
    optimizer,
    sampling,
    schedule,
    sequence,
    structure,
)
from benchmarks.mutants.operators.registry import OPERATORS, Operator

__all__ = ["OPERATORS", "Operator"]
__all__ += ["attention", "blocks", "data", "evaluation", "loop", "loss", "model", "optimizer", "sequence", "structure"]
__all__ += ["checkpoints", "sampling", "schedule"]
