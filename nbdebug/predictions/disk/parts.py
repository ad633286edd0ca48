"""The prediction table of a distributed evaluation: each rank writes a part, and all are read as one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from nbdebug.exceptions import SetupError
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.disk.stored import MOST_IN_MEMORY, Stored

# The rows of samples that an earlier row tells of, as SQL.
REPEATED = """
    SELECT "nbdebug row" FROM (
        SELECT "nbdebug row", row_number() OVER (PARTITION BY "index" ORDER BY "nbdebug row") AS place FROM rows
        WHERE "index" IN (SELECT "index" FROM rows GROUP BY "index" HAVING count(*) > 1)
    ) WHERE place > 1
"""
NAME = re.compile(r"part-(\d+)-of-(\d+)\.parquet")


def write_part(folder: str | Path, rank: int, table: Predictions, world: int | None = None) -> Path:
    """Writes the part of one rank and gives its path; ``world``, the number of ranks, is asked of torch where left out.

    The file is there as a whole or not at all. Raises SetupError for a table that does not know the places of its rows:
    without them what a sampler adds, so that all ranks have as many, cannot be told from the rest.
    """
    if table.index is None:
        raise SetupError(
            "index is None; expected the place of each row in the data set. Pass index= to Predictions.of."
        )
    world = world_size() if world is None else world
    if not 0 <= rank < world:
        raise SetupError(f"rank is {rank}; expected 0 to {world - 1}. Pass the rank of this process, and world=.")
    path = Path(folder).expanduser() / f"part-{rank:05}-of-{world:05}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(path)
    return path


def world_size() -> int:
    """How many ranks torch knows; one outside of a distributed program."""
    from torch import distributed

    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def are_parts(folder: str | Path) -> bool:
    """Whether a folder holds parts of ranks."""
    return any(NAME.fullmatch(one.name) for one in Path(folder).expanduser().glob("*.parquet"))


def read_parts(folder: str | Path, world: int | None = None) -> Predictions | Stored:
    """The table of all ranks, by their places in the data set; more rows than memory is made for stay on disk.

    A sample that several rows tell of, because a sampler gave it to two ranks, counts once, and a note says so. Raises
    SetupError where a rank is missing, where parts are of different runs, or their classes are called differently.
    """
    named = [(NAME.fullmatch(one.name), one) for one in sorted(Path(folder).expanduser().glob("*.parquet"))]
    found = {int(match[1]): (int(match[2]), path) for match, path in named if match}
    refuse_missing(str(folder), {rank: size for rank, (size, _) in found.items()}, world)
    stored = Stored.at([path for _, (_, path) in sorted(found.items())])
    if twice := stored.files.drop(REPEATED):
        told = f"{twice} rows tell of samples that an earlier row tells of; they do not count"
        stored = stored.replaced(notes=(*stored.notes, told))
    if len(stored) > MOST_IN_MEMORY:
        return stored
    table = stored.load()
    assert table.index is not None
    return table.take(table.index.argsort(kind="stable"))


def refuse_missing(folder: str, sizes: Mapping[int, int], world: int | None) -> None:
    """Refuses parts of which some are missing, and parts of several runs; ``sizes`` has what each rank says."""
    different = sorted({*sizes.values()} | ({world} if world is not None else set()))
    if not sizes:
        raise SetupError(f"{folder} holds no parts; expected one of each rank. Call write_part on each.")
    if len(different) > 1:
        said = " and ".join(map(str, different))
        raise SetupError(f"{folder} is of {said} ranks; expected parts of one run. Write them to an empty folder.")
    if missing := [str(rank) for rank in range(different[0]) if rank not in sizes]:
        raise SetupError(
            f"{folder} lacks rank {', '.join(missing)} of {different[0]}; expected a part of each. Let all ranks write."
        )
