"""The user's lines that make the weights of classes in the loss, and those of samples in the sampler."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import WeightedRandomSampler

from nbdebug.setup.setup import Setup
from nbdebug.setup.source_lines import (
    argument_order_line,
    call_argument,
    creation_line,
    find_setup_creation,
    passed_argument,
)
from nbdebug.source.assigned_attributes import assigned_attribute
from nbdebug.source.count_trends import count_trend, makes_counts, self_attribute
from nbdebug.source.creation import Creation
from nbdebug.source.location import SourceLine
from nbdebug.source.positive_trends import positive_trend
from nbdebug.source.producers import choice_line, executed_return, part_producer
from nbdebug.source.scopes import Expression, user_function
from nbdebug.source.search import assigned_names, call_name, call_subject, read_names

_WEIGHT_OPTIONS = ("weight", "pos_weight")
_SELECTING_CALLS = {"index_select", "gather", "take", "map", "apply"}
_ELEMENTWISE = {"sqrt", "pow", "power", "reciprocal", "clamp", "clip", "log", "list", "squeeze"}
_MAX_NESTING = 6


def rising_weights_line(setup: Setup) -> SourceLine | None:
    """Return the line that computes the class weights of the loss, which rise with the class counts.

    Calls with weights that fall with the counts have not created the loss. Where the loss gets the counts themselves,
    it is the line that creates it.
    """
    for module in setup.loss_fn.modules() if isinstance(setup.loss_fn, nn.Module) else ():
        for option in _WEIGHT_OPTIONS:
            if isinstance(getattr(module, option, None), Tensor):
                is_excluded = partial(_falls_with_counts, module, option)
                creation = find_setup_creation(setup, module, is_excluded=is_excluded)
                argument = creation.argument(module, option) if creation else None
                if argument is None and (weights := next(_weights_in_own_loss(setup), None)):
                    return _maker_line(weights, "weight") or weights.line
                if creation is None or argument is None:
                    return creation.line if creation else None
                return _maker_line(call_argument(creation, module, argument), option) or creation.line
    weights = next(_weights_in_own_loss(setup), None)
    return (_maker_line(weights, "weight") or weights.line) if weights else creation_line(setup, setup.loss_fn)


def weight_order_line(setup: Setup) -> SourceLine | None:
    """Return the line that gives the class weights of the loss their order, or that computes a weight of positives."""
    options = {name: getattr(setup.loss_fn, name, None) for name in _WEIGHT_OPTIONS}
    option, weight = next((item for item in options.items() if isinstance(item[1], Tensor)), ("", None))
    if weight is None:
        return None
    if option != "pos_weight" or weight.numel() > 1:
        return argument_order_line(setup, setup.loss_fn, option)
    argument = passed_argument(setup, setup.loss_fn, option)
    if argument is None:
        return None
    may_rise = partial(_may_rise, option)
    made = part_producer(argument, None, may_make=may_rise, passes_conversions=True)
    while len(elements := getattr(made.node, "elts", [])) == 1:  # a list of one number
        element = Expression(made.scope, elements[0])
        made = part_producer(element, None, may_make=may_rise, passes_conversions=True)
    return made.line


def _weights_in_own_loss(setup: Setup) -> Iterator[Expression]:
    """Yield the weights that a loss of the user's own passes to the function that it returns the result of."""
    own_loss = user_function(setup.loss_fn)
    returned = executed_return(*own_loss) if own_loss else None
    for node in ast.walk(returned.node) if returned else ():
        if returned and isinstance(node, ast.keyword) and node.arg in _WEIGHT_OPTIONS:
            yield Expression(returned.scope, node.value)


def _maker_line(weights: Expression, option: str) -> SourceLine | None:
    """Return the line that computes weights; None if they are the counts themselves."""
    rises = partial(_may_rise, option)
    made = part_producer(weights, None, may_make=rises, passes_conversions=True)
    if (name := self_attribute(made.node)) and (stored := assigned_attribute(made, name)):
        made = part_producer(*stored, may_make=rises, passes_conversions=True)
    return None if makes_counts(made) else made.line


def _may_rise(option: str, weights: Expression) -> bool:
    """Check whether weights do not fall with the class counts, or a weight of positives with their share."""
    return (count_trend(weights) or (positive_trend(weights) if option == "pos_weight" else 0)) >= 0


def _falls_with_counts(created: object, option: str, creation: Creation) -> bool:
    """Check whether a call passes weights that fall with the class counts."""
    argument = creation.argument(created, option)
    return argument is not None and not _may_rise(option, call_argument(creation, created, argument))


def sampler_weights_line(setup: Setup, *, rises: bool = False) -> SourceLine | None:
    """Return the line that makes the weights of the sampler, which may be known to rise with the class counts."""
    sampler = getattr(setup.train_loader, "sampler", None)
    creation = find_setup_creation(
        setup, sampler, is_excluded=lambda call: rises and _falls_with_counts(sampler, "weights", call)
    )
    weights = creation.argument(sampler, "weights") if creation else None
    if creation is None or weights is None:
        return None
    return part_producer(call_argument(creation, sampler, weights), None, passes_conversions=True).line


def few_weights_line(setup: Setup) -> SourceLine | None:
    """Return the line that creates a sampler with too few weights, or chooses them, if they are one for each class.

    No two of these are equal, while the samples of a class have equal weights.
    """
    sampler = getattr(setup.train_loader, "sampler", None)
    if not isinstance(sampler, WeightedRandomSampler):
        return None
    weights = np.asarray(torch.as_tensor(sampler.weights))
    if len(np.unique(weights)) < len(weights):
        return None
    creation = find_setup_creation(setup, sampler, is_excluded=partial(_has_weight_of_each_sample, sampler))
    argument = creation.argument(sampler, "weights") if creation else None
    chosen = choice_line(call_argument(creation, sampler, argument)) if creation and argument is not None else None
    return chosen or (creation.line if creation else None)


def _has_weight_of_each_sample(sampler: object, creation: Creation) -> bool:
    """Check whether a call passes weights that the labels of samples select, as in ``weights[labels]``."""
    argument = creation.argument(sampler, "weights")
    return argument is not None and _selects_for_samples(call_argument(creation, sampler, argument), _MAX_NESTING)


def _selects_for_samples(weights: Expression, depth: int) -> bool:
    """Check whether numbers are selected by an array of indices, before or after arithmetic with each of them."""
    made = part_producer(weights, None, passes_conversions=True)
    node = made.node
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        variables = assigned_names(node.generators[0].target)
        indices = [part.slice for part in ast.walk(node.elt) if isinstance(part, ast.Subscript)]
        is_of_classes = call_name(node.generators[0].iter) == "range"
        return not is_of_classes and any(variables & read_names(index) for index in indices)
    parts = [node.left, node.right] if isinstance(node, ast.BinOp) else []
    if isinstance(node, ast.Call):
        if call_name(node) in _SELECTING_CALLS:
            return True
        parts = [subject] if call_name(node) in _ELEMENTWISE and (subject := call_subject(node)) else []
    return depth > 0 and any(_selects_for_samples(Expression(made.scope, part), depth - 1) for part in parts)
