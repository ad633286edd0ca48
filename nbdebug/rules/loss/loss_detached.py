"""L212: the loss, or a term of it, has no autograd graph that leads to a parameter."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.autograd import DetachPoint
from nbdebug.autograd.patterns import CONVERSIONS, statement_without_calls
from nbdebug.autograd.tracing import INDICES_OF
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.conclusions import LOSS_DETACHED
from nbdebug.loop_monitor.gradient_terms import ConstantGradientTerm
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.ignored_targets import IgnoredColumns
from nbdebug.measurements.loss_places import ignored_part
from nbdebug.measurements.parameter_coverage import ParameterEntry, depends_on_parameters
from nbdebug.rule_engine.expression_edits import set_option
from nbdebug.rule_engine.loop_edits import stack_collected_losses
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from nbdebug.source.location import get_location

_CREATE_GRAPH_POSITION = 4  # among the arguments of torch.autograd.grad
_CONSEQUENCES = (
    "M301",
    "O506:no step",
    "G409",
    "G414",
    "G416",
    "T601",
    "T606",
    "T607",
    "T608",
    "T610",
    "M314",
    "E709",
    "O502",
    "T614",
)


@rule("L212", "error")
def loss_detached(
    setup: Setup,
    first_pass: ForwardPass | NotChecked,
    loss: Tensor | NotChecked,
    parameters: list[ParameterEntry] | NotChecked,
    detached_columns: IgnoredColumns | NotChecked | None,
    loop: LoopSummary | NotChecked,
) -> Iterator[Finding]:
    """No autograd graph leads from the loss, or from a term of the loss, to a parameter.

    ## What it does
    Follows the autograd graph of the loss to its leaves. If there is no graph, or if it ends in a newly created tensor
    instead of a parameter, the finding names the call that broke it: item(), detach(), numpy(), no_grad or a new
    tensor. In your own loop, it also looks for a term that is computed from gradients of autograd.grad() without a
    graph, as a gradient penalty without ``create_graph=True``. On the first batch, it looks for columns of the output
    that the loss uses without a graph.

    ## Why it matters
    backward() has nothing to propagate through: it raises, or, if a new tensor was created with requires_grad=True, it
    runs and reaches no weight. The loss stays flat. A term without a graph is a constant for backward(): its weight has
    no effect, and the term may grow while the loss falls.

    ## How it is measured
    On the autograd graph of the first batch; each call that received a tensor with a gradient and returned one without
    is recorded. In a watched loop, on the graphs of its own backward passes, until one of them reaches the model. If
    the first one does not, the calls of one iteration are traced for the line that creates the tensor it ends in. If no
    call detached anything, the trainable parameters are changed: a loss that stays the same does not use them, which
    is so if the part that runs is frozen. A loop whose backward passes reach the model has a connected loss.
    A term is reported in the first step of a watched loop if it is computed from gradients without a graph, if these
    depend on parameters that the loss trains, and if the loss adds it. Gradients that the loss uses as factors,
    inputs, targets or steps of weights do not count. Columns of the output that have targets are reported if they have
    no gradient in any of eight or more samples, and changes by a thousandth of their standard deviation change the
    loss. If a detach() is the reason, the finding is a warning, since a weight may be detached on purpose.

    ## How to fix
    Compute the loss from the output itself. Use .item() only for values that you print. Pass ``create_graph=True`` to
    autograd.grad() if a term is computed from its gradients.

    ## When to ignore
    No exception is known.

    ## References
    PyTorch notes on autograd mechanics: only operations on tensors that require a gradient are recorded.
    """
    if isinstance(loop, LoopSummary) and loop.gradient_term is not None:
        yield _gradient_term_finding(loop.gradient_term)
    if isinstance(detached_columns, IgnoredColumns) and isinstance(first_pass, ForwardPass):
        yield _column_finding(detached_columns, first_pass, [] if isinstance(parameters, NotChecked) else parameters)
        return
    if isinstance(loop, LoopSummary) and loop.reaches_model:
        return
    if isinstance(first_pass, NotChecked):
        raise first_pass
    if isinstance(loss, NotChecked):
        raise loss
    if isinstance(parameters, NotChecked):
        raise parameters
    if isinstance(loop, LoopSummary) and loop.backward_passes and not loop.copied_parameters:
        if loop.graph_cut and loop.other_parameters and not loop.changed:
            return  # another network lies between the model and the loss (M301)
        yield _loop_finding(loop)
    trainable_ids = {id(entry.parameter) for entry in parameters if entry.parameter.requires_grad}
    leaves = [loss] if loss.grad_fn is None else first_pass.trace.get_graph(loss).leaves
    if not trainable_ids or any(id(leaf) in trainable_ids for leaf in leaves):
        return
    new_tensors = [
        first_pass.trace.created_leaves[id(leaf)] for leaf in leaves if id(leaf) in first_pass.trace.created_leaves
    ]
    cut = next(
        (entry for entry in reversed(first_pass.trace.detach_points) if _cuts_off_parameter(entry, trainable_ids)), None
    )
    if cut is None and not new_tensors and not depends_on_parameters(setup, first_pass.batch, parameters):
        return
    line = next((line for _, line in new_tensors if line), None) or (cut.line if cut else None)
    yield Finding(
        message="The loss has no path to any parameter: " + _detachment_reason(bool(new_tensors), cut) + ".",
        where=line.where(cut.module if cut else None) if line else Location(module=cut.module if cut else None),
        cause=_cause(bool(new_tensors), cut),
        fix=statement_without_calls(line, CONVERSIONS) or _fix(bool(new_tensors), cut),
        evidence={
            "cut by": cut.call if cut else None,
            "fresh leaf": bool(new_tensors),
            "trainable parameters": len(trainable_ids),
        },
        assumes=(LOSS_DETACHED,),
        explains=_CONSEQUENCES,
    )


def _loop_finding(loop: LoopSummary) -> Finding:
    cut_line = loop.graph_cut.line if loop.graph_cut else None
    line = loop.new_leaf_line or cut_line or loop.lines.get("loss")
    edits = stack_collected_losses(line)
    return Finding(
        message=f"None of the {loop.backward_passes} backward passes of your loop reached the model: they end in "
        f"{loop.other_leaves or 'no'} newly created tensor{'s' * (loop.other_leaves != 1)}.",
        where=get_location(line),
        cause="The loss, or the output before it, was copied into a new tensor that requires a gradient.",
        fix=(not edits and statement_without_calls(line, CONVERSIONS))
        or "loss = torch.stack(losses).mean()   # of the loss tensors themselves: no .item(), no torch.tensor()",
        evidence={"backward passes": loop.backward_passes, "fresh tensors": loop.other_leaves},
        explains=_CONSEQUENCES,
        edits=edits,
    )


def _gradient_term_finding(term: ConstantGradientTerm) -> Finding:
    """Report a term that is computed from gradients without a graph."""
    return Finding(
        message="A term of the loss has no path to any parameter: it is computed from gradients that autograd.grad() "
        f"returns without a graph. In the first step, the mean of the term is {term.value:.3g}, and the loss is "
        f"{term.loss:.3g}.",
        where=get_location(term.line),
        cause="autograd.grad() is called without create_graph=True, so the term is a constant for backward().",
        fix="Pass `create_graph=True` to autograd.grad().",
        edits=set_option(term.line, ("grad",), "create_graph", "True", _CREATE_GRAPH_POSITION),
        evidence={"term": term.value, "loss": term.loss},
        aspect="term",
    )


def _column_finding(columns: IgnoredColumns, first_pass: ForwardPass, entries: list[ParameterEntry]) -> Finding:
    """Report columns of the output from whose values a term of the loss is computed without a graph."""
    cut = first_pass.trace.detach_points[-1] if first_pass.trace.detach_points else None
    return Finding(
        message=f"The gradient of {len(columns.columns)} of {columns.count} columns of the output is exactly zero for "
        f"all {columns.rows} samples, but a small change of their values changes the loss. A term of the loss uses "
        "these values without an autograd graph.",
        where=get_location(cut.line if cut else None, ignored_part(first_pass, columns.columns, entries)),
        cause=_cause(is_new_tensor=False, cut=cut),
        fix="Compute this term from the output itself with torch operations, without .item(), .tolist(), .numpy(), "
        ".detach() or torch.tensor().",
        evidence={"columns without a gradient": list(columns.columns[:16]), "columns": columns.count},
        explains=_CONSEQUENCES,
        aspect="term",
        severity="warning" if cut is not None and cut.call == "detach" else None,  # it may be a weight on purpose
    )


def _cuts_off_parameter(cut: DetachPoint, trainable_ids: set[int]) -> bool:
    return bool(trainable_ids & {id(leaf) for leaf in cut.leaves()})


def _detachment_reason(is_new_tensor: bool, cut: DetachPoint | None) -> str:
    if is_new_tensor:
        return "it is computed from a newly created tensor, which is not connected to the model"
    return f"{cut.call} detaches it" if cut else "it was computed without an autograd graph"


def _cause(is_new_tensor: bool, cut: DetachPoint | None) -> str:
    """Return why no gradient can flow back from the loss."""
    if is_new_tensor:
        return "The output was copied into a new tensor before the loss was computed."
    if cut is None:
        return "The forward pass or the loss runs without gradients, as inside torch.no_grad()."
    if cut.python_conversion:
        return f"{cut.python_conversion}() takes the values out of torch before the loss is computed."
    return f"No gradient flows back through {cut.call}, from which the loss is computed."


def _fix(is_new_tensor: bool, cut: DetachPoint | None) -> str:
    if cut is None and not is_new_tensor:
        return "Compute the output and the loss outside of torch.no_grad() and torch.inference_mode()."
    if cut is not None and cut.call.startswith(INDICES_OF):
        return "Compute the loss from the scores or probabilities of the model, not from the classes chosen by them."
    return "loss = loss_fn(model(inputs), target)   # on the output itself: no .item(), .detach(), torch.tensor()"


def _cross_entropy_of_copy(output: Tensor, target: Tensor) -> Tensor:
    copy = torch.tensor(output.tolist(), requires_grad=True)
    return nn.functional.cross_entropy(copy, target)


def bad() -> Setup:
    """A loss that copies the output into a new tensor."""
    return classifier(loss_fn=_cross_entropy_of_copy)


def good() -> Setup:
    """A loss computed from the output itself."""
    return classifier()
