"""Attention as it happens: every call of a function of attention in a run, with the layer that made it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nbdebug.inside.weights import LARGEST, of_dot_product, of_module

Kind = Literal["multi-head attention", "dot-product attention", "softmax"]
PRODUCTS = ("matmul", "bmm", "__matmul__", "__rmatmul__", "einsum", "baddbmm")
CARRIED = ("dropout", "to", "type_as", "float", "half", "bfloat16", "unsqueeze", "view", "reshape", "contiguous",
           "transpose", "nan_to_num", "clone", "masked_fill", "where", "__mul__", "mul", "permute")  # fmt: skip
SHARP = 1e-3  # how far a row of weights may be from a sum of 1


@dataclass(frozen=True)
class Heard:
    """The weights of one call as they are, its layer, and whether it looks at its own queries, where that is known."""

    layer: str
    kind: Kind
    weights: Tensor
    itself: bool | None = None


class Overhear(TorchFunctionMode):
    """Hears what functions of attention are given; they give what they would have given.

    A softmax along the last axis counts once something is multiplied by it as a matrix.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Heard | None] = []
        self.missed: list[str] = []
        self.inside: list[str] = []
        self.followed: dict[int, tuple[weakref.ref[Tensor], int]] = {}
        self.waiting: dict[int, Heard] = {}

    @property
    def layer(self) -> str:
        """The innermost layer that runs."""
        return self.inside[-1] if self.inside else ""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Calls the function as it is; looks at what it was given before and after."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "multi_head_attention_forward":
            self.hear("multi-head attention", lambda: of_module(args, kwargs))
        elif name == "scaled_dot_product_attention":
            self.hear("dot-product attention", lambda: (of_dot_product(*args, **kwargs), None))
        elif self.followed:
            self.used(name, args, kwargs)
        output = func(*args, **kwargs)
        if name == "softmax":
            self.follow(output)
        elif self.followed and name in CARRIED and isinstance(output, Tensor):
            self.carry(args, output)
        return output

    def hear(self, kind: Kind, weights: Any) -> None:
        """Keeps the weights of one call; what cannot be had is said."""
        try:
            found, itself = weights()
        except Exception as error:  # a look must not break a run that goes well without it
            self.missed.append(f"{self.layer or 'the model'} ({type(error).__name__}: {error})")
            return
        self.found.append(Heard(self.layer, kind, found.detach(), itself))

    def follow(self, output: Any) -> None:
        """Remembers a softmax that may become attention."""
        if not isinstance(output, Tensor) or not 2 <= output.dim() <= 4 or output.shape[-1] < 2:
            return
        if output.numel() > LARGEST or not sums_to_one(output):
            return
        place = len(self.found)
        self.found.append(None)
        self.waiting[place] = Heard(self.layer, "softmax", output.detach().clone())
        self.followed[id(output)] = weakref.ref(output), place

    def carry(self, args: tuple[Any, ...], output: Tensor) -> None:
        """Follows a softmax through what leaves it attention."""
        if (place := self.place(args[:1])) is not None:
            self.followed[id(output)] = weakref.ref(output), place

    def used(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A softmax that is multiplied as a matrix is attention."""
        if name in PRODUCTS and (place := self.place((*args, *kwargs.values()))) is not None:
            self.found[place] = self.waiting.pop(place, self.found[place])

    def place(self, given: Any) -> int | None:
        """Which softmax is among the tensors that are given."""
        for one in given:
            if isinstance(one, (tuple, list)) and (inner := self.place(one)) is not None:
                return inner
            reference, place = self.followed.get(id(one), (None, 0))
            if reference is not None and reference() is one:
                return place
        return None


def sums_to_one(output: Tensor) -> bool:
    """Whether the rows of a tensor do, apart from those that see nothing."""
    sums = output.float().sum(-1)
    return bool((((sums - 1).abs() < SHARP) | (sums == 0) | sums.isnan()).all())


@contextmanager
def overhearing(model: nn.Module) -> Iterator[Overhear]:
    """A block in which the attention of a model is heard, and which layer runs."""
    mode = Overhear()
    names = {one: name for name, one in model.named_modules() if not isinstance(one, torch.jit.ScriptModule)}

    def enter(module: nn.Module, _: Any) -> None:
        mode.inside.append(names[module])

    def leave(module: nn.Module, _: Any, __: Any) -> None:
        if mode.inside:  # a hook of the user's may have failed before this one could enter
            mode.inside.pop()

    with ExitStack() as stack:
        for one in names:
            stack.callback(one.register_forward_pre_hook(enter).remove)
            stack.callback(one.register_forward_hook(leave, always_call=True).remove)
        yield stack.enter_context(mode)
