"""M306: the output does not depend on the input, or on one of several inputs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.evidence.answers import Answers
from nbdebug.evidence.deaf import deaf_module
from nbdebug.finding import SEVERITIES, Finding, Severity, Where
from nbdebug.graph.source import Line
from nbdebug.registry import rule
from nbdebug.rules.programs import points
from nbdebug.setup import Setup


@rule("M306", "error")
def input_ignored(ignored_inputs: dict[str, bool], answers: Answers) -> Iterator[Finding]:
    """The output does not depend on the input, or on one of several inputs.

    ## What it does
    Changes each input tensor in turn and looks whether anything that the model returns changes. All inputs ignored, or
    one of real numbers, is an error; another table of integers or flags a warning; one integer or flag for each sample,
    which may be an index kept for the record, a note.

    ## Why it matters
    What the model cannot see it cannot learn from. It learns the mean of the targets, or all that the other inputs
    tell, and the loss falls to there.

    ## How it is measured
    By finite changes, since a gradient is also zero through units that rest: every row becomes the first one, and real
    numbers are also put on the other side of one, at twice the distance. An input is ignored if no value of the answer
    moves, in eval mode, in train mode, and with small random numbers in all parameters that are zero throughout, so
    that heads and gates which start at zero are not accused.

    ## How to fix
    Use the argument in ``forward``. Look for a variable that is overwritten or a tensor made anew; for units that are
    all at rest, draw the weights anew.

    ## When to ignore
    When the argument is there for the sake of a common interface.

    ## References
    He et al., Delving Deep into Rectifiers, 2015: the scale of weights at which signals neither vanish nor explode.
    """
    ignored = [name for name, is_ignored in ignored_inputs.items() if is_ignored]
    if not ignored:
        return
    whole = len(ignored) == len(ignored_inputs)
    names = ", ".join(map(repr, shown(ignored, answers)))
    weights: list[Severity] = [weight(answers.inputs[name]) for name in ignored]
    what = "its input" if whole else f"input {names}"
    yield Finding(
        message=f"The output depends on {len(ignored_inputs) - len(ignored)} of {len(ignored_inputs)} inputs; expected "
        f"all. Whatever values {what} takes, not one output changes.",
        where=definition(answers.setup.eager, "" if whole else deaf_module(answers, ignored)),
        cause=f"No path leads from {what} to what the model returns, or no signal is left at its end.",
        fix=f"# use {names} in forward, or look which layer gives the same for every sample",
        evidence={"ignored": ignored, "inputs": list(ignored_inputs)},
        explains=("M307", "T601", "T606", "T608", "T610"),
        severity="error" if whole else min(weights, key=SEVERITIES.index),
    )


def weight(tensor: Tensor) -> Severity:
    """How grave it is that one input of several is ignored."""
    if tensor.is_floating_point():
        return "error"
    return "warning" if tensor.dim() > 1 else "note"


def shown(names: list[str], answers: Answers) -> list[str]:
    """The names of inputs as ``forward`` calls them, where they are known by position alone."""
    taken = list(inspect.signature(answers.setup.eager.forward).parameters)
    places = {str(place): name for place, name in enumerate(taken)}
    return [places.get(name, name) for name in names]


def definition(model: nn.Module, path: str) -> Where:
    """The line of the ``forward`` of the model, or of a module in it."""
    kind = type(model.get_submodule(path))
    code = getattr(inspect.unwrap(kind.forward), "__code__", None)
    if code is None or kind.__module__.startswith("torch."):
        return Where(path or None)
    return Line(code.co_filename, code.co_firstlineno).where(path or None)


class TwoInputs(nn.Module):
    """Scores of points and their conditions."""

    def __init__(self, conditioned: bool) -> None:
        super().__init__()
        self.conditioned, self.body, self.given = conditioned, nn.Linear(4, 3), nn.Linear(2, 3)

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        """The scores; ``condition`` is added where it is heard."""
        scores: Tensor = self.body(x) + self.given(condition if self.conditioned else torch.ones_like(condition))
        return scores


def conditioned(heard: bool) -> Setup:
    """Points with a condition for each."""
    x, y = points()
    model = TwoInputs(heard)
    loader = DataLoader(TensorDataset(x, x[:, :2].cos(), y), batch_size=16)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(torch.optim.Adam(model.parameters()),))


def bad() -> Setup:
    """A condition that is replaced by ones."""
    return conditioned(heard=False)


def good() -> Setup:
    """The same model, which hears the condition."""
    return conditioned(heard=True)
