"""Text and code of an optimizer comparison: headline, reasons, notes, and the code of a candidate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch.optim import Optimizer

from nbdebug.setup import Setup
from nbdebug.setup.optimizer_code import optimizer_code
from nbdebug.tools.compare_optimizers.candidates import SCHEDULE_CODE, OptimizerCandidate, has_momentum
from nbdebug.tools.compare_optimizers.result import CandidateResult, ComparisonVerdict
from nbdebug.training.hyperparameters import rates_code

_GROUPS_CODE = '[{"params": group["params"]} for group in optimizer.param_groups]'
_GROUPS_WITH_RATES_CODE = (
    '[{{"params": group["params"], "lr": rate}} for group, rate in zip(optimizer.param_groups, {rates})]'
)


def headline(entries: Sequence[CandidateResult], verdict: ComparisonVerdict, criterion: str, steps: int) -> str:
    """Return the outcome in one sentence."""
    if verdict == "stopped":
        return "Stopped before there were results to compare."
    if verdict == "none":
        return f"No candidate learns significantly in {steps} steps."
    best, tied = entries[0], [entry for entry in entries if entry.rank == 1]
    loss = f"{'validation' if criterion == 'val' else 'training'} loss"
    if verdict == "clear":
        return (
            f"{_name_with_rate(best)} has the lowest {loss}: {_ranking_loss(best, criterion):.4g} after {steps} steps."
        )
    lowest, highest = (
        min(_ranking_loss(entry, criterion) for entry in tied),
        max(_ranking_loss(entry, criterion) for entry in tied),
    )
    names = _join_names([entry.name for entry in tied])
    return f"{names} are tied: {loss} {lowest:.4g} to {highest:.4g} after {steps} steps."


def reasons(entries: Sequence[CandidateResult], verdict: ComparisonVerdict, criterion: str) -> Iterator[str]:
    """Yield arguments for the outcome and reservations about it."""
    if verdict == "none":
        yield "run overfit() to test whether the model can learn at all, and checkup() for the reasons"
    if verdict == "tie":
        yield "use more seeds to detect smaller differences, if they matter"
    if verdict in ("clear", "tie"):
        yield from _user_optimizer_reasons(entries)
        yield from _runner_up_reasons(entries, verdict, criterion)
    if diverged := [entry for entry in entries if entry.diverged_runs]:
        yield _join_names([f"{entry.name} {entry.state_text}" for entry in diverged])
    if unstable := [entry.name for entry in entries if not entry.stable and not entry.diverged_runs]:
        yield (
            f"{_join_names(unstable)}: the loss rose by more than a quarter of its total decrease; "
            "try a lower learning rate"
        )
    if not_learning := [entry.name for entry in entries if entry.state == "does not learn" and verdict != "none"]:
        yield f"{_join_names(not_learning)}: the loss did not decrease significantly"
    if still_decreasing := [entry.name for entry in entries if entry.still_decreasing]:
        yield (
            f"{_join_names(still_decreasing)}: the loss was still decreasing at the end; "
            "with more steps the order may change"
        )


def _user_optimizer_reasons(entries: Sequence[CandidateResult]) -> Iterator[str]:
    """Yield the advice about the user's own optimizer."""
    user_entry = next((entry for entry in entries if entry.origin == "yours"), None)
    if user_entry is None or user_entry.rank == 0:
        return
    if user_entry.rank == 1:
        yield "no candidate is significantly better than your optimizer: keep it"
    else:
        better_count = user_entry.rank - 1
        yield (
            f"your optimizer is worse than {'all' if better_count == len(entries) - 1 else better_count} of the "
            f"{len(entries) - 1} others"
        )


def _runner_up_reasons(entries: Sequence[CandidateResult], verdict: ComparisonVerdict, criterion: str) -> Iterator[str]:
    """Yield the loss of the runner-up."""
    runners_up = [entry for entry in entries if entry.rank > 1 and entry.state == "learns"]
    if verdict == "clear" and runners_up:
        yield f"the next best is {_name_with_rate(runners_up[0])} with {_ranking_loss(runners_up[0], criterion):.4g}"


def notes(
    setup: Setup, entries: Sequence[CandidateResult], steps: int, seeds: int, validation_samples: int
) -> Iterator[str]:
    """Yield how the candidates were compared, and the limits of the comparison."""
    yield "all candidates start from your weights and use the same batches; a seed changes batch order and dropout only"
    if validation_samples:
        yield f"the validation loss is measured on the same {validation_samples} samples each time, in eval mode"
    if seeds == 1:
        yield "one seed: the intervals include the noise of its batches, but not of other orders; pass seeds=3"
    if any(entry.origin == "default" for entry in entries):
        names = _join_names([entry.name for entry in entries if entry.origin == "default"])
        yield f"no learning rate was found for {names}, so torch's default was used; pass rates={{name: rate}}"
    if setup.scheduler is not None:
        yield "your own schedule is not used: it is made for your full training, not for these few steps"
    yield (
        f"{steps} steps favor fast initial progress: small learning rates and late decay look worse than in full "
        "training (Wu et al. 2018, arXiv:1803.02021)"
    )


def _ranking_loss(entry: CandidateResult, criterion: str) -> float:
    """Return the loss that a candidate is ranked by."""
    loss = entry.val if criterion == "val" else entry.train
    return float("nan") if loss is None else loss


def _name_with_rate(entry: CandidateResult) -> str:
    return entry.name if entry.rate is None else f"{entry.name} at {entry.rate:.2g}"


def _join_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def candidate_code(candidate: OptimizerCandidate) -> str:
    """Return code for the optimizer as it ran, and for its schedule over ``steps`` steps, stepped after every batch."""
    optimizers = candidate.optimizers()
    lines = [
        _optimizer_code(optimizer, f"optimizer{i if len(optimizers) > 1 else ''}")
        for i, optimizer in enumerate(optimizers)
    ]
    if candidate.origin == "yours":
        lines = ["# your optimizer, unchanged"] if len(optimizers) == 1 else ["# your optimizers, unchanged"]
    if candidate.schedule is None:
        return "\n".join(lines)
    text = SCHEDULE_CODE.get(candidate.schedule_name, f"# and your schedule {candidate.schedule_name!r}")
    plain = "" if all(map(has_momentum, optimizers)) else ", cycle_momentum=False"
    return "\n".join([*lines, text.format(rates=rates_code(_group_rates(optimizers[0])), plain=plain)])


def _optimizer_code(optimizer: Optimizer, name: str) -> str:
    """Return code for an optimizer with all non-default settings."""
    rate = float(f"{_group_rates(optimizer)[0]:.2g}")
    return f"{name} = {optimizer_code(optimizer, _parameters_code(optimizer), rate)}"


def _parameters_code(optimizer: Optimizer) -> str:
    """Return code for the parameters: all of them, or the user's groups with their own rates."""
    if len(optimizer.param_groups) == 1:
        return "model.parameters()"
    return (
        _GROUPS_CODE
        if len(set(_group_rates(optimizer))) == 1
        else _GROUPS_WITH_RATES_CODE.format(rates=rates_code(_group_rates(optimizer)))
    )


def _group_rates(optimizer: Optimizer) -> list[float]:
    return [float(group.get("lr", 0.0)) for group in optimizer.param_groups]
