"""Optimizer steps on batches of the validation loader."""

from __future__ import annotations

from collections import Counter

import torch


class ValidationStepCounter:
    """Counts the steps of each optimizer by the loader that their batches come from, in all steps of a loop.

    A step counts for validation if only validation batches were drawn since the previous step, all passes with
    gradients were on them, and a backward pass followed; so batches of an evaluation, or drawn beside training batches,
    do not. A pass on a batch that was evaluated without gradients before is taken to use other data.
    """

    def __init__(self) -> None:
        self.drawn, self.passes = Counter[str](), Counter[str]()
        self.split, self.is_evaluated, self.backward_passes = "", False, 0
        self.steps: dict[int, Counter[str]] = {}

    def on_batch(self, split: str) -> None:
        """Record a batch by its split: "train", "val" or "" for another loader."""
        self.drawn[split] += 1
        self.split, self.is_evaluated = split, False

    def on_forward_begin(self, split: str) -> None:
        """Record a forward pass by the split of its input, the latest batch unless that is known."""
        if not torch.is_grad_enabled():
            self.is_evaluated = True
        else:
            self.passes["" if self.is_evaluated and split == self.split else split] += 1

    def on_backward(self) -> None:
        """Record a backward pass."""
        self.backward_passes += self.split == "val"

    def on_step_end(self, optimizer: torch.optim.Optimizer) -> None:
        """Record a step."""
        split = "val" if self.uses_only_validation else "train" if "train" in self.drawn else ""
        if (key := id(optimizer)) not in self.steps:
            self.steps[key] = Counter()
        self.steps[key][split] += 1
        self.drawn.clear()
        self.passes.clear()
        self.backward_passes = 0

    @property
    def uses_only_validation(self) -> bool:
        """True if all batches since the previous step are of the validation loader, and were used for the step."""
        drawn, passes = self.drawn.get("val", 0), self.passes.get("val", 0)
        if not (drawn or passes) or self.drawn.total() != drawn:
            return False
        if not self.passes:  # of the whole model
            return self.backward_passes >= drawn > 0
        used = passes == drawn or self.backward_passes >= passes
        return self.passes.total() == passes and self.backward_passes > 0 and used

    @property
    def steps_on_validation(self) -> int:
        """Steps on validation batches by optimizers that also step on training batches; all if none does.

        An optimizer with validation batches of its own, such as that of an architecture search, does not count.
        """
        trains = any(steps["train"] for steps in self.steps.values())
        return sum(steps["val"] for steps in self.steps.values() if steps["train"] or not trains)
