"""Debugging journal: problem, hypotheses and experiments in one Markdown file that no crash loses."""

from __future__ import annotations

from nbdebug.journal.entries import Experiment as Experiment
from nbdebug.journal.entries import Hypothesis as Hypothesis
from nbdebug.journal.journal import Journal as Journal

__all__ = ["Experiment", "Hypothesis", "Journal"]
