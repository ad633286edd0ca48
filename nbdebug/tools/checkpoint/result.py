"""Result of the check of a checkpoint as plain data, and its view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nbdebug.result import Result
from nbdebug.views.table import Column, FoldableTable, TableRow, TextCell

if TYPE_CHECKING:
    import pandas

    from nbdebug.views.page import View

Verdict = Literal["complete", "incomplete", "weights only", "another architecture", "unusable"]
PartStatus = Literal["restored", "stored", "not needed", "missing", "not loaded", "changed", "rejected", "unknown"]
FAULTY: tuple[PartStatus, ...] = ("missing", "not loaded", "changed", "rejected")
RANDOM_STATE = "random state"
_TEXTS = {
    "restored": "equal after loading, in every bit",
    "stored": "in the checkpoint, with other values than now",
    "not needed": "not in the checkpoint, and without effect on the next step",
    "missing": "not in the checkpoint",
    "not loaded": "in the checkpoint, but load() leaves it as it was",
    "changed": "not as saved after loading",
    "rejected": "in the checkpoint, but load_state_dict() raises an error",
    "unknown": "not compared, as the training steps do not change it",
}


@dataclass(frozen=True)
class PartCheck:
    """One part of the training state: its status after loading, the first entry that differs, and its name in code."""

    name: str
    status: PartStatus
    difference: str = ""
    code: str = ""

    @property
    def text(self) -> str:
        """The status in words."""
        first = f": {self.difference}" if self.difference and self.status in FAULTY else ""
        return f"{_TEXTS[self.status]}{first}"


@dataclass(frozen=True)
class NextSteps:
    """The losses of the next steps after saving and after loading, and the largest difference of outputs and weights.

    ``output`` and ``update`` are relative: to the largest output, and to the change of the weights in these steps. They
    are 0 if equal in every bit; ``output`` is None with a ``step_fn``.
    """

    saved_losses: tuple[float, ...]
    loaded_losses: tuple[float, ...]
    output: float | None
    update: float

    @property
    def text(self) -> str:
        """The comparison as a sentence."""
        count = len(self.saved_losses)
        if not self.output and not self.update and self.saved_losses == self.loaded_losses:
            return f"Outputs and the next {count} steps are equal in every bit."
        output = f"the outputs differ by {self.output:.2g} of the largest, and " if self.output else ""
        return f"After loading, {output}the next {count} updates of the weights differ by {100 * self.update:.2g}%."


@dataclass(frozen=True)
class CheckpointCheck(Result):
    """Whether training resumes from a checkpoint as it would have continued, and what the checkpoint lacks.

    ``verdict`` is "weights only" if the checkpoint contains no state but that of the model, as one for inference does.
    ``fault`` is the reason why a checkpoint is unusable or belongs to another architecture, ``alternative`` the newest
    other checkpoint next to it that can be read. ``steps`` compares the next steps; None if they could not be run.
    """

    has_chart = False

    verdict: Verdict
    path: str
    parts: tuple[PartCheck, ...] = ()
    fault: str = ""
    alternative: str = ""
    steps: NextSteps | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def faulty_parts(self) -> tuple[PartCheck, ...]:
        """The parts that are not restored, without the random state, which repeats only if it is meant to."""
        return tuple(part for part in self.parts if part.status in FAULTY and part.name != RANDOM_STATE)

    @property
    def headline(self) -> str:
        """The verdict as a sentence."""
        if self.fault:
            return f"{self.path} {self.fault}."
        names = ", ".join(part.name for part in self.faulty_parts)
        texts = {
            "complete": "Training resumes from this checkpoint as it would have continued.",
            "weights only": f"The checkpoint contains the weights alone: enough for inference. To resume: {names}.",
        }
        lost = f"{names} not restored" if names else "the next steps differ"
        return texts.get(self.verdict, f"Training does not resume as it would have continued: {lost}.")

    @property
    def code(self) -> str:
        """The code that saves and loads the parts that are not restored; empty if there are none."""
        lacking = [part for part in self.faulty_parts if part.status == "missing"]
        saved = ", ".join(f'"{part.code}": {part.code}.state_dict()' for part in lacking)
        lines = [f"torch.save({{..., {saved}}}, path)"] if saved else []
        return "\n".join([*lines, *(f'{p.code}.load_state_dict(checkpoint["{p.code}"])' for p in self.faulty_parts)])

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per part of the training state."""
        import pandas as pd

        rows = [(part.name, part.status, part.difference) for part in self.parts]
        return pd.DataFrame(rows, columns=["part", "status", "difference"])

    def view(self) -> View:
        """A table of the parts below the verdict."""
        rows = [TableRow(p.name, (TextCell(p.status, tone=self._tone(p)), p.text)) for p in self.parts]
        tone = "error" if self.fault else "warning" if self.verdict == "incomplete" else "good"
        return FoldableTable(
            title="Checkpoint",
            status=self.path,
            columns=(Column("part"), Column("status"), Column("meaning")),
            rows=rows,
            notice=(self.headline, tone),  # type: ignore[arg-type]
            note=" ".join(self._remarks()),
            noun="parts",
        )

    def _tone(self, part: PartCheck) -> Literal["good", "error", "note", "soft"]:
        if part in self.faulty_parts:
            return "error"
        return "good" if part.status in ("restored", "stored") else "note" if part.status in FAULTY else "soft"

    def _remarks(self) -> Sequence[str]:
        """Return the next act, the comparison of the next steps, and the notes as sentences."""
        remarks = [f"{self.alternative} is whole: load that one."] if self.alternative else []
        return [*remarks, *([self.steps.text] if self.steps else []), *self.notes]

    def to_text(self) -> str:
        """The verdict, the status of each part, the code to write, and the comparison of the next steps."""
        lines = [f"nbdebug checkpoint: {self.headline}"]
        lines += [f"  {part.name}: {part.text}" for part in self.parts]
        lines += [f"  fix: {line}" for line in self.code.splitlines()]
        lines += [f"  {remark}" for remark in self._remarks()]
        return "\n".join([*lines, f"  {self.seconds:.1f} s; everything is restored"])
