"""Frozen layers with their initial random weights: among frozen layers that were trained, or the only frozen ones."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.parameter_coverage import ParameterEntry
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Setup
from nbdebug.setup.losses import score_tensor

_DRAWS, _MIN_VALUES, _MAX_VALUES = 8, 64, 2**22
_MAX_COMPARED = 2**14
# Of Kolmogorov and Smirnov. On 30 linear layers of one network it was at most 1.9 for new ones, and 5.8 or more for
# trained ones.
_CRITICAL_DISTANCE = 2.5
_TABLES = (nn.Embedding, nn.EmbeddingBag)
_RANGE_MARGIN = 5.0  # the largest of n values is about 1/n below the bound
_TABLE_MARGIN = 0.3  # normal values have no bound


@dataclass(frozen=True)
class FrozenInitialization:
    """Frozen ``initial`` parameters as random as at initialization, next to frozen ``trained`` ones.

    Without trained ones, the initial ones are the tables of embeddings, in a model that trains everything else.
    """

    initial: tuple[ParameterEntry, ...]
    trained: tuple[ParameterEntry, ...]


@slow_measurement
def frozen_initialization(
    setup: Setup, first_pass: ForwardPass, output: Any, parameters: list[ParameterEntry]
) -> FrozenInitialization | None:
    """Frozen matrices that the output depends on, with and without the distribution of a new layer."""
    frozen = [entry for entry in parameters if not entry.parameter.requires_grad and _is_comparable(entry, setup)]
    if not frozen or len(frozen) == len(parameters):
        return None
    if sum(entry.parameter.numel() for entry in frozen) > _MAX_VALUES:
        raise NotChecked("the frozen layers are too large to compare with new ones")
    initial = [entry for entry in frozen if _is_initial(setup.eager_model.get_submodule(entry.module), entry)]
    # Layers of other types may have an initialization of their own, as in attention.
    types = {type(setup.eager_model.get_submodule(entry.module)) for entry in initial}
    others = [entry for entry in frozen if entry not in initial]
    trained = [entry for entry in others if type(setup.eager_model.get_submodule(entry.module)) in types]
    if not trained and not _are_the_only_frozen_tables(setup, initial, parameters):
        return None
    if not initial or not _changes_output(setup, first_pass, initial):
        return None
    return FrozenInitialization(tuple(initial), tuple(trained))


def _are_the_only_frozen_tables(
    setup: Setup, initial: Sequence[ParameterEntry], parameters: Sequence[ParameterEntry]
) -> bool:
    """Return whether all frozen parameters are tables of embeddings that no trainable parameter is equal to.

    A copy that follows a trainable table, as for a target network, is equal to it before the first step.
    """
    frozen = [entry for entry in parameters if not entry.parameter.requires_grad]
    trainable = [entry.parameter for entry in parameters if entry.parameter.requires_grad]
    are_tables = all(isinstance(setup.eager_model.get_submodule(entry.module), _TABLES) for entry in initial)
    if not are_tables or len(frozen) != len(initial) or not any(weight.dim() > 1 for weight in trainable):
        return False
    return not any(
        weight.shape == entry.parameter.shape and torch.equal(weight, entry.parameter)
        for entry in initial
        for weight in trainable
    )


def _is_comparable(entry: ParameterEntry, setup: Setup) -> bool:
    owner = setup.eager_model.get_submodule(entry.module)
    is_matrix = entry.parameter.dim() > 1 and entry.parameter.numel() >= _MIN_VALUES
    return is_matrix and callable(getattr(owner, "reset_parameters", None)) and not isinstance(owner, nn.LazyLinear)


def _is_initial(owner: nn.Module, entry: ParameterEntry) -> bool:
    """Return whether the values of a parameter have the distribution and the range of new ones."""
    name = entry.name.rpartition(".")[2]
    values = _sample(entry.parameter)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(0)
        new: Any = copy.deepcopy(owner)
        draws = []
        for _ in range(_DRAWS):
            new.reset_parameters()
            draws.append(_sample(getattr(new, name)))
    fresh = torch.cat(draws)
    margin = _TABLE_MARGIN if isinstance(owner, _TABLES) else _RANGE_MARGIN / len(values)
    is_inside = float(values.abs().max()) <= float(fresh.abs().max()) * (1 + margin)
    critical = _CRITICAL_DISTANCE * math.sqrt(1 / len(values) + 1 / len(fresh))
    return is_inside and _distance(values, fresh) <= critical


def _sample(values: Tensor) -> Tensor:
    flat = values.detach().flatten().float().cpu()
    return flat[:: max(1, len(flat) // _MAX_COMPARED)]


def _distance(first: Tensor, second: Tensor) -> float:
    """Return the largest difference of two empirical distribution functions."""
    points = torch.cat([first, second]).sort().values
    shares = [torch.searchsorted(part.sort().values, points, right=True) / len(part) for part in (first, second)]
    return float((shares[0] - shares[1]).abs().max())


def _changes_output(setup: Setup, first_pass: ForwardPass, entries: Sequence[ParameterEntry]) -> bool:
    """Return whether the output depends on some parameters."""

    def predict() -> Tensor:
        seed_all(0)
        scores: Tensor = score_tensor(setup.predict(first_pass.batch)).detach().clone()
        return scores

    with Preserve(*setup.mutable_objects), torch.no_grad():
        before = predict()
        for entry in entries:
            entry.parameter.mul_(-1)
        return not torch.equal(before, predict())
