"""Planted faults of distributed training on two or more ranks: is each one named, and are their healthy twins quiet?

Run: python -m benchmarks.distributed [--ranks 4] [name of a case ...]
     python -m benchmarks.distributed --cost        what watching costs under DDP, as ratios of processor time
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import nbdebug
from benchmarks import distributed_cases
from benchmarks.distributed_cases import CASES

RANKS = int(sys.argv[sys.argv.index("--ranks") + 1]) if "--ranks" in sys.argv else 2
_COLLECTIVE_SECONDS, _START_SECONDS, _CASE_SECONDS = 15, 90, 40
_COST_STEPS, _WARM_STEPS, _COST_PAIRS = 390, 130, 12
_ENDING_CASES = ("dead rank",)  # after which its processes run no other case


class TimedText(io.StringIO):
    """A text file that also stores the time of each line."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[float, str]] = []

    def write(self, text: str) -> int:
        """Store a text with its time."""
        self.lines.append((time.time(), text))
        return super().write(text)


def run_rank(rank: int, cases: list[tuple[str, bool]], folder: str) -> None:
    """Run one rank of some cases, one after the other, and write what their watches found and printed to files."""
    torch.set_num_threads(1)
    for number, (name, faulty) in enumerate(cases):
        store = distributed.FileStore(f"{folder}/store{number}", RANKS)
        distributed.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
        distributed.barrier()
        distributed.distributed_c10d._set_pg_timeout(timedelta(seconds=_COLLECTIVE_SECONDS))
        texts, error = TimedText(), ""
        with contextlib.redirect_stderr(texts):
            try:
                CASES[name][0](rank, faulty)
            except Exception as raised:
                error = f"{type(raised).__name__}: {str(raised)[:200]}"
        findings = [finding.summary_line for finding in distributed_cases.debuggers[-1].findings.faults]
        times = distributed_cases.event_times
        result = {"findings": findings, "error": error, "event": times[-1] if times else 0.0, "lines": texts.lines}
        Path(folder, f"{number}-{rank}.json").write_text(json.dumps(result))
        distributed.destroy_process_group()


def run_cases(cases: list[tuple[str, bool]]) -> list[dict[int, dict[str, Any]]]:
    """Run some cases on all ranks, and return for each what the ranks that survived have written."""
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        ranks = [context.Process(target=run_rank, args=(rank, cases, folder)) for rank in range(RANKS)]
        for process in ranks:
            process.start()
        deadline = time.monotonic() + _START_SECONDS + _CASE_SECONDS * len(cases)
        for process in ranks:
            process.join(max(deadline - time.monotonic(), 0.1))
            process.kill()
        files = [{rank: Path(folder, f"{number}-{rank}.json") for rank in range(RANKS)} for number in range(len(cases))]
        return [
            {rank: json.loads(file.read_text()) for rank, file in ranks_files.items() if file.exists()}
            for ranks_files in files
        ]


def seconds_until_named(results: dict[int, dict[str, Any]]) -> float | None:
    """Return the seconds from the event of a case until a rank named it on standard error."""
    for result in results.values():
        times = [moment for moment, text in result["lines"] if "waiting for" in text or " lost." in text]
        if times and result["event"]:
            return float(times[0] - result["event"])
    return None


def measure_cases(names: list[str]) -> None:
    """Print for each case what its fault and its healthy twin yield."""
    named = quiet = 0
    shared = [(name, faulty) for name in names for faulty in (True, False) if not (faulty and name in _ENDING_CASES)]
    results = dict(zip(shared, run_cases(shared), strict=True))
    for name in set(names) & set(_ENDING_CASES):
        results[name, True] = run_cases([(name, True)])[0]
    for name in names:
        code, faulty, healthy = CASES[name][1], results[name, True], results[name, False]
        findings = [line for result in faulty.values() for line in result["findings"]]
        false_findings = [
            line for result in healthy.values() for line in (*result["findings"], result["error"]) if line
        ]
        is_named = any(f" {code} " in line for line in findings)
        named, quiet = named + is_named, quiet + (len(healthy) == RANKS and not false_findings)
        seconds = seconds_until_named(faulty)
        print(f"{name}: {code} {'named' if is_named else 'MISSED'}{f' after {seconds:.1f} s' if seconds else ''}")
        for line in findings if "-v" in sys.argv or not is_named else [f for f in findings if f" {code} " in f]:
            print(f"    {line[:300]}")
        for result in faulty.values():
            if not is_named or "-v" in sys.argv:
                print(f"    error: {result['error']}; printed: {[text for _, text in result['lines'] if text.strip()]}")
        if len(healthy) < RANKS:
            print("    twin: A RANK DID NOT END")
        for line in false_findings:
            print(f"    twin: {line[:300]}")
    print(f"{named} of {len(names)} faults named, {quiet} of {len(names)} healthy twins quiet")


def run_cost_rank(rank: int, folder: str) -> None:
    """Train in pairs of blocks, one of them watched, and write the ratios of their times.

    The clock of nbdebug is the processor time as well: its budget is a share of the run time, which other programs on a
    busy machine make longer, but not its steps.
    """
    torch.set_num_threads(1)
    wall_clock, time.perf_counter = time.perf_counter, time.process_time
    store = distributed.FileStore(f"{folder}/store", RANKS)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=RANKS)
    layers = [layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.ReLU())]
    model = DistributedDataParallel(nn.Sequential(*layers, nn.Linear(512, 10)))
    dataset = TensorDataset(torch.randn(_COST_STEPS * 64 * RANKS, 512), torch.randint(10, (_COST_STEPS * 64 * RANKS,)))
    loader = DataLoader(dataset, 64, sampler=DistributedSampler(dataset))
    loss_fn, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), 0.01)

    def train() -> dict[str, float]:
        processor, wall = [time.process_time()], [wall_clock()]
        for x, y in loader:
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
            processor.append(time.process_time())
            wall.append(wall_clock())
        seconds = {"processor": processor[-1] - processor[_WARM_STEPS], "wall": wall[-1] - wall[_WARM_STEPS]}
        return {**seconds, "processor, first steps included": processor[-1] - processor[0]}

    def train_watched() -> dict[str, float]:
        with nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer).watch(final_tests=False):
            return train()

    train()
    ratios: list[dict[str, float]] = []
    for pair in range(_COST_PAIRS):
        first, second = (train, train_watched) if pair % 2 else (train_watched, train)
        seconds = {function: function() for function in (first, second)}
        ratios.append({name: value / seconds[train][name] for name, value in seconds[train_watched].items()})
        print(f"rank {rank}, pair {pair}:", {name: round(value, 3) for name, value in ratios[-1].items()}, flush=True)
    Path(folder, f"{rank}.json").write_text(json.dumps(ratios))
    distributed.destroy_process_group()


def measure_cost() -> None:
    """Print the ratios of the times of a watched and an unwatched loop under DDP, on each rank."""
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        ranks = [context.Process(target=run_cost_rank, args=(rank, folder)) for rank in range(RANKS)]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        for rank in range(RANKS):
            pairs = json.loads(Path(folder, f"{rank}.json").read_text())
            for name in pairs[0]:
                ratios = sorted(pair[name] for pair in pairs)
                quarter = len(ratios) // 4
                print(
                    f"rank {rank}, {name}: watched / unwatched step {median(ratios):.3f} "
                    f"(quartiles {ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f}, {len(ratios)} pairs)"
                )


if __name__ == "__main__":
    if "--cost" in sys.argv:
        sys.exit(measure_cost())
    measure_cases([name for name in sys.argv[1:] if name in CASES] or list(CASES))
