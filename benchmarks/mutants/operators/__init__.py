"""Mutation operators by family."""

from benchmarks.mutants.operators import data, evaluation, loop, loss, model, optimizer
from benchmarks.mutants.operators.registry import OPERATORS, Operator

__all__ = ["OPERATORS", "Operator", "data", "evaluation", "loop", "loss", "model", "optimizer"]
