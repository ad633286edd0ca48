"""The journal of a Debugger: hypotheses, experiments and results, appended to one Markdown file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdebug.exceptions import SetupError
from nbdebug.journal.entries import STATUSES, TWO_CHANGES, Entry, Experiment, Hypothesis, Status, read_entries
from nbdebug.journal.settings import changed_settings
from nbdebug.options import check_option_names
from nbdebug.result import TextRepr
from nbdebug.validation import argument_error, validate_choice

if TYPE_CHECKING:
    import pandas

_FRONT_MATTER = "---\nnbdebug: journal\nversion: 1\ncreated: {time}\n---\n\n# Debugging journal\n"


class Journal(TextRepr):
    """A problem, hypotheses and experiments in one file; off until ``open`` names it.

    Every call appends one entry and returns after the operating system has confirmed that it is on the disk: a process
    that is killed afterwards does not lose it. Entries are never changed, so the file fits version control.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self.entries: list[Entry] = []
        self._settings: dict[str, str] = {}

    @property
    def is_open(self) -> bool:
        """True if entries are written."""
        return self.path is not None

    @check_option_names()
    def open(self, path: str | Path, *, problem: str = "") -> Journal:
        """Open a journal, or go on with an existing one, and return it.

        Raises SetupError for a file that is no journal or cannot be written.

        Args:
            path: The Markdown file, beside the notebook.
            problem: The problem in one sentence; also ``state_problem``.
        """
        target = Path(path)
        try:
            text = target.read_text(encoding="utf-8") if target.exists() else ""
            if text and "nbdebug: journal" not in text[:200]:
                raise argument_error("path", str(path), "a new file or a journal of nbdebug", "Choose another name")
            self.path, self.entries = target, list(read_entries(text))
            if not text:
                self._write(_FRONT_MATTER.format(time=_now()))
            elif not text.endswith("\n"):
                self._write("\n")  # a killed process has left a part of an entry
        except (OSError, UnicodeDecodeError) as error:
            self.path = None
            raise SetupError(f"path is {str(path)!r}; expected a file that can be written ({error}).") from None
        self._settings = next((dict(e.data["settings"]) for e in reversed(self.entries) if "settings" in e.data), {})
        if problem:
            self.state_problem(problem)
        return self

    def close(self) -> None:
        """Write no more entries."""
        self.path = None

    def state_problem(self, text: str) -> None:
        """State the problem: what was expected, and what is seen instead."""
        self._append("problem", {"text": text})

    def note(self, text: str) -> None:
        """Add a note."""
        self._append("note", {"text": text})

    @check_option_names()
    def hypothesis(self, claim: str, *, prior: float | None = None, prediction: str = "") -> Hypothesis:
        """Add a hypothesis about the cause, and return it.

        Args:
            claim: The claim, such as "the learning rate is too high".
            prior: Its probability before any experiment, 0 to 1.
            prediction: What an experiment will show if it is true.
        """
        if prior is not None and not 0 <= prior <= 1:
            raise argument_error("prior", prior, "a number from 0 to 1", "Leave it out")
        item = Hypothesis(f"H{len(self.hypotheses) + 1}", claim, prior, prediction)
        self._append("hypothesis", {"name": item.name, "claim": claim, "prior": prior, "prediction": prediction})
        return item

    @check_option_names()
    def decide(self, hypothesis: Hypothesis | str, status: Status, reason: str = "") -> Hypothesis:
        """Set the status of a hypothesis, and return it.

        Args:
            hypothesis: The hypothesis, or its name, such as "H1".
            status: "supported", "refuted", "dropped" or "open".
            reason: What decided it.
        """
        validate_choice("status", status, STATUSES)
        item = self._find(hypothesis)
        self._append("decision", {"name": item.name, "status": status, "reason": reason})
        return replace(item, status=status, reason=reason)

    @check_option_names()
    def experiment(
        self,
        change: str | Sequence[str],
        *,
        before: str = "",
        after: str = "",
        conclusion: str = "",
        hypothesis: Hypothesis | str | None = None,
        status: Status | None = None,
    ) -> Experiment:
        """Add an experiment, and return it; more than one change at once is flagged.

        Args:
            change: The one thing that was changed; a list if there were more.
            before: What was seen before the change, with its number.
            after: What was seen after it.
            conclusion: What follows.
            hypothesis: The hypothesis that it tests, or its name.
            status: The status of that hypothesis from now on.
        """
        changes = (change,) if isinstance(change, str) else tuple(change)
        if not changes:
            raise argument_error("change", change, "the one thing that was changed", "Name it")
        tested = self._find(hypothesis) if hypothesis is not None else None
        if status is not None and tested is None:
            raise argument_error("status", status, "a hypothesis that it belongs to", "Pass hypothesis=")
        if status is not None:
            validate_choice("status", status, STATUSES)
        name = tested.name if tested is not None else ""
        item = Experiment(f"E{len(self.experiments) + 1}", changes, before, after, conclusion, name)
        self._append("experiment", {**vars(item), "changes": list(changes)})
        if tested is not None and status is not None:
            self.decide(tested, status, conclusion or f"by {item.name}")
        return item

    def add_result(self, tool: str, headline: str, settings: Mapping[str, str]) -> None:
        """Add the result of a tool, with the settings that changed since the last one; nothing if it is not open."""
        if not self.is_open:
            return
        changes = changed_settings(self._settings, settings) if self._settings else []
        self._settings = dict(settings)
        data = {"tool": tool, "headline": headline, "changes": changes, "settings": dict(settings)}
        self._append("result", data)

    def add_guide(self, position: str, skipped: Sequence[str], headlines: Mapping[str, str]) -> None:
        """Add how far a guide is: the open step, the steps left out, and the headline of each answer by its step."""
        self._append("guide", {"position": position, "skipped": list(skipped), "headlines": dict(headlines)})

    @property
    def problem(self) -> str:
        """The problem as it was stated last."""
        return next((entry.data["text"] for entry in reversed(self.entries) if entry.kind == "problem"), "")

    @property
    def hypotheses(self) -> tuple[Hypothesis, ...]:
        """The hypotheses with their present status."""
        items: dict[str, Hypothesis] = {}
        for entry in self.entries:
            if entry.kind == "hypothesis":
                items[entry.data["name"]] = Hypothesis(**entry.data)
            elif entry.kind == "decision" and entry.data["name"] in items:
                status, reason = entry.data["status"], entry.data["reason"]
                items[entry.data["name"]] = replace(items[entry.data["name"]], status=status, reason=reason)
        return tuple(items.values())

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """The experiments in the order of time."""
        data = [entry.data for entry in self.entries if entry.kind == "experiment"]
        return tuple(Experiment(**{**item, "changes": tuple(item["changes"])}) for item in data)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per entry: time, kind, text."""
        import pandas as pd

        return pd.DataFrame([(e.time, e.kind, _headline(e)) for e in self.entries], columns=["time", "kind", "text"])

    def to_text(self) -> str:
        """Return the problem, the hypotheses by status, and a line for each other entry."""
        place = str(self.path) if self.path else "not open; dbg.journal.open(path) starts it"
        lines = [f"nbdebug journal: {place}"]
        lines += [f"problem: {self.problem}"] if self.problem else []
        for item in self.hypotheses:
            prior = f", prior {item.prior:g}" if item.prior is not None else ""
            lines.append(f"{item.name} {item.status}{prior}: {item.claim}")
        others = [entry for entry in self.entries if entry.kind not in ("problem", "hypothesis", "decision")]
        return "\n".join([*lines, *(f"{entry.time}  {_headline(entry)}" for entry in others)])

    def _find(self, hypothesis: Hypothesis | str) -> Hypothesis:
        name = hypothesis.name if isinstance(hypothesis, Hypothesis) else hypothesis
        by_name = {item.name: item for item in self.hypotheses}
        if name not in by_name:
            raise argument_error("hypothesis", name, f"one of {', '.join(by_name) or 'none so far'}", "Add one")
        return by_name[name]

    def _append(self, kind: str, data: dict[str, Any]) -> None:
        """Write an entry, and keep it once it is on the disk; raise SetupError if the journal is not open."""
        if not self.is_open:
            raise SetupError("journal is not open; expected a file. Call dbg.journal.open('journal.md').")
        entry = Entry(kind, _now(), data)
        try:
            self._write(entry.to_markdown())
        except OSError as error:
            raise SetupError(f"journal is {str(self.path)!r}; expected a file that can be written ({error}).") from None
        self.entries.append(entry)

    def _write(self, text: str) -> None:
        """Append a text by one write, and return when it is on the disk."""
        assert self.path is not None
        is_new = not self.path.exists()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            data = text.encode()
            while data:
                data = data[os.write(descriptor, data) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if is_new and hasattr(os, "O_DIRECTORY"):  # the name of a new file is on the disk with its folder
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _headline(entry: Entry) -> str:
    """Return one line for an entry."""
    data = entry.data
    if entry.kind == "result":
        text = f"{data['tool']}: {data['headline']}"
    elif entry.kind == "guide":
        text = f"guide: {len(data['headlines'])} steps done"
    elif entry.kind == "experiment":
        text = f"{data['name']}: {'; '.join(data['changes'])}"
    else:
        text = data.get("text") or f"{data['name']} {data.get('status', '')} {data.get('claim', '')}".strip()
    return f"{text} {TWO_CHANGES}" if len(data.get("changes", ())) > 1 else text


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
