"""M308: linear layers follow each other with nothing nonlinear between."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from nbdebug.evidence.first_pass import Pass
from nbdebug.finding import Finding
from nbdebug.graph import HARMLESS, Graph, Node, Pattern
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, points, program
from nbdebug.setup import Setup

LINEAR = frozenset({"Addmm", "Mm", "Linear", "Convolution"})
JOINS = frozenset({"Cat", "Stack", "Index", "IndexSelect", "Gather", "Split", "SplitWithSizes", "Chunk", "Unbind"})
STACKED = Pattern(LINEAR, LINEAR, HARMLESS - JOINS)
NORMS = frozenset({"NativeBatchNorm", "CudnnBatchNorm", "MiopenBatchNorm"})
CONVOLVED = Pattern(frozenset({"Convolution"}), frozenset({"Convolution"}), HARMLESS - JOINS | NORMS)
KERNELS = ("FlashAttention", "FlashAttentionForCpu", "EfficientAttention", "CudnnAttention")
PRODUCT = Pattern(frozenset({"Bmm", *(f"ScaledDotProduct{kernel}" for kernel in KERNELS)}), frozenset())
WEIGHT = Pattern(frozenset({"AccumulateGrad"}), frozenset(), frozenset({"T", "Transpose", "View"}))


@rule("M308", "warning")
def stacked_linear(graph: Graph, first_pass: Pass, model: nn.Module) -> Iterator[Finding]:
    """Linear layers follow each other with nothing nonlinear between.

    ## What it does
    Finds a linear layer, or a convolution of all channels, whose output goes into the next one through nothing but
    views, copies and dropout; between convolutions of several places, also through batch normalization.

    ## Why it matters
    Two linear maps in a row are one linear map: the second layer costs parameters and time and adds nothing that the
    first could not do. A network of such layers can only draw straight lines.

    ## How it is measured
    On the autograd graph of the first batch, between layers that are both trained. A narrow layer between two wide ones
    is a factorization and means it; so do grouped and one-sided convolutions. The projections into and out of an
    attention belong to it. A layer that is called twice, or read in two places, is left alone.

    ## How to fix
    Put an activation between the two, such as ``nn.ReLU()``, or take one of them out.

    ## When to ignore
    When the first layer is read elsewhere too, as an embedding.

    ## References
    Goodfellow, Bengio and Courville 2016, Deep Learning, section 6.1: a linear model of a linear model is linear.
    """
    called = first_pass.trace.called
    found = [(first, second) for first, second in STACKED.matches(graph) if is_stack(first, second)]
    found += [pair for pair in CONVOLVED.matches(graph) if is_stack(*pair) and is_wide(*pair) and pair not in found]
    found = [pair for pair in found if not (of_attention(pair[0], model) or of_attention(pair[1], model))]
    pairs = [(one, two) for one, two in found if len(one.users) == 1 and called.get(one.module or "", 1) == 1]
    if not pairs:
        return
    first, second = pairs[-1]
    names = [repr(node.module) for node in (first, second) if node.module]
    place = f" ({' and '.join(names)})" if names else ""
    more = f"; {len(pairs) - 1} more follow" if len(pairs) > 1 else ""
    yield Finding(
        message=f"A linear layer feeds the next{place} with nothing nonlinear between{more}.",
        where=first.where,
        cause="The activation between the layers is missing.",
        fix="x = torch.relu(x)  # between the two layers",
        evidence={"pairs": [[one.module, two.module] for one, two in pairs]},
        explains=("T601", "T606", "T610", "E709", "M314"),
    )


def is_stack(first: Node, second: Node) -> bool:
    """Whether two trained layers could be one, without a narrow place between them."""
    one, two = weight(first), weight(second)
    if one is None or two is None or one.dim() != two.dim() or not (is_full(first, one) and is_full(second, two)):
        return False
    inputs, between, outputs = one.shape[1], one.shape[0], two.shape[0]
    return two.shape[1] == between >= min(inputs, outputs)


def is_wide(first: Node, second: Node) -> bool:
    """Whether two convolutions each look at more than one place, unlike the linear bottlenecks of small networks."""
    kernels = (weight(first), weight(second))
    return all(kernel is not None and max(kernel.shape[2:], default=1) > 1 for kernel in kernels)


def of_attention(node: Node, model: nn.Module) -> bool:
    """Whether a linear layer is a part of an attention: inside torch's own, or next to a product of two activations."""
    if isinstance(model.get_submodule(node.module or ""), nn.MultiheadAttention):
        return True
    return any(next(WEIGHT.behind(one.inputs), None) is None for one in PRODUCT.behind(node.inputs))


def weight(node: Node) -> Tensor | None:
    """The trained matrix or kernel that a layer multiplies with."""
    leaves = [leaf.variable for one in node.inputs for leaf in WEIGHT.behind([one])]
    found = [leaf for leaf in leaves if isinstance(leaf, nn.Parameter) and leaf.dim() > 1]
    return found[0] if len(found) == 1 else None


def is_full(node: Node, kernel: Tensor) -> bool:
    """Whether a layer is a whole linear map: for a convolution, of all channels and the same to all sides."""
    groups = node.saved("groups") if node.name == "Convolution" else 1
    return groups == 1 and len(set(kernel.shape[2:])) <= 1


def bad() -> Setup:
    """Two linear layers in a row."""
    return program(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3)), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """The same with an activation between."""
    return classifier()
