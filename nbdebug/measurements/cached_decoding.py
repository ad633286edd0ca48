"""Decoding with a cache compared with the pass over all tokens, for models whose forward takes and returns a cache."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.attention_pass import few_samples
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import seed_all
from nbdebug.setup.evaluation_mode import fast_attention_disabled, in_mode
from nbdebug.setup.losses import score_tensor
from nbdebug.tensors.pytree import tree_children, tree_tensors

_STEPS, _MIN_TOKENS = 3, 4
_TOLERANCE = 1e-3  # of the largest output; both ways compute the same sums in another order


@dataclass(frozen=True)
class CachedDecoding:
    """Outputs for single tokens after a prefix of ``prefix`` tokens, whose cache is passed as ``argument``.

    ``difference`` is the largest difference from the outputs of the pass over all tokens, relative to the largest of
    these; ``step`` is the first step with a difference of more than a thousandth, None if there is none. ``where`` is
    the call whose result differs first.
    """

    argument: str
    prefix: int
    steps: int
    difference: float
    step: int | None = None
    where: Location = field(default_factory=Location)


@dataclass(frozen=True)
class _Decoder:
    """A model and the arguments that make it return and take a cache."""

    answers: EvalOutputs
    flags: dict[str, bool]
    argument: str
    key: Any

    def run(self, tokens: Tensor, cache: Any = None) -> tuple[Tensor, Any]:
        """Return the outputs of some tokens, and the new cache."""
        kwargs = {**self.flags, **({self.argument: cache} if cache is not None else {})}
        output = _run(self.answers, tokens, kwargs)
        return score_tensor(output), tree_children(output)[self.key]


def _run(answers: EvalOutputs, tokens: Tensor, kwargs: dict[str, Any]) -> Any:
    """Return the output of the model for some tokens in eval mode."""
    model = answers.setup.eager_model
    with torch.no_grad(), in_mode(model, False), fast_attention_disabled():
        seed_all(0)
        return model(tokens, **kwargs)


@slow_measurement
def cached_decoding(eval_outputs: EvalOutputs) -> CachedDecoding:
    """Outputs of decoding token by token with the cache of a prefix, compared with the pass over all tokens."""
    answers = few_samples(eval_outputs, 2)
    tokens = _get_tokens(answers)
    prefix = tokens.shape[1] // 2
    decoder = _find_decoder(answers, tokens, prefix)
    steps = min(_STEPS, tokens.shape[1] - prefix)
    full = score_tensor(_run(answers, tokens[:, : prefix + steps], {}))
    _check_causality(answers, tokens, full, prefix)
    largest, cache = float(full.abs().max()), None
    differences: list[float] = []
    for step in range(steps + 1):
        chunk = tokens[:, :prefix] if not step else tokens[:, prefix + step - 1 : prefix + step]
        try:
            scores, cache = decoder.run(chunk, cache)
        except Exception as error:
            raise NotChecked(f"decoding with {decoder.argument}= raised {type(error).__name__}: {error}") from error
        expected = full[:, prefix + step - 1]
        differences.append(float((scores[:, -1] - expected).abs().max()) / max(largest, 1e-12))
    first = next((k for k, difference in enumerate(differences) if not difference <= _TOLERANCE), None)
    result = CachedDecoding(decoder.argument, prefix, steps, max(differences), first)
    return result if first is None else replace(result, where=_find_difference(decoder, tokens, prefix, first))


def _get_tokens(answers: EvalOutputs) -> Tensor:
    """Return the tokens, if they are the only input and are passed by position."""
    inputs = list(answers.inputs.values())
    is_only = len(inputs) == 1 and len(answers.batch.args) == 1 and not answers.batch.kwargs
    if not is_only or answers.setup.forward is not None:
        raise NotChecked("the model takes more than one input")
    tokens = inputs[0]
    if tokens.is_floating_point() or tokens.dim() != 2 or tokens.shape[1] < _MIN_TOKENS:
        raise NotChecked("the input is no sequence of tokens")
    return tokens


def _find_decoder(answers: EvalOutputs, tokens: Tensor, prefix: int) -> _Decoder:
    """Return the way to pass a cache: an output of the prefix that an argument takes with the next token."""
    parameters = inspect.signature(answers.setup.eager_model.forward).parameters.values()
    caches = [p.name for p in parameters if p.default is None]
    flags = [p.name for p in parameters if p.default is False]
    for chosen in ({}, *({name: True} for name in flags)) if caches else ():
        try:
            output = _run(answers, tokens[:, :prefix], chosen)
        except Exception:  # the flag means something else
            continue
        for key in _cache_keys(output, prefix):
            for name in sorted(caches, key=lambda name: name != key):
                decoder = _Decoder(answers, chosen, name, key)
                if _takes_cache(decoder, tokens, prefix):
                    return decoder
    raise NotChecked("the model takes no cache that it returns")


def _cache_keys(output: Any, prefix: int) -> Iterator[Any]:
    """Yield the parts of an output, beside the scores, that contain something for each token of the prefix."""
    scores = score_tensor(output)
    for key, part in tree_children(output).items():
        tensors = tree_tensors(part)
        if part is not scores and any(prefix in t.shape[1:] and t.dim() > 2 for t in tensors):
            yield key


def _takes_cache(decoder: _Decoder, tokens: Tensor, prefix: int) -> bool:
    """Return whether the next token and the cache of the prefix give outputs for one token."""
    try:
        scores, cache = decoder.run(tokens[:, :prefix])
        following, _ = decoder.run(tokens[:, prefix : prefix + 1], cache)
    except Exception:
        return False
    is_stepwise = isinstance(following, Tensor) and following.dim() == 3 and following.shape[1] == 1
    return is_stepwise and scores.shape[:2] == (len(tokens), prefix)


def _check_causality(answers: EvalOutputs, tokens: Tensor, full: Tensor, prefix: int) -> None:
    """Raise NotChecked if the outputs of a prefix depend on the tokens after it."""
    alone = score_tensor(_run(answers, tokens[:, :prefix], {}))
    if not torch.allclose(alone, full[:, :prefix], rtol=0.0, atol=_TOLERANCE * float(full.abs().max())):
        raise NotChecked("the outputs of a prefix depend on the tokens after it")


def _find_difference(decoder: _Decoder, tokens: Tensor, prefix: int, step: int) -> Location:
    """Return the first call of a step whose result differs from that of the same call in the pass over all tokens."""
    end = prefix + step
    cached, whole, cache = list[TorchCall](), list[TorchCall](), None
    model = decoder.answers.setup.eager_model
    for k in range(step + 1):
        chunk = tokens[:, :prefix] if not k else tokens[:, prefix + k - 1 : prefix + k]
        cached.clear()
        with record_calls(model, cached.append):
            _, cache = decoder.run(chunk, cache)
    with record_calls(model, whole.append):
        _run(decoder.answers, tokens[:, :end], {})
    counterparts = dict(_number(whole))
    makers = {id(t): call for call in cached for t in call.outputs if all(t is not other for other in call.inputs)}
    for key, call in _number(cached):
        other = counterparts.get(key)
        if other is None or not call.outputs[0].is_floating_point() or not _differs(call.outputs[0], other.outputs[0]):
            continue
        for own, expected in zip(call.inputs, other.inputs, strict=False):
            maker = makers.get(id(own))
            if maker is not None and _differs(own, expected):
                return maker.where
        return call.where
    return Location()


def _number(calls: list[TorchCall]) -> Iterator[tuple[tuple[Any, ...], TorchCall]]:
    """Yield calls with their name, module, line and how often that has occurred before."""
    counts: Counter[tuple[Any, ...]] = Counter()
    for call in calls:
        key = (call.name, call.module, call.line.number if call.line else None)
        counts[key] += 1
        yield (*key, counts[key]), call


def _differs(own: Tensor, expected: Tensor) -> bool:
    """Return whether a tensor differs from the last positions of that of the whole pass, along one axis."""
    if own.dim() != expected.dim() or own.dim() < (2 if own.is_floating_point() else 1):
        return False
    axes = [axis for axis in range(own.dim()) if own.shape[axis] != expected.shape[axis]]
    if len(axes) > 1 or any(own.shape[axis] > expected.shape[axis] for axis in axes):
        return False
    for axis in axes:
        expected = expected.narrow(axis, expected.shape[axis] - own.shape[axis], own.shape[axis])
    if not own.is_floating_point():
        return not torch.equal(own, expected)
    finite = expected.isfinite() & own.isfinite()
    largest = float(expected[finite].abs().max()) if bool(finite.any()) else 0.0
    return float((own - expected)[finite].abs().max()) > _TOLERANCE * largest if largest else False
