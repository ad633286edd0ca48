"""Verdicts on results, and the tables of a report."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from benchmarks.mutants.catalog_programs import CATALOG
from benchmarks.mutants.halves import half_of_name, half_of_pair
from benchmarks.mutants.operators import OPERATORS
from benchmarks.mutants.operators.registry import Operator

Row = dict[str, Any]
_LOUD = ("error", "warning")


@dataclass(frozen=True)
class Verdict:
    """The answer of nbdebug to one effective mutant.

    found       an accepted code is among its new errors and warnings; for a rule of notes, among its new notes
    by_best     it is the best code
    first       no other new finding that is not a side effect stands before it
    placed      it names a right line, module or parameter; None where none can be named
    instead     the new codes if none is accepted
    """

    operator: Operator
    program: str
    found: bool
    by_best: bool
    first: bool
    placed: bool | None
    instead: tuple[str, ...]
    crashed: bool
    slowdown: float


def loud_codes(row: Row) -> list[str]:
    """Return the codes of the errors and warnings of a row, in their order."""
    return [finding["code"] for finding in row["findings"] if finding["severity"] in _LOUD]


def verdict(row: Row, unmutated: Row) -> Verdict:
    """Judge one effective mutant; a code that its unmutated program draws too does not count."""
    operator = OPERATORS[row["operator"]]
    notes_count = operator.accepts[0] in _NOTE_RULES
    usual = {finding["code"] for finding in unmutated["findings"]} if notes_count else set(loud_codes(unmutated))
    heard = _LOUD + (("note",) if notes_count else ())
    new = [f for f in row["findings"] if f["severity"] in heard and f["code"] not in usual]
    hits = [finding for finding in new if finding["code"] in operator.accepts]
    ranked = [f["code"] for f in new if f["severity"] in _LOUD or f in hits]
    relevant = [code for code in ranked if code in operator.accepts or code not in operator.tolerates]
    return Verdict(
        operator,
        row["program"],
        found=bool(hits),
        by_best=any(finding["code"] == operator.accepts[0] for finding in hits),
        first=bool(relevant) and relevant[0] in operator.accepts,
        placed=any(_is_right_place(finding, row) for finding in hits) if operator.placed else None,
        instead=() if hits else tuple(dict.fromkeys(f["code"] for f in new if f["severity"] in _LOUD)) or ("nothing",),
        crashed=bool(row["crash"]) and not row["raised"],
        slowdown=row["seconds"] / max(row["plain_seconds"], 0.05),
    )


_NOTE_RULES = frozenset({"P806"})


def _is_right_place(finding: dict[str, Any], row: Row) -> bool:
    place = finding["where"]
    if place.get("file") == row["file"] and place.get("line") in row["lines"]:
        return True
    if place.get("parameter") in row["still"]:
        return True
    module = place.get("module") or (place.get("parameter") or "").rpartition(".")[0]
    modules = [*row["modules"], *(name.rpartition(".")[0] for name in row["still"])]
    return any(name and f".{name}." in f".{module}." for name in modules)


def verdicts(rows: Iterable[Row], half: str = "all") -> list[Verdict]:
    """Return the verdicts on the effective mutants of a half."""
    rows = list(rows)
    unmutated = {row["program"]: row for row in rows if row["status"] == "unmutated"}
    return [
        verdict(row, unmutated[row["program"]])
        for row in rows
        if row["status"] == "effective"
        and row["operator"] in OPERATORS
        and row["program"] in unmutated
        and half in ("all", half_of_pair(row["operator"], row["program"]))
    ]


def healthy_rows(rows: Iterable[Row], half: str = "all") -> list[Row]:
    """Return the rows of rewrites and unmutated programs whose program is in a half.

    Programs of the catalog are wired right but are trained for a few steps only, so they are no healthy runs.
    """
    healthy = (row for row in rows if row["status"] in ("rewrite", "unmutated"))
    healthy = (row for row in healthy if not row["program"].startswith(CATALOG))
    return [row for row in healthy if half in ("all", half_of_name(row["program"]))]


def fraction(part: int, whole: int) -> str:
    """Return "46/50 (92 %)"."""
    return f"{part}/{whole}" + (f" ({100 * part / whole:.0f} %)" if whole else "")


def report(rows: list[Row], half: str) -> str:
    """Return the tables of a half: per operator, per rule, of healthy programs, and the totals."""
    answers = verdicts(rows, half)
    healthy = healthy_rows(rows, half)
    tables = [_operator_table(answers, rows, half), _rule_table(answers, healthy), _healthy_table(healthy)]
    return "\n\n".join([*tables, _totals(answers, healthy)])


def _operator_table(answers: list[Verdict], rows: list[Row], half: str) -> str:
    lines = [f"{'operator':42} {'best':5}   n found first placed crash (equivalent, invalid)  instead of it"]
    statuses: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["operator"] in OPERATORS and half in ("all", half_of_pair(row["operator"], row["program"])):
            statuses[row["operator"]][row["status"]] += 1
    for name, operator in OPERATORS.items():
        own = [answer for answer in answers if answer.operator is operator]
        if not statuses[name]:
            continue
        placeable = [answer for answer in own if answer.placed is not None]
        instead = Counter(code for answer in own for code in answer.instead).most_common(4)
        placed = f"{sum(bool(answer.placed) for answer in placeable)}/{len(placeable)}"
        lines.append(
            f"{name:42} {operator.accepts[0]:5} {len(own):3} {sum(a.found for a in own):5} "
            f"{sum(a.first for a in own):5} {placed:>6} {sum(a.crashed for a in own):5} "
            f"({statuses[name]['equivalent']}, {statuses[name]['invalid']})  "
            + ", ".join(f"{code} {count}" for code, count in instead)
        )
    return "\n".join(lines)


def _rule_table(answers: list[Verdict], healthy: list[Row]) -> str:
    spoke = Counter(code for row in healthy for code in set(loud_codes(row)))
    lines = ["rule  faults found itself first placed  spoke in healthy runs"]
    for code in sorted({answer.operator.accepts[0] for answer in answers} | set(spoke)):
        own = [answer for answer in answers if answer.operator.accepts[0] == code]
        placeable = [answer for answer in own if answer.placed is not None]
        lines.append(
            f"{code:5} {len(own):6} {sum(a.found for a in own):5} {sum(a.by_best for a in own):6} "
            f"{sum(a.first for a in own):5} {sum(bool(a.placed) for a in placeable):3}/{len(placeable):<3} "
            f"{spoke[code]:4} of {len(healthy)}"
        )
    return "\n".join(lines)


def _healthy_table(healthy: list[Row]) -> str:
    lines = [f"{'healthy programs':42}   n quiet crash  errors and warnings"]
    for name in dict.fromkeys(row["operator"] for row in healthy):
        own = [row for row in healthy if row["operator"] == name]
        codes = Counter(code for row in own for code in loud_codes(row)).most_common()
        quiet = sum(not loud_codes(row) and not row["crash"] for row in own)
        lines.append(
            f"{name:42} {len(own):3} {quiet:5} {sum(bool(row['crash']) for row in own):5}  "
            + ", ".join(f"{code} {count}" for code, count in codes)
        )
    return "\n".join(lines)


def _totals(answers: list[Verdict], healthy: list[Row]) -> str:
    placeable = [answer for answer in answers if answer.placed is not None]
    operators, programs = {a.operator.name for a in answers}, {a.program for a in answers}
    lines = [
        f"effective mutants {len(answers)}, of {len(operators)} operators on {len(programs)} programs",
        f"found {fraction(sum(a.found for a in answers), len(answers))}, "
        f"first {fraction(sum(a.first for a in answers), len(answers))}, "
        f"placed {fraction(sum(bool(a.placed) for a in placeable), len(placeable))}, "
        f"crashes {sum(a.crashed for a in answers)}",
    ]
    for status in ("rewrite", "unmutated"):
        own = [row for row in healthy if row["status"] == status]
        quiet = sum(not loud_codes(row) and not row["crash"] for row in own)
        lines.append(f"quiet on {status} programs {fraction(quiet, len(own))}")
    statements = sum(len(loud_codes(row)) for row in healthy)
    if healthy:
        lines.append(f"wrong statements per healthy program {statements / len(healthy):.3f}")
    if answers:
        slowdown = statistics.median(answer.slowdown for answer in answers)
        lines.append(f"time with nbdebug {slowdown:.1f} times the bare run (median)")
    return "\n".join(lines)
