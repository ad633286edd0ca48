"""What a rule says: one finding, and the place that it points to."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")


@dataclass(frozen=True)
class Where:
    """The place of a fault: in the model, in the data, in time, and in the user's own source."""

    module: str | None = None
    parameter: str | None = None
    sample: int | None = None
    step: int | None = None
    file: str | None = None
    line: int | None = None
    source: str | None = None
    cell: int | None = None
    context: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        """One phrase, such as ``In[12], line 7 · conv1.weight · sample 3``."""
        script = f"In[{self.cell}]" if self.cell is not None else self.file
        code = f"{script}, line {self.line}" if script and self.line else None
        sample = f"sample {self.sample}" if self.sample is not None else None
        step = f"step {self.step}" if self.step is not None else None
        module = f"module {self.module}" if (self.module or "").isdigit() else self.module
        return " · ".join(filter(None, [code, self.parameter or module, sample, step]))


@dataclass(frozen=True)
class Finding:
    """One fault, with its numbers, its place, its cause and the code that mends it.

    A rule fills in what it saw; ``code``, ``name`` and (where the rule leaves it open) ``severity`` are stamped by
    the registry. ``explains`` holds the codes of findings that are consequences of this one. ``assumes`` names what the
    finding takes for granted of the user's own loop; it is withdrawn where a watched loop has disproved all of it.
    """

    message: str
    where: Where = field(default_factory=Where)
    cause: str = ""
    fix: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    explains: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()
    code: str = ""
    name: str = ""
    severity: Severity | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; ``where`` is a dictionary of its own."""
        return asdict(self)

    def __str__(self) -> str:
        """Several lines of plain text: what, where, why and what to do."""
        lines = [f"{self.severity} {self.code} {self.name}: {self.message}"]
        if place := str(self.where):
            lines.append(f"  at     {place}")
        if self.where.source:
            lines.append(f"         {self.where.source.strip()}")
        lines += [f"  {label:6} {text}" for label, text in (("cause", self.cause), ("fix", self.fix)) if text]
        return "\n".join(line.replace("\n", "\n         ") for line in lines)
