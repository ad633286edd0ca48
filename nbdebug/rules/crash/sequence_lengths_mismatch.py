"""X1055: the lengths of a CTC loss are longer than the sequences."""

from __future__ import annotations

import ast

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.evaluation import UNKNOWN
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.repairs import wrap_operand
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup


@crash_rule("X1055")
def sequence_lengths_mismatch(crash: Crash) -> CrashCause | None:
    """The lengths that a CTC loss gets exceed the number of steps of its outputs, or of its targets.

    ## What it does
    Compares the largest length with the steps, and looks for the stride of the model that explains the ratio.

    ## Why it matters
    The loss cannot run: it would read steps that do not exist.

    ## How it is measured
    Exactly, by the values of the lengths and the shape of the outputs.

    ## How to fix
    Divide the lengths by the strides of the model, rounded up, or count the axis that holds the steps.

    ## When to ignore
    Never: the steps do not exist.

    ## References
    Documentation of torch.nn.CTCLoss. Graves et al., Connectionist temporal classification (2006).
    """
    outputs, lengths = (crash.local(key, function="ctc_loss") for key in ("log_probs", "input_lengths"))
    targets, target_lengths = (crash.local(key, function="ctc_loss") for key in ("targets", "target_lengths"))
    if not isinstance(outputs, Tensor) or lengths is UNKNOWN or target_lengths is UNKNOWN:
        return None
    steps = len(outputs)
    longest = int(torch.as_tensor(lengths).max())
    if longest > steps:
        node = crash.argument_node("input_lengths", 2)
        return _explain(crash, node, "input_lengths", longest, steps, f"the outputs are {describe_tensor(outputs)}")
    if isinstance(targets, Tensor) and targets.dim() == 2:
        longest, steps = int(torch.as_tensor(target_lengths).max()), targets.shape[1]
        if longest > steps:
            node = crash.argument_node("target_lengths", 3)
            return _explain(
                crash, node, "target_lengths", longest, steps, f"the targets are {describe_tensor(targets)}"
            )
    return None


def _explain(crash: Crash, node: ast.expr | None, name: str, longest: int, steps: int, shown: str) -> CrashCause:
    text = crash.text(node) if node is not None else name
    message = f"The CTC loss gets {name} of up to {longest} ({text}); {shown}: {steps} steps."
    ratio = -(-longest // steps)
    layers = [m for m in (crash.root.modules() if crash.root is not None else ()) if _stride(m) > 1]
    if name == "input_lengths" and -(-longest // ratio) == steps:
        cause = f"The model makes one step of {ratio}"
        cause += f": the layer {crash.path(layers[0])} has a stride of {_stride(layers[0])}." if layers else "."
        cause += " Divide the lengths by it, rounded up."
        template = (
            f"(({{}}) + {ratio - 1}) // {ratio}" if isinstance(node, ast.BinOp) else f"({{}} + {ratio - 1}) // {ratio}"
        )
    else:
        cause = f"The frames that the lengths count are more than the {steps} steps: limit them."
        template = f"{{}}.clamp(max={steps})"
    is_tensor = isinstance(crash.value(node), Tensor) if node is not None else False
    edits = wrap_operand(crash, node, template) if node is not None and is_tensor else ()
    return CrashCause(message, cause, "" if edits else template.format(text), edits)


def _stride(module: nn.Module) -> int:
    stride = getattr(module, "stride", 1)
    return max(int(size) for size in stride) if isinstance(stride, tuple) else stride if type(stride) is int else 1


def bad() -> Setup:
    """Lengths of eight for outputs of four steps."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        scores = setup.model(batch[0])
        outputs = scores.log_softmax(-1).expand(4, *scores.shape)
        lengths = torch.full((len(scores),), 8)
        labels = torch.ones(len(scores), 1, dtype=torch.long)
        return nn.functional.ctc_loss(outputs, labels, lengths, torch.ones_like(lengths))

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step without a CTC loss."""
    return classifier()
