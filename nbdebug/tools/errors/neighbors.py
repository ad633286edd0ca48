"""The training samples near the rows of a table: how far away they are, and whether they carry another label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Subset

from nbdebug.exceptions import SetupError
from nbdebug.neighbors.layer import said, usual_layer
from nbdebug.neighbors.reference import Near, Reference
from nbdebug.neighbors.search import Metric
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.collect import collect
from nbdebug.predictions.table import Table

if TYPE_CHECKING:
    import pandas

    from nbdebug.samples import Samples
    from nbdebug.setup import Setup
    from nbdebug.tools.errors.result import Errors

MOST = 50_000  # training samples that are looked among
DISTANCE, DISAGREE = "train_distance", "neighbors_disagree"


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """What lies near the rows of a table; ``train`` is the table of the training samples, of which ``near`` speaks."""

    layer: str
    reference: Reference
    train: Table
    near: Near
    samples: Samples | None

    def key(self, at: int) -> int:
        """By what a training sample is known: its place in the data set, else its row in the pass."""
        return int(at if self.train.index is None else self.train.index[at])

    def label(self, at: int) -> str:
        """What a training sample is labeled."""
        return self.train.said(at).get("target", "")


def neighborhood(errors: Errors, k: int = 8, layer: Any = None, metric: Metric = "cosine") -> Neighborhood:
    """What lies near each row, measured once by a pass over the training data and one over the rows.

    From then on the table has the columns ``train_distance`` (the share of training samples that are nearer to their
    own k-th neighbor) and, of classes, ``neighbors_disagree`` (the share of the k nearest with another label). Raises
    SetupError where there is no model, or where it is not known which row is which sample.
    """
    asked = (k, layer, metric)
    if errors.known.get("neighbors", (None,))[0] != asked:
        errors.known["neighbors"] = (asked, measured(errors, k, layer, metric))
        add(errors.table, errors.known["neighbors"][1].near)
    found: Neighborhood = errors.known["neighbors"][1]
    return found


def add(table: Table, near: Near) -> None:
    """Puts what was measured among the columns of a table, and forgets what was found by older ones."""
    table.columns[DISTANCE] = near.farther
    if near.others is not None:
        table.columns[DISAGREE] = near.others
    for name in ("recent", "texts"):
        vars(table).pop(name, None)


def frame(errors: Errors, key: int | None, k: int, layer: Any, metric: Metric) -> pandas.DataFrame:
    """All rows, those first whose neighbors disagree the most and whose loss is the highest; or what is near one.

    Raises SetupError for a sample that the table does not have.
    """
    import pandas as pd

    found = neighborhood(errors, k, layer, metric)
    if key is None:
        keys = [errors.table.columns[name] for name in ("loss", DISAGREE) if name in errors.table.columns]
        last = [np.nan_to_num(values.astype(float), nan=-1.0) for values in (keys or [found.near.farther])]
        return errors.table.take(np.lexsort(last)[::-1]).to_frame()
    rows = errors.rows_of([key])
    if not len(rows):
        raise SetupError(f"sample is {key}; expected one of the table. Take it from the index of to_frame().")
    places, distances = found.near.places[rows[0]], found.near.distances[rows[0]]
    names = [found.label(int(at)) for at in places]
    index = pd.Index([found.key(int(at)) for at in places], name="training sample")
    same = [name == errors.table.said(int(rows[0])).get("target", "") for name in names]
    return pd.DataFrame({"target": names, "same": same, "distance": distances}, index=index)


def measured(errors: Errors, k: int, layer: Any, metric: Metric) -> Neighborhood:
    """Both passes, and the search."""
    setup, table = errors.setup, errors.table
    if setup is None or table.index is None or errors.dataset is None:
        raise SetupError(
            "errors knows no model or not which row is which sample; expected both to look for neighbors. "
            "Make it by dbg.errors() on a DataLoader."
        )
    embed = usual_layer(setup.eager) if layer is None else layer
    train = collect(setup, setup.train_loader, lambda rows: rows >= MOST, embed=embed)
    rows = collect(setup, again(setup, errors.dataset, table.index), embed=embed)
    if train.embedding is None or rows.embedding is None or len(rows) != len(table):
        raise SetupError(f"layer is {layer!r}; expected one that gives a row for each sample. Take another layer.")
    reference = Reference(train.embedding, labels(train), metric, k)
    near = reference.near(rows.embedding, labels(table), own(errors, train))
    return Neighborhood(said(embed), reference, train, near, shown(errors, train))


def shown(errors: Errors, train: Table) -> Samples | None:
    """The training samples as cards, where it is known which is which."""
    loader = getattr(errors.setup, "train_loader", None)
    dataset = getattr(loader, "dataset", None)
    if errors.samples is None or train.index is None or dataset is None:
        return None
    if dataset is errors.dataset:
        return errors.samples
    return errors.samples.of(dataset, near=[getattr(loader, "collate_fn", None)])


def again(setup: Setup, dataset: Any, index: NDArray[np.int64]) -> DataLoader[Any]:
    """The samples of the rows, in their order, collated as they were."""
    loader = setup.loader_of(dataset)
    size = getattr(loader, "batch_size", None) or 64
    return DataLoader(Subset(dataset, index.tolist()), size, collate_fn=getattr(loader, "collate_fn", None))


def labels(table: Table) -> NDArray[np.int32] | None:
    """The classes of the rows, where they have any."""
    return table.target if isinstance(table, Predictions) else None


def own(errors: Errors, train: Table) -> NDArray[np.int64] | None:
    """Where the rows are among the training samples, -1 where they are not; None where they are of another data set."""
    assert errors.setup is not None
    assert errors.table.index is not None
    if train.index is None or getattr(errors.setup.train_loader, "dataset", None) is not errors.dataset:
        return None
    at = {int(place): row for row, place in enumerate(train.index)}
    return np.array([at.get(int(place), -1) for place in errors.table.index], np.int64)
