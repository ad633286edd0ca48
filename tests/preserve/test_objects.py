"""Kinds of things that hang on models: each comes back, or is left alone without harm."""

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
class Slotted:
    """State in slots."""

    count: int
    values: list[int]


@dataclass(frozen=True, slots=True)
class Frozen:
    """Cannot be assigned to; its list can be changed."""

    values: list[int]


class Color(Enum):
    """A constant."""

    RED = 1


class Broken:
    """Refuses to be read."""

    @property
    def value(self) -> Any:
        """Never to be had."""
        raise RuntimeError("no value")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    def __repr__(self) -> str:
        raise RuntimeError("not to be shown")

    __hash__ = object.__hash__


class Hidden:
    """Shows another object's attributes as its own."""

    @property
    def __dict__(self) -> Any:
        raise RuntimeError("hidden")


class Attributes(dict[str, Any]):
    """A dict whose items are its attributes."""

    def __init__(self, **items: Any) -> None:
        super().__init__(**items)
        self.__dict__ = self


class Tagged(list[int]):
    """A list with an attribute."""

    tag = "a"


class Node:
    """A link of a chain."""

    def __init__(self, after: Node | None) -> None:
        self.after, self.value = after, 0


class Stored:
    """State that only ``state_dict`` shows."""

    __slots__ = ("__weakref__", "_state")

    def __init__(self) -> None:
        self._state = {"steps": [1]}

    def state_dict(self) -> dict[str, Any]:
        """The live state."""
        return self._state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put the state back."""
        self._state = state


def _change(model: nn.Module) -> None:
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


def _function() -> None:
    return None


def _model() -> nn.Module:
    model = nn.Linear(2, 2)
    model.names, model.order = {"a": 1, "inner": [1, [2]]}, OrderedDict(x=1, y=2)
    model.lazy, model.counter = defaultdict(list, old=[1]), Counter("aab")
    model.items, model.recent, model.kinds = [1, [2], Color.RED], deque([1, 2, 3], maxlen=3), {"a", "b"}
    model.raw, model.machine = bytearray(b"abc"), array.array("i", [1, 2])
    model.table, model.objects = np.arange(4.0), np.array([[1], "a"], dtype=object)
    model.slotted, model.frozen, model.attributes = Slotted(1, [1]), Frozen([1]), Attributes(depth=1)
    model.function, model.pair, model.view = _function, ([1], (2,)), model.weight.detach().t()
    model.tagged = Tagged([1])
    _function.calls = 0  # type: ignore[attr-defined]
    return model


def test_every_kind_of_attribute_comes_back() -> None:
    model = _model()
    before = fingerprint(model)
    recent, raw, machine, function = list(model.recent), bytes(model.raw), model.machine.tolist(), model.function
    with Preserve(model):
        _change(model)
        assert len(before.differences()) >= 15
    before.check()
    assert (list(model.recent), model.recent.maxlen, bytes(model.raw)) == (recent, 3, raw)
    assert (model.machine.tolist(), function.calls, model.lazy.default_factory) == (machine, 0, list)
    assert model.tagged.tag == "a"
    assert list(model.order) == ["x", "y"]
    assert list(reversed(model.order)) == ["y", "x"]


def test_what_cannot_be_looked_into_does_no_harm() -> None:
    model = nn.Linear(2, 2)
    model.odd = [Broken(), Hidden(), Color.RED, threading.Lock(), iter([1]), logging.getLogger("x"), np.float64(1.0)]
    model.odd_keys = {Broken(): 1, (1, 2): [3], torch.ones(2): [4]}
    model.read_only = np.arange(3)
    model.read_only.flags.writeable = False
    model.myself = model
    with Preserve(model):
        model.odd_keys.clear()
        model.odd.clear()
    assert len(model.odd) == 7
    assert len(model.odd_keys) == 3


def test_a_long_chain_is_followed_to_its_end() -> None:
    first = last = Node(None)
    for _ in range(20_000):
        first = Node(first)
    with Preserve(first):
        last.value = 1
    assert last.value == 0


def test_an_object_known_by_its_state_dict_alone() -> None:
    stored = Stored()
    with Preserve(stored):
        stored.state_dict()["steps"].append(2)
    assert stored.state_dict() == {"steps": [1]}


def test_a_bound_method_stands_for_its_object() -> None:
    model = nn.Linear(2, 2)
    with Preserve(model.forward):
        model.weight.data.zero_()
    assert model.weight.abs().sum() > 0


def test_a_replaced_attribute_dict_is_put_back() -> None:
    node = Node(None)
    attributes = vars(node)
    with Preserve(node):
        node.__dict__ = {"value": 5}
    assert vars(node) is attributes
    assert node.value == 0


class Uncopyable(Stored):
    """Has a state that cannot be copied."""

    __slots__ = ()

    def state_dict(self) -> dict[str, Any]:
        """A lock, which is not to be copied."""
        return {"lock": threading.Lock()}


def test_what_cannot_be_kept_stops_the_block_before_it_begins() -> None:
    model = nn.Linear(2, 2)
    model.weight.grad = grad = torch.ones(2, 2)
    model.part = Uncopyable()
    with pytest.raises(SetupError, match=r"Linear\.part is a Uncopyable"), Preserve(model):
        pytest.fail("the block began")
    assert model.weight.grad is grad


def test_a_set_comes_back_in_its_order_where_hashes_collide() -> None:
    """15 and 7 fall into one place of a small table: whichever comes first takes it, and is the last to be given."""
    model = nn.Linear(1, 1)
    model.kinds = {7, 15}
    order = list(model.kinds)
    assert list(set(order)) != order
    with Preserve(model):
        model.kinds.discard(7)
    assert list(model.kinds) == order
