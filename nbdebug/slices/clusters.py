"""Groups of samples that a layer sees as alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.predictions.table import Table

MOST, ROWS_EACH, COLUMN = 16, 50, "cluster"


def clusters(embedding: NDArray[np.floating[Any]], count: int | None = None, seed: int = 0) -> NDArray[np.str_]:
    """The cluster of each row of an embedding, rows × features, as text; rows that are not finite have none, "".

    By mini-batch k-means (Sculley 2010, doi:10.1145/1772690.1772862), of 2 to 16 clusters, 50 rows or more to each.
    """
    from sklearn.cluster import MiniBatchKMeans

    flat = np.asarray(embedding, np.float32).reshape(len(embedding), -1)
    whole = np.isfinite(flat).all(1)
    count = count or int(np.clip(whole.sum() // ROWS_EACH, 2, MOST))
    found = np.full(len(flat), "", "U3")
    if whole.sum() > count:
        model = MiniBatchKMeans(count, random_state=seed, batch_size=1024, n_init=1)
        found[whole] = model.fit_predict(flat[whole]).astype(str)
    return found


def with_clusters(table: Table) -> None:
    """Adds the column ``cluster`` to a table with an embedding, once, so that a query can ask for it."""
    if table.embedding is not None and COLUMN not in table.columns and len(table) > 2 * ROWS_EACH:
        table.columns[COLUMN] = clusters(table.embedding)
