"""The run of the benchmark: which mutants are tried, and what is measured of each."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.mutants.diagnosis import diagnose
from benchmarks.mutants.generation import Mutant, mutants
from benchmarks.mutants.halves import half_of_name, half_of_pair
from benchmarks.mutants.isolation import run_isolated
from benchmarks.mutants.judge import fact_decides, is_same_program, may_be_worse, mistake
from benchmarks.mutants.observation import observe
from benchmarks.mutants.operators import OPERATORS
from benchmarks.mutants.program_source import ProgramSource
from benchmarks.mutants.rewrites import REWRITES
from benchmarks.mutants.store import Store

OBSERVATION_SECONDS, DIAGNOSIS_SECONDS = 120, 240
TRIES = 3  # mutants tried of an operator for each effective one that is wanted


@dataclass
class Plan:
    """What to try: operators and rewrites by name, one half, and how many effective mutants of each operator."""

    names: list[str] = field(default_factory=lambda: [*OPERATORS, *REWRITES])
    half: str = "all"
    mutants: int = 5
    rewrites: int = 5
    minutes: float = 10
    seed: int = 0
    shard: tuple[int, int] = (0, 1)

    def selected(self) -> list[str]:
        """Return the names of this shard."""
        share, shards = self.shard
        names = sorted(self.names, key=lambda name: hashlib.sha256(f"order {name}".encode()).digest())
        return [name for k, name in enumerate(names) if k % shards == share and self._may_have(name)]

    def _may_have(self, name: str) -> bool:
        return self.half in ("all", "mixed") or name in REWRITES or half_of_name(name) == self.half

    def includes(self, name: str, program: str) -> bool:
        """Check whether a pair is in the half. A rewrite is in the half of its program."""
        if self.half == "all":
            return True
        if name in REWRITES:
            return self.half != "mixed" and half_of_name(program) == self.half
        return half_of_pair(name, program) == self.half


class Bench:
    """The measurements of one run; observations without nbdebug are kept in one file, results in another."""

    def __init__(self, programs: dict[str, Path], observations: Store, results: Store) -> None:
        self.programs = programs
        self.observations, self.results = observations, results
        self._sources: dict[str, ProgramSource | None] = {}

    def observation(self, path: Path, seed: int, program: str | None = None) -> dict[str, Any]:
        """Return a run without nbdebug; ``program`` is the unmutated program of a mutant."""
        base = self.programs[program] if program is not None else None
        texts = [
            path.read_text(encoding="utf-8"),
            base.read_text(encoding="utf-8") if base is not None else "",
            str(seed),
        ]
        key = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:20]
        if key not in self.observations:
            arguments = (str(path), seed, str(base) if base is not None else None, base is None and seed == 0)
            self.observations.add(key, run_isolated(observe, *arguments, seconds=OBSERVATION_SECONDS))
        return self.observations[key]

    def source(self, program: str) -> ProgramSource | None:
        """Return the source of a program with its call sites; None if the program does not run."""
        if program not in self._sources:
            path = self.programs[program]
            record = self.observation(path, 0)
            runs = not record.get("failure") and not record["raised"]
            text = path.read_text(encoding="utf-8")
            self._sources[program] = ProgramSource(text, record["sites"]) if runs else None
        return self._sources[program]

    def diagnosis(self, path: Path) -> dict[str, Any]:
        """Return the findings on a program."""
        result = run_isolated(diagnose, str(path), 0, seconds=DIAGNOSIS_SECONDS)
        if "failure" in result:
            result = {"crash": result["failure"], "raised": None, "findings": [], "seconds": DIAGNOSIS_SECONDS}
        return result

    def unmutated(self, program: str) -> dict[str, Any]:
        """Return the row of a program as it is."""
        key = f"{program}__unmutated"
        if key not in self.results:
            path = self.programs[program]
            plain = self.observation(path, 0)["seconds"]
            row = {"operator": "unmutated", "program": program, "file": str(path), "status": "unmutated"}
            self.results.add(key, {**row, "plain_seconds": plain, **self.diagnosis(path)})
        return self.results[key]

    def row(self, mutant: Mutant) -> dict[str, Any]:
        """Return the row of a mutant or a rewrite."""
        if mutant.key not in self.results:
            common = {"operator": mutant.operator, "program": mutant.program, "file": str(mutant.path)}
            measured = self._mutant(mutant) if mutant.operator in OPERATORS else self._rewrite(mutant)
            self.results.add(mutant.key, {**common, "lines": mutant.lines, "modules": mutant.modules, **measured})
        return self.results[mutant.key]

    def _mutant(self, mutant: Mutant) -> dict[str, Any]:
        operator = OPERATORS[mutant.operator]
        plain = [self.observation(self.programs[mutant.program], 0)]
        runs = [self.observation(mutant.path, 0, mutant.program)]
        if not fact_decides(operator, plain[0], runs[0]):
            if not may_be_worse(operator, plain[0], runs[0]):
                return {"status": "equivalent", "why": None}
            plain.append(self.observation(self.programs[mutant.program], 1))
            runs.append(self.observation(mutant.path, 1, mutant.program))
        if any("failure" in run for run in plain + runs):
            return {"status": "invalid", "why": next(run["failure"] for run in plain + runs if "failure" in run)[-300:]}
        if (why := mistake(operator, plain, runs)) is None:
            raised = runs[0]["raised"]
            return {"status": "invalid" if raised else "equivalent", "why": raised}
        still = [name for name in plain[0]["moved"] if name not in runs[0]["moved"]]
        self.unmutated(mutant.program)
        measured = {"status": "effective", "why": why, "still": still, "plain_seconds": runs[0]["seconds"]}
        return {**measured, **self.diagnosis(mutant.path)}

    def _rewrite(self, mutant: Mutant) -> dict[str, Any]:
        plain = self.observation(self.programs[mutant.program], 0)
        run = self.observation(mutant.path, 0, mutant.program)
        if "failure" in run or run["raised"]:
            return {"status": "invalid", "why": (run.get("failure") or run["raised"])[-300:]}
        if not is_same_program(plain, run):
            return {"status": "different", "why": f"{run['own']} for {plain['own']}"}
        self.unmutated(mutant.program)
        return {"status": "rewrite", "plain_seconds": run["seconds"], **self.diagnosis(mutant.path)}

    def work(self, plan: Plan) -> bool:
        """Try one mutant of each operator in turn until there are enough; return False if the time is up."""
        end = time.monotonic() + 60 * plan.minutes
        streams: dict[str, Iterator[Mutant]] = {
            name: mutants(name, [p for p in self.programs if plan.includes(name, p)], self.source, plan.seed)
            for name in plan.selected()
        }
        wanted = {name: plan.mutants if name in OPERATORS else plan.rewrites for name in streams}
        usable: Counter[str] = Counter()
        tries: Counter[str] = Counter()
        while streams:
            for name in list(streams):
                if time.monotonic() > end:
                    return False
                mutant = next(streams[name], None)
                if mutant is None:
                    del streams[name]
                    continue
                tries[name] += 1
                usable[name] += self.row(mutant)["status"] in ("effective", "rewrite")
                if usable[name] >= wanted[name] or tries[name] >= TRIES * wanted[name]:
                    del streams[name]
        return True
