"""Changes of what the model receives: windows that end earlier, tokens that are shifted, validation data in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset

from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_map_style
from nbdebug.tensors.pytree import tree_leaves, tree_map
from nbdebug.tools.treatments.treated_setup import TreatedSetup
from nbdebug.training.changed_loaders import rebuild_loader

_MAX_BATCHES = 50  # of each split, for its statistics
_MAX_SORTED = 16  # samples for which the order of a batch is checked
_SMALLEST_SPREAD = 1e-12


def end_window_earlier(treated: TreatedSetup, steps: int) -> bool:
    """Leave out the last steps of the first input, a series; its first step is repeated, so that the length stays."""
    first = _first_input(treated)
    if first is None or first.dim() < 2 or not first.is_floating_point() or first.shape[1] <= steps:
        return False

    def ended(tensor: Tensor, position: int) -> Tensor:
        if position:
            return tensor
        return torch.cat([tensor[:, :1]] * steps + [tensor[:, :-steps]], 1)

    treated.change_inputs(ended)
    return True


def shift_tokens(treated: TreatedSetup, position: int) -> bool:
    """Shift the tokens of an input by one step, so that each output sees only the tokens before its target.

    The first token is one that the training batches do not contain, if the embeddings have a row for it, else 0.
    """
    tensors = [batch.args[position] for batch in treated.batches if position < len(batch.args)]
    if not tensors or any(
        not isinstance(part, Tensor) or part.is_floating_point() or part.dim() < 2 for part in tensors
    ):
        return False
    sizes = [module.num_embeddings for module in treated.model.modules() if isinstance(module, nn.Embedding)]
    highest = max(int(part.max()) for part in tensors)
    vocabulary = min((size for size in sizes if size > highest), default=0)
    start = highest + 1 if vocabulary > highest + 1 else 0

    def shifted(tensor: Tensor, place: int) -> Tensor:
        return torch.cat([torch.full_like(tensor[:, :1], start), tensor[:, :-1]], 1) if place == position else tensor

    treated.change_inputs(shifted)
    return True


def fill_missing(treated: TreatedSetup, numbers: Sequence[tuple[int, float]]) -> bool:
    """Replace a number in some features of the first input by the median of their other values in the batches.

    These features are then standardized, since the number has spoiled the statistics of any earlier scaling.
    """
    samples = [batch.args[0] for batch in treated.batches if batch.args and isinstance(batch.args[0], Tensor)]
    if not samples or samples[0].dim() < 2 or not samples[0].is_floating_point():
        return False
    axis = _feature_axis(samples[0])
    features = torch.cat(samples).movedim(axis, 0).flatten(1)
    if max(row for row, _ in numbers) >= len(features):
        return False
    known = [features[row][features[row] != value] for row, value in numbers]

    def filled(tensor: Tensor, position: int) -> Tensor:
        if position:
            return tensor
        rows = tensor.movedim(axis, 0).clone()
        for (row, value), values in zip(numbers, known, strict=True):
            present = torch.where(rows[row] == value, values.median(), rows[row])
            rows[row] = (present - values.mean()) / values.std().clamp_min(_SMALLEST_SPREAD)
        return rows.movedim(0, axis)

    treated.change_inputs(filled)
    return True


def match_validation(treated: TreatedSetup, _: None) -> bool:
    """Give each feature of the validation inputs the mean and the standard deviation that it has in training."""
    return _match_moments(treated, lambda x: x)


def order_validation(treated: TreatedSetup, order: Sequence[int]) -> bool:
    """Put the columns or the channels of the validation inputs into another order, and match their moments.

    They may have been standardized by the numbers of other columns.
    """
    first = _first_input(treated)
    if first is None or first.dim() < 2 or sorted(order) != list(range(first.shape[1])):
        return False
    return _match_moments(treated, lambda x: x[:, list(order)])


def _match_moments(treated: TreatedSetup, change: Callable[[Tensor], Tensor]) -> bool:
    """Change the validation inputs, and then give each feature the moments that it has in training."""
    loaders = (treated.train_loader, treated.val_loader)
    if not all(map(is_map_style, loaders)):
        return False
    train, val = (_collect_inputs(treated.setup, loader) for loader in loaders)
    if train is None or val is None or train.shape[1:] != val.shape[1:]:
        return False
    train, val = train.double(), change(val.double())
    axes = tuple(axis for axis in range(train.dim()) if axis != _feature_axis(train))
    factor = train.std(axes, keepdim=True) / val.std(axes, keepdim=True).clamp_min(_SMALLEST_SPREAD)
    means = train.mean(axes, keepdim=True), val.mean(axes, keepdim=True)
    return _change_validation(treated, lambda x: ((change(x) - means[1]) * factor + means[0]).to(x.dtype))


def renumber_validation(treated: TreatedSetup, numbers: dict[int, int]) -> bool:
    """Give the classes of the validation targets other numbers."""
    setup = treated.setup

    def changed(raw: Any) -> Any:
        target = setup.split_batch(raw).target
        if not isinstance(target, Tensor):
            return raw
        renumbered = target.cpu().clone()
        for number, other in numbers.items():
            renumbered[target.cpu() == number] = other
        return _replace_leaf(raw, target, renumbered)

    return _change_batches(treated, changed)


def sort_before_collation(treated: TreatedSetup, _: None) -> bool:
    """Sort the samples of each batch by their length before the collate function sorts a part of them."""
    loaders = {"train_loader": treated.train_loader, "val_loader": treated.val_loader}
    changed = False
    for name, loader in loaders.items():
        if not is_map_style(loader) or not (collate := _sorted_collation(treated.setup, loader)):
            continue
        dataset: Any = Subset(loader.dataset, range(len(loader.dataset)))  # so that it is scored by its own batches
        setattr(treated, name, rebuild_loader(loader, dataset=dataset, collate_fn=collate))
        changed = True
    return changed


def _sorted_collation(setup: Setup, loader: DataLoader[Any]) -> Callable[[list[Any]], Any] | None:
    """Return the collate function of samples that are sorted by length; None if neither order pairs them right."""
    own, samples = loader.collate_fn, [loader.dataset[i] for i in range(min(_MAX_SORTED, len(loader.dataset)))]  # type: ignore[arg-type]

    def collate(batch: list[Any], reverse: bool) -> Any:
        return own(sorted(batch, key=_length, reverse=reverse))

    for reverse in (True, False):
        if _pairs_like_singles(setup, own, sorted(samples, key=_length, reverse=reverse)):
            return lambda batch, reverse=reverse: collate(batch, reverse)  # type: ignore[misc]
    return None


def _pairs_like_singles(setup: Setup, collate: Callable[[list[Any]], Any], samples: list[Any]) -> bool:
    """Check whether a batch has the inputs and the targets of its samples in their order."""
    whole = setup.split_batch(collate(samples))
    for row, sample in enumerate(samples):
        single = setup.split_batch(collate([sample]))
        for part, own in ((whole.args[0], single.args[0]), (whole.target, single.target)):
            if not isinstance(part, Tensor) or not isinstance(own, Tensor) or len(part) != len(samples):
                return False
            kept = part[row][tuple(slice(length) for length in own[0].shape)]  # without padding
            if not torch.equal(kept, own[0]):
                return False
    return True


def _length(sample: Any) -> int:
    """Return the length of the longest tensor or text of a sample."""
    return max(
        (len(leaf) for _, leaf in tree_leaves(sample) if hasattr(leaf, "__len__") and getattr(leaf, "ndim", 1) > 0),
        default=0,
    )


def _first_input(treated: TreatedSetup) -> Tensor | None:
    first = next((batch.args[0] for batch in treated.batches if batch.args), None)
    return first if isinstance(first, Tensor) else None


def _collect_inputs(setup: Setup, loader: Any) -> Tensor | None:
    """Return the first inputs of some batches of a loader; None if they are no real numbers of one shape."""
    parts = list(_inputs(setup, loader))
    is_usable = parts and all(part.is_floating_point() and part.dim() > 1 for part in parts)
    return torch.cat(parts) if is_usable and len({part.shape[1:] for part in parts}) == 1 else None


def _inputs(setup: Setup, loader: Any) -> Iterator[Tensor]:
    for raw in islice(loader, _MAX_BATCHES):
        args = setup.split_batch(raw).args
        if args and isinstance(args[0], Tensor):
            yield args[0].cpu()


def _feature_axis(inputs: Tensor) -> int:
    """Return the axis of the columns of a table or of a series, or of the channels of images."""
    return 1 if inputs.dim() in (2, 4) else inputs.dim() - 1


def _change_validation(treated: TreatedSetup, change: Callable[[Tensor], Tensor]) -> bool:
    """Change the first input of each validation batch."""
    setup = treated.setup

    def changed(raw: Any) -> Any:
        args = setup.split_batch(raw).args
        first = args[0] if args else None
        return _replace_leaf(raw, first, change(first.cpu())) if isinstance(first, Tensor) else raw

    return _change_batches(treated, changed)


def _change_batches(treated: TreatedSetup, change: Callable[[Any], Any]) -> bool:
    loader = treated.val_loader
    if not is_map_style(loader) or loader.batch_size is None:
        return False
    collate, dataset = loader.collate_fn, Subset(loader.dataset, range(len(loader.dataset)))  # with samples of its own
    treated.val_loader = rebuild_loader(loader, dataset=dataset, collate_fn=lambda batch: change(collate(batch)))
    return True


def _replace_leaf(raw: Any, present: Tensor, other: Tensor) -> Any:
    """Return a raw batch with another tensor for the leaf that equals one."""

    def replaced(leaf: Any) -> Any:
        is_leaf = isinstance(leaf, Tensor) and leaf.shape == present.shape and leaf.dtype == present.dtype
        return other if is_leaf and torch.equal(leaf.cpu(), present.cpu()) else leaf

    return tree_map(raw, replaced)
