"""The commands that print a page: rule and skill."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

SKILL_FILE = Path(__file__).resolve().parents[1] / "skill" / "SKILL.md"


def show_rule(options: Namespace) -> None:
    """Print the page of one rule, or one line for each rule if no code is given."""
    from nbdebug.rule_engine import rule_registry

    if options.code:
        print(rule_registry.find_rule(options.code).full_page)
        return
    for rule in rule_registry.load_rules().values():
        print(f"{rule.code}  {rule.severity:8} {rule.name:34} {rule.page.splitlines()[0]}")


def show_skill(options: Namespace) -> None:
    """Print the instructions for coding assistants."""
    print(SKILL_FILE.read_text(encoding="utf-8"), end="")
