"""Tests of Preserve on models: weights, state, hooks, modes and gradients."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from nbdebug.preserve import Preserve, restore
from tests.preserve.fingerprint import fingerprint
from tests.programs import PROGRAMS, Program, train


def test_block_copies_weights_instead_of_aliasing_them(program: Program) -> None:
    before, alias = copy.deepcopy(program.model.state_dict()), program.model.state_dict()
    with Preserve(program.model):
        train(program, program.loader(), 2)
        assert not torch.equal(alias["0.weight"], before["0.weight"])
    assert all(torch.equal(value, before[name]) for name, value in program.model.state_dict().items())


def test_block_restores_state_outside_state_dict() -> None:
    program = PROGRAMS["lstm"]()
    train(program, program.loader(), 2)
    before = fingerprint(program.model)
    batch_sizes, cache = program.model.batch_sizes, program.model.cache
    with Preserve(program.model):
        train(program, program.loader(), 3)
        program.model.batch_sizes, program.model.extra = [], torch.ones(1)
        assert program.model.calls == 5
    before.check()
    assert program.model.calls == 2
    assert program.model.batch_sizes is batch_sizes
    assert program.model.cache is cache


def test_block_restores_model_that_cannot_be_deep_copied() -> None:
    model = nn.Linear(2, 2)
    model.cached = model(torch.ones(1, 2))
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(model)
    before = fingerprint(model)
    with Preserve(model):
        model.cached = model(torch.zeros(1, 2))
    before.check()


def test_block_removes_new_hooks_and_restores_removed_ones() -> None:
    model = nn.Linear(2, 2)
    handles = [model.register_forward_hook(lambda *_: None) for _ in range(3)]
    before = fingerprint(model)
    with Preserve(model):
        handles[0].remove()
        model.register_forward_hook(lambda *_: None, prepend=True)
        model.register_full_backward_hook(lambda *_: None)
        model.weight.register_hook(lambda _: None)
        model.bias.register_post_accumulate_grad_hook(lambda _: None)
    before.check()
    model(torch.ones(1, 2)).sum().backward()


def test_block_restores_tensor_hooks() -> None:
    weight = nn.Parameter(torch.ones(2))
    gradient_hook = weight.register_hook(lambda _: None)
    accumulation_hook = weight.register_post_accumulate_grad_hook(lambda _: None)
    before = fingerprint(weight)
    with Preserve(weight):
        weight.register_hook(lambda grad: grad * 2)
        weight.register_post_accumulate_grad_hook(lambda _: 1 / 0)
        gradient_hook.remove()
        accumulation_hook.remove()
    before.check()
    weight.sum().backward()
    assert torch.equal(weight.grad, torch.ones(2))


def test_block_restores_mode_of_each_submodule() -> None:
    model = PROGRAMS["frozen"]().model
    before = [module.training for module in model.modules()]
    with Preserve(model):
        model.eval()
        model.train()
        assert model[1].training
    assert [module.training for module in model.modules()] == before
    assert not model[1].training


def test_block_restores_running_statistics() -> None:
    model = PROGRAMS["batch_norm"]().model
    norm = model[1]
    mean, count = norm.running_mean, norm.num_batches_tracked
    with Preserve(model):
        model.train()(torch.randn(8, 1, 6, 6))
        assert count == 1
    assert norm.running_mean is mean
    assert count == 0
    assert not mean.any()


def test_block_sets_gradients_aside_and_restores_them(program: Program) -> None:
    program.model[0].bias.grad = None
    gradients = {parameter: parameter.grad for parameter in program.model.parameters()}
    values = [None if grad is None else grad.clone() for grad in gradients.values()]
    with Preserve(program.model, program.optimizer) as preserve:
        assert all(parameter.grad is None for parameter in program.model.parameters())
        assert all(preserve.gradients[parameter] is grad for parameter, grad in gradients.items())
        train(program, program.loader(), 1)
        program.model.zero_grad(set_to_none=False)
    for (parameter, grad), value in zip(gradients.items(), values, strict=True):
        assert parameter.grad is grad
        assert (grad is None and value is None) or torch.equal(grad, value)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_block_left_by_any_exception_restores_state(program: Program, error: type[BaseException]) -> None:
    before = fingerprint(program.model, program.optimizer)
    with pytest.raises(error), Preserve(program.model, program.optimizer):
        program.model.register_forward_hook(lambda *_: None)
        train(program, program.loader(), 1)
        raise error
    before.check()


def test_restore_function_ends_block_that_was_never_left(program: Program) -> None:
    before = fingerprint(program.model, program.optimizer)
    Preserve(program.model, program.optimizer).__enter__()
    train(program, program.loader(), 1)
    assert restore() == 1
    before.check()
    assert restore() == 0


def test_block_restores_lazy_modules() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d(), nn.Linear(3, 1))
    before = fingerprint(model)
    with Preserve(model):
        model(torch.ones(2, 7)).sum().backward()
        assert model[0].in_features == 7
    before.check()
    assert model(torch.ones(2, 4)).shape == (2, 1)


def test_block_restores_tied_weights_and_copies_them_once() -> None:
    model = PROGRAMS["tied"]().model
    before = fingerprint(model)
    with Preserve(model) as preserve:
        model.output.weight = nn.Parameter(torch.zeros(11, 6))
        assert len(preserve.gradients) == 1
    assert model.output.weight is model.embedding.weight
    before.check()


@pytest.mark.parametrize("method", ["half", "double", "to_empty"])
def test_block_restores_memory_of_moved_weights(program: Program, method: str) -> None:
    before = fingerprint(program.model, program.optimizer)
    memory = [parameter.data_ptr() for parameter in program.model.parameters()]
    with Preserve(program.model, program.optimizer):
        program.model.to_empty(device="meta") if method == "to_empty" else getattr(program.model, method)()
    assert [parameter.data_ptr() for parameter in program.model.parameters()] == memory
    before.check()
    train(program, program.loader(), 1)
