"""Guide: a walk through the checklist on one setup, which runs each tool and explains its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from nbdebug.checklist.answers import SIGNS, GuidedDebugger, StepAnswer, StepProgress, last_result, read_answers
from nbdebug.checklist.steps import STEPS, Step
from nbdebug.exceptions import SetupError
from nbdebug.result import Result
from nbdebug.validation import validate_choice
from nbdebug.views.images import named_bars
from nbdebug.views.panel import find_handler

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View


@dataclass(eq=False)
class Guide(Result):
    """A walk through the checklist; it runs the tools of a Debugger, and reads the answers that the Debugger has.

    A tool that was called elsewhere counts as done. ``skipped`` are the steps to leave out, ``position`` is the open
    step. A pickled copy has the answers, but runs nothing.
    """

    _live_fields: ClassVar[tuple[str, ...]] = ("_debugger",)
    has_chart: ClassVar[bool] = False

    _debugger: GuidedDebugger | None = field(repr=False)
    skipped: set[str] = field(default_factory=set)
    position: str = STEPS[0].name
    _copied_answers: dict[str, StepAnswer] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if export := self._last_export:
            self.skipped, self.position = set(export["skipped"]), export["position"]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_copied_answers": self.answers}

    @property
    def answers(self) -> dict[str, StepAnswer]:
        """The last answer of each step that is done, by the name of the step."""
        return self._copied_answers if self._debugger is None else read_answers(self._debugger)

    @property
    def steps(self) -> list[StepProgress]:
        """All steps in order, each with its status and its answer, now or at the last export."""
        answers, headlines = self.answers, self._last_export.get("headlines", {})
        return [self._step_state(step, answers.get(step.name), headlines.get(step.name, "")) for step in STEPS]

    @property
    def headline(self) -> str:
        """How many steps are done, and the next one."""
        pending = self._pending_step()
        upcoming = f"next: {pending.name}. {pending.question}" if pending else "no step is left"
        return f"{self._done_text}; {upcoming}"

    def run(self, step: str | None = None) -> Result:
        """Run a step, also again, and return the result of its tool.

        Raises SetupError for an unknown name, if no step is left, and as the tool does.

        Args:
            step: The name of the step; by default the next one that is not done.
        """
        chosen = self._step_or_pending(step)
        if chosen is None:
            raise SetupError("guide has no step left; expected a name. Call guide.run('checkup') to repeat that step.")
        debugger = self._live_debugger()
        self.position = chosen.name
        self.skipped.discard(chosen.name)
        result: Result | None = last_result(debugger, chosen) if chosen.loop else getattr(debugger, chosen.name)()
        if result is None:
            raise SetupError(f"dbg.{chosen.name}() has no run; expected one. Run this in a cell:\n{chosen.loop}")
        return result

    def skip(self, step: str | None = None) -> Guide:
        """Leave a step out, or take it back if it was left out, and return this guide.

        Args:
            step: The name of the step; by default the next one that is not done.
        """
        chosen = self._step_or_pending(step)
        if chosen is not None:
            self.position = chosen.name
            self.skipped ^= {chosen.name}
            pending = self._pending_step()
            self.position = pending.name if pending is not None and chosen.name in self.skipped else chosen.name
        return self

    def export(self) -> Guide:
        """Append the steps, their answers and the position to the journal, from which a later session goes on.

        Raises SetupError if ``dbg.journal`` is not open.
        """
        headlines = {state.step.name: state.headline for state in self.steps if state.headline}
        self._live_debugger().journal.add_guide(self.position, sorted(self.skipped), headlines)
        return self

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Handle a click in the view, and return its new state."""
        find_handler(_HANDLERS, request)(self, request)
        return {"state": self.view().state()}

    def view(self) -> View:
        """Return the page: the steps, and the open one with its answer."""
        from nbdebug.checklist.view import GuideView

        return GuideView(self.steps, self._done_text, self.position)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per step: step, question, status, answer, codes of the findings."""
        import pandas as pd

        rows = [
            (state.step.name, state.step.question, state.status, state.headline, ", ".join(state.codes))
            for state in self.steps
        ]
        return pd.DataFrame(rows, columns=["step", "question", "status", "answer", "codes"])

    def draw(self, ax: Axes) -> None:
        """Draw the number of steps by status."""
        statuses = [state.status for state in self.steps]
        named_bars(ax, [*SIGNS], [statuses.count(status) for status in SIGNS])
        ax.set_xlabel("steps")

    def to_text(self) -> str:
        """Return the steps with their answers, and the open step in full."""
        states = self.steps
        lines = [f"nbdebug guide: {self.headline}", ""]
        lines += [
            f"{SIGNS[state.status]} {state.step.name}: {state.headline or state.step.question}" for state in states
        ]
        state = next(state for state in states if state.step.name == self.position)
        lines += ["", state.step.question, state.step.why]
        if state.answer is None:
            code = (f"    {line}" for line in state.step.code.split("\n"))
            return "\n".join([*lines, f"Run this; it takes {state.step.duration}:", *code])
        return "\n".join([*lines, "", *map(str, state.findings), state.meaning])

    @property
    def _last_export(self) -> Mapping[str, Any]:
        """The last export in the journal: position, skipped steps, and headlines by step; empty if there is none."""
        entries = self._debugger.journal.entries if self._debugger is not None else []
        return next((entry.data for entry in reversed(entries) if entry.kind == "guide"), {})

    @property
    def _done_text(self) -> str:
        return f"{len(self.answers)} of {len(STEPS)} steps done"

    def _step_state(self, step: Step, answer: StepAnswer | None, last_headline: str) -> StepProgress:
        if answer is not None:
            return StepProgress(step, answer.verdict, answer.headline, answer)
        return StepProgress(step, "skipped" if step.name in self.skipped else "open", last_headline)

    def _step_or_pending(self, name: str | None) -> Step | None:
        return _find_step(name) if name is not None else self._pending_step()

    def _pending_step(self) -> Step | None:
        """Return the next step from the open one on that is neither done nor skipped; after the last, the first one."""
        at, done = STEPS.index(_find_step(self.position)), self.answers
        order = (*STEPS[at:], *STEPS[:at])
        return next((step for step in order if step.name not in done and step.name not in self.skipped), None)

    def _live_debugger(self) -> GuidedDebugger:
        if self._debugger is None:
            raise SetupError("guide is a copy without its Debugger; expected one. Call dbg.guide().")
        return self._debugger


def _find_step(name: object) -> Step:
    """Return a step by its name; raise SetupError for an unknown one."""
    validate_choice("step", name, [step.name for step in STEPS])
    return next(step for step in STEPS if step.name == name)


def _open_step(guide: Guide, request: Mapping[str, Any]) -> None:
    guide.position = _find_step(request.get("step")).name


_HANDLERS: dict[str, Callable[[Guide, Mapping[str, Any]], object]] = {
    "state": lambda guide, request: None,
    "open": _open_step,
    "run": lambda guide, request: guide.run(request.get("step")),
    "skip": lambda guide, request: guide.skip(request.get("step")),
    "export": lambda guide, request: guide.export(),
}
