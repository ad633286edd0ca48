"""Time to open a long record: a file of the real format in which superseded metadata are most of the bytes.

Each update of a run appends the metadata again, so they grow with the run, while tables are thinned. The superseded
ones are written as holes of a sparse file, of their real length; reading them would return zeros.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from process_memory import peak_resident_kib
from timing import wall_seconds

from nbdebug.records.record import _CHUNK_HEADER, Record, RecordedModule, RecordWriter
from nbdebug.watching.attached_run import AttachedRun, attach

_STEPS_PER_UPDATE = 4


def write_long_record(path: Path, size: int, modules: int) -> Record:
    """Write a record of some bytes with the metadata of a model with so many modules; return it."""
    record = Record(about={"run": "benchmark", "overhead": 0.01, "finished": True})
    record.modules = [
        RecordedModule(f"blocks.{n}.linear", "Linear", (f"blocks.{n}.linear.weight",)) for n in range(modules)
    ]
    record.histogram_names = [f"weight|blocks.{number}.linear.weight" for number in range(modules)]
    writer = RecordWriter(path)
    writer.update(record)
    head = len(json.dumps({"head": record.metadata()}))
    step = 0
    while path.stat().st_size < size:
        for _ in range(_STEPS_PER_UPDATE):
            step += 1
            record.run.append_unconditionally([step], record.run.complete_row({"loss": 1 / step, "lr": 0.1})[None])
        writer.update(record)
        with path.open("r+b") as file:  # so many more updates without new rows
            file.seek(0, 2)
            for _ in range(max(1, size // 2**7 // head)):
                file.write(_CHUNK_HEADER.pack(head, 0, 0) + b'{"head": ')
                file.truncate(file.tell() + head - len(b'{"head": '))
                file.seek(0, 2)
    writer.update(record)
    return record


def main() -> None:
    """Write a record and open it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--modules", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.nbd"
        record = write_long_record(path, int(options.gigabytes * 1e9), options.modules)
        before = peak_resident_kib() >> 10
        runs: list[AttachedRun] = []
        started = time.process_time()
        seconds = wall_seconds(lambda: runs.append(attach(folder)))
        processor_seconds = time.process_time() - started
        assert np.array_equal(runs[0].record.run.steps, record.run.steps)
        print(
            f"{path.stat().st_size / 1e9:.1f} GB, {len(record.run.steps):,} steps, {options.modules:,} modules: "
            f"opened in {seconds:.2f} s, "
            f"{processor_seconds:.2f} s of CPU; peak memory {peak_resident_kib() >> 10} MiB, {before} MiB before"
        )


if __name__ == "__main__":
    main()
