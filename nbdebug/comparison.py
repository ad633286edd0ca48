"""Snapshots of a program, and comparisons of two snapshots, two runs, or two computations that ought to agree."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader

from nbdebug.exceptions import SetupError
from nbdebug.options import check_option_names
from nbdebug.validation import check_whole_number, describe_type

if TYPE_CHECKING:
    from nbdebug.tools.agreement import Agreement, DataParallel
    from nbdebug.tools.divergence import RunDivergence
    from nbdebug.tools.provenance import ProgramSnapshot, SnapshotChanges

_MAX_PROCESSES = 64


@check_option_names()
def compare(a: Any, b: Any, inputs: Any = None) -> Agreement | RunDivergence | SnapshotChanges:
    """Compare two models or setups that ought to compute the same, two watched runs, or two snapshots.

    Of two models or setups, names the first module at which they part: forward, backward and, of two Debuggers, the
    update, in eval and in train mode with dropout off. How far results may differ is measured by rounding noise. Names
    of modules need not be equal. Everything is restored. Of two runs, names the
    first step and signal at which they part. Of two snapshots, lists what has changed, the code by cell.
    Raises SetupError for objects that cannot be compared or run.

    Args:
        a: A model, a function that calls models, or a Debugger; or a watched run, its record, or a snapshot, or the
            path of a record or a snapshot.
        b: What ought to compute the same, also in several processes by ``data_parallel()``; or another run, or a later
            snapshot.
        inputs: Inputs of both: a tensor, a tuple of arguments or a mapping of keywords; by default a batch of ``a``, if
            that is a Debugger.
    """
    from nbdebug.tools.divergence import compare_runs, run_record
    from nbdebug.tools.provenance import ProgramSnapshot, compare_snapshots, load_snapshot

    if any(run_record(item) is not None for item in (a, b)):
        return compare_runs(a, b)
    if any(isinstance(item, (ProgramSnapshot, str, Path)) for item in (a, b)):
        for name, item in (("a", a), ("b", b)):
            if not isinstance(item, (ProgramSnapshot, str, Path)):
                raise SetupError(
                    f"{name} is {describe_type(item)}; expected a snapshot, as the other. Pass two snapshots."
                )
        snapshots = [item if isinstance(item, ProgramSnapshot) else load_snapshot(item) for item in (a, b)]
        return compare_snapshots(snapshots[0], snapshots[1])
    from nbdebug.tools.agreement import DataParallel, compare_computations, compare_processes

    if isinstance(a, DataParallel):
        raise SetupError("a is data-parallel; expected the setup of one process. Pass it as b.")
    return compare_processes(a, b, inputs) if isinstance(b, DataParallel) else compare_computations(a, b, inputs)


@check_option_names()
def data_parallel(setup: Any, processes: int = 2, *, timeout: float = 120.0) -> DataParallel:
    """Describe a setup that is trained data-parallel in several processes, for ``compare(dbg, data_parallel(dbg))``.

    ``compare()`` starts the processes on the CPU, with the gloo backend. They meet in a temporary file and communicate
    over the loopback interface, so that no other machine can reach them. Each gets an equal part of one batch. Raises
    SetupError for unusable options.

    Args:
        setup: A Debugger, whose model is then wrapped in DistributedDataParallel; or a function without arguments that
            each rank calls, and that returns the Debugger of your own distributed program, or its arguments.
        processes: The number of processes.
        timeout: Seconds after which ``compare()`` gives up.
    """
    from nbdebug.tools.agreement import DataParallel

    check_whole_number("processes", processes, 2, _MAX_PROCESSES)
    if not callable(setup) and not hasattr(setup, "setup"):
        raise SetupError(f"setup is {describe_type(setup)}; expected a Debugger, or a function that returns one.")
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
        raise SetupError(f"timeout is {timeout!r}; expected a number of seconds above 0. Pass 120.")
    return DataParallel(setup, processes, float(timeout))


@check_option_names()
def snapshot(
    path: str | Path | None = None, *, data: Any = None, config: Any = None, samples: int = 1000
) -> ProgramSnapshot:
    """Record what this run is made of: versions, hardware, threads, settings, git, data, configuration and code.

    ``compare(before, after)`` says what has changed between two of them. Raises SetupError for unusable options.

    Args:
        path: A JSON file to which the snapshot is written, too.
        data: A loader, a dataset, or a mapping from names to several of them, of which fingerprints are taken.
        config: Your configuration: a mapping, a namespace or a dataclass.
        samples: The largest number of samples of a set that are read; of a larger set, samples at equal distances.
    """
    from nbdebug.tools.provenance import take_snapshot

    sources = data if isinstance(data, Mapping) else {} if data is None else {_data_name(data): data}
    result = take_snapshot(sources, config, samples, sys._getframe(1))
    if path is not None:
        result.save(path)
    return result


def _data_name(data: Any) -> str:
    return "loader" if isinstance(data, DataLoader) else "dataset"
