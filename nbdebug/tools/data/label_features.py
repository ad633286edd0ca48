"""Embeddings of the samples by the model, for the learners of suspect labels and for the energy distance."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from nbdebug.baselines.input_features import Matrix, feature_matrix, standardize_columns
from nbdebug.exceptions import SetupError
from nbdebug.nearest_neighbors import default_layer, describe_layer
from nbdebug.predictions.embeddings import EmbeddingCollector, LayerInput
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import evaluation_mode

Layer = str | nn.Module | LayerInput


def validate_layer(setup: Setup, embed: bool | str | nn.Module) -> Layer | None:
    """Return the layer that embeds the samples: for True, the input of the last linear layer; None for False.

    Raises SetupError for a layer that is not in the model.
    """
    if embed is False:
        return None
    layer = default_layer(setup.eager_model) if embed is True else embed
    EmbeddingCollector(setup.eager_model, layer)
    return layer


def embed_rows(setup: Setup, batches: Sequence[Batch], layer: Layer) -> tuple[Matrix, str]:
    """Return standardized outputs of a layer in eval mode, a row for each sample, and the layer in words.

    Raises SetupError as ``layer_outputs`` does.
    """
    return standardize_columns(layer_outputs(setup, batches, layer)), f"learners on {describe_layer(layer)}"


def layer_outputs(setup: Setup, batches: Sequence[Batch], layer: Layer) -> Matrix:
    """Return the outputs of a layer in eval mode, a row for each sample.

    Raises SetupError if the model raises on the batches.
    """
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
