"""The command line: ``nbdebug demo``, ``nbdebug rule``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import nbdebug


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit code: 0 when done, 2 for what cannot be used."""
    options = parser().parse_args(arguments)
    try:
        return int(options.run(options) or 0)
    except nbdebug.SetupError as error:
        print(f"nbdebug: {error}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    top = argparse.ArgumentParser(prog="nbdebug", description=nbdebug.__doc__)
    top.add_argument("--version", action="version", version=f"nbdebug {nbdebug.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="command")
    demo = commands.add_parser("demo", help="run the first tutorial and write its report")
    demo.add_argument("--lab", action="store_true", help="open a copy of it in JupyterLab instead")
    demo.add_argument("--output", type=Path, default=Path("demo-report.html"), help="where the report goes")
    demo.set_defaults(run=run_demo)
    rule = commands.add_parser("rule", help="show the page of a rule, or the list of all")
    rule.add_argument("code", nargs="?", help="a code such as L201, or a name")
    rule.set_defaults(run=show_rule)
    return top


def run_demo(options: argparse.Namespace) -> int:
    """The tutorial, in JupyterLab or as a report."""
    from nbdebug import demo

    return demo.open_lab() if options.lab else demo.run(options.output)


def show_rule(options: argparse.Namespace) -> None:
    """One page, or a line for each rule."""
    from nbdebug import registry

    if options.code:
        found = registry.find(options.code)
        print(f"{found.code} {found.name} ({found.severity})\n\n{found.page}")
        return
    for one in registry.load().values():
        print(f"{one.code}  {one.severity:8} {one.name:34} {one.page.splitlines()[0]}")


if __name__ == "__main__":
    raise SystemExit(main())
