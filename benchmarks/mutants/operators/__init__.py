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
)
from benchmarks.mutants.operators.registry import OPERATORS, Operator

__all__ = ["OPERATORS", "Operator"]
__all__ += ["attention", "blocks", "data", "evaluation", "loop", "loss", "model", "optimizer", "sequence", "structure"]
