"""Tests that the numbers in the messages about models are those of the model."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.rules.messages.program import Fact, Facts, Program, check_numbers, near


def size(*parts: nn.Module | Tensor) -> int:
    tensors = [t for part in parts for t in (part.parameters() if isinstance(part, nn.Module) else [part])]
    return sum(tensor.numel() for tensor in tensors)


@torch.no_grad()
def changed(program: Program, *inputs: Any) -> Tensor:
    """Whether each output value in eval mode differs from those of the first batch."""
    model = program.model.eval()
    before = model(*program.batch[: len(inputs)])
    return ~torch.isclose(before, model(*inputs), atol=1e-6)


def frozen(program: Program) -> list[Fact]:
    own = [p for p in program.model.parameters() if p.requires_grad]
    return [size(program.model[3]), size(*own)]


def mixed_samples(program: Program) -> list[Fact]:
    x = program.batch[0].clone()
    x[0] = torch.randn(x.shape[1:])
    return [0, int(changed(program, x)[1:].any(1).sum()), len(x) - 1]


def seen_future(program: Program) -> list[Fact]:
    tokens = program.batch[0].clone()
    tokens[:, 5:] = (tokens[:, 5:] + 1) % 11
    return [4, int(changed(program, tokens)[:, :5].any(2).any(0).sum()), 5]


def ignored_inputs(program: Program) -> list[Fact]:
    x, condition, _ = program.batch
    used = [changed(program, x + 1, condition), changed(program, x, condition + 1)]
    return [sum(bool(part.any()) for part in used), len(used)]


def constant_output(program: Program) -> list[Fact]:
    output = program.model(program.batch[0])
    return [len(output), (output - output[:1]).abs().max().item(), (1e-7, 1e-5)]


def padded_positions(program: Program) -> list[Fact]:
    tokens, mask, _ = program.batch
    rows = changed(program, torch.where(mask, tokens, 10 - tokens), mask).any(1)
    return [int((~mask).sum()), int(rows.sum()), int((~mask).any(1).sum())]


def permuted_tokens(program: Program) -> list[Fact]:
    tokens = program.batch[0]
    assert not changed(program, tokens.flip(1)).any()
    return [tokens.shape[1]]


def too_small(program: Program) -> list[Fact]:
    """The hidden layer has one unit, and the goal is a tenth of the error of the best constant."""
    target = program.batch[1]
    constant = float(target.var(unbiased=False))
    hidden = [program.model[0].in_features, program.model[0].out_features, program.model[2].out_features]
    return [*hidden, len(target), (0.1 * constant, constant), constant / 10, size(program.model), target.numel()]


def wrong_derivative(program: Program) -> list[Fact]:
    """The backward pass of the program returns half of the derivative, times the incoming gradient."""
    incoming, _, _, derivative, *_ = program.numbers
    whole = incoming * derivative
    return [incoming, (0.499 * whole, 0.501 * whole), 0, derivative, (0.999 * whole, 1.001 * whole), 0.01]


def covered_kernel(program: Program) -> list[Fact]:
    """The only pixel of the last map is multiplied with one of the nine weights."""
    sizes = tuple(program.model[:6](program.batch[0]).shape[2:])
    return [3, 3, *sizes, 1 / 9, program.rule.options["least"]]


def unconstrained(program: Program) -> list[Fact]:
    """Two parameters for each target and one for each feature fit any labels, as Zhang et al. (2017) prove."""
    x, _ = program.train
    enough = 2 * len(x) + x.shape[1]
    return [size(program.model), len(x), enough, size(program.model) - enough]


def scaled_twice(program: Program) -> list[Fact]:
    model, tokens = program.model, program.batch[0]
    x = model.embed(tokens) + model.place(torch.arange(6))
    scores = model.query(x) / 4 @ model.key(x).transpose(1, 2) / 4
    return [1 / 16, 1, 16, 0.25, 2, 1, 1, near(scores.var(-1, unbiased=False).mean().sqrt().item())]


@torch.no_grad()
def cached_tokens(program: Program) -> list[Fact]:
    model, tokens = program.model.eval(), program.batch[0][:2, :7]  # of two samples, as the rule does
    full, (logits, cache), differences = model(tokens), model(tokens[:, :4], use_cache=True), []
    for position in range(4, 7):
        logits, cache = model(tokens[:, position : position + 1], cache=cache, use_cache=True)
        differences.append(float((logits[:, -1] - full[:, position]).abs().max() / full.abs().max()))
    return [3, 4, max(differences), 0.001]


def normalized_positions(program: Program) -> list[Fact]:
    x = program.model.embed(program.batch[0]) + program.model.place(torch.arange(6))
    means = x.mean(1) / x.std()
    return [6, 1, (means - means[:1]).abs().max().item()]


FACTS: Facts = {
    "M301": lambda program: [],
    "M302": frozen,
    "M303": lambda program: [2, size(*program.model.layers)],
    "M304": mixed_samples,
    "M305": seen_future,
    "M306": ignored_inputs,
    "M307": constant_output,
    "M308": lambda program: [],
    "M309": lambda program: [16, 6, 3, 16, 3, 6, 6, 2, 1],
    "M310": padded_positions,
    "M311": permuted_tokens,
    "M312": lambda program: [len(program.batch[0]), len(program.batch[0]), 4],
    "M313": lambda program: [size(program.model[0].bias)],
    "M314": too_small,
    "M315": lambda program: [program.model.dropout.p],
    "M316": wrong_derivative,
    "M317": lambda program: [size(program.model.embed)],
    "M318": covered_kernel,
    "M319": unconstrained,
    "M320": lambda program: [1, 1, program.batch[0].shape[1]],
    "M321": lambda program: [0, 1, *program.model.factors.eq(0).flatten().nonzero()[0], 1, 1],
    "M322": scaled_twice,
    "M323": lambda program: [],
    "M324": cached_tokens,
    "M325": lambda program: [1, sum(isinstance(m, nn.BatchNorm1d) for m in program.model.modules())],
    "M326": normalized_positions,
}


@pytest.mark.parametrize("code", FACTS)
def test_numbers_in_messages_about_models_are_facts(code: str) -> None:
    check_numbers(code, FACTS)
