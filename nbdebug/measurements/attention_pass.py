"""One pass of a few samples through a model with attention, with gradients, as a graph of calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nbdebug.autograd.attention_calls import AttentionCall, CallGraph
from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.perturbation import EvalOutputs, fill_zero_parameters
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import seed_all
from nbdebug.setup.evaluation_mode import fast_attention_disabled, in_mode
from nbdebug.setup.losses import score_tensor

_SAMPLES = 6
ATTENTION_CALLS = frozenset({"softmax", "scaled_dot_product_attention", "multi_head_attention_forward"})
_NO_ATTENTION = "no attention is found in the calls of the model"


@dataclass(frozen=True)
class AttentionPass:
    """The calls of a pass in eval mode for a number of samples, and the attentions that they consist of.

    ``gradients`` are those of a random direction of the output with respect to what each attention returns. Attentions
    inside torch's own module are none of them.
    """

    graph: CallGraph
    samples: int
    attentions: list[AttentionCall]
    gradients: list[Tensor | None]

    @property
    def calls(self) -> Sequence[TorchCall]:
        """The calls in their order."""
        return self.graph.calls


def few_samples(answers: EvalOutputs, count: int = _SAMPLES) -> EvalOutputs:
    """Return the first samples of a batch; all of them if a tensor has no axis of samples."""
    try:
        return replace(answers, batch=answers.batch.take_samples(range(min(count, answers.batch.size))))
    except (NotChecked, RuntimeError, IndexError):
        return answers


def record_attention_pass(answers: EvalOutputs) -> AttentionPass:
    """Return a pass of a batch; raise NotChecked if no call may be an attention."""
    setup, recorded = answers.setup, list[TorchCall]()
    with torch.enable_grad(), in_mode(setup.eager_model, False), fast_attention_disabled():
        seed_all(0)
        with record_calls(setup.eager_model, recorded.append):
            output = setup.predict(answers.batch)
    if not any(call.name in ATTENTION_CALLS for call in recorded):
        raise NotChecked(_NO_ATTENTION)
    graph = CallGraph(recorded)
    attentions = [item for item in graph.find_attentions() if max(item.output.dim(), item.value.dim()) > 2]
    gradients = _compute_gradients(score_tensor(output), [item.output for item in attentions])
    return AttentionPass(graph, answers.batch.size, attentions, gradients)


def _compute_gradients(output: Tensor, values: list[Tensor]) -> list[Tensor | None]:
    """Return the gradients of a random direction of the output with respect to values."""
    direction = torch.randn(output.shape, generator=torch.Generator().manual_seed(0)).to(output)
    known = [tensor for tensor in values if tensor.requires_grad]
    if not output.requires_grad or not known:
        return [None] * len(values)
    with torch.enable_grad():
        gradients = torch.autograd.grad((output * direction).sum(), known, retain_graph=True, allow_unused=True)
    by_id = {id(tensor): gradient for tensor, gradient in zip(known, gradients, strict=True)}
    return [by_id.get(id(tensor)) for tensor in values]


@slow_measurement
def attention_pass(eval_outputs: EvalOutputs) -> AttentionPass:
    """The calls of a pass of a few samples; parameters of zeros get small random values."""
    if ATTENTION_CALLS.isdisjoint(eval_outputs.called_functions):
        raise NotChecked(_NO_ATTENTION)
    with fill_zero_parameters(eval_outputs.setup.eager_model):
        try:
            return record_attention_pass(few_samples(eval_outputs))
        except (RuntimeError, ValueError, IndexError) as error:  # such as a graph whose samples belong together
            raise NotChecked(f"the model does not take a part of a batch: {error}") from None
