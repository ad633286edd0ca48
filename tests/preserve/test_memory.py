"""What a block copies, and that it lets go of it."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader

from nbdebug.preserve import Preserve
from tests.programs import PROGRAMS, Program, train


class Copies(TorchDispatchMode):
    """Counts the elements of all tensors that are cloned."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the call and count."""
        if func is torch.ops.aten.clone.default:
            self.elements += args[0].numel()
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_copy_of_weights_and_optimizer_state_and_no_data(name: str) -> None:
    program = PROGRAMS[name]()
    loader = program.loader()
    train(program, loader, 1)
    program.model.cache = {}
    states = [
        one for state in program.optimizer.state.values() for one in state.values() if isinstance(one, torch.Tensor)
    ]
    owned = sum(one.numel() for one in (*program.model.parameters(), *program.model.buffers(), *states))
    preserve = Preserve(program.model, program.optimizer, loaders=[loader])
    with Copies() as copies:
        preserve.__enter__()
    preserve.restore()
    assert copies.elements == owned


def test_copies_are_released(program: Program) -> None:
    made = []
    with Preserve(program.model, program.optimizer) as preserve:
        made += [weakref.ref(kept.clone) for _, kept in preserve._kept if hasattr(kept, "clone")]
        assert len(made) > 4
    gc.collect()
    assert [one() for one in made if one() is not None] == []


def test_a_dataset_that_is_a_plain_list_is_not_copied() -> None:
    data = [(torch.ones(2), {"label": [1]}) for _ in range(1000)]
    loader = DataLoader(data, shuffle=True)
    with Copies() as copies, Preserve(loaders=[loader, data, iter(data)]):
        next(iter(loader))
    assert copies.elements == 0
