"""Measured rates of rules: how many planted faults each finds, and in how many healthy runs it speaks.

``benchmarks/mutants`` measures them and writes ``nbdebug/rules/measured_rates.json``. The file is read when a page is
shown.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

_FILE = "measured_rates.json"


@dataclass(frozen=True)
class MeasuredRate:
    """The rate of one rule.

    ``found_by_rule`` counts the faults that this rule named, and ``found`` also those that an equally right rule named.
    The held-out faults are those of operators and programs that nobody looked at while rules were developed.
    """

    date: str
    commit: str
    healthy_runs: int
    faults: int
    found: int
    found_by_rule: int
    held_out_faults: int
    held_out_found: int
    healthy_runs_with_finding: int

    def __str__(self) -> str:
        """Return one sentence for each of the two rates, with the date."""
        if self.faults:
            found = f"Planted faults of this kind that were found: {self.found} of {self.faults}"
            others = self.found - self.found_by_rule
            by_others = f" ({self.found_by_rule} by this rule, {others} by another that is as right)" if others else ""
            held_out = (
                f"; held-out half: {self.held_out_found} of {self.held_out_faults}" if self.held_out_faults else ""
            )
        else:
            found, by_others, held_out = "No fault of this kind was planted", "", ""
        runs = f"{self.healthy_runs_with_finding} of {self.healthy_runs}"
        spoke = f"Healthy runs with an error or warning of this rule: {runs}"
        return f"{found}{by_others}{held_out}. {spoke}. Measured on {self.date} at commit {self.commit}."


def measured_rate(code: str) -> MeasuredRate | None:
    """Return the rate of a rule; None if it has not been measured."""
    content = _read_file()
    if code not in content.get("rules", {}):
        return None
    shared = {key: content[key] for key in ("date", "commit", "healthy_runs")}
    return MeasuredRate(**shared, **content["rules"][code])


def describe_measured_rate(code: str) -> str:
    """Return the sentences that a page shows."""
    return str(measured_rate(code) or "Not measured yet.")


def measured_codes() -> list[str]:
    """Return the codes of all rules that have a rate."""
    return list(_read_file().get("rules", {}))


@cache
def _read_file() -> dict[str, Any]:
    """Return the content of the data file; empty if there is none."""
    file = resources.files("nbdebug.rules") / _FILE
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}
