"""Rates of dropout that an evaluation sets to zero, and that are still zero when the loop trains on."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

_MAX_RATES = 200  # rates that are recorded
_DROPOUTS = nn.modules.dropout._DropoutNd


@dataclass(frozen=True)
class LostRate:
    """An attribute of a submodule that an evaluation set to zero, and that stayed zero in later training passes.

    ``rate`` is its value before, in the first training passes. ``passes_without`` counts the recorded training passes
    with a value of zero, out of ``passes``.
    """

    module: str
    attribute: str
    rate: float
    passes_without: int
    passes: int


class DropoutRateMonitor:
    """Compares the numbers between 0 and 1 that the modules store, at the start of each pass.

    A number counts as lost if it is zero at the second or a later pass of an evaluation that follows training passes
    with its initial value, and in all training passes after it. A number that is zero only from a training pass on, as
    in a schedule of the loop, does not count, and neither does one that takes other values.
    """

    def __init__(self, model: nn.Module) -> None:
        places = [(path, module, name) for path, module in model.named_modules() for name in _rate_names(module)]
        self.places = places[:_MAX_RATES]
        self.initial = self._read()
        self.candidates = set(range(len(self.places)))
        self.trained, self.lost = set[int](), set[int]()
        self.passes, self.passes_without = 0, dict.fromkeys(self.candidates, 0)

    def on_forward_begin(self, is_training: bool) -> None:
        """Compare the current values, at the start of a pass of training or of an evaluation."""
        if not self.candidates:
            return
        values, self.passes = self._read(), self.passes + is_training
        for index in [*self.candidates]:
            if values[index] not in (self.initial[index], 0.0):
                self.candidates.discard(index)
            elif is_training:
                self._compare_in_training(index, values[index])
            elif values[index] == 0.0 and index in self.trained:
                self.lost.add(index)

    def _compare_in_training(self, index: int, value: float | None) -> None:
        if value == 0.0 and index not in self.lost:
            self.candidates.discard(index)
        elif value == 0.0:
            self.passes_without[index] += 1
        else:
            self.trained.add(index)
            self.lost.discard(index)
            self.passes_without[index] = 0

    def _read(self) -> list[float | None]:
        return [vars(module).get(name) for _, module, name in self.places]

    def summary(self) -> tuple[LostRate, ...]:
        """Return the lost rates."""
        return tuple(
            LostRate(path, name, rate, self.passes_without[index], self.passes)
            for index, ((path, _, name), rate) in enumerate(zip(self.places, self.initial, strict=True))
            if index in self.candidates and index in self.lost and self.passes_without[index] and rate
        )


def _rate_names(module: nn.Module) -> list[str]:
    """Return the attributes of a module with a number between 0 and 1; of torch's own, only the rates of dropout."""
    names = [name for name, value in vars(module).items() if type(value) is float and 0 < value < 1]
    if type(module).__module__.startswith("torch."):
        return [name for name in names if name == "dropout" or (name == "p" and isinstance(module, _DROPOUTS))]
    return names
