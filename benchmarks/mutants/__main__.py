"""Measure how well nbdebug generalizes: mutants of healthy programs, rewrites of them, and the programs as they are.

    python -m benchmarks.mutants --list                        how many places and programs each operator fits
    python -m benchmarks.mutants --operator head_softmax       mutants as differences
    python -m benchmarks.mutants --half tuning --minutes 20    work; run again to go on
    python -m benchmarks.mutants --half held-out --report      the tables of the results
    python -m benchmarks.mutants --write-rates                 the rates on the pages of rules

README.md describes programs, operators, halves and the tables.
"""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path

from benchmarks.mutants.bench import Bench, Plan
from benchmarks.mutants.catalog_programs import write_catalog_programs
from benchmarks.mutants.corpus import find_programs
from benchmarks.mutants.generation import FOLDER, finder
from benchmarks.mutants.halves import HALVES, half_of_name
from benchmarks.mutants.operators import OPERATORS
from benchmarks.mutants.rates import write_rates
from benchmarks.mutants.report import report
from benchmarks.mutants.rewrites import REWRITES
from benchmarks.mutants.source import apply_mutation
from benchmarks.mutants.store import Store


def main() -> None:
    """Run the benchmark."""
    options = _options()
    FOLDER.mkdir(exist_ok=True)
    catalog = [] if options.without_catalog else [write_catalog_programs(FOLDER / "catalog")]
    programs = find_programs([*catalog, *options.corpus])
    parts = options.programs.split(",")
    programs = {name: path for name, path in programs.items() if any(part in name for part in parts)}
    bench = Bench(programs, Store(options.observations), Store(options.results))
    if options.write_rates:
        return write_rates(list(bench.results.rows.values()))
    if options.list or options.operator:
        return _print_places(bench, options)
    if not options.report:
        _import_libraries()
        plan = Plan(
            half=options.half,
            mutants=options.mutants,
            rewrites=options.rewrites,
            minutes=options.minutes,
            seed=options.seed,
            shard=(options.shard[0], options.shard[1]),
        )
        if options.operators:
            plan.names = options.operators.split(",")
        is_complete = bench.work(plan)
        print("complete" if is_complete else "the time is up; run again to go on", flush=True)
    print(report(list(bench.results.rows.values()), options.half))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half", choices=HALVES, default="all")
    parser.add_argument("--mutants", type=int, default=8, help="effective mutants wanted of each operator")
    parser.add_argument("--rewrites", type=int, default=8, help="rewrites wanted of each kind")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0, help="another choice of programs and places")
    parser.add_argument("--shard", type=int, nargs=2, default=(0, 1), metavar=("K", "N"), help="process K of N")
    parser.add_argument("--operators", default="", help="only these operators and rewrites, separated by commas")
    parser.add_argument("--programs", default="", help="only programs whose name contains one of these")
    parser.add_argument("--corpus", type=Path, action="append", default=[], help="a further folder of programs")
    parser.add_argument("--without-catalog", action="store_true", help="leave out the programs of the tests")
    parser.add_argument("--results", type=Path, default=FOLDER / "results.jsonl", help="what nbdebug said")
    parser.add_argument("--observations", type=Path, default=FOLDER / "observations.jsonl", help="runs without nbdebug")
    parser.add_argument("--report", action="store_true", help="only print the tables")
    parser.add_argument("--write-rates", action="store_true", help="write the rates of the results into the package")
    parser.add_argument("--list", action="store_true", help="print the number of places of each operator")
    parser.add_argument("--operator", default="", help="print the mutants of one operator as differences")
    return parser.parse_args()


def _import_libraries() -> None:
    """Import what programs and nbdebug import, once for all processes."""

    import nbdebug.debugger  # noqa: F401
    from nbdebug.rule_engine import rule_registry

    rule_registry.load_rules()


def _print_places(bench: Bench, options: argparse.Namespace) -> None:
    _import_libraries()
    for name in [options.operator] if options.operator else [*OPERATORS, *REWRITES]:
        places = [
            (program, source, mutation)
            for program in bench.programs
            if (source := bench.source(program)) is not None
            for mutation in finder(name)(source)
        ]
        count = len({program for program, _, _ in places})
        print(f"{name:44} {half_of_name(name):9} {len(places):4} places in {count:3} programs", flush=True)
        for program, source, mutation in places if options.operator else ():
            text, lines = apply_mutation(source, mutation)
            before, after = source.text.splitlines(), text.splitlines()
            note = f"lines {lines}, modules {list(mutation.modules)}"
            print("\n".join(difflib.unified_diff(before, after, program, note, n=0, lineterm="")), "\n")


if __name__ == "__main__":
    main()
