"""The commands that run a script under a watch: check and run."""

from __future__ import annotations

import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdebug.atomic_files import write_atomically
from nbdebug.exceptions import SetupError, first_line
from nbdebug.finding import Finding
from nbdebug.formatting import encodable_text
from nbdebug.scripts.execution import ScriptOutcome, run_script, script_traceback
from nbdebug.serialization.github import workflow_commands
from nbdebug.serialization.sarif import sarif_log
from nbdebug.serialization.schema import document, own_version, relative_paths, shorten, to_json
from nbdebug.watching.remote_folder import open_run_folder
from nbdebug.watching.run_folder import RunFolder

if TYPE_CHECKING:
    from nbdebug.report import Report
    from nbdebug.scripts.watched_script import WatchedScript

CLEAN, FINDINGS, NOT_RUN = 0, 1, 2


@dataclass(frozen=True)
class CheckedScript:
    """A script that has run under a watch; ``watched`` is None if it did not import torch."""

    path: Path
    arguments: Sequence[str]
    outcome: ScriptOutcome
    watched: WatchedScript | None
    report: Report | None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings by rank."""
        return self.report.findings if self.report is not None else ()

    @property
    def problem(self) -> str:
        """The reason why the script could not be judged to its end; "" if it could."""
        if self.outcome.is_interrupted:
            return ""
        if self.outcome.error is not None:
            return f"the script raised {type(self.outcome.error).__name__}"
        if self.outcome.status:
            return f"the script ended with exit status {self.outcome.status}"
        if self.watched is None:
            return "the script did not import torch"
        if self.watched.watch is None or self.watched.watch.result is None:
            return (
                self.watched.trouble or "no pass of a model that a torch optimizer trains was observed in this process"
            )
        return ""

    @property
    def exit_code(self) -> int:
        """0 without an error or a warning, 1 with one, 2 if the script could not be judged to its end."""
        if self.problem:
            return NOT_RUN
        return FINDINGS if any(finding.severity != "note" for finding in self.findings) else CLEAN

    def to_dict(self) -> dict[str, Any]:
        """Return the findings, the end of the script, and a summary of the run and its setup in the schema."""
        parts: dict[str, Any] = {"script": self._describe_script(), "exit_code": self.exit_code}
        if self.problem:
            parts["problem"] = self.problem
        if self.outcome.error is not None and not self.outcome.is_interrupted:
            parts["crash"] = _describe_error(self.outcome.error, str(self.path.resolve()))
        if self.watched is not None:
            parts |= self.watched.to_dict()
        content = document("Check", self.findings, **parts)
        return {**content, "findings": relative_paths(content["findings"], Path.cwd())}

    def _describe_script(self) -> dict[str, Any]:
        interrupted = {"interrupted": True} if self.outcome.is_interrupted else {}
        return {"path": str(self.path), "arguments": [*self.arguments], "status": self.outcome.status, **interrupted}


def check_script(
    path: Path, arguments: Sequence[str], record: RunFolder | None = None, **watch_options: Any
) -> CheckedScript:
    """Run a script under a watch that begins at its first training pass, and return its findings.

    The record of the run grows in the folder ``record``, which receives the findings at the end. Raises SetupError if
    the file cannot be read or the folder cannot be written.
    """
    outcome, script = _run_watched(path, arguments, record, **watch_options)
    return _report_on_script(path, arguments, record, outcome, script)


def check(options: Namespace) -> int:
    """Check a script, write its findings in the requested forms, and return the exit code."""
    folder = open_run_folder(_rank_location(options.record)) if options.record is not None else None
    with _own_error_described():
        checked = check_script(options.script, options.arguments, folder)
        _write_forms(checked, options)
        return checked.exit_code
    return NOT_RUN


def run(options: Namespace) -> int:
    """Run a script, write its record and then its findings to a folder, and return the exit status of the script."""
    folder = open_run_folder(_rank_location(options.record))
    outcome, script = _run_watched(options.script, options.arguments, folder, runs_checkup=False)
    with _own_error_described():
        _report_on_script(options.script, options.arguments, folder, outcome, script)
    return outcome.status


def _rank_location(location: str) -> str:
    """Return the folder for the record of this process: ranks after the first have folders of their own in it.

    ``RANK`` is set by torchrun and other launchers.
    """
    rank = os.environ.get("RANK", "0")
    return location if rank == "0" else f"{location.rstrip('/')}/rank-{rank}"


def _run_watched(
    path: Path, arguments: Sequence[str], record: RunFolder | None, **watch_options: Any
) -> tuple[ScriptOutcome, WatchedScript | None]:
    """Run a script under a watch, and return its end and the watch; None if it did not import torch."""
    watched: list[WatchedScript] = []
    if record is not None:
        record.prepare()
        watch_options["save"] = record.record.resolve()  # the script may change its working directory

    def begin() -> None:
        from nbdebug.scripts.watched_script import WatchedScript

        watched.append(WatchedScript(**watch_options))
        watched[0].begin()

    def finish(error: BaseException | None) -> None:
        for script in watched:
            script.finish(error)

    outcome = run_script(path, arguments, begin, finish)
    return outcome, watched[0] if watched else None


def _report_on_script(
    path: Path,
    arguments: Sequence[str],
    record: RunFolder | None,
    outcome: ScriptOutcome,
    script: WatchedScript | None,
) -> CheckedScript:
    """Return the findings on a script that has ended, and write them to the folder of its record."""
    report = script.report(outcome.error) if script is not None else None
    checked = CheckedScript(path, arguments, outcome, script, report)
    if record is not None:
        details = script.describe_details() if script is not None else {}
        record.write_findings({**checked.to_dict(), **details})
    return checked


@contextmanager
def _own_error_described() -> Iterator[None]:
    """Print an exception of nbdebug itself with a sentence, and end the block; a SetupError passes."""
    try:
        yield
    except SetupError:
        raise
    except Exception as error:
        traceback.print_exc()
        print(
            f"nbdebug: the report raised {type(error).__name__}: {first_line(error)}. "
            "This is an error of nbdebug, not of the script.",
            file=sys.stderr,
        )


def _write_forms(checked: CheckedScript, options: Namespace) -> None:
    """Write the findings to the files of the options, then print them, the line of JSON last."""
    content = checked.to_dict()
    if options.sarif is not None:
        _write(options.sarif, to_json(sarif_log(content["findings"], own_version(), _rule_summaries()), 1))
    if options.output is not None:
        _write(options.output, to_json(shorten(content)))
    if options.github:
        for line in workflow_commands(content["findings"]):
            print(encodable_text(line))
    if options.json:
        print(f"\n{to_json(shorten(content))}")  # the last line of the script may have no end
    elif not options.github:
        print(encodable_text(_describe(checked)))
    elif checked.problem:
        print(encodable_text(f"nbdebug check: {checked.problem}"))


def _describe(checked: CheckedScript) -> str:
    texts = [checked.report.to_text()] if checked.report is not None and checked.findings else []
    if checked.problem:
        texts.append(f"nbdebug check: {checked.problem}")
    return "\n\n".join(texts) or "nbdebug check: no findings"


def _describe_error(error: BaseException, file: str) -> dict[str, Any]:
    """Return the class, the message and the innermost line of the script in the traceback of an exception."""
    place: dict[str, Any] = {}
    trace = script_traceback(error, file)
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == file:
            place = {"file": code.co_filename, "line": trace.tb_lineno, "function": code.co_name}
        trace = trace.tb_next
    return {"type": type(error).__name__, "message": str(error), **relative_paths([place], Path.cwd())[0]}


def _rule_summaries() -> dict[str, str]:
    from nbdebug.rule_engine import rule_registry

    return {rule.code: rule.page.splitlines()[0] for rule in rule_registry.load_rules().values()}


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path, f"{text}\n".encode())
    except OSError as error:
        print(
            f"nbdebug: path is {str(path)!r}; expected a file to write ({error}). Pass another path.", file=sys.stderr
        )
