"""Which steps of a loop are inspected, and in which the graphs are marked."""

from __future__ import annotations

from dataclasses import dataclass

# The first steps are all tracked and their graphs marked; later at least one step in 16.
FULLY_TRACKED_STEPS, _MAX_STEPS_BETWEEN_TRACKED = 64, 16
ALWAYS_INSPECTED_STEPS = 8  # steps that are all inspected; later ones at powers of two
_MAX_INSPECTED_PASSES = 32  # inspected backward passes between two steps


@dataclass
class InspectionPlan:
    """The plan of the current step; inspecting synchronizes the device, and marking a graph costs less."""

    is_inspection_due: bool = True
    marks_graphs: bool = True
    inspected_passes: int = 0
    last_marked_step: int = 0

    @property
    def is_inspecting(self) -> bool:
        """True if this step is inspected, and the next backward pass too."""
        return self.is_inspection_due and self.inspected_passes < _MAX_INSPECTED_PASSES

    def plan_next_step(self, steps: int, *, had_all_events: bool) -> None:
        """Plan the step after ``steps`` steps; the last one had marks only if all its events were recorded."""
        self.is_inspection_due = steps < ALWAYS_INSPECTED_STEPS or steps & (steps - 1) == 0
        if self.marks_graphs and had_all_events:
            self.last_marked_step = steps
        is_mark_due = steps - self.last_marked_step >= _MAX_STEPS_BETWEEN_TRACKED
        self.marks_graphs, self.inspected_passes = steps < FULLY_TRACKED_STEPS or is_mark_due, 0
