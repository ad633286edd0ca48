"""The cause of a crash, the line at fault, and the change that makes it run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from nbdebug.crashes.crash import Crash
from nbdebug.exceptions import first_line
from nbdebug.finding import Edit, Finding
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import describe_edits, line_changes
from nbdebug.source.location import SourceLine, get_location

# Of findings on an operation that got an argument of the model as it is: a loop may call the model differently.
ASPECT_INPUT = "input"


def _first_line_of_statement(edit: Edit) -> SourceLine:
    """Return the line of an edit; for an edit at the closing parenthesis of a statement, its first line."""
    line = SourceLine(edit.file, edit.line)
    statement = covering_statement(line) if line.text.strip().startswith((")", "]", "}")) else None
    return SourceLine(edit.file, statement.lineno) if statement is not None else line


@dataclass
class CrashCause:
    """The cause of a crash and its fix.

    ``edits`` are the fix as changes of the source; ``modules`` maps modules to those that replace them, for a trial.
    ``fix`` is the fix as code where it cannot be written as edits. ``line`` is the line at fault: by default that of
    the first edit, else the line that raised.
    """

    message: str
    cause: str
    fix: str = ""
    edits: tuple[Edit, ...] = ()
    modules: Mapping[nn.Module, nn.Module] = field(default_factory=dict)
    line: SourceLine | None = None
    module: str | None = None
    sample: int | None = None
    evidence: dict[str, Any] = field(default_factory=dict)

    def to_finding(self, crash: Crash, trial: str, explains: tuple[str, ...] = ()) -> Finding:
        """Return the finding, which says of its fix what a trial has shown, if there was one."""
        edited = _first_line_of_statement(self.edits[0]) if self.edits else None
        line = self.line or edited or crash.line
        where = replace(get_location(line, self.module), sample=self.sample)
        evidence = {"raised": f"{crash.kind}: {first_line(crash.error)}", "during": crash.phase, **self.evidence}
        if crash.line and line and (crash.line.file, crash.line.number) != (line.file, line.number):
            evidence["raised at"] = f"line {crash.line.number}: {crash.line.text.strip()}"
        if crash.repetition:
            evidence["repeated"] = crash.repetition
        fix = self.fix or describe_edits(self.edits)
        is_edited = any(edit.file in crash.edited_files for edit in self.edits)
        edits = () if is_edited else self.edits
        aspect = ASPECT_INPUT if crash.setup is not None and crash.is_about_input else ""
        return Finding(
            self.message,
            where,
            self.cause,
            fix,
            evidence,
            explains=explains,
            aspect=aspect,
            edits=edits,
            changes=line_changes(edits),
            trial=trial,
        )
