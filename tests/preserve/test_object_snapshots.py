"""Tests of Preserve on attributes of all types."""

from __future__ import annotations

import array
import logging
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nbdebug.exceptions import SetupError
from nbdebug.preserve import Preserve
from tests.preserve.fingerprint import fingerprint


@dataclass(slots=True)
class SlotsObject:
    """State in slots."""

    count: int
    values: list[int]


@dataclass(frozen=True, slots=True)
class FrozenObject:
    """A frozen object with a mutable list."""

    values: list[int]


class Color(Enum):
    """A constant."""

    RED = 1


class UnreadableObject:
    """Raises at every access."""

    @property
    def value(self) -> Any:
        raise RuntimeError("no value")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __repr__(self) -> str:
        raise RuntimeError("no text")

    __hash__ = object.__hash__


class HiddenDictObject:
    """Raises when its attributes are read."""

    @property
    def __dict__(self) -> Any:
        raise RuntimeError("hidden")


class AttributeDict(dict[str, Any]):
    """A dict whose items are its attributes."""

    def __init__(self, **items: Any) -> None:
        super().__init__(**items)
        self.__dict__ = self


class TaggedList(list[int]):
    """A list with an attribute."""

    tag = "a"


class ChainNode:
    """An element of a linked list."""

    def __init__(self, successor: ChainNode | None) -> None:
        self.successor, self.value = successor, 0


class StateDictObject:
    """Exposes its state only in ``state_dict``."""

    __slots__ = ("__weakref__", "_state")

    def __init__(self) -> None:
        self._state = {"steps": [1]}

    def state_dict(self) -> dict[str, Any]:
        return self._state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._state = state


def change_attributes(model: nn.Module) -> None:
    model.names["b"] = 2
    model.order.move_to_end("x")
    model.lazy["new"].append(1)
    model.lazy.default_factory = None
    model.tagged.tag = "b"
    model.counter.update("ab")
    model.items.clear()
    model.recent.append(4)
    model.kinds.discard("a")
    model.raw[0] = 9
    model.machine.append(3)
    model.table += 1
    model.objects[0] = None
    model.slotted.count, model.slotted.values = 5, []
    model.frozen.values.append(2)
    model.attributes.depth = 9
    model.function.calls = 7
    model.names["inner"].append(0)
    model.pair[0].append(1)
    model.view.add_(1)


def function() -> None:
    return None


def make_model() -> nn.Module:
    model = nn.Linear(2, 2)
    model.names, model.order = {"a": 1, "inner": [1, [2]]}, OrderedDict(x=1, y=2)
    model.lazy, model.counter = defaultdict(list, old=[1]), Counter("aab")
    model.items, model.recent, model.kinds = [1, [2], Color.RED], deque([1, 2, 3], maxlen=3), {"a", "b"}
    model.raw, model.machine = bytearray(b"abc"), array.array("i", [1, 2])
    model.table, model.objects = np.arange(4.0), np.array([[1], "a"], dtype=object)
    model.slotted, model.frozen, model.attributes = SlotsObject(1, [1]), FrozenObject([1]), AttributeDict(depth=1)
    model.function, model.pair, model.view = function, ([1], (2,)), model.weight.detach().t()
    model.tagged = TaggedList([1])
    function.calls = 0  # type: ignore[attr-defined]
    return model


def test_block_restores_every_type_of_attribute() -> None:
    model = make_model()
    before = fingerprint(model)
    recent, raw, machine = list(model.recent), bytes(model.raw), model.machine.tolist()
    function_object = model.function
    with Preserve(model):
        change_attributes(model)
        assert len(before.differences()) >= 15
    before.check()
    assert (list(model.recent), model.recent.maxlen, bytes(model.raw)) == (recent, 3, raw)
    assert (model.machine.tolist(), function_object.calls, model.lazy.default_factory) == (machine, 0, list)
    assert model.tagged.tag == "a"
    assert list(model.order) == ["x", "y"]
    assert list(reversed(model.order)) == ["y", "x"]


def test_block_tolerates_objects_that_cannot_be_read() -> None:
    model = nn.Linear(2, 2)
    model.unreadable = [
        UnreadableObject(),
        HiddenDictObject(),
        Color.RED,
        threading.Lock(),
        iter([1]),
        logging.getLogger("x"),
        np.float64(1.0),
    ]
    model.unusual_keys = {UnreadableObject(): 1, (1, 2): [3], torch.ones(2): [4]}
    model.read_only = np.arange(3)
    model.read_only.flags.writeable = False
    model.itself = model
    with Preserve(model):
        model.unusual_keys.clear()
        model.unreadable.clear()
    assert len(model.unreadable) == 7
    assert len(model.unusual_keys) == 3


def test_block_follows_long_chain_of_objects() -> None:
    head = tail = ChainNode(None)
    for _ in range(20_000):
        head = ChainNode(head)
    with Preserve(head):
        tail.value = 1
    assert tail.value == 0


def test_block_restores_object_by_its_state_dict() -> None:
    obj = StateDictObject()
    with Preserve(obj):
        obj.state_dict()["steps"].append(2)
    assert obj.state_dict() == {"steps": [1]}


def test_block_of_bound_method_restores_its_object() -> None:
    model = nn.Linear(2, 2)
    with Preserve(model.forward):
        model.weight.data.zero_()
    assert model.weight.abs().sum() > 0


def test_block_restores_replaced_attribute_dict() -> None:
    node = ChainNode(None)
    attributes = vars(node)
    with Preserve(node):
        node.__dict__ = {"value": 5}
    assert vars(node) is attributes
    assert node.value == 0


class UncopyableStateObject(StateDictObject):
    """Has a state that cannot be copied."""

    __slots__ = ()

    def state_dict(self) -> dict[str, Any]:
        return {"lock": threading.Lock()}


def test_block_with_uncopyable_state_raises_before_it_begins() -> None:
    model = nn.Linear(2, 2)
    model.weight.grad = grad = torch.ones(2, 2)
    model.part = UncopyableStateObject()
    with pytest.raises(SetupError, match=r"Linear\.part is a UncopyableStateObject"), Preserve(model):
        pytest.fail("the block began")
    assert model.weight.grad is grad


def test_block_restores_order_of_set_with_colliding_hashes() -> None:
    """15 and 7 share a slot of a small hash table, so that the order of insertion decides the order of iteration."""
    model = nn.Linear(1, 1)
    model.kinds = {7, 15}
    order = list(model.kinds)
    assert list(set(order)) != order
    with Preserve(model):
        model.kinds.discard(7)
    assert list(model.kinds) == order
