"""Modules that a container lists several times, and the equal outputs that they cause."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from nbdebug.measurements.batch_independence import has_batch_axis
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import measurement

_MIN_SAMPLES = 4


@dataclass(frozen=True)
class RepeatedModule:
    """A module under several names of one container, and outputs of the model that are equal for every sample."""

    container: str
    names: tuple[str, ...]
    equal_outputs: tuple[int, ...]
    samples: int


@measurement
def repeated_modules(eval_outputs: EvalOutputs) -> list[RepeatedModule]:
    """Modules listed several times in a container, if at least as many outputs are equal for every sample.

    A block that is applied several times in sequence is listed several times too, but makes no equal outputs.
    """
    listings = list(_repeated_listings(eval_outputs.setup.eager_model))
    size = eval_outputs.batch.size
    if not listings or size < _MIN_SAMPLES:
        return []
    equal = max(_equal_outputs(eval_outputs.outputs, size, eval_outputs.noise), key=len, default=())
    return [RepeatedModule(path, names, equal, size) for path, names in listings if len(equal) >= len(names)]


def _repeated_listings(model: nn.Module) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each container with the names of a module with parameters that it lists more than once."""
    for path, container in model.named_modules():
        names: dict[int, list[str]] = {}
        for name, part in container._modules.items():
            if part is not None and any(True for _ in part.parameters()):
                names.setdefault(id(part), []).append(name)
        yield from ((path, tuple(same)) for same in names.values() if len(same) > 1)


def _equal_outputs(outputs: tuple[Tensor, ...], size: int, noise: float) -> Iterator[tuple[int, ...]]:
    """Yield the positions of columns, or of whole outputs, that are equal for every sample and differ between them."""
    by_sample = [output for output in outputs if has_batch_axis(output, size)]
    yield from _equal_tensors(by_sample, noise)
    for output in by_sample:
        if output.dim() > 1:
            yield from _equal_tensors(output.unbind(1), noise)


def _equal_tensors(tensors: list[Tensor] | tuple[Tensor, ...], noise: float) -> Iterator[tuple[int, ...]]:
    positions: dict[tuple[tuple[int, ...], bytes], list[int]] = {}
    for position, tensor in enumerate(tensors):
        values = tensor.double().cpu()
        if values.numel() and float((values - values[:1]).abs().max()) > noise:
            positions.setdefault((tuple(values.shape), values.contiguous().numpy().tobytes()), []).append(position)
    yield from (tuple(same) for same in positions.values() if len(same) > 1)
