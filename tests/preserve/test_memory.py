"""Tests of the memory of a Preserve block: what it copies, and that it releases it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader

from nbdebug.preserve import Preserve, RestoreError
from tests.programs import PROGRAMS, Program, train


class CloneCounter(TorchDispatchMode):
    """Counts the elements of all tensors that are cloned."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.clone.default:
            self.elements += args[0].numel()
        return func(*args, **(kwargs or {}))


def optimizer_tensors(program: Program) -> list[torch.Tensor]:
    """Return the tensors in the state of the optimizer."""
    values = (value for state in program.optimizer.state.values() for value in state.values())
    return [value for value in values if isinstance(value, torch.Tensor)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_block_copies_weights_at_entry_and_optimizer_state_at_first_step(name: str) -> None:
    program = PROGRAMS[name]()
    loader = program.loader()
    train(program, loader, 1)
    program.model.cache = {}
    before = [tensor.clone() for tensor in optimizer_tensors(program)]
    weights = sum(tensor.numel() for tensor in (*program.model.parameters(), *program.model.buffers()))
    preserve = Preserve(program.model, program.optimizer, loaders=[loader])
    with CloneCounter() as copies:
        preserve.__enter__()
    assert copies.elements == weights
    for parameter in program.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    with CloneCounter() as copies:
        program.optimizer.step()
        program.optimizer.step()
    assert copies.elements == sum(tensor.numel() for tensor in before)
    assert not all(map(torch.equal, optimizer_tensors(program), before))
    preserve.restore()
    assert all(map(torch.equal, optimizer_tensors(program), before))
    assert not program.optimizer._optimizer_step_pre_hooks


def test_block_with_optimizer_state_changed_outside_step_raises(program: Program) -> None:
    train(program, program.loader(), 1)
    preserve = Preserve(program.model, program.optimizer)
    preserve.__enter__()
    optimizer_tensors(program)[-1].add_(1)
    with pytest.raises(RestoreError, match="changed in place outside its step"):
        preserve.restore()


class UnhookedOptimizer(torch.optim.SGD):
    """An optimizer that skips the constructor of torch, so that step hooks do not run."""

    def __init__(self, parameters: Any) -> None:
        self.param_groups, self.state = [{"params": list(parameters)}], {}

    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            self.state.setdefault(parameter, {"sum": torch.zeros(())})["sum"].add_(1)


def test_block_with_optimizer_without_hooks_restores_its_state(program: Program) -> None:
    optimizer = UnhookedOptimizer(program.model.parameters())
    optimizer.step()
    with Preserve(program.model, optimizer):
        optimizer.step()
    assert {float(state["sum"]) for state in optimizer.state.values()} == {1.0}


def test_closed_block_releases_its_copies(program: Program) -> None:
    train(program, program.loader(), 1)
    with Preserve(program.model, program.optimizer) as preserve:
        program.optimizer.step()
        snapshots = [snapshot for _, snapshot in preserve._snapshots]
        tensor_snapshots = [snapshot for snapshot in snapshots if hasattr(snapshot, "clone")]
        tensor_snapshots += [child for parent in snapshots for child in getattr(parent, "tensor_snapshots", [])]
        references = [weakref.ref(snapshot.clone) for snapshot in tensor_snapshots]
        del snapshots, tensor_snapshots
        assert len(references) > 6
    gc.collect()
    assert [reference() for reference in references if reference() is not None] == []


def test_block_does_not_copy_list_dataset() -> None:
    data = [(torch.ones(2), {"label": [1]}) for _ in range(1000)]
    loader = DataLoader(data, shuffle=True)
    with CloneCounter() as copies, Preserve(loaders=[loader, data, iter(data)]):
        next(iter(loader))
    assert copies.elements == 0


def test_closed_block_is_freed_without_garbage_collection() -> None:
    gc.disable()
    try:
        model = torch.nn.Linear(2, 2)
        with Preserve(model) as block:
            pass
        references = weakref.ref(block), weakref.ref(model)
        del block, model
        assert [reference() for reference in references] == [None, None]
    finally:
        gc.enable()
