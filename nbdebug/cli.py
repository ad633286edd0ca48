"""The nbdebug command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import nbdebug


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 on success, 2 for unusable input."""
    options = _build_parser().parse_args(arguments)
    try:
        return int(options.run(options) or 0)
    except nbdebug.SetupError as error:
        print(f"nbdebug: {error}", file=sys.stderr)
        return 2


def _build_parser() -> argparse.ArgumentParser:
    """Return the parser of the nbdebug command and its subcommands."""
    top = argparse.ArgumentParser(prog="nbdebug", description=nbdebug.__doc__)
    top.add_argument("--version", action="version", version=f"nbdebug {nbdebug.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="command")
    demo = commands.add_parser("demo", help="run the first tutorial and write its report")
    demo.add_argument("--lab", action="store_true", help="open a copy of it in JupyterLab instead")
    demo.add_argument("--output", type=Path, default=Path("demo-report.html"), help="path of the report")
    demo.set_defaults(run=_run_demo)
    rule = commands.add_parser("rule", help="show the page of a rule, or the list of all")
    rule.add_argument("code", nargs="?", help="a code such as L201, or a name")
    rule.set_defaults(run=_show_rule)
    report = commands.add_parser("report", help="write a report of a saved record")
    report.add_argument("record", type=Path, help="a file that watch(save=...) or run.save() wrote")
    report.add_argument(
        "--output", type=Path, default=Path("report.html"), help="path that ends in .html, .md or .ipynb"
    )
    report.set_defaults(run=_write_report)
    return top


def _run_demo(options: argparse.Namespace) -> int:
    """Run the demo, or open it in JupyterLab, and return the exit status."""
    from nbdebug import demo

    return demo.open_lab() if options.lab else demo.run(options.output)


def _show_rule(options: argparse.Namespace) -> None:
    """Print the page of one rule, or one line for each rule if no code is given."""
    from nbdebug.rule_engine import rule_registry

    if options.code:
        print(rule_registry.find_rule(options.code).full_page)
        return
    for rule in rule_registry.load_rules().values():
        print(f"{rule.code}  {rule.severity:8} {rule.name:34} {rule.page.splitlines()[0]}")


def _write_report(options: argparse.Namespace) -> None:
    """Write the report of a saved record, and print its path."""
    from nbdebug.records import load
    from nbdebug.run_report import record_sections, write_report

    sections = record_sections(load(options.record), options.record.name)
    print(write_report(options.output, sections, f"Training report: {options.record.stem}"))


if __name__ == "__main__":
    raise SystemExit(main())
