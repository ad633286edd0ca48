"""Run two computations on the same inputs, and find the first module and operation at which they part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from nbdebug.exceptions import SetupError
from nbdebug.formatting import join_names
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.stop_requests import check_stop
from nbdebug.tools.agreement.causes import optimizer_causes, setting_causes
from nbdebug.tools.agreement.matching import Matching, is_equal
from nbdebug.tools.agreement.pairing import tensor_pairs, unequal_parameters
from nbdebug.tools.agreement.recording import RecordedTensor, Recording
from nbdebug.tools.agreement.result import PHASE_NAMES, Agreement, DivergencePlace, ModuleRow, Phase
from nbdebug.tools.agreement.sides import Side, copied, make_side, shared_inputs
from nbdebug.tools.agreement.tolerance import Deviation, NodeTolerances, RoundingNoise, tolerance, unit_roundoff
from nbdebug.views.late_screen import LateScreen

_NOISE_RUNS = 3
_MAX_NAMES = 3


@dataclass
class Round:
    """The runs of both sides in one mode, and the perturbed runs of the first."""

    mode: str
    first: Recording
    second: Recording
    perturbed: list[Recording]
    roundoff: float


class AgreementCheck:
    """Compares two sides, in eval mode and then in train mode."""

    def __init__(self, first: Side, second: Side, inputs: Any, screen: LateScreen) -> None:
        self.first, self.second, self.inputs, self.screen = first, second, inputs, screen
        self.checked: list[str] = []
        self.rows: tuple[ModuleRow, ...] = ()
        self.unequal: tuple[str, ...] = ()
        self.roundoff = 0.0

    def run(self) -> Agreement:
        """Return the first difference, or that there is none."""
        for mode in self.modes():
            runs = self.runs(mode)
            self.roundoff = runs.roundoff
            tolerances = NodeTolerances(runs.first, runs.perturbed, runs.roundoff)
            matching = Matching(runs.first, runs.second, tolerances.of_first)
            difference = self.compare(runs, matching, tolerances)
            self.rows = self.rows or _module_rows(runs.first, matching, tolerances)
            if difference is not None:
                return replace(difference, rows=_module_rows(runs.first, matching, tolerances), mode=mode)
        return Agreement(True, f"Both sides agree within rounding: {', '.join(self.checked)}.", rows=self.rows,
                         notes=self.unequal_notes(), roundoff=self.roundoff, checked=tuple(self.checked))  # fmt: skip

    def unequal_notes(self) -> tuple[str, ...]:
        """Return the note on parameters whose gradients are not compared."""
        if not self.unequal:
            return ()
        return (f"{join_names(self.unequal, _MAX_NAMES)} differ in value, so their gradients are not compared",)

    def modes(self) -> tuple[str, ...]:
        """Return the modes to compare: no train mode if a whole side is in eval mode, as for inference."""
        parts = [[part for m in side.modules.values() for part in m.modules()] for side in (self.first, self.second)]
        is_trained = all(any(part.training for part in side) or not side for side in parts)
        return ("eval", "train") if is_trained else ("eval",)

    def runs(self, mode: str) -> Round:
        """Run both sides, then the first side with rounding noise."""
        self.screen.report(f"running {self.first.name} in {mode} mode")
        first = record_side(self.first, self.inputs, mode)
        self.screen.report(f"running {self.second.name} in {mode} mode")
        second = self.record_second(mode, first)
        roundoff = unit_roundoff((first, second))
        perturbed = []
        for seed in range(_NOISE_RUNS):
            self.screen.report(
                f"running {self.first.name} in {mode} mode with rounding noise, {seed + 1} of {_NOISE_RUNS}"
            )
            perturbed.append(record_side(self.first, self.inputs, mode, RoundingNoise(roundoff, seed)))
        return Round(mode, first, second, perturbed, roundoff)

    def record_second(self, mode: str, first: Recording) -> Recording:
        """Run the second side."""
        return record_side(self.second, self.inputs, mode)

    def compare(self, runs: Round, matching: Matching, tolerances: NodeTolerances) -> Agreement | None:
        """Return the first difference of a round."""
        difference = self.compare_outputs(runs, matching, tolerances)
        if difference is None and runs.mode == "train":
            difference = self.compare_named(runs, "buffers")
        self.checked.append(f"forward in {runs.mode} mode")
        if difference is None and (runs.first.gradients or runs.second.gradients):
            difference = self.compare_named(runs, "backward", matching, tolerances)
            self.checked.append(f"backward in {runs.mode} mode")
        if difference is None and runs.mode == "train" and runs.first.updated and runs.second.updated:
            difference = self.compare_named(runs, "update")
            self.checked.append("update")
        return difference

    def compare_outputs(self, runs: Round, matching: Matching, tolerances: NodeTolerances) -> Agreement | None:
        """Compare the outputs one by one; locate the first that differs."""
        first, second = runs.first.outputs, runs.second.outputs
        if len(first) != len(second):
            text = f"{self.first.name} returns {len(first)} tensors and {self.second.name} returns {len(second)}."
            return Agreement(False, text, "forward", roundoff=runs.roundoff, checked=tuple(self.checked))
        for number, (one, other) in enumerate(zip(first, second, strict=True)):
            limit = tolerances.of_value(one)
            if not is_equal(one.value, other.value, limit):
                return self.located(runs, matching, tolerances, one, other, f"output {number}")
        return None

    def located(
        self,
        runs: Round,
        matching: Matching,
        tolerances: NodeTolerances,
        one: RecordedTensor,
        other: RecordedTensor,
        tensor: str,
    ) -> Agreement:
        """Return the difference of an output with the operation that it comes from."""
        is_opaque = runs.second.is_opaque or runs.first.is_opaque
        hidden = self.second.name if runs.second.is_opaque else self.first.name
        root = None if is_opaque else matching.first_unmatched(one)
        reason = runs.second.hidden_reason or runs.first.hidden_reason
        notes = (f"{hidden} {reason}, so only its output is compared",) if is_opaque else ()
        place = _place(root, self.first) if root is not None else DivergencePlace()
        reverse = Matching(runs.second, runs.first, tolerances.of_second)
        counterpart = None if is_opaque else reverse.first_unmatched(other)
        second_place = _place(counterpart, self.second) if counterpart is not None else DivergencePlace()
        is_earlier = _parts_earlier(root, counterpart, runs.first, reverse) or _adds_to_module(
            root, counterpart, runs.first, matching
        )
        if is_earlier and _has_module(self.first, second_place.module):
            place = DivergencePlace(second_place.operation, second_place.module, _kind(self.first, second_place.module))
        causes = []
        if root is not None and (name := matching.unmatched_parameter(root)):
            causes.append(f"no tensor of {self.second.name} has the values of {name} of {self.first.name}")
        causes += setting_causes(self.first, self.second, place.module, second_place.module)
        is_same_shape = one.value.shape == other.value.shape
        deviation = Deviation.between(one.value, other.value.to(one.value.device)) if is_same_shape else None
        if deviation is None:
            causes.append(f"the shapes are {tuple(one.value.shape)} and {tuple(other.value.shape)}")
        limit = tolerances.of_value(one)
        return self.difference("forward", runs, tensor, place, second_place, deviation, limit, causes, notes)

    def compare_named(
        self, runs: Round, phase: Phase, matching: Matching | None = None, tolerances: NodeTolerances | None = None
    ) -> Agreement | None:
        """Compare the buffers, the gradients or the changes of the parameters, those of the last modules first."""
        pairs = tensor_pairs(self.first, self.second, phase)
        if phase != "buffers":
            self.unequal = unequal_parameters(self.first, self.second, runs.roundoff)
            pairs = [(name, other) for name, other in pairs if name != other or name not in self.unequal]
        mine, theirs = _named(runs.first, phase), _named(runs.second, phase)
        mine, theirs = self.changes(mine, theirs, phase)
        for name, other in pairs:
            if name not in mine and other not in theirs:
                continue
            if name not in mine or other not in theirs:
                return self.missing(runs, phase, name, name in mine, matching, tolerances)
            others = [self.changes(_named(run, phase), {}, phase, run)[0].get(name) for run in runs.perturbed]
            limit = tolerance(mine[name], others, runs.roundoff)
            if not is_equal(mine[name], theirs[other], limit):
                return self.named_difference(
                    runs, phase, name, other, mine[name], theirs[other], limit, matching, tolerances
                )
        return None

    def changes(
        self, mine: dict[str, Tensor], theirs: dict[str, Tensor], phase: Phase, run: Recording | None = None
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the changes by the update instead of the new values, so that the weights do not hide them."""
        if phase != "update":
            return mine, theirs
        before = [side.make(copied(self.inputs, side.device, None)).parameters() for side in (self.first, self.second)]
        return tuple(
            {name: value.double() - start[name].detach().double() for name, value in values.items()}
            for values, start in zip((mine, theirs), before, strict=True)
        )  # type: ignore[return-value]

    def missing(
        self, runs: Round, phase: Phase, name: str, is_in_first: bool, matching: Any, tolerances: Any
    ) -> Agreement:
        """Return the difference that only one side has a gradient."""
        side = self.first if is_in_first else self.second
        place = self.gradient_place(runs, matching, tolerances) or _parameter_place(name, self.first)
        causes = [f"only {side.name} has a gradient of {name}"]
        return self.difference(phase, runs, name, place, place, None, Deviation(), causes)

    def named_difference(
        self, runs: Round, phase: Phase, name: str, other: str, mine: Tensor, theirs: Tensor, limit: Deviation,
        matching: Matching | None, tolerances: NodeTolerances | None,
    ) -> Agreement:  # fmt: skip
        """Return the difference of a parameter's gradient or change, or of a buffer."""
        place = self.gradient_place(runs, matching, tolerances) or _parameter_place(name, self.first)
        second = _parameter_place(other, self.second)
        if self.unequal and phase != "buffers":  # a weight differs whose effect on the output is within the tolerance
            place, second = (_parameter_place(self.unequal[0], side) for side in (self.first, self.second))
        what = {"buffers": name, "backward": f"the gradient of {name}", "update": f"the change of {name}"}[phase]
        if phase == "update":
            computations = [side.make(copied(self.inputs, side.device, None)) for side in (self.first, self.second)]
            causes = optimizer_causes(computations[0], computations[1], name, other)
        else:
            causes = setting_causes(self.first, self.second, place.module, second.module)
        if phase != "buffers":
            causes += [f"the values of {parameter} differ" for parameter in self.unequal[:_MAX_NAMES]]
        deviation = Deviation.between(mine, theirs.to(mine.device)) if mine.shape == theirs.shape else None
        return self.difference(phase, runs, what, place, second, deviation, limit, causes)

    def gradient_place(
        self, runs: Round, matching: Matching | None, tolerances: NodeTolerances | None
    ) -> DivergencePlace | None:
        """Return the operation whose backward pass differs: only the gradients before it do."""
        if matching is None or tolerances is None:
            return None
        pairs = [(node, matching.partner(node)) for node in runs.first.nodes]
        pairs = [(n, p) for n, p in pairs if p is not None and n.value.shape == p.value.shape]
        if lost := [n for n, p in pairs if (n.gradient is None) != (p is None or p.gradient is None)]:
            return _place(lost[0], self.first)  # behind it, all gradients of one side are missing
        for node, partner in reversed(pairs):
            if node.gradient is None or partner is None or partner.gradient is None:
                continue
            if not is_equal(node.gradient, partner.gradient, tolerances.of_gradient(node)):
                users, their_users = _consumers(node, runs.first), _consumers(partner, runs.second)
                # Without a consumer, a function that torch does not show follows, such as an autograd.Function.
                return _place(users[0] if users and their_users else node, self.first)
        return None

    def difference(
        self, phase: Phase, runs: Round, tensor: str, first: DivergencePlace, second: DivergencePlace,
        deviation: Deviation | None, limit: Deviation, causes: list[str], notes: tuple[str, ...] = (),
    ) -> Agreement:  # fmt: skip
        """Return the result for a difference."""
        size = deviation.typical if deviation is not None else float("nan")
        name = PHASE_NAMES[phase]
        return Agreement(
            agrees=False,
            headline=f"a and b part in the {name} ({runs.mode} mode), first at {first.name}.",
            phase=phase,
            tensor=tensor,
            first=first,
            second=second,
            difference=size,
            tolerance=limit.typical,
            causes=tuple(dict.fromkeys([*causes, *runs.second.remarks.get(phase, ())])),
            notes=notes,
            roundoff=runs.roundoff,
            checked=(*self.checked, name),
        )


def record_side(side: Side, inputs: Any, mode: str, perturb: Any = None) -> Recording:
    """Run one side once from its present state, with dropout off, and restore it."""
    check_stop()
    with Preserve(*side.objects), UserCodeErrors(f"in the {mode} pass of {side.name}".format):
        for module in side.modules.values():
            module.train(mode == "train")
        _disable_dropout(side.modules.values())
        seed_all(0)
        computation = side.make(copied(inputs, side.device, perturb))
        with torch.enable_grad():
            return computation.record(perturb)


def compare_computations(first: Any, second: Any, inputs: Any = None) -> Agreement:
    """Compare two models, functions or setups on the same inputs; everything of theirs is restored.

    Raises SetupError without inputs, for sides of other types, and if one of them cannot be run.
    """
    sides = make_side(first, "a"), make_side(second, "b")
    with unconsumed(first, second):
        shared = shared_inputs(first, second, inputs)
        if not any(side.modules for side in sides) and not callable(first):
            raise SetupError("neither side has a model; expected one. Pass models or functions that call them.")
        with LateScreen("Comparison") as screen:
            result = AgreementCheck(*sides, shared, screen).run()
            screen.finish(result)
    return result


@contextmanager
def unconsumed(*items: Any) -> Iterator[None]:
    """Restore the loaders of setups after the block."""
    setups = [getattr(item, "setup", item) for item in items]
    loaders = [getattr(setup, "train_loader", None) for setup in setups if not isinstance(setup, nn.Module)]
    with Preserve(loaders=loaders):
        yield


def _disable_dropout(modules: Any) -> None:
    """Set the rates of all dropout layers to zero; Preserve restores them."""
    for part in (part for module in modules for part in module.modules()):
        if isinstance(part, _DropoutNd):
            part.p = 0.0
        elif isinstance(part, (nn.RNNBase, nn.MultiheadAttention)):
            part.dropout = 0.0


def _place(node: RecordedTensor | None, side: Side) -> DivergencePlace:
    """Return the place of a node."""
    if node is None:
        return DivergencePlace()
    return DivergencePlace(node.operation, node.module, _kind(side, node.module), node.line)


def _parameter_place(name: str, side: Side) -> DivergencePlace:
    module = name.rpartition(".")[0]
    return DivergencePlace("", module, _kind(side, module))


def _kind(side: Side, path: str) -> str:
    return next((type(parts[path]).__name__ for parts in _parts(side) if path in parts), "")


def _has_module(side: Side, path: str) -> bool:
    return any(path in parts for parts in _parts(side))


def _parts(side: Side) -> list[dict[str, nn.Module]]:
    """Return the modules of a side by path."""
    return [dict(module.named_modules(prefix=prefix)) for prefix, module in side.modules.items()]


def _consumers(node: RecordedTensor, recording: Recording) -> list[RecordedTensor]:
    """Return the operations that read a node and have a gradient."""
    return [user for user in recording.nodes if user.gradient is not None and any(n is node for n in user.inputs)]


def _parts_earlier(
    root: RecordedTensor | None, counterpart: RecordedTensor | None, first: Recording, reverse: Matching
) -> bool:
    """Return whether the second side parts from results that the first side has before those that its root reads."""
    if root is None or counterpart is None:
        return False
    order = {id(node): number for number, node in enumerate(first.nodes)}
    mine = [order[id(node)] for node in root.inputs if not node.is_leaf]
    theirs = [reverse.equals(node) for node in counterpart.inputs if not node.is_leaf]
    earliest = [min(order[id(node)] for node in equal if id(node) in order) for equal in theirs if equal]
    return bool(mine) and bool(earliest) and max(earliest) < max(mine)


def _adds_to_module(
    root: RecordedTensor | None, counterpart: RecordedTensor | None, first: Recording, matching: Matching
) -> bool:
    """Return whether the second side adds an operation to a module all of whose results on the first side agree."""
    if root is None or counterpart is None or counterpart.module in ("", root.module):
        return False
    order = {id(node): number for number, node in enumerate(first.nodes)}
    nodes = [node for node in first.nodes if node.module == counterpart.module]
    return bool(nodes) and all(order[id(n)] < order[id(root)] and matching.partner(n) is not None for n in nodes)


def _named(run: Recording, phase: Phase) -> dict[str, Tensor]:
    return {"buffers": run.buffers, "backward": run.gradients, "update": run.updated}[phase]


def _module_rows(recording: Recording, matching: Matching, tolerances: NodeTolerances) -> tuple[ModuleRow, ...]:
    """Return one row for each module that computed something, in the order of execution."""
    ratios: dict[str, float] = {}
    counts, matched = Counter[str](), Counter[str]()
    for node in recording.nodes:
        counts[node.module] += 1
        partner = matching.partner(node)
        ratio = 0.0
        if partner is not None:
            matched[node.module] += 1
            if partner.value.shape == node.value.shape:
                ratio = Deviation.between(node.value, partner.value.to(node.value.device)).ratio(
                    tolerances.of_value(node)
                )
        ratios[node.module] = max(ratios.get(node.module, 0.0), min(ratio, 1e9))
    return tuple(ModuleRow(name, counts[name], matched[name], ratios[name]) for name in counts)
