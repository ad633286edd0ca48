"""What becomes of the answer when the steps of every sequence are put into another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nbdebug.evidence.answers import Answers
from nbdebug.evidence.ledger import slow_measurement
from nbdebug.exceptions import NotChecked
from nbdebug.graph import Graph
from nbdebug.graph.node import Node

Kind = Literal["tokens", "steps", "patches"]
DRAWS, TOLERANCE = 20, 1e-4


@dataclass(frozen=True)
class Permuted:
    """A model with attention and what it was given: the kind, the number of places, and whether their order matters.

    ``ordered`` says whether the data have an order: whether neighbors are more alike than other pairs of a sequence.
    ``node`` is where the sequence enters: its embedding, its patches or the first attention.
    """

    kind: Kind
    places: int
    heeded: bool
    ordered: bool
    node: Node


@slow_measurement
def permuted(answers: Answers, graph: Graph) -> Permuted:
    """Whether the answer to reordered sequences differs from the answer, reordered likewise."""
    attention = [(node, places) for node in graph.nodes if (places := attended(node)) > 1]
    if not attention:
        raise NotChecked("no attention of a sequence to itself is in the graph")
    node, places = attention[-1]
    kind, entrance = entrance_of(answers, graph, node, places)
    side = patch_side(entrance) if kind == "patches" else 0
    given = next(iter(answers.inputs.values()))
    length = given.shape[2] * given.shape[3] // side**2 if side else given.shape[1]
    order = torch.randperm(length, generator=torch.Generator().manual_seed(0))
    changed = answers.changed(lambda t: reordered(t, order, side))
    after = answers.to(changed)[0]
    return Permuted(kind, length, not is_same(answers, after, order), is_ordered(answers, kind), entrance)


def attended(node: Node) -> int:
    """The length of the sequence that attends to itself in an operation; 0 for any other."""
    if node.name in ("Softmax", "SafeSoftmax"):
        result = node.saved("result")
        square = isinstance(result, Tensor) and result.dim() > 2 and result.shape[-1] == result.shape[-2]
        return int(result.shape[-1]) if square else 0
    query, key = (node.saved(name) if "ScaledDotProduct" in node.name else None for name in ("query", "key"))
    if not isinstance(query, Tensor) or not isinstance(key, Tensor):
        return 0
    return int(key.shape[-2]) if query.shape[-2] == key.shape[-2] else 0


def entrance_of(answers: Answers, graph: Graph, attention: Node, places: int) -> tuple[Kind, Node]:
    """What kind of sequence the one input is, and the operation that it enters by."""
    inputs = list(answers.inputs.values())
    if len({t.shape[1:2] for t in inputs}) != 1 or any(t.dim() < 2 or len(t) != answers.batch.size for t in inputs):
        raise NotChecked("the inputs are not sequences of one length, with a row for each sample")
    first = inputs[0]
    if first.dim() == 4 and len(inputs) == 1:
        convolution = next((one for one in reversed(graph.nodes) if one.name == "Convolution"), None)
        if convolution is not None and patch_side(convolution) > 1:
            return "patches", convolution
        raise NotChecked("the pictures are not cut into patches by one convolution")
    if places - first.shape[1] not in (0, 1):  # one more for a class token
        raise NotChecked("the places that attend to each other are not those of the input")
    if first.is_floating_point():
        return "steps", attention
    return "tokens", next((one for one in reversed(graph.nodes) if one.name == "Embedding"), attention)


def patch_side(convolution: Node) -> int:
    """The side of the squares that a convolution cuts a picture into; 0 where they overlap or leave gaps."""
    weight, stride = convolution.saved("weight"), convolution.saved("stride")
    if not isinstance(weight, Tensor) or weight.dim() != 4 or stride is None or any(convolution.saved("padding") or ()):
        return 0
    sides = {*weight.shape[2:], *stride}
    return int(sides.pop()) if len(sides) == 1 else 0


def reordered(tensor: Tensor, order: Tensor, side: int) -> Tensor:
    """The sequences, or the patches of the pictures, in another order."""
    if not side:
        return tensor[:, order.to(tensor.device)]
    size, channels, height, width = tensor.shape
    blocks = tensor.reshape(size, channels, height // side, side, width // side, side).permute(0, 2, 4, 1, 3, 5)
    count = blocks.shape[1] * blocks.shape[2]
    turned = blocks.flatten(1, 2)[:, torch.arange(count).roll(count // 2 + 1)]
    return turned.reshape(blocks.shape).permute(0, 3, 1, 4, 2, 5).reshape(tensor.shape)


def is_same(answers: Answers, after: Tensor, order: Tensor) -> bool:
    """Whether the new answer is the old one, or the old one reordered along the axis of the places."""
    before = answers.first[0]
    close = max(answers.noise, TOLERANCE * float(before.abs().max()))
    if before.shape != after.shape:
        return False
    axes = [axis for axis in range(1, before.dim()) if before.shape[axis] == len(order)]
    candidates = [before, *(before.index_select(axis, order.to(before.device)) for axis in axes)]
    return any(torch.allclose(one, after, rtol=0.0, atol=close) for one in candidates)


def is_ordered(answers: Answers, kind: Kind) -> bool:
    """Whether neighbors are more alike than pairs of the same sequences in random order, by five standard errors.

    Words and patches of pictures come in an order, unless each row of words is sorted, as a set is written down.
    """
    values = next(iter(answers.inputs.values()))
    if kind == "patches":
        return True
    if kind == "tokens":
        return not bool((values.diff(dim=1) >= 0).all() or (values.diff(dim=1) <= 0).all())
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(values.shape[1], generator=generator) for _ in range(DRAWS)]
    null = torch.stack([roughness(values[:, order.to(values.device)]) for order in orders])
    return bool(roughness(values) < null.mean() - 5 * null.std())


def roughness(values: Tensor) -> Tensor:
    """The mean square of the differences between neighbors."""
    return values.float().diff(dim=1).square().mean()
