"""The journal of a Debugger: hypotheses, experiments and results, appended to one Markdown file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from nbdebug.exceptions import SetupError
from nbdebug.journal.entries import STATUSES, Entry, Experiment, Hypothesis, Status, entry_line
from nbdebug.journal.journal_file import JournalFile
from nbdebug.journal.page_requests import parse_request
from nbdebug.journal.settings import changed_settings
from nbdebug.options import check_option_names
from nbdebug.result import Result
from nbdebug.validation import argument_error, validate_choice
from nbdebug.views.images import named_bars
from nbdebug.views.notebook_kernel import in_kernel

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

_Named = TypeVar("_Named", Hypothesis, Experiment)


class Journal(Result):
    """A problem, hypotheses and experiments in one file; off until ``open`` names it.

    Every call appends one entry and returns after the operating system has confirmed that it is on the disk: a process
    that is killed afterwards does not lose it. Entries are never changed, so the file fits version control; what
    another program has written there is read before each call. The page in a notebook adds entries, too.
    """

    has_chart: ClassVar[bool] = False

    def __init__(self) -> None:
        self._file: JournalFile | None = None
        self.is_open = False
        self._settings: dict[str, str] = {}

    @property
    def path(self) -> Path | None:
        """The file to which entries are written; None if it is not open."""
        return self._file.path if self._file is not None and self.is_open else None

    @property
    def entries(self) -> Sequence[Entry]:
        """All entries, oldest first."""
        return self._file.entries if self._file is not None else ()

    @check_option_names()
    def open(self, path: str | Path, *, problem: str = "") -> Journal:
        """Open a journal, or go on with an existing one, and return it.

        Raises SetupError for a file that is no journal or cannot be written.

        Args:
            path: The Markdown file, beside the notebook.
            problem: The problem in one sentence; also ``state_problem``.
        """
        self.is_open = False
        self._file = JournalFile(Path(path))
        self.is_open = True
        self._settings = next((dict(e.data["settings"]) for e in reversed(self.entries) if "settings" in e.data), {})
        if problem:
            self.state_problem(problem)
        return self

    def close(self) -> None:
        """Write no more entries."""
        self.is_open = False

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
        self._update()
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
        item = self._find_hypothesis(hypothesis)
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
            conclusion: What follows; also ``conclude`` later.
            hypothesis: The hypothesis that it tests, or its name.
            status: The status of that hypothesis from now on.
        """
        changes = (change,) if isinstance(change, str) else tuple(change)
        if not changes:
            raise argument_error("change", change, "the one thing that was changed", "Name it")
        tested = self._find_hypothesis(hypothesis) if hypothesis is not None else None
        name = tested.name if tested is not None else ""
        self._check_status(name, status)
        self._update()
        item = Experiment(f"E{len(self.experiments) + 1}", changes, before, after, conclusion, name)
        self._append("experiment", {**vars(item), "changes": list(changes)})
        if status is not None:
            self.decide(name, status, conclusion or f"by {item.name}")
        return item

    @check_option_names()
    def conclude(
        self,
        experiment: Experiment | str,
        conclusion: str,
        *,
        after: str = "",
        hypothesis: Hypothesis | str | None = None,
        status: Status | None = None,
    ) -> Experiment:
        """Add the conclusion of an experiment that stands in the journal, and return it.

        Args:
            experiment: The experiment, or its name, such as "E1".
            conclusion: What follows from it.
            after: What was seen after the change, if that is not written yet.
            hypothesis: The hypothesis that it tests, if that is not written yet; ``try_fix`` cannot know it.
            status: The status from now on of that hypothesis.
        """
        item = _find("experiment", experiment, self.experiments)
        tested = item.hypothesis if hypothesis is None else self._find_hypothesis(hypothesis).name
        self._check_status(tested, status)
        data = {"name": item.name, "after": after, "conclusion": conclusion, "hypothesis": tested}
        self._append("conclusion", data)
        if status is not None:
            self.decide(tested, status, conclusion or f"by {item.name}")
        return replace(item, after=after or item.after, conclusion=conclusion, hypothesis=tested)

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
        """The experiments in the order of time, with what was concluded last."""
        items: dict[str, Experiment] = {}
        for entry in self.entries:
            if entry.kind == "experiment":
                items[entry.data["name"]] = Experiment(**{**entry.data, "changes": tuple(entry.data["changes"])})
            elif entry.kind == "conclusion" and (item := items.get(entry.data["name"])) is not None:
                data = {**entry.data, "after": entry.data["after"] or item.after}
                items[item.name] = replace(item, **data)
        return tuple(items.values())

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Add what was entered in the page, and return its new state."""
        method, arguments = parse_request(request)
        self._update()
        if method:
            getattr(self, method)(**arguments)
        return {"state": self.view().state()}

    def view(self) -> View:
        """Return the page: problem, hypotheses, experiments and results, and forms that add to them."""
        from nbdebug.journal.view import JournalView

        return JournalView(self.path, self.problem, self.hypotheses, self.experiments, self.entries)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per entry: time, kind, text."""
        import pandas as pd

        return pd.DataFrame([(e.time, e.kind, entry_line(e)) for e in self.entries], columns=["time", "kind", "text"])

    def draw(self, ax: Axes) -> None:
        """Draw the number of hypotheses by status."""
        statuses = [item.status for item in self.hypotheses]
        named_bars(ax, STATUSES, [statuses.count(status) for status in STATUSES])
        ax.set_xlabel("hypotheses")

    def to_text(self) -> str:
        """Return the problem, the hypotheses by status, and a line for each other entry."""
        place = str(self.path) if self.path else "not open; dbg.journal.open(path) starts it"
        lines = [f"nbdebug journal: {place}"]
        lines += [f"problem: {self.problem}"] if self.problem else []
        for item in self.hypotheses:
            prior = f", prior {item.prior:g}" if item.prior is not None else ""
            lines.append(f"{item.name} {item.status}{prior}: {item.claim}")
        others = [entry for entry in self.entries if entry.kind not in ("problem", "hypothesis", "decision")]
        return "\n".join([*lines, *(f"{entry.time}  {entry_line(entry)}" for entry in others)])

    def _find_hypothesis(self, hypothesis: Hypothesis | str) -> Hypothesis:
        self._update()
        return _find("hypothesis", hypothesis, self.hypotheses)

    def _check_status(self, hypothesis: str, status: Status | None) -> None:
        """Raise SetupError for an unknown status, and for one without a hypothesis that it belongs to."""
        if status is not None:
            validate_choice("status", status, STATUSES)
            if not hypothesis:
                raise argument_error("status", status, "a hypothesis that it belongs to", "Pass hypothesis=")

    def _update(self) -> None:
        if self._file is not None:
            self._file.update()

    def _append(self, kind: str, data: dict[str, Any]) -> None:
        """Write an entry, and show it in the page; raise SetupError if the journal is not open."""
        if self._file is None or not self.is_open:
            raise SetupError("journal is not open; expected a file. Call dbg.journal.open('journal.md').")
        self._file.update()
        self._file.append(kind, data)
        if in_kernel():
            from nbdebug.views.kernel_bridge import send_state  # imports the widgets

            send_state(self, lambda: self.view().state())


def _find(kind: str, item: _Named | str, items: Sequence[_Named]) -> _Named:
    """Return the hypothesis or the experiment of a name; raise SetupError if there is none."""
    name = item if isinstance(item, str) else item.name
    by_name = {item.name: item for item in items}
    if name not in by_name:
        raise argument_error(kind, name, f"one of {', '.join(by_name) or 'none so far'}", "Add one")
    return by_name[name]
