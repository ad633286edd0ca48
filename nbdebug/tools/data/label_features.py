"""Embeddings of the samples, for the learners of suspect labels, the energy distance and near copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nbdebug.baselines.input_features import Matrix, feature_matrix, standardize_columns
from nbdebug.exceptions import SetupError
from nbdebug.nearest_neighbors import default_layer, describe_layer
from nbdebug.predictions.embeddings import EmbeddingCollector, LayerInput
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import evaluation_mode

if TYPE_CHECKING:
    from typing_extensions import TypeIs

EmbeddingFunction = Callable[[Any], Tensor]  # of the inputs of a batch
Layer = str | nn.Module | LayerInput | EmbeddingFunction


def validate_layer(setup: Setup, embed: bool | str | nn.Module | EmbeddingFunction) -> Layer | None:
    """Return the layer, or the function, that embeds the samples: for True, the input of the last linear layer.

    None for False. Raises SetupError for a layer that is not in the model.
    """
    if embed is False:
        return None
    if _is_function(embed):
        return embed
    layer = default_layer(setup.eager_model) if embed is True else embed
    EmbeddingCollector(setup.eager_model, layer)
    return layer


def _is_function(embed: object) -> TypeIs[EmbeddingFunction]:
    return callable(embed) and not isinstance(embed, nn.Module)


def embed_rows(setup: Setup, batches: Sequence[Batch], layer: Layer) -> tuple[Matrix, str]:
    """Return standardized outputs of a layer in eval mode, a row for each sample, and the layer in words.

    Raises SetupError as ``layer_outputs`` does.
    """
    source = "the embeddings of embed" if _is_function(layer) else describe_layer(layer)
    return standardize_columns(layer_outputs(setup, batches, layer)), f"learners on {source}"


def layer_outputs(setup: Setup, batches: Sequence[Batch], layer: Layer) -> Matrix:
    """Return the outputs of a layer in eval mode, or those of a function, a row for each sample.

    Raises SetupError if the model or the function raises on the batches, or if there is not a row for each sample.
    """
    if _is_function(layer):
        with torch.no_grad():
            return feature_matrix([torch.cat([_call_function(layer, batch) for batch in batches])])
    with evaluation_mode(setup.eager_model), torch.no_grad(), EmbeddingCollector(setup.eager_model, layer) as collector:
        for batch in batches:
            try:
                setup.predict(batch)
            except Exception as error:
                raise SetupError(
                    f"the model raised {type(error).__name__}: {error}; expected an output for each batch. "
                    "Repair the model, or leave embed out."
                ) from error
            collector.add(batch.size)
    rows: Tensor = torch.from_numpy(collector.array())
    return feature_matrix([rows])


def _call_function(embed: EmbeddingFunction, batch: Batch) -> Tensor:
    """Return the embeddings of a batch by the user's function."""
    try:
        rows = torch.as_tensor(embed(batch.inputs))
    except Exception as error:
        raise SetupError(
            f"embed raised {type(error).__name__}: {error}; expected an embedding of each sample. Repair it: it is "
            "called with the inputs of a batch."
        ) from error
    if rows.dim() < 2 or len(rows) != batch.size:
        raise SetupError(
            f"embed returned {tuple(rows.shape)}; expected a row for each of {batch.size} samples. Return a tensor of "
            "samples × features."
        )
    return rows.detach().float().cpu().flatten(1)
