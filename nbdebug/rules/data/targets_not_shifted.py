"""D126: a next-token model is given its own input as target, or a target that is shifted twice."""

from __future__ import annotations

from collections.abc import Iterator

from nbdebug.errors import NotChecked
from nbdebug.evidence.shifted import Shift
from nbdebug.evidence.trial import Trial
from nbdebug.finding import Finding
from nbdebug.graph.lockstep import changes
from nbdebug.registry import rule
from nbdebug.rules.model.future_leak import over_tokens, rewritten, sentences
from nbdebug.rules.programs import program
from nbdebug.setup import Setup
from nbdebug.setup.task import Task


@rule("D126", "error")
def targets_not_shifted(trial: Trial, shifted: Shift, task: Task) -> Iterator[Finding]:
    """A next-token model is given its own input as target, or a target that is shifted twice.

    ## What it does
    Compares the targets with the input tokens, for models in which a position sees nothing of what comes after it.

    ## Why it matters
    With the input as its target the model learns to copy: the loss runs to zero and nothing of language is learned.
    Shifted twice, it learns to tell the token after the next.

    ## How it is measured
    On the first batch; that a position sees only what came before is measured by changing the later half of the input.

    ## How to fix
    ``inputs, targets = tokens[:, :-1], tokens[:, 1:]``, once, either in the data or in the model.

    ## When to ignore
    When the loss itself shifts: then nothing is compared at the same position.

    ## References
    Radford et al. 2018, Improving Language Understanding by Generative Pre-Training, equation 1.
    """
    if shifted.by == 1 or shifted.source.is_floating_point() or task.name not in ("language-model", "reconstruction"):
        return
    if trial.output.shape[1:2] != (shifted.length,):
        raise NotChecked("the output has no axis of the steps behind that of the samples")
    if not reads_backward_only(trial, shifted):
        return
    what = "the input itself" if shifted.by == 0 else "the input two steps later"
    yield Finding(
        message=f"The target of each token is {what}, in a model where a token sees only what came before.",
        cause="The targets are not shifted." if shifted.by == 0 else "The targets are shifted twice.",
        fix="inputs, targets = tokens[:, :-1], tokens[:, 1:]",
        evidence={"shift": shifted.by, "expected": 1},
        explains=("L208", "T611", "E709", "E707"),
    )


def reads_backward_only(trial: Trial, shifted: Shift) -> bool:
    """Whether a position depends on what came before it, and not on what comes after."""
    half = shifted.length // 2
    later, _ = trial.run(rewritten(trial.batch, shifted, slice(half, None)))
    earlier, _ = trial.run(rewritten(trial.batch, shifted, slice(None, half)))
    sees_later = bool(changes(trial.output, later)[:, :half].any())
    sees_earlier = bool(changes(trial.output, earlier)[:, half:].any())
    return sees_earlier and not sees_later


def bad() -> Setup:
    """Tokens as their own targets."""
    setup = sentences(causal=True)
    tokens = setup.train_loader.dataset.tensors[0]
    return program(setup.model, tokens, tokens, over_tokens)


def good() -> Setup:
    """The tokens that follow."""
    return sentences(causal=True)
