"""Prediction tables of distributed evaluations: each rank writes a part."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from nbdebug.exceptions import SetupError
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.parquet_table import MAX_ROWS_IN_MEMORY, ParquetTable

# SQL for the rows of samples that an earlier row already contains.
_DUPLICATE_ROWS_SQL = """
    SELECT "nbdebug row" FROM (
        SELECT "nbdebug row", row_number() OVER (PARTITION BY "index" ORDER BY "nbdebug row") AS position FROM rows
        WHERE "index" IN (SELECT "index" FROM rows GROUP BY "index" HAVING count(*) > 1)
    ) WHERE position > 1
"""
_PART_NAME = re.compile(r"part-(\d+)-of-(\d+)\.parquet")


def write_part(folder: str | Path, rank: int, table: ClassificationTable, world: int | None = None) -> Path:
    """Write the part of one rank and return its path; ``world`` is the number of ranks, by default that of torch.

    The file is written atomically. Raises SetupError for a table without dataset indices: they are needed to recognize
    the samples that a distributed sampler repeats.
    """
    if table.index is None:
        raise SetupError(
            "index is None; expected the dataset index of each row. Pass index= to ClassificationTable.from_arrays."
        )
    world = _get_world_size() if world is None else world
    if not 0 <= rank < world:
        raise SetupError(f"rank is {rank}; expected 0 to {world - 1}. Pass the rank of this process, and world=.")
    path = Path(folder).expanduser() / f"part-{rank:05}-of-{world:05}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(path)
    return path


def _get_world_size() -> int:
    """Return the number of ranks, 1 outside of a distributed program."""
    from torch import distributed

    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def contains_parts(folder: str | Path) -> bool:
    """Return whether a folder holds parts of ranks."""
    return any(_PART_NAME.fullmatch(path.name) for path in Path(folder).expanduser().glob("*.parquet"))


def read_parts(folder: str | Path, world: int | None = None) -> ClassificationTable | ParquetTable:
    """Return the table of all ranks, sorted by dataset index; large tables stay on disk.

    A sample in several rows, because a sampler repeated it, counts once, and a note says so. Raises SetupError if a
    rank is missing, or if parts are of different runs or have different class names.
    """
    matches = [
        (_PART_NAME.fullmatch(file_path.name), file_path)
        for file_path in sorted(Path(folder).expanduser().glob("*.parquet"))
    ]
    parts = {int(match[1]): (int(match[2]), path) for match, path in matches if match}
    _check_parts(str(folder), {rank: size for rank, (size, _) in parts.items()}, world)
    stored = ParquetTable.open([path for _, (_, path) in sorted(parts.items())])
    if n_duplicates := stored.files.drop_rows(_DUPLICATE_ROWS_SQL):
        note = f"{n_duplicates} rows repeat a sample of an earlier row and are left out"
        stored = stored.replace(notes=(*stored.notes, note))
    if len(stored) > MAX_ROWS_IN_MEMORY:
        return stored
    table = stored.load()
    assert table.index is not None
    return table.take(table.index.argsort(kind="stable"))


def _check_parts(folder: str, sizes: Mapping[int, int], world: int | None) -> None:
    """Raise SetupError if parts are missing or of several runs; ``sizes`` maps a rank to its number of ranks."""
    world_sizes = sorted({*sizes.values()} | ({world} if world is not None else set()))
    if not sizes:
        raise SetupError(f"{folder} holds no parts; expected one per rank. Run write_part() on all ranks.")
    if len(world_sizes) > 1:
        sizes_text = " and ".join(map(str, world_sizes))
        raise SetupError(
            f"{folder} holds parts of runs with {sizes_text} ranks; expected one run. Write them to an empty folder."
        )
    if missing := [str(rank) for rank in range(world_sizes[0]) if rank not in sizes]:
        raise SetupError(
            f"{folder} lacks rank {', '.join(missing)} of {world_sizes[0]}; expected one part per rank. Run "
            "write_part() on all."
        )
