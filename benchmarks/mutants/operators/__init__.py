"""Mutation operators by family."""

from benchmarks.mutants.operators import (
    attention,
    blocks,
    data,
    evaluation,
    loop,
    loss,
    model,
    optimizer,
    sequence,
    structure,
    visibility,
)
from benchmarks.mutants.operators.registry import OPERATORS, Operator

__all__ = ["OPERATORS", "Operator", "attention", "blocks", "data", "evaluation", "loop", "loss", "model"]
__all__ += ["optimizer", "sequence", "structure", "visibility"]
