"""The shift of a decoder's input by a start token, where the data are made."""

from __future__ import annotations

import ast

from torch.utils.data import TensorDataset

from nbdebug.finding import Edit
from nbdebug.setup import Setup
from nbdebug.setup.data_lines import nested_datasets, sample_functions
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.producers import executed_return

_SAMPLE_METHODS = ("__getitem__", "__iter__")  # of a dataset; a collate function makes batches


def shift_right(setup: Setup, position: int, token: int | None) -> tuple[str, tuple[Edit, ...]]:
    """Return the code and the edit that put a start token in front of the decoder's input and drop the last target.

    Where a function of the user's returns one sample, there is no batch axis, and the code has its names. ``position``
    is that of the decoder's input; without a ``token``, the code has a variable in its place.
    """
    start = "start" if token is None else str(token)
    of_batch = f"torch.cat([torch.full((len(target), 1), {start}), target[:, :-1]], dim=1)"
    datasets = list(nested_datasets(getattr(setup.train_loader, "dataset", None)))
    for function, owner in sample_functions(setup.train_loader, datasets):
        if function.__name__ not in _SAMPLE_METHODS:
            return of_batch, ()
        returned, file = executed_return(function, owner), function.__code__.co_filename
        parts = returned.node.elts if returned and isinstance(returned.node, ast.Tuple) else []
        texts = [node_text(file, part) for part in parts]
        is_alias = position < len(parts) - 1 and texts[position] == texts[-1] and isinstance(parts[-1], ast.Name)
        code = f"torch.cat([torch.tensor([{start}]), {texts[-1] if is_alias else 'target'}[:-1]])"
        if not is_alias or token is None:
            return code, ()
        changed = ", ".join(code if index == position else text for index, text in enumerate(texts))
        return f"return {changed}", (replace_node(file, parts[position], code),)
    if any(isinstance(dataset, TensorDataset) for dataset in datasets):
        return of_batch, ()
    return f"torch.cat([torch.tensor([{start}]), target[:-1]])   # of each sample", ()
