"""What a block copies, and that it lets go of it."""

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


class Copies(TorchDispatchMode):
    """Counts the elements of all tensors that are cloned."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the call and count."""
        if func is torch.ops.aten.clone.default:
            self.elements += args[0].numel()
        return func(*args, **(kwargs or {}))


def states(program: Program) -> list[torch.Tensor]:
    """The tensors that the optimizer keeps."""
    inside = (one for state in program.optimizer.state.values() for one in state.values())
    return [one for one in inside if isinstance(one, torch.Tensor)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_copy_of_the_weights_none_of_the_data_and_of_the_state_only_for_a_step(name: str) -> None:
    program = PROGRAMS[name]()
    loader = program.loader()
    train(program, loader, 1)
    program.model.cache = {}
    before = [one.clone() for one in states(program)]
    weights = sum(one.numel() for one in (*program.model.parameters(), *program.model.buffers()))
    preserve = Preserve(program.model, program.optimizer, loaders=[loader])
    with Copies() as copies:
        preserve.__enter__()
    assert copies.elements == weights
    for parameter in program.model.parameters():
        parameter.grad = torch.ones_like(parameter)
    with Copies() as copies:
        program.optimizer.step()
        program.optimizer.step()
    assert copies.elements == sum(one.numel() for one in before)
    assert not all(map(torch.equal, states(program), before))
    preserve.restore()
    assert all(map(torch.equal, states(program), before))
    assert not program.optimizer._optimizer_step_pre_hooks


def test_state_that_is_changed_without_a_step_is_told(program: Program) -> None:
    train(program, program.loader(), 1)
    preserve = Preserve(program.model, program.optimizer)
    preserve.__enter__()
    states(program)[-1].add_(1)
    with pytest.raises(RestoreError, match="changed in place outside its step"):
        preserve.restore()


class Unhooked(torch.optim.SGD):
    """An optimizer that never ran the constructor of torch's, whose steps nobody is told of."""

    def __init__(self, parameters: Any) -> None:
        self.param_groups, self.state = [{"params": list(parameters)}], {}

    def step(self, closure: Any = None) -> None:
        for parameter in self.param_groups[0]["params"]:
            self.state.setdefault(parameter, {"sum": torch.zeros(())})["sum"].add_(1)


def test_an_optimizer_without_hooks_is_copied_at_once(program: Program) -> None:
    optimizer = Unhooked(program.model.parameters())
    optimizer.step()
    with Preserve(program.model, optimizer):
        optimizer.step()
    assert {float(state["sum"]) for state in optimizer.state.values()} == {1.0}


def test_copies_are_released(program: Program) -> None:
    train(program, program.loader(), 1)
    made = []
    with Preserve(program.model, program.optimizer) as preserve:
        program.optimizer.step()
        made += [weakref.ref(kept.clone) for _, kept in preserve._snapshots if hasattr(kept, "clone")]
        made += [
            weakref.ref(one.clone) for _, kept in preserve._snapshots for one in getattr(kept, "tensor_snapshots", [])
        ]
        assert len(made) > 6
    gc.collect()
    assert [one() for one in made if one() is not None] == []


def test_a_dataset_that_is_a_plain_list_is_not_copied() -> None:
    data = [(torch.ones(2), {"label": [1]}) for _ in range(1000)]
    loader = DataLoader(data, shuffle=True)
    with Copies() as copies, Preserve(loaders=[loader, data, iter(data)]):
        next(iter(loader))
    assert copies.elements == 0


def test_a_closed_block_goes_without_garbage_collection() -> None:
    gc.disable()
    try:
        model = torch.nn.Linear(2, 2)
        with Preserve(model) as block:
            pass
        gone = weakref.ref(block), weakref.ref(model)
        del block, model
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()
