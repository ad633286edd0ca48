"""Tests of the search for tensors in the attributes of objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nbdebug.measurements.parameter_coverage import iterate_members


@dataclass
class Guarded:
    """A dataclass such as a configuration, which refuses that one of its fields is read as an attribute."""

    tensor: Tensor = field(default_factory=lambda: torch.ones(2))
    per_layer: int = 1

    def __getattribute__(self, name: str) -> Any:
        if name == "per_layer":
            raise RuntimeError("per_layer varies across layers")
        return super().__getattribute__(name)


@dataclass
class Slotted:
    """A dataclass without a dictionary, one field of which was deleted."""

    __slots__ = ("deleted", "tensor")
    tensor: Tensor
    deleted: Tensor


def test_fields_are_read_without_running_code_of_the_class() -> None:
    guarded = Guarded()
    assert list(iterate_members([guarded], set())) == [vars(guarded)["tensor"]]


def test_fields_in_slots_are_read_if_they_have_a_value() -> None:
    slotted = Slotted(torch.ones(2), torch.zeros(2))
    del slotted.deleted
    assert list(iterate_members(slotted, set())) == [slotted.tensor]
