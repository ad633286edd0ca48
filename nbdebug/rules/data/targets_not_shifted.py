"""D126: a next-token model is given its own input as target, or a target shifted twice."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.evidence.ahead import Ahead
from nbdebug.evidence.answers import Answers
from nbdebug.evidence.future import Future, reads_itself
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import program
from nbdebug.setup import Setup


@rule("D126", "error")
def targets_not_shifted(ahead: Ahead, future: Future, answers: Answers) -> Iterator[Finding]:
    """A model that reads from left to right is trained to give back its own input, or to skip tokens.

    ## What it does
    Counts how many places ahead of its input a model is trained to predict, in the data and in the loss together. One
    is right; none means that nobody shifts, two that both do. Speaks of models whose outputs do not depend on later
    inputs: one that reads the whole sequence and gives it back is an autoencoder. One that shifts its input
    itself is left alone.

    ## Why it matters
    Without a shift the answer stands in the input: the loss falls to almost nothing, and the model has learned to copy.
    With two, it never sees the pairs of neighbors that text is made of.

    ## How it is measured
    The targets are compared with the inputs at every shift; then one target is changed, and the gradient of the loss
    shows which output it is held against. Whether the model looks ahead is measured by changing later inputs.

    ## How to fix
    Shift once: in the data, ``x, y = tokens[:, :-1], tokens[:, 1:]``, or in the loss, not in both. Models that take
    ``labels`` often shift them on their own.

    ## When to ignore
    When a delayed copy, or a longer step, is the task. Real values are left alone for that reason beyond one step.

    ## References
    Radford et al., Improving Language Understanding by Generative Pre-Training, 2018, section 3.1: each token is
    predicted from those before it.
    """
    is_tokens = not answers.inputs[ahead.name].is_floating_point()
    if future.touched or ahead.steps not in (0, 2, 3) or not is_tokens:
        return
    if ahead.steps == 0 and not reads_itself(answers, ahead):
        return
    yield Finding(
        message=f"The targets lie {ahead.steps} tokens ahead of the inputs ({ahead.in_data} by the data, "
        f"{ahead.in_loss} by the loss); expected 1 in a model that reads from left to right.",
        cause="Neither data nor loss shift." if ahead.steps == 0 else "The shift is made more than once.",
        fix=fix(ahead),
        evidence={"in_data": ahead.in_data, "in_loss": ahead.in_loss, "input": ahead.name},
        explains=("E703", "T606", "T607", "T611"),
    )


def fix(ahead: Ahead) -> str:
    """The shift to make, or to take out."""
    if ahead.steps == 0:
        return "inputs, targets = tokens[:, :-1], tokens[:, 1:]"
    if ahead.in_loss:
        return "targets = inputs.clone()  # the loss shifts them already"
    return "inputs, targets = tokens[:, :-1], tokens[:, 1:]  # one place, not more"


class Recurrent(nn.Module):
    """A language model that reads from left to right."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.body = nn.Embedding(11, 8), nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits at every place."""
        states, _ = self.body(self.embed(tokens))
        logits: Tensor = self.head(states)
        return logits


def each_token(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy over all places."""
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def text(shift: int) -> Setup:
    """Random tokens, and as targets the same ones further on."""
    tokens = torch.randint(0, 11, (64, 10), generator=torch.Generator().manual_seed(0))
    return program(Recurrent(), tokens[:, :8], tokens[:, shift:][:, :8], each_token)


def bad() -> Setup:
    """The input is the target."""
    return text(0)


def good() -> Setup:
    """The next token is the target."""
    return text(1)
