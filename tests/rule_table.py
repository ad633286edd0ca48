"""The table of rules in docs/rules.md. `python -m tests.rule_table` writes it."""

from __future__ import annotations

from pathlib import Path

from nbdebug.rule_engine import rule_registry

PAGE = Path(__file__).resolve().parents[1] / "docs/rules.md"
BEGIN, END = "<!-- rules: begin -->\n", "<!-- rules: end -->"


def expected_table() -> str:
    """Return a row for each rule: code, name, severity and the first line of its page."""
    rows = [f"| {rule.code} | {rule.name} | {rule.severity} | {rule.page.splitlines()[0]} |" for rule in all_rules()]
    return "\n".join(["| code | name | severity | finds |", "|---|---|---|---|", *rows]) + "\n"


def all_rules() -> list[rule_registry.Rule]:
    """Return all rules, sorted by code."""
    return list(rule_registry.load_rules().values())


def documented_table() -> str:
    """Return the table in the page."""
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]


def main() -> None:
    """Replace the table in the page."""
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    PAGE.write_text(before + begin + expected_table() + end + after, encoding="utf-8")


if __name__ == "__main__":
    main()
