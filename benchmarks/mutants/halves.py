"""The split of operators and programs into a tuning half and a held-out half."""

from __future__ import annotations

import hashlib

HALVES = ("tuning", "held-out", "mixed", "all")


def half_of_name(name: str) -> str:
    """Return the half of an operator or a program: the parity of the first byte of the SHA-256 of its name."""
    return "held-out" if hashlib.sha256(name.encode()).digest()[0] % 2 else "tuning"


def half_of_pair(operator: str, program: str) -> str:
    """Return the half of a mutant; "mixed" if its operator and its program are in different halves."""
    halves = {half_of_name(operator), half_of_name(program)}
    return halves.pop() if len(halves) == 1 else "mixed"
