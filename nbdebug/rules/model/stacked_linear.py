"""M308: linear layers follow each other without a nonlinearity between them."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from nbdebug.autograd import VALUE_PRESERVING_NODES, Graph, Node, Pattern
from nbdebug.autograd.patterns import has_one_slope
from nbdebug.finding import Edit, Finding
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.rule_engine.layer_edits import insert_activation
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.location import add_line
from nbdebug.source.unused_results import find_unused_result

_LINEAR = frozenset({"Addmm", "Mm", "Linear", "Convolution"})
_JOINS = frozenset({"Cat", "Stack", "Index", "IndexSelect", "Gather", "Split", "SplitWithSizes", "Chunk", "Unbind"})
_STACKED = Pattern(_LINEAR, _LINEAR, VALUE_PRESERVING_NODES - _JOINS, through_slopes=True)
_NORMS = frozenset({"NativeBatchNorm", "CudnnBatchNorm", "MiopenBatchNorm"})
_CONVOLVED = Pattern(
    frozenset({"Convolution"}),
    frozenset({"Convolution"}),
    VALUE_PRESERVING_NODES - _JOINS | _NORMS,
    through_slopes=True,
)
_ATTENTION_KERNELS = ("FlashAttention", "FlashAttentionForCpu", "EfficientAttention", "CudnnAttention")
_PRODUCT = Pattern(frozenset({"Bmm", *(f"ScaledDotProduct{kernel}" for kernel in _ATTENTION_KERNELS)}), frozenset())
_WEIGHT = Pattern(frozenset({"AccumulateGrad"}), frozenset(), frozenset({"T", "Transpose", "View"}))


@rule("M308", "warning")
def stacked_linear(graph: Graph, first_pass: ForwardPass, model: nn.Module, setup: Setup) -> Iterator[Finding]:
    """Linear layers follow each other without a nonlinearity between them.

    ## What it does
    Finds a linear layer, or an ungrouped convolution, whose output goes into the next one through only views, copies
    and dropout; between convolutions with kernels larger than 1, also through batch normalization. An activation of
    straight pieces that has one slope for all its values, such as a leaky ReLU of slope 1, counts as none.

    ## Why it matters
    Two consecutive linear maps are one linear map: the second layer costs parameters and time and adds nothing that the
    first could not do. A network of such layers can only draw linear decision boundaries.

    ## How it is measured
    On the autograd graph of the first batch, between layers that are both trained. A narrow layer between two wide ones
    is an intended factorization; grouped and asymmetric convolutions are intended too, and so are adapters, whose
    result is added to that of a frozen layer. The projections into and out of an attention belong to it. A layer that
    is called twice, or whose output is used twice, is not reported.

    ## How to fix
    Put an activation between the two, such as ``nn.ReLU()``, or remove one of them.

    ## When to ignore
    When the output of the first layer is also used elsewhere, as an embedding.

    ## References
    Goodfellow, Bengio and Courville 2016, Deep Learning, section 6.1: a linear model of a linear model is linear.
    """
    called = first_pass.trace.call_counts
    candidates = [(first, second) for first, second in _STACKED.find_matches(graph) if _is_stack(first, second)]
    candidates += [
        pair
        for pair in _CONVOLVED.find_matches(graph)
        if _is_stack(*pair) and _have_wide_kernels(*pair) and pair not in candidates
    ]
    candidates = [
        pair
        for pair in candidates
        if not (
            _is_part_of_attention(pair[0], model)
            or _is_part_of_attention(pair[1], model)
            or _is_adapter(pair[1], model)
        )
    ]
    pairs = [
        (layer, next_layer)
        for layer, next_layer in candidates
        if _is_used_once(layer) and called.get(layer.module or "", 1) == 1
    ]
    if not pairs:
        return
    first, second = pairs[-1]
    names = [repr(node.module) for node in (first, second) if node.module]
    layer_names = f" ({' and '.join(names)})" if names else ""
    more = f"; {len(pairs) - 1} more pairs follow" if len(pairs) > 1 else ""
    modules = [layer.module for layer, _ in pairs if layer.module]
    activation = _linear_activation(first)
    lost_line = find_unused_result(first.line) if first.line and activation is None else None
    yield Finding(
        message=f"A linear layer feeds the next one{layer_names} without a nonlinearity between them{more}.",
        where=activation.where if activation else add_line(first.where, lost_line) if lost_line else first.where,
        cause=_describe_cause(activation, is_lost=lost_line is not None),
        fix="# add an activation between the two layers: torch.relu(x) in forward, or nn.ReLU() in a Sequential"
        if activation is None
        else "# use an activation with two slopes in its place, such as nn.ReLU() or nn.LeakyReLU(0.01)",
        evidence={"pairs": [[layer.module, next_layer.module] for layer, next_layer in pairs]},
        explains=("O502", "T601", "T606", "T607", "T610", "T614", "E709", "M314"),
        edits=_insert_activations(setup, modules) if activation is None else (),
        setup_fix="\n".join(map(_inserted_activation, modules)),
    )


def _linear_activation(layer: Node) -> Node | None:
    """Return the activation with one slope that takes the result of a layer; None if there is none."""
    node = layer
    while len(node.users) == 1 and node.users[0].name in VALUE_PRESERVING_NODES:
        node = node.users[0]
    return next((user for user in node.users if has_one_slope(user)), None)


def _describe_cause(activation: Node | None, *, is_lost: bool) -> str:
    if activation is not None:
        return "The activation between the layers has the same slope for all its values, so it is linear."
    return (
        "The result of the activation is not used."
        if is_lost
        else "No operation between the layers is nonlinear, so both together are one linear map."
    )


def _insert_activations(setup: Setup, modules: list[str]) -> tuple[Edit, ...]:
    """Return the insertion of an activation after each of some layers; () unless all can be written."""
    edits = [insert_activation(setup, path) for path in modules]
    return tuple(edit for own in edits for edit in own) if all(edits) else ()


def _inserted_activation(path: str) -> str:
    """Return code that puts a ReLU behind a layer of the model."""
    return f"model.set_submodule({path!r}, nn.Sequential(model.get_submodule({path!r}), nn.ReLU()))"


def _is_used_once(layer: Node) -> bool:
    """Return whether the result of a layer has one user, also behind the views and copies that follow it."""
    node = layer
    while len(node.users) == 1 and node.users[0].name in VALUE_PRESERVING_NODES:
        node = node.users[0]
    return len(node.users) == 1


def _is_stack(first: Node, second: Node) -> bool:
    """Return whether two trained layers could be replaced by one; a bottleneck between them could not."""
    first_weight, second_weight = _trained_weight(first), _trained_weight(second)
    if (
        first_weight is None
        or second_weight is None
        or first_weight.dim() != second_weight.dim()
        or not (_is_full_linear_map(first, first_weight) and _is_full_linear_map(second, second_weight))
    ):
        return False
    hidden = first_weight.shape[0]
    return second_weight.shape[1] == hidden >= min(_features(first_weight, second_weight))


def _features(first_weight: Tensor, second_weight: Tensor) -> tuple[int, int]:
    """Return the sizes of the input and the output of two layers as one; those of a kernel beside one of size 1 count.

    A convolution before one of size 1 maps patches to channels: with fewer channels between than values in a patch and
    channels in the output, both are a factorization of one kernel.
    """
    first_area, second_area = first_weight[0, 0].numel(), second_weight[0, 0].numel()
    in_features = first_weight.shape[1] * (first_area if second_area == 1 else 1)
    return in_features, second_weight.shape[0] * (second_area if first_area == 1 else 1)


def _have_wide_kernels(first: Node, second: Node) -> bool:
    """Return whether both kernels are larger than 1, unlike the linear bottlenecks of small networks."""
    kernels = (_trained_weight(first), _trained_weight(second))
    return all(kernel is not None and max(kernel.shape[2:], default=1) > 1 for kernel in kernels)


def _is_part_of_attention(node: Node, model: nn.Module) -> bool:
    """Return whether a linear layer is part of torch's attention, or before or after a product of two activations."""
    if isinstance(model.get_submodule(node.module or ""), nn.MultiheadAttention):
        return True
    products = [*_PRODUCT.search_upstream(node.inputs), *_products_of(node)]
    return any(next(_WEIGHT.search_upstream(product.inputs), None) is None for product in products)


def _products_of(node: Node) -> Iterator[Node]:
    """Yield the products that take the result of a layer, through views and copies."""
    for user in node.users:
        if user.name in _PRODUCT.producer:
            yield user
        elif user.name in VALUE_PRESERVING_NODES:
            yield from _products_of(user)


def _is_adapter(node: Node, model: nn.Module) -> bool:
    """Return whether the result of a layer is only added to that of a frozen one of the same module.

    Without a trained layer before it, the frozen one is not in the graph.
    """
    while len(node.users) == 1 and node.users[0].name in VALUE_PRESERVING_NODES | {"Mul"}:
        node = node.users[0]
    if [user.name for user in node.users] != ["Add"]:
        return False
    addition = node.users[0]
    weights = [p for p in model.get_submodule(addition.module or "").parameters() if p.dim() > 1]
    others = [source for source in addition.inputs if source is not node]
    return not all(p.requires_grad for p in weights) and all(
        other.name in _LINEAR and _trained_weight(other) is None for other in others
    )


def _trained_weight(node: Node) -> Tensor | None:
    leaves = [leaf.variable for source in node.inputs for leaf in _WEIGHT.search_upstream([source])]
    parameters = [leaf for leaf in leaves if isinstance(leaf, nn.Parameter) and leaf.dim() > 1]
    return parameters[0] if len(parameters) == 1 else None


def _is_full_linear_map(node: Node, kernel: Tensor) -> bool:
    """Return whether a layer is a full linear map: for a convolution, ungrouped and with a square kernel."""
    groups = node.get_saved("groups") if node.name == "Convolution" else 1
    return groups == 1 and len(set(kernel.shape[2:])) <= 1


def bad() -> Setup:
    """Two consecutive linear layers."""
    return minimal_setup(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3)), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """The same model with an activation between them."""
    return classifier()
