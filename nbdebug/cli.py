"""The nbdebug command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbdebug
from nbdebug.commands import pages


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 on success, 2 for unusable input."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        return int(options.run(options) or 0)
    except nbdebug.SetupError as error:
        print(f"nbdebug: {error}", file=sys.stderr)
        return 2


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command; a script gets the options that are not of nbdebug, and all after ``--``."""
    position = [*arguments, "--"].index("--")
    parser = _build_parser()
    options, others = parser.parse_known_args(arguments[:position])
    others += arguments[position + 1 :]
    if hasattr(options, "script"):
        options.arguments = others
    elif others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    return options


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
    rule.set_defaults(run=pages.show_rule)
    skill = commands.add_parser("skill", help="print instructions for coding assistants")
    skill.set_defaults(run=pages.show_skill)
    _add_check(commands)
    _add_bisect_step(commands)
    report = commands.add_parser("report", help="write a report of a saved record")
    report.add_argument("record", type=Path, help="a file that watch(save=...) or run.save() wrote")
    report.add_argument(
        "--output", type=Path, default=Path("report.html"), help="path that ends in .html, .md or .ipynb"
    )
    report.set_defaults(run=_write_report)
    return top


def _add_check(commands: Any) -> None:
    """Add the parser of the command that checks a script."""
    check = _add_script_command(
        commands, "check", "run a training script unchanged under a watch, and report its faults"
    )
    check.add_argument("--json", action="store_true", help="print the findings as a last line of JSON, up to 4 kB")
    check.add_argument("--output", type=Path, metavar="FILE", help="write that line to a file")
    check.add_argument("--sarif", type=Path, metavar="FILE", help="write the findings as SARIF 2.1.0")
    check.add_argument("--github", action="store_true", help="print the findings as annotations of GitHub Actions")
    _add_record(check, "also write the record of the run and its findings to a folder")
    check.set_defaults(run=_check)
    run = _add_script_command(commands, "run", "run a training script unchanged, and record it")
    _add_record(run, "folder of the record and the findings, for attach and tail", required=True)
    run.set_defaults(run=_record)
    tail = commands.add_parser("tail", help="follow recorded runs in the terminal")
    tail.add_argument("folders", nargs="+", type=Path, metavar="folder", help="folder of a run")
    tail.set_defaults(run=_tail)
    server = commands.add_parser("mcp", help="serve coding assistants by the Model Context Protocol, on stdio")
    server.add_argument("--allow-run", action="store_true", help="also offer check, which runs scripts")
    server.set_defaults(run=_serve)


def _add_record(parser: argparse.ArgumentParser, description: str, required: bool = False) -> None:
    """Add the option of the folder of a run."""
    parser.add_argument("--record", metavar="FOLDER", required=required, help=description)


def _add_script_command(commands: Any, name: str, description: str) -> argparse.ArgumentParser:
    """Add the parser of a command that runs a script with its own arguments."""
    usage = f"nbdebug {name} [options] script [arguments of the script]"
    parser: argparse.ArgumentParser = commands.add_parser(name, help=description, usage=usage, allow_abbrev=False)
    parser.add_argument("script", type=Path, help="path of the script; all after -- are arguments of the script")
    return parser


def _add_bisect_step(commands: Any) -> None:
    """Add the parser of the command for git bisect run."""
    step = _add_script_command(commands, "bisect-step", "run a training script once for git bisect run")
    step.add_argument("--metric", help="name of a number that the script prints, as name=0.3 or name: 0.3")
    limits = step.add_mutually_exclusive_group()
    limits.add_argument("--below", type=float, help="a commit is good if the metric is below this")
    limits.add_argument("--above", type=float, help="a commit is good if the metric is above this")
    step.add_argument("--runs", type=int, default=1, help="run again, up to so many times, while undecided")
    step.add_argument("--timeout", type=float, help="seconds after which a run is bad")
    step.set_defaults(run=_bisect_step)


def _run_demo(options: argparse.Namespace) -> int:
    """Run the demo, or open it in JupyterLab, and return the exit status."""
    from nbdebug import demo

    return demo.open_lab() if options.lab else demo.run(options.output)


def _check(options: argparse.Namespace) -> int:
    """Check a script, and return 0 if nothing is wrong, 1 with findings, and 2 if it could not be judged."""
    from nbdebug.commands.check import check

    return check(options)


def _record(options: argparse.Namespace) -> int:
    """Run a script and record it."""
    from nbdebug.commands.check import run

    return run(options)


def _tail(options: argparse.Namespace) -> int:
    """Follow runs in the terminal."""
    from nbdebug.commands.tail import tail

    return tail(options)


def _serve(options: argparse.Namespace) -> None:
    """Serve coding assistants until standard input ends."""
    from nbdebug.commands.mcp_server import serve

    serve(options)


def _bisect_step(options: argparse.Namespace) -> int:
    """Return the exit status that ``git bisect run`` expects: 0 for good, 1 for bad, 125 for undecided."""
    from nbdebug.tools.bisect.command import Threshold, bisect_step

    limit = options.below if options.above is None else options.above
    threshold = Threshold(options.metric, limit, options.above is not None) if options.metric else None
    return bisect_step(options.script, options.arguments, threshold, options.runs, options.timeout)


def _write_report(options: argparse.Namespace) -> None:
    """Write the report of a saved record, and print its path."""
    from nbdebug.records import load
    from nbdebug.run_report import record_sections, write_report

    sections = record_sections(load(options.record), options.record.name)
    print(write_report(options.output, sections, f"Training report: {options.record.stem}"))


if __name__ == "__main__":
    raise SystemExit(main())
