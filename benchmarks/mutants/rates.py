"""The rates that the pages of rules show, written from results into the package."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import nbdebug.rules
from benchmarks.mutants.report import Row, healthy_rows, loud_codes, verdicts
from nbdebug.rule_engine import rule_registry

RATES = Path(nbdebug.rules.__path__[0]) / "measured_rates.json"
_ROOT = Path(__file__).resolve().parents[2]


def rates(rows: list[Row], commit: str, date: str) -> dict[str, Any]:
    """Return the rates of all rules that have faults among the mutants or spoke in healthy runs."""
    healthy = healthy_rows(rows)
    spoke = Counter(code for row in healthy for code in set(loud_codes(row)))
    answers, held_out = verdicts(rows), verdicts(rows, "held-out")
    rules: dict[str, dict[str, int]] = {}
    for code in rule_registry.load_rules():
        own = [answer for answer in answers if answer.operator.accepts[0] == code]
        unseen = [answer for answer in held_out if answer.operator.accepts[0] == code]
        if own or spoke[code]:
            rules[code] = {
                "faults": len(own),
                "found": sum(answer.found for answer in own),
                "found_by_rule": sum(answer.by_best for answer in own),
                "held_out_faults": len(unseen),
                "held_out_found": sum(answer.found for answer in unseen),
                "healthy_runs_with_finding": spoke[code],
            }
    return {"date": date, "commit": commit, "healthy_runs": len(healthy), "rules": rules}


def write_rates(rows: list[Row]) -> None:
    """Write the rates, with the last commit of the package and the date of today."""
    command = ["git", "-C", str(_ROOT), "log", "-1", "--format=%h", "--", "nbdebug"]
    commit = subprocess.check_output(command, text=True).strip()
    date = datetime.now(timezone.utc).date().isoformat()
    RATES.write_text(json.dumps(rates(rows, commit, date), indent=1) + "\n", encoding="utf-8")
