"""One pass over a loader that collects predictions; one sample run again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.options import Decode
from nbdebug.predictions.accumulators import BatchCollector, OutputAccumulator
from nbdebug.predictions.embeddings import EmbeddingCollector, LayerInput
from nbdebug.predictions.labels import parse_index, to_array
from nbdebug.predictions.sample_indices import UNKNOWN_INDEX_CONSEQUENCE, iterate_with_indices, why_indices_unknown
from nbdebug.predictions.segmentation import SegmentationTable
from nbdebug.predictions.sequences import SequenceTable, TokenAccumulator, TokenSequence
from nbdebug.predictions.table import PredictionTable
from nbdebug.predictions.task_detection import choose_collector
from nbdebug.preserve import Preserve
from nbdebug.preserve.block import defer_interrupts
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.setup.loaders import collate_samples, is_map_style
from nbdebug.setup.losses import score_tensor
from nbdebug.setup.user_code import user_code_error

_ExtraColumns = Callable[[Batch, Any], Mapping[str, Any]]
_MAX_PENDING_BATCHES = 16  # maximum number of pending batches
MAX_PENDING_SECONDS = 0.05  # maximum time in seconds that they are pending
_StopCondition = Callable[[int], bool]


class _SampleRerun:
    """Runs the current model on one sample, given its dataset index; no user object is changed."""

    def __init__(self, setup: Setup, loader: Any, collector: BatchCollector) -> None:
        self.setup, self.loader, self.collector = setup, loader, collector

    def __call__(self, dataset_index: int) -> tuple[Any, Any]:
        """Return scores and target with a batch axis of one; raise SetupError if the sample cannot be run."""
        try:
            with Preserve(*self.setup.mutable_objects), in_mode(self.setup.eager_model, False), torch.inference_mode():
                batch = self.setup.split_batch(collate_samples(self.loader, [dataset_index]))
                return self.collector.adapt(score_tensor(self.setup.predict(batch)).detach(), batch.target_or_label)
        except Exception as error:
            raise SetupError(
                f"sample {dataset_index} raised {type(error).__name__} when the model was run on it again: "
                f"{error}; expected scores. Create the table again."
            ) from error

    def get_tokens(self, dataset_index: int) -> TokenSequence:
        """Return the tokens of the sample."""
        assert isinstance(self.collector.accumulator, TokenAccumulator)
        return self.collector.accumulator.make_sequence(*self(dataset_index))


def _with_rerun(table: PredictionTable, setup: Setup, loader: Any, collector: BatchCollector) -> PredictionTable:
    """Add a way to recompute masks or tokens that are not stored, if the dataset is available."""
    if not is_map_style(loader) or table.index is None:
        return table
    rerun = _SampleRerun(setup, loader, collector)
    if isinstance(table, SegmentationTable) and not table.masks:
        return table.replace(recompute=rerun)
    if isinstance(table, SequenceTable) and not table.token_sequences:
        return table.replace(recompute=rerun.get_tokens)
    return table


class _PredictionPass:
    """The accumulated batches of one pass.

    Right after a forward pass the processor caches are cold, and Python code takes several times as long as when
    repeated. Scores that are stored whole are therefore only queued, and several batches are processed together. Masks
    and tokens are reduced immediately, as less is stored than they occupy; so is a layer's output.
    """

    def __init__(self, setup: Setup, more: _ExtraColumns | None, embedding: EmbeddingCollector, decode: Decode) -> None:
        self.setup, self.more, self.embedding, self.decode = setup, more, embedding, decode
        self.model = setup.eager_model
        self.collector: BatchCollector | None = None
        self.pending: list[tuple[Any, Any, list[Any] | None, Mapping[str, Any] | None]] = []
        self.queue_size, self.deadline = 1, 0.0
        self.rows = 0
        self.dataset_indices: list[Any] | None = []
        self.columns: dict[str, list[Any]] = {}

    def add(self, batch: Batch, indices: list[Any] | None) -> bool:
        """Run a batch and queue its output; return whether the queue has been processed."""
        try:
            output = self.setup.predict(batch, self.model)
        except SetupError:
            raise
        except Exception as error:
            self.process_pending()
            raise user_code_error(error, f"after {self.rows} samples") from error
        batch_scores, target = score_tensor(output), batch.target_or_label
        if self.collector is None:
            rows = len(indices) if indices is not None else None
            self.collector = choose_collector(self.setup, batch, batch_scores, target, rows, self.decode)
            if self.embedding.layer is None and isinstance(self.collector.accumulator, OutputAccumulator):
                self.queue_size = _MAX_PENDING_BATCHES
        self.pending.append((batch_scores, target, indices, self.more(batch, output) if self.more else None))
        if len(self.pending) < self.queue_size and time.perf_counter() < self.deadline:
            return False
        self.process_pending()
        return True

    def process_pending(self) -> None:
        """Process the queue; an interrupt is delayed, so that all columns keep equal lengths."""
        with defer_interrupts():
            pending, self.pending = self.pending, []
            for entry in pending:
                self.accumulate(*entry)
        self.deadline = time.perf_counter() + MAX_PENDING_SECONDS

    def accumulate(self, output: Any, target: Any, indices: list[Any] | None, more: Mapping[str, Any] | None) -> None:
        """Accumulate one batch."""
        assert self.collector is not None
        rows = self.collector.add(output, target)
        self.rows += rows
        self.embedding.add(rows)
        if more is not None:
            self.add_columns(more, rows)
        if self.dataset_indices is not None and indices is not None and len(indices) == rows:
            self.dataset_indices += indices
        else:
            self.dataset_indices = None

    def add_columns(self, new_columns: Mapping[str, Any], rows: int) -> None:
        """Add further columns; raise SetupError if a batch has other names or another number of values."""
        if self.columns and set(new_columns) != set(self.columns):
            raise SetupError(
                f"more returned {', '.join(new_columns)}; expected {', '.join(self.columns)}. "
                "Return the same each time."
            )
        for name, values in new_columns.items():
            if len(values) != rows:
                raise SetupError(
                    f"more returned {len(values)} values of {name!r}; expected {rows}. Return one per sample."
                )
            self.columns.setdefault(name, []).append(values.detach() if isinstance(values, Tensor) else values)

    def table(self, loader: Any, index: Any) -> PredictionTable:
        """Return the table of all batches; raise SetupError if there was none."""
        self.process_pending()
        if self.collector is None:
            raise SetupError(
                "loader is empty; expected at least one batch. Check len(dataset), drop_last and the sampler."
            )
        table = self.collector.accumulator.table()
        columns = {name: np.concatenate([to_array(part) for part in parts]) for name, parts in self.columns.items()}
        dataset_index = parse_index(index, len(table)) if index is not None else self.known_index()
        table = table.with_columns(columns).replace(index=dataset_index, embedding=self.embedding.array())
        if dataset_index is None:
            reason = why_indices_unknown(loader) or "the batches do not match the indices from the sampler"
            table = table.replace(notes=(*table.notes, f"{reason}, {UNKNOWN_INDEX_CONSEQUENCE}"))
        return _with_rerun(table, self.setup, loader, self.collector)

    def known_index(self) -> Any:
        """Return the dataset indices of all rows, if every batch provided them as integers."""
        indices = np.array([None] if self.dataset_indices is None else self.dataset_indices)
        return indices.astype(np.int64) if indices.dtype.kind in "iu" and indices.ndim == 1 else None


def collect_predictions(
    setup: Setup,
    loader: Any,
    should_stop: _StopCondition = lambda _: False,
    *,
    more: _ExtraColumns | None = None,
    embed: str | nn.Module | LayerInput | None = None,
    index: Any = None,
    decode: Decode = None,
    partial: bool = False,
) -> PredictionTable:
    """Return the prediction table of a loader, computed in eval mode without gradients.

    No user object is changed. ``should_stop`` receives the number of rows so far after each batch (for fast batches,
    after several) and returns whether to stop. ``more(batch, output)`` returns further columns, one value per sample.
    ``embed`` is a layer whose output becomes the embedding. ``index`` holds the dataset indices, for a loader that does
    not provide them. ``decode`` converts a token index to text. With ``partial``, an interrupt ends the pass with the
    rows so far. Nothing is copied from the device before the end, except pixel and token counts from time to time.
    Raises SetupError for an empty loader, and for outputs that fit no table.
    """
    embedding = EmbeddingCollector(setup.eager_model, embed)
    prediction_pass = _PredictionPass(setup, more, embedding, decode)
    with (
        Preserve(*setup.mutable_objects, loaders=(loader,)),
        in_mode(setup.eager_model, False),
        torch.inference_mode(),
        embedding,
    ):
        try:
            for batch, indices in iterate_with_indices(setup, loader):
                if prediction_pass.add(batch, indices) and should_stop(prediction_pass.rows):
                    break
        except KeyboardInterrupt:
            prediction_pass.process_pending()
            if not (partial and prediction_pass.rows):
                raise
        return prediction_pass.table(loader, index)
