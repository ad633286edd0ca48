"""What a pass meets beside its arguments: the random state, and autocast."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor

from nbdebug.replay.passes import Casts


def random_state(device: str) -> dict[str, Tensor]:
    """The state of torch's generators on the CPU and on a device; nobody waits for the device."""
    state = {"cpu": torch.default_generator.get_state()}
    if device == "mps":
        state[device] = torch.mps.get_rng_state()
    elif device.startswith("cuda"):
        state[device] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: dict[str, Tensor]) -> None:
    """Puts torch's generators back where ``random_state`` found them."""
    for place, value in state.items():
        if place == "cpu":
            torch.set_rng_state(value)
        elif place == "mps":
            torch.mps.set_rng_state(value)
        else:
            torch.cuda.set_rng_state(value, place)


def casts(kinds: Iterable[str]) -> Casts:
    """Whether autocast is on, for some kinds of devices; nothing where it is off on all."""
    return tuple([(kind, True, torch.get_autocast_dtype(kind)) for kind in kinds if torch.is_autocast_enabled(kind)])


@contextmanager
def met(state: dict[str, Tensor], casting: Casts) -> Iterator[None]:
    """A block that begins with a random state and runs under some autocast."""
    with ExitStack() as stack:
        for kind, on, dtype in casting:
            stack.enter_context(torch.autocast(kind, dtype, enabled=on))
        set_random_state(state)
        yield
