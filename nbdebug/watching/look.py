"""A look: what is gathered of every layer at one step."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn

from nbdebug.numbers import MOST, sampled
from nbdebug.watching.units import live_units


@dataclass
class Look:
    """What was gathered of one step, by number; all still on the device.

    ``there`` says which parameters had a gradient, ``moved`` which were stepped on. Of each output ``most`` values are
    kept, and with ``units`` which of its units spoke. ``largest`` are absolute values of single large parameters or
    their gradients, by family and number.
    """

    step: int
    most: int = MOST
    units: bool = True

    gradients: Tensor | None = None
    before: Tensor | None = None
    after: Tensor | None = None
    there: list[bool] = field(default_factory=list)
    moved: list[bool] = field(default_factory=list)
    outputs: dict[str, tuple[type[nn.Module], Tensor, int]] = field(default_factory=dict)
    largest: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    live: dict[str, Tensor] = field(default_factory=dict)

    def take(self, place: str, module: nn.Module, output: Tensor) -> None:
        """Keeps samples of an output."""
        values, length = sampled(output, self.most)
        self.outputs[place] = type(module), values, length
        if self.units and output.dim() > 1 and not any(True for _ in module.parameters(recurse=False)):
            self.live[place] = live_units(output)

    @property
    def layout(self) -> tuple[tuple[str, int], ...]:
        """The outputs by place, and how many values each really has."""
        return tuple((place, length) for place, (_, _, length) in self.outputs.items())
